// gdn_step in chunks of C rows (WY form). Per value head, with Q, K, V of the chunk, S ([k][v]) at its start,
// e[i] = exp(g[i]), D[i,j] = e[j+1] .. e[i], grown[i] = e[0] .. e[i], rest[i] = e[i+1] .. e[C-1]:
//   L = strictly_lower(K K^T . D) diag(beta);  P = lower(Q K^T . D) diag(beta)
//   (I + L) Y = V - diag(grown) K S        forward substitution by blocks of 8 rows
//   O = diag(grown) Q S + P Y;  S = grown[C-1] S + K^T diag(rest beta) Y
// (Y = X / beta of the form with beta on the left: it puts beta where a pass over L and P is made anyhow.)
// D is a product of decays, as the recurrence has it: a difference of sums of g would lose its digits behind one
// strong decay. Rows behind the last one have k = q = v = beta = 0 and e = 1.
//
// A threadgroup does 32 v columns of one head through all chunks, a simdgroup 8 of them: its S (head_dim x 8), K S,
// Q S and Y are 8x8 matrices in registers, so the columns need no exchange. K, Q and the pair matrices L and P are
// shared. K stays whole for the update of S; Q is taken in two halves, and L and P take its place.
// Chunks have 32 rows up to head_dim 128 and 16 above. Registers for matrices: 58 floats a lane, or 78.
// Threadgroup memory: 32512 bytes. headDim is a multiple of 16 and at most 256; rows of qk begin at multiples of
// 16 bytes.
#include "kernels/shared/metal/gdn.h"

typedef simdgroup_matrix<float, 8, 8> Tile;

constant constexpr uint THREADS = LW_THREADS_gdn_chunk;
constant constexpr uint EDGE = 8;
constant constexpr uint COLUMNS = EDGE * THREADS / SIMD;  // op.ts counts threadgroups by it
constant constexpr uint PAD = 4;                          // rows of shared matrices begin in different banks

// Floats of threadgroup memory: the larger of both shapes.
constant constexpr uint KEY_FLOATS = 32 * (128 + PAD);
constant constexpr uint PAIR_FLOATS = 2 * 32 * (32 + PAD);
constant constexpr uint ROWS_MAX = 32;
static_assert(KEY_FLOATS >= 16 * (256 + PAD), "the keys of 16 wide rows must fit");
static_assert(PAIR_FLOATS >= 32 * (64 + PAD) && PAIR_FLOATS >= 16 * (128 + PAD), "half of the queries must fit");

inline Tile tile_at(const threadgroup float* p, uint pitch) {
	Tile m;
	simdgroup_load(m, p, pitch);
	return m;
}
inline Tile transposed_at(const threadgroup float* p, uint pitch) {
	Tile m;
	simdgroup_load(m, p, pitch, ulong2(0, 0), true);
	return m;
}
inline Tile zero_tile() { return make_filled_simdgroup_matrix<float, 8, 8>(0.0f); }

// Element by element: where an element lies does not matter.
inline Tile scaled(Tile m, Tile by) {
	m.thread_elements() = m.thread_elements() * by.thread_elements();
	return m;
}
inline Tile less(Tile m, Tile other) {
	m.thread_elements() = m.thread_elements() - other.thread_elements();
	return m;
}

// `rows` rows of `width` floats into threadgroup memory, zeros from row `count` on. 16 threads read 256 bytes of a row.
inline void stage(uint tid, threadgroup float* to, uint pitch, device const float* from, size_t stride, uint width, uint rows, uint count) {
	for (uint i = tid / 16; i < rows; i += THREADS / 16)
		for (uint d = tid % 16 * 4; d < width; d += 64)
			*(threadgroup float4*)(to + i * pitch + d) = i < count ? *(device const float4*)(from + i * stride + d) : float4(0.0f);
}

// L and P from K K^T and Q K^T, in place; L is stored as -L. A thread does some rows of one column.
template <uint ROWS>
inline void weigh_pairs(uint tid, threadgroup float* kk, threadgroup float* qk, threadgroup const float* decay, threadgroup const float* rate) {
	constexpr uint PITCH = ROWS + PAD, SPAN = ROWS * ROWS / THREADS;
	const uint j = tid % ROWS, first = tid / ROWS * SPAN;
	if (j / EDGE > first / EDGE) return;  // above the blocks of the diagonal nothing is computed or read
	float d = rate[j];
	for (uint i = j + 1; i < first; i++) d *= decay[i];
	for (uint i = first; i < first + SPAN; i++) {
		if (i > j) d *= decay[i];
		threadgroup float* l = kk + i * PITCH + j;
		threadgroup float* p = qk + i * PITCH + j;
		*l = i > j ? -*l * d : 0.0f;
		*p = i >= j ? *p * d : 0.0f;
	}
}

// The blocks on the diagonal of -L become those of (I + L)^-1. One simdgroup, a lane a column.
template <uint ROWS>
inline void invert_diagonal(uint lane, threadgroup float* l) {
	constexpr uint PITCH = ROWS + PAD;
	threadgroup float* block = l + lane / EDGE * EDGE * (PITCH + 1);
	const uint c = lane % EDGE;
	float y[EDGE];
	if (lane < ROWS)
		LW_UNROLL for (uint i = 0; i < EDGE; i++) {
			float sum = i == c ? 1.0f : 0.0f;
			LW_UNROLL for (uint m = 0; m < i; m++) sum = fma(block[i * PITCH + m], y[m], sum);
			y[i] = sum;
		}
	simdgroup_barrier(mem_flags::mem_threadgroup);
	if (lane < ROWS)
		LW_UNROLL for (uint i = 0; i < EDGE; i++) block[i * PITCH + c] = y[i];
}

// grown[i] and rest[i] * beta[i] of row i, each as a row of 8 equal numbers: a matrix to scale by.
inline void row_factors(uint i, uint rows, threadgroup float* grown, threadgroup float* rest, threadgroup const float* decay, threadgroup const float* rate) {
	float before = 1.0f, behind = rate[i];
	for (uint l = 0; l <= i; l++) before *= decay[l];
	for (uint l = i + 1; l < rows; l++) behind *= decay[l];
	for (uint c = 0; c < EDGE; c++) {
		grown[i * EDGE + c] = before;
		rest[i * EDGE + c] = behind;
	}
}

struct Shared {
	threadgroup float* keys;    // [i][head_dim]
	threadgroup float* pairs;   // half of the queries [i][WIDTH / 2], then -L and P [i][j]
	threadgroup float* column;  // of one simdgroup [i][8]: V, then O
	threadgroup float* grown;   // [i][8]
	threadgroup float* rest;    // [i][8]
	threadgroup float* decay;
	threadgroup float* rate;
};

// Columns v0 .. v0+7 of head h through all chunks of ROWS rows; head_dim is at most WIDTH. v0 may lie behind the last
// column: such a simdgroup takes part in the work on L and P alone that counts.
template <uint ROWS, uint WIDTH>
inline void chunks(device const float* qk, device const float* conv, device const float* g, device const float* beta,
                   device float* state, device float* o, const constant gdn_chunk_args& a, const thread Shared& m,
                   uint h, uint v0, uint tid, uint lane, uint sg) {
	constexpr uint TILES = WIDTH / EDGE, BANDS = ROWS / EDGE, HALF = WIDTH / 2;
	constexpr uint KEY_PITCH = WIDTH + PAD, QUERY_PITCH = HALF + PAD, PITCH = ROWS + PAD;
	const uint n = a.head_dim;
	const bool inside = v0 < n;
	const size_t stride = gdn_qk_stride(a);
	device const float* q = qk + gdn_q_at(a, h);
	device const float* k = q + gdn_q_to_k(a);
	device const float* v = conv + gdn_v_at(a, h) + v0;
	device float* out = o + gdn_o_at(a, h) + v0;
	threadgroup float* lower = m.pairs;
	threadgroup float* reads = m.pairs + ROWS * PITCH;

	Tile s[TILES];
	LW_UNROLL for (uint t = 0; t < TILES; t++) {
		s[t] = zero_tile();
		if (inside && t * EDGE < n) simdgroup_load(s[t], state + gdn_state_at(a, h, v0) + t * EDGE, n, ulong2(0, 0), true);
	}

	for (uint r0 = 0; r0 < a.rows; r0 += ROWS) {
		const uint count = a.rows - r0 < ROWS ? a.rows - r0 : ROWS;
		threadgroup_barrier(mem_flags::mem_threadgroup);  // the chunk before has read what is written now
		stage(tid, m.keys, KEY_PITCH, k + r0 * stride, stride, n, ROWS, count);
		if (tid < ROWS) {
			const size_t at = size_t(r0 + tid) * a.v_heads + h;
			m.decay[tid] = tid < count ? precise::exp(g[at]) : 1.0f;
			m.rate[tid] = tid < count ? beta[at] : 0.0f;
		}
		for (uint e = lane; e < ROWS * EDGE; e += SIMD)
			m.column[e] = inside && e / EDGE < count ? v[(r0 + e / EDGE) * size_t(a.channels) + e % EDGE] : 0.0f;

		// K S and Q S of this simdgroup's columns; of the pairs, band sg of K K^T and band BANDS-1-sg of Q K^T, BANDS+1
		// blocks together.
		Tile ks[BANDS], qs[BANDS], pairs[BANDS + 1];
		LW_UNROLL for (uint b = 0; b < BANDS; b++) ks[b] = qs[b] = zero_tile();
		LW_UNROLL for (uint p = 0; p <= BANDS; p++) pairs[p] = zero_tile();
		LW_UNROLL for (uint half_at = 0; half_at < WIDTH; half_at += HALF) {
			if (half_at < n) {
				if (half_at > 0) threadgroup_barrier(mem_flags::mem_threadgroup);
				stage(tid, m.pairs, QUERY_PITCH, q + r0 * stride + half_at, stride, n - half_at < HALF ? n - half_at : HALF, ROWS, count);
				threadgroup_barrier(mem_flags::mem_threadgroup);
				LW_UNROLL for (uint t = 0; t < HALF / EDGE; t++) {
					const uint d = half_at + t * EDGE;
					if (d < n) {
						threadgroup const float* keys = m.keys + d;
						threadgroup const float* queries = m.pairs + t * EDGE;
						LW_UNROLL for (uint b = 0; b < BANDS; b++) {
							simdgroup_multiply_accumulate(ks[b], tile_at(keys + b * EDGE * KEY_PITCH, KEY_PITCH), s[d / EDGE], ks[b]);
							simdgroup_multiply_accumulate(qs[b], tile_at(queries + b * EDGE * QUERY_PITCH, QUERY_PITCH), s[d / EDGE], qs[b]);
						}
						if (sg < BANDS) {
							const Tile key = tile_at(keys + sg * EDGE * KEY_PITCH, KEY_PITCH);
							const Tile query = tile_at(queries + (BANDS - 1 - sg) * EDGE * QUERY_PITCH, QUERY_PITCH);
							LW_UNROLL for (uint p = 0; p <= BANDS; p++) {
								const uint band = p <= sg ? p : p - sg - 1;
								const Tile other = transposed_at(keys + band * EDGE * KEY_PITCH, KEY_PITCH);
								if (p <= sg)
									simdgroup_multiply_accumulate(pairs[p], key, other, pairs[p]);
								else
									simdgroup_multiply_accumulate(pairs[p], query, other, pairs[p]);
							}
						}
					}
				}
			}
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);  // the queries have been read
		if (sg < BANDS)
			LW_UNROLL for (uint p = 0; p <= BANDS; p++) {
				const uint band = p <= sg ? p : p - sg - 1;
				threadgroup float* to = p <= sg ? lower + sg * EDGE * PITCH : reads + (BANDS - 1 - sg) * EDGE * PITCH;
				simdgroup_store(pairs[p], to + band * EDGE, PITCH);
			}
		if (tid < ROWS) row_factors(tid, ROWS, m.grown, m.rest, m.decay, m.rate);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		weigh_pairs<ROWS>(tid, lower, reads, m.decay, m.rate);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		if (sg == 0) invert_diagonal<ROWS>(lane, lower);
		threadgroup_barrier(mem_flags::mem_threadgroup);

		// Y, over K S.
		LW_UNROLL for (uint b = 0; b < BANDS; b++) {
			Tile y = less(tile_at(m.column + b * EDGE * EDGE, EDGE), scaled(ks[b], tile_at(m.grown + b * EDGE * EDGE, EDGE)));
			threadgroup const float* row = lower + b * EDGE * PITCH;
			LW_UNROLL for (uint j = 0; j < b; j++) simdgroup_multiply_accumulate(y, tile_at(row + j * EDGE, PITCH), ks[j], y);
			simdgroup_multiply_accumulate(ks[b], tile_at(row + b * EDGE, PITCH), y, zero_tile());
		}
		simdgroup_barrier(mem_flags::mem_threadgroup);  // V has been read
		LW_UNROLL for (uint b = 0; b < BANDS; b++) {
			qs[b] = scaled(qs[b], tile_at(m.grown + b * EDGE * EDGE, EDGE));
			threadgroup const float* row = reads + b * EDGE * PITCH;
			LW_UNROLL for (uint j = 0; j <= b; j++) simdgroup_multiply_accumulate(qs[b], tile_at(row + j * EDGE, PITCH), ks[j], qs[b]);
			simdgroup_store(qs[b], m.column + b * EDGE * EDGE, EDGE);
		}
		simdgroup_barrier(mem_flags::mem_threadgroup);
		for (uint e = lane; e < ROWS * EDGE; e += SIMD)
			if (inside && e / EDGE < count) out[(r0 + e / EDGE) * gdn_o_stride(a) + e % EDGE] = m.column[e];

		const float kept = m.grown[(ROWS - 1) * EDGE];
		LW_UNROLL for (uint b = 0; b < BANDS; b++) ks[b] = scaled(ks[b], tile_at(m.rest + b * EDGE * EDGE, EDGE));
		LW_UNROLL for (uint t = 0; t < TILES; t++)
			if (t * EDGE < n) {
				s[t].thread_elements() = s[t].thread_elements() * kept;
				LW_UNROLL for (uint b = 0; b < BANDS; b++) simdgroup_multiply_accumulate(s[t], transposed_at(m.keys + b * EDGE * KEY_PITCH + t * EDGE, KEY_PITCH), ks[b], s[t]);
			}
	}

	LW_UNROLL for (uint t = 0; t < TILES; t++)
		if (inside && t * EDGE < n) simdgroup_store(s[t], state + gdn_state_at(a, h, v0) + t * EDGE, n, ulong2(0, 0), true);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gdn_chunk)]]
void gdn_chunk(device const float* qk [[buffer(0)]],
               device const float* conv [[buffer(1)]],
               device const float* g [[buffer(2)]],
               device const float* beta [[buffer(3)]],
               device float* gdn_state [[buffer(4)]],
               device float* o [[buffer(5)]],
               constant gdn_chunk_args& a [[buffer(24)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint tid [[thread_index_in_threadgroup]],
               uint lane [[thread_index_in_simdgroup]],
               uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float keys[KEY_FLOATS];
	threadgroup float pairs[PAIR_FLOATS];
	threadgroup float columns[ROWS_MAX * COLUMNS];
	threadgroup float grown[ROWS_MAX * EDGE];
	threadgroup float rest[ROWS_MAX * EDGE];
	threadgroup float decay[ROWS_MAX];
	threadgroup float rate[ROWS_MAX];
	const uint h = tg.y, v0 = tg.x * COLUMNS + sg * EDGE;
	if (h >= a.v_heads || tg.x * COLUMNS >= a.head_dim) return;
	const Shared m = {keys, pairs, columns + sg * ROWS_MAX * EDGE, grown, rest, decay, rate};
	if (a.head_dim <= 128)
		chunks<32, 128>(qk, conv, g, beta, gdn_state, o, a, m, h, v0, tid, lane, sg);
	else
		chunks<16, 256>(qk, conv, g, beta, gdn_state, o, a, m, h, v0, tid, lane, sg);
}
