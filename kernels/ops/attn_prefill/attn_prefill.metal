// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head, for any number of
// rows. A threadgroup does QUERIES consecutive pairs (row, head) of one key head, rows ascending, and walks the keys
// in tiles of KEYS: tg = (tile of pairs, the last one first, for it is the longest; key head).
// Scores of a tile: queries and keys pass through threadgroup memory DEPTH dims at a time; simdgroup i holds 2 x 2
// matrices of the 4 x 8 that make up 32 x 64 scores. Weighted values: values pass WIDE dims at a time, of which a
// simdgroup holds every eighth part for all queries, in 4 * headDim / 64 matrices (64 registers a lane for 512 dims).
// When a maximum grows, a row's sums are rescaled by a product with a diagonal matrix: lanes of a matrix have no
// place that kernels may know. A query's bits depend on its own keys alone, for tiles lie at absolute positions and
// weights behind pos + r are zeros.
// Threadgroup memory: 4352 + 256 + 8 floats (18.5 KB).
#include "kernels/shared/metal/attention.h"

constant constexpr uint QUERIES = 32;
constant constexpr uint KEYS = 64;
constant constexpr uint DEPTH = 32;
constant constexpr uint THREADS = LW_THREADS_attn_prefill;
constant constexpr uint SIMDGROUPS = THREADS / SIMD;
constant constexpr uint SHARERS = THREADS / QUERIES;  // threads that share a query: neighbours in a simdgroup
constant constexpr uint STAGED = 8;                   // values that a thread stages at a time
// Floats from row to row in threadgroup memory: whole float4s, and off the same banks.
constant constexpr uint DEPTH_STRIDE = DEPTH + 4;
constant constexpr uint KEYS_STRIDE = KEYS + 4;
constant constexpr uint SCORES = QUERIES * KEYS_STRIDE;

// How the values of D dims pass: RUN keys of WIDE dims at a time; a simdgroup holds COLUMNS matrices beside each other.
template <uint D>
struct Values {
	static constant constexpr uint wide = D < 128 ? D : 128;
	static constant constexpr uint stride = wide + 4;
	static constant constexpr uint run = THREADS * STAGED / wide;
	static constant constexpr uint passes = D / wide;
	static constant constexpr uint columns = wide / (8 * SIMDGROUPS);
};
// The longest of: queries and keys; scores and a run of values; a pass of results.
constant constexpr uint STAGE = SCORES + 32 * 68;

// Queries and keys, dims d .. d + DEPTH - 1, into threadgroup memory; keys that no query sees are zeros.
template <typename V>
inline void stage_scores(device const float* q, bool there, float scale, device const uchar* k, bool seen, uint d,
                         threadgroup float* stage, uint tid) {
	float4 x = float4(0.0f);
	if (there) x = *(device const float4*)(q + d + tid % SHARERS * 4);
	*(threadgroup float4*)(stage + tid / SHARERS * DEPTH_STRIDE + tid % SHARERS * 4) =
		float4(x.x * scale, x.y * scale, x.z * scale, x.w * scale);
	float y[STAGED];
	LW_UNROLL
	for (uint i = 0; i < STAGED; i++) y[i] = 0.0f;
	const uint parts = DEPTH / STAGED;
	if (seen) attn_load8(typename V::row(), k, V::dim, d + tid % parts * STAGED, y);
	threadgroup float4* to = (threadgroup float4*)(stage + (QUERIES + tid / parts) * DEPTH_STRIDE + tid % parts * STAGED);
	to[0] = float4(y[0], y[1], y[2], y[3]);
	to[1] = float4(y[4], y[5], y[6], y[7]);
}

// What this thread's query has seen: maximum and sum of exp(score - max).
struct Seen {
	float max, sum;
};

// Scores of KEYS keys become weights, those of keys from `limit` on zeros; returns the factor of earlier sums.
inline float weigh(uint limit, threadgroup float* score, thread Seen& seen, uint tid) {
	threadgroup float* s = score + tid / SHARERS * KEYS_STRIDE;
	float top = seen.max;
	for (uint j = tid % SHARERS; j < KEYS; j += SHARERS)
		if (j < limit) top = max(top, s[j]);
	LW_UNROLL
	for (uint w = 1; w < SHARERS; w *= 2) top = max(top, simd_shuffle_xor(top, w));
	float sum = 0.0f;
	for (uint j = tid % SHARERS; j < KEYS; j += SHARERS) {
		const float p = j < limit ? precise::exp(s[j] - top) : 0.0f;
		s[j] = p;
		sum += p;
	}
	LW_UNROLL
	for (uint w = 1; w < SHARERS; w *= 2) sum += simd_shuffle_xor(sum, w);
	const float factor = precise::exp(seen.max - top);
	seen.sum = fma(seen.sum, factor, sum);
	seen.max = top;
	return factor;
}

template <typename V>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_attn_prefill)]]
void attn_prefill(device const float* q [[buffer(0)]],
                  device const uchar* k_cache [[buffer(1)]],
                  device const uchar* v_cache [[buffer(2)]],
                  device const uint* step [[buffer(3)]],
                  device float* o [[buffer(4)]],
                  constant attn_prefill_args& a [[buffer(24)]],
                  uint3 tg [[threadgroup_position_in_grid]],
                  uint tid [[thread_index_in_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]],
                  uint sg [[simdgroup_index_in_threadgroup]]) {
	typedef Values<V::dim> W;
	static_assert(THREADS == 256, "2 x 2 matrices of the scores in each of 8 simdgroups");
	threadgroup float4 stage4[STAGE / 4];
	threadgroup float4 diagonal4[QUERIES * 8 / 4];
	threadgroup uint grown[SIMDGROUPS];
	threadgroup float* stage = (threadgroup float*)stage4;
	threadgroup float* diagonal = (threadgroup float*)diagonal4;

	const uint kv = tg.y;
	if (kv >= a.kv_heads) return;
	const HeadGroup group = head_group(a.q_heads, a.kv_heads, kv);
	const uint pairs = a.rows * group.count, tiles = (pairs + QUERIES - 1) / QUERIES;
	if (tg.x >= tiles) return;
	const uint base = (tiles - 1 - tg.x) * QUERIES;
	const uint pos = step[LW_STEP_POS];
	const uint keys = uint(keys_seen(pos, (min(base + QUERIES, pairs) - 1) / group.count, a.ctx));
	// This thread's query: its place in q and o, and the keys it sees.
	const uint pair = base + tid / SHARERS;
	const bool there = pair < pairs;
	const uint r = pair / group.count;
	const size_t at = (size_t(r) * a.q_heads + group.first + pair % group.count) * V::dim;
	const uint limit = there ? uint(keys_seen(pos, r, a.ctx)) : 0;
	const size_t row_bytes = attn_row_bytes(typename V::row(), V::dim);
	device const uchar* k = k_cache + row_bytes * a.ctx * kv;
	device const uchar* v = v_cache + row_bytes * a.ctx * kv;

	simdgroup_float8x8 sums[W::passes][QUERIES / 8][W::columns];
	LW_UNROLL
	for (uint p = 0; p < W::passes; p++) {
		LW_UNROLL
		for (uint i = 0; i < QUERIES / 8; i++) {
			LW_UNROLL
			for (uint c = 0; c < W::columns; c++) sums[p][i][c] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
		}
	}
	const simdgroup_float8x8 zero = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
	Seen seen;
	seen.max = ATTN_LOWEST;
	seen.sum = 0.0f;
	if (tid < QUERIES * 2) diagonal4[tid] = float4(0.0f);

	for (uint first = 0; first < keys; first += KEYS) {
		// Scores.
		simdgroup_float8x8 tile[2][2];
		LW_UNROLL
		for (uint i = 0; i < 2; i++) {
			LW_UNROLL
			for (uint j = 0; j < 2; j++) tile[i][j] = zero;
		}
		const uint key = first + tid / (DEPTH / STAGED);
		const uint query_at = sg / 4 * 2 * 8, key_at = sg % 4 * 2 * 8;
		for (uint d = 0; d < V::dim; d += DEPTH) {
			stage_scores<V>(q + at, there, a.scale, k + row_bytes * key, key < keys, d, stage, tid);
			threadgroup_barrier(mem_flags::mem_threadgroup);
			LW_UNROLL
			for (uint e = 0; e < DEPTH; e += 8) {
				simdgroup_float8x8 x[2], y[2];
				LW_UNROLL
				for (uint i = 0; i < 2; i++) {
					simdgroup_load(x[i], stage + (query_at + i * 8) * DEPTH_STRIDE + e, DEPTH_STRIDE);
					simdgroup_load(y[i], stage + (QUERIES + key_at + i * 8) * DEPTH_STRIDE + e, DEPTH_STRIDE, ulong2(0, 0), true);
				}
				LW_UNROLL
				for (uint i = 0; i < 2; i++) {
					LW_UNROLL
					for (uint j = 0; j < 2; j++) simdgroup_multiply_accumulate(tile[i][j], x[i], y[j], tile[i][j]);
				}
			}
			threadgroup_barrier(mem_flags::mem_threadgroup);
		}
		LW_UNROLL
		for (uint i = 0; i < 2; i++) {
			LW_UNROLL
			for (uint j = 0; j < 2; j++)
				simdgroup_store(tile[i][j], stage + (query_at + i * 8) * KEYS_STRIDE + key_at + j * 8, KEYS_STRIDE);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);

		// Weights.
		const float factor = weigh(limit > first ? limit - first : 0, stage, seen, tid);
		if (tid % SHARERS == 0) diagonal[tid / SHARERS * 8 + tid / SHARERS % 8] = factor;
		const bool any = simd_any(factor != 1.0f);
		if (lane == 0) grown[sg] = any ? 1 : 0;

		// Weighted values.
		LW_UNROLL
		for (uint p = 0; p < W::passes; p++) {
			for (uint run = 0; run < KEYS && first + run < keys; run += W::run) {
				threadgroup float* values = stage + SCORES;
				const uint parts = W::wide / STAGED, j = first + run + tid / parts;
				float y[STAGED];
				LW_UNROLL
				for (uint i = 0; i < STAGED; i++) y[i] = 0.0f;
				if (j < keys) attn_load8(typename V::row(), v + row_bytes * j, V::dim, p * W::wide + tid % parts * STAGED, y);
				threadgroup float4* to = (threadgroup float4*)(values + tid / parts * W::stride + tid % parts * STAGED);
				to[0] = float4(y[0], y[1], y[2], y[3]);
				to[1] = float4(y[4], y[5], y[6], y[7]);
				threadgroup_barrier(mem_flags::mem_threadgroup);
				LW_UNROLL
				for (uint i = 0; i < QUERIES / 8; i++) {
					if (run != 0 || grown[2 * i] + grown[2 * i + 1] == 0) continue;
					simdgroup_float8x8 scales;
					simdgroup_load(scales, diagonal + i * 64, 8);
					LW_UNROLL
					for (uint c = 0; c < W::columns; c++) simdgroup_multiply_accumulate(sums[p][i][c], scales, sums[p][i][c], zero);
				}
				LW_UNROLL
				for (uint e = 0; e < W::run; e += 8) {
					simdgroup_float8x8 x[QUERIES / 8], z[W::columns];
					LW_UNROLL
					for (uint i = 0; i < QUERIES / 8; i++) simdgroup_load(x[i], stage + i * 8 * KEYS_STRIDE + run + e, KEYS_STRIDE);
					LW_UNROLL
					for (uint c = 0; c < W::columns; c++)
						simdgroup_load(z[c], values + e * W::stride + (sg * W::columns + c) * 8, W::stride);
					LW_UNROLL
					for (uint i = 0; i < QUERIES / 8; i++) {
						LW_UNROLL
						for (uint c = 0; c < W::columns; c++) simdgroup_multiply_accumulate(sums[p][i][c], x[i], z[c], sums[p][i][c]);
					}
				}
				threadgroup_barrier(mem_flags::mem_threadgroup);
			}
		}
	}

	// Results, WIDE dims at a time.
	const float inverse = attn_inverse(seen.sum);
	LW_UNROLL
	for (uint p = 0; p < W::passes; p++) {
		if (p != 0) threadgroup_barrier(mem_flags::mem_threadgroup);
		LW_UNROLL
		for (uint i = 0; i < QUERIES / 8; i++) {
			LW_UNROLL
			for (uint c = 0; c < W::columns; c++)
				simdgroup_store(sums[p][i][c], stage + i * 8 * W::stride + (sg * W::columns + c) * 8, W::stride);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		if (there) {
			for (uint d = tid % SHARERS * 4; d < W::wide; d += SHARERS * 4) {
				const float4 x = *(threadgroup const float4*)(stage + tid / SHARERS * W::stride + d);
				*(device float4*)(o + at + p * W::wide + d) = float4(x.x * inverse, x.y * inverse, x.z * inverse, x.w * inverse);
			}
		}
	}
}

#define X(variant) LW_KERNEL(attn_prefill__##variant, attn_prefill<attn::variant>)
LW_VARIANTS_attn_prefill(X)
#undef X
