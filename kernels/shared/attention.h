// What the attention kernels share: rows of a KV cache in each element type, the kernels' variants, which
// keys a row sees, decode attention over one block of keys, the merging of blocks, and rows that go through a
// cache block by block. A block's partial is computed by attn_block and enters a row's result through
// attn_merge_block, in block order, wherever that happens: so attn_decode gives the bits of attn_split followed
// by attn_merge.
#pragma once
#include <cfloat>
#include <type_traits>
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/abi.h"

namespace LW_CPU_NAMESPACE {

// ---- rows of a KV cache ----
// LANES signed bytes as floats.
static inline vf load_i8(const int8_t* p) {
#if defined(__AVX512F__)
	// maskz, because GCC 12 takes the plain form for a use of something uninitialised.
	vi wide = (vi)_mm512_maskz_cvtepi8_epi32(0xffff, load_as<__m128i>(p));
	return __builtin_convertvector(wide, vf);
#elif defined(__AVX2__)
	return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
#elif defined(__ARM_NEON)
	int32_t bits = load_as<int32_t>(p);
	int16x8_t wide = vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bits)));
	return (vf)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
#elif defined(__SSE2__)
	__m128i v = _mm_cvtsi32_si128(load_as<int32_t>(p));
	v = _mm_unpacklo_epi8(v, v);
	v = _mm_unpacklo_epi16(v, v);
	return (vf)_mm_cvtepi32_ps(_mm_srai_epi32(v, 24));
#else
	vf v = {};
	for (int i = 0; i < LANES; i++) v[i] = p[i];
	return v;
#endif
}

#if defined(__AVX2__) || defined(__ARM_NEON)
constexpr bool HALVES_COST = false;
#else
constexpr bool HALVES_COST = true;
#endif

// WIDEN: an element costs so much that a row is made f32 once, instead of being read in place by each tile
// of query heads.
template <class E> struct DenseRow {
	static constexpr bool WIDEN = HALVES_COST && sizeof(typename E::storage) == 2;
	static constexpr size_t bytes(size_t dim) { return dim * sizeof(typename E::storage); }
	// Elements d .. d + LANES - 1.
	static inline vf at(const uint8_t* row, uint32_t d) { return E::get_v((const typename E::storage*)row + d); }
	// The whole row; dim % 32 == 0.
	static inline void widen(const uint8_t* row, uint32_t dim, float* out) {
		for (uint32_t d = 0; d < dim; d += LANES) store(out + d, at(row, d));
	}
	static void narrow(const float* x, uint32_t dim, uint8_t* row) {
		for (uint32_t d = 0; d < dim; d++) {
			typename E::storage v = E::put(x[d]);
			memcpy(row + d * sizeof v, &v, sizeof v);
		}
	}
};

// dim codes, then an f16 scale for each 32 of them: value = scale * code, scale = f16(max |x| / 127).
struct Q8Row {
	static constexpr bool WIDEN = true;
	static constexpr uint32_t GROUP = 32;
	static constexpr size_t bytes(size_t dim) { return dim + dim / GROUP * 2; }
	static inline void widen(const uint8_t* row, uint32_t dim, float* out) {
		for (uint32_t g = 0; g < dim; g += GROUP) {
			vf scale = splat(f16_to_f32(load_as<uint16_t>(row + dim + g / GROUP * 2)));
			for (uint32_t d = g; d < g + GROUP; d += LANES) store(out + d, load_i8((const int8_t*)row + d) * scale);
		}
	}
	static void narrow(const float* x, uint32_t dim, uint8_t* row) {
		for (uint32_t g = 0; g < dim / GROUP; g++) {
			const float* xg = x + g * GROUP;
			float top = 0;  // NaN once it has met one
			for (uint32_t i = 0; i < GROUP; i++) top = !(std::fabs(xg[i]) <= top) ? std::fabs(xg[i]) : top;
			uint16_t bits = f32_to_f16(top / 127.f);
			float scale = f16_to_f32(bits), inverse = scale > 0 ? 1.f / scale : 0.f;
			memcpy(row + dim + 2 * g, &bits, 2);
			for (uint32_t i = 0; i < GROUP; i++) {
				float c = xg[i] * inverse;
				c = c > -127.f ? c : -127.f;  // also NaN, whose scale is NaN too
				c = c < 127.f ? c : 127.f;
				row[g * GROUP + i] = uint8_t(int8_t(std::nearbyintf(c)));
			}
		}
	}
};

// Tags named as the variants of the kernels: element type of the caches, head dimension.
template <class R, int D> struct AttnVariant {
	typedef R Row;
	static constexpr int DIM = D;
};
namespace attn {
#define LW_ATTN_DIMS(name, R) \
	typedef AttnVariant<R, 64> name##_h64; \
	typedef AttnVariant<R, 128> name##_h128; \
	typedef AttnVariant<R, 256> name##_h256; \
	typedef AttnVariant<R, 512> name##_h512;
LW_ATTN_DIMS(f32, DenseRow<F32>)
LW_ATTN_DIMS(f16, DenseRow<F16>)
LW_ATTN_DIMS(bf16, DenseRow<BF16>)
LW_ATTN_DIMS(q8, Q8Row)
#undef LW_ATTN_DIMS
}  // namespace attn

// ---- heads and keys ----
// Query heads [first, last) read key head kv; all of them in range whatever the two counts.
struct HeadGroup {
	uint32_t first, last;
	static uint64_t size(uint32_t qHeads, uint32_t kvHeads) { return (uint64_t(qHeads) + kvHeads - 1) / kvHeads; }
	static uint32_t of(uint32_t qHeads, uint32_t kvHeads, uint32_t head) { return uint32_t(head / size(qHeads, kvHeads)); }
	HeadGroup(uint32_t qHeads, uint32_t kvHeads, uint32_t kv) {
		uint64_t each = size(qHeads, kvHeads), a = each * kv, b = a + each;
		first = uint32_t(a < qHeads ? a : qHeads);
		last = uint32_t(b < qHeads ? b : qHeads);
	}
};
// Keys that row r sees: positions 0 .. pos + r, never more than the cache holds.
static inline uint64_t keys_seen(uint32_t pos, uint32_t r, uint64_t limit) {
	uint64_t n = uint64_t(pos) + r + 1;
	return n < limit ? n : limit;
}

// ---- one block of keys ----
constexpr int ATTN_HEADS = 16;                  // query heads that go through a block together
constexpr int ATTN_TILE = 4;                    // keys, or vectors of a value, of a register tile
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int ATTN_TILE_Q = 4;                  // query heads of a register tile
#else
constexpr int ATTN_TILE_Q = 2;
#endif
constexpr int ATTN_NEAR = 16;                   // rows that are prefetched ahead, and widened together

template <int D> struct AttnBlockScratch {
	alignas(64) float score[ATTN_HEADS][LW_ATTN_BLOCK];
	alignas(64) float part[ATTN_HEADS][D];
	alignas(64) float wide[ATTN_NEAR][D];
};

// Calls f(constant Q, at) for tiles of Q, then Q - 1, ... over [at, n).
template <int Q, class F> static inline void in_tiles(int at, int n, const F& f) {
	for (; n - at >= Q; at += Q) f(std::integral_constant<int, Q>{}, at);
	if constexpr (Q > 1) in_tiles<Q - 1>(at, n, f);
}
static inline void prefetch(const uint8_t* p, size_t bytes) {
	for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const void*)(uintptr_t(p) + i));
}

// score[i][j] = scale * q[i] . k[j] for Q queries and ATTN_TILE keys, of which those from n on repeat the last.
template <class R, int Q, int D> static inline void attn_scores(const float* q, const uint8_t* k, int n, float scale, float* score) {
	vf acc[Q][ATTN_TILE] = {};
	const uint8_t* rows[ATTN_TILE];
	for (int j = 0; j < ATTN_TILE; j++) rows[j] = k + size_t(j < n ? j : n - 1) * R::bytes(D);
	for (int d = 0; d < D; d += LANES) {
		vf x[ATTN_TILE];
		for (int j = 0; j < ATTN_TILE; j++) x[j] = R::at(rows[j], d);
		for (int i = 0; i < Q; i++) {
			vf y = load(q + i * D + d);
			for (int j = 0; j < ATTN_TILE; j++) acc[i][j] = fma(y, x[j], acc[i][j]);
		}
	}
	for (int i = 0; i < Q; i++)
		store_as(score + i * LW_ATTN_BLOCK, sum4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]) * scale);
}

// part[i] += sum over n rows of p[i][j] * v[j], for Q queries; from zero when `fresh`. Row j is left out unless counts(j).
// Meanwhile `bytes` from `next` on are prefetched, a share at each step, for many at once would have to wait.
template <class R, int Q, int D, class Counts>
static inline void attn_values(const float* p, const uint8_t* v, int n, const Counts& counts, bool fresh, float* part, const uint8_t* next, size_t bytes) {
	constexpr int STEP = ATTN_TILE * LANES;
	for (int d = 0; d < D; d += STEP) {
		prefetch(next + d / STEP * (bytes / (D / STEP)), bytes / (D / STEP));
		vf acc[Q][ATTN_TILE];
		for (int i = 0; i < Q; i++)
			for (int u = 0; u < ATTN_TILE; u++) acc[i][u] = fresh ? zero() : load(part + i * D + d + u * LANES);
		for (int j = 0; j < n; j++) {
			if (!counts(j)) continue;
			vf x[ATTN_TILE];
			for (int u = 0; u < ATTN_TILE; u++) x[u] = R::at(v + j * R::bytes(D), d + u * LANES);
			for (int i = 0; i < Q; i++) {
				vf w = splat(p[i * LW_ATTN_BLOCK + j]);
				for (int u = 0; u < ATTN_TILE; u++) acc[i][u] = fma(w, x[u], acc[i][u]);
			}
		}
		for (int i = 0; i < Q; i++)
			for (int u = 0; u < ATTN_TILE; u++) store(part + i * D + d + u * LANES, acc[i][u]);
	}
}

// s[j] becomes exp(s[j] - max); stat gets the maximum and the sum. s has room up to a multiple of LANES.
static inline void attn_weights(float* s, int n, float* stat) {
	for (int j = n; j % LANES; j++) s[j] = -INFINITY;
	vf m = splat(-FLT_MAX), total = zero();
	for (int j = 0; j < n; j += LANES) m = max(load(s + j), m);
	stat[0] = hmax(m);
	m = splat(stat[0]);
	for (int j = 0; j < n; j += LANES) {
		vf p = exp(load(s + j) - m);
		total = total + p;
		store(s + j, p);
	}
	stat[1] = sum(total);
}

// What keys have besides their products: add(r, first, n, score) adds it to the scores of row r over keys first ..
// first + n - 1, -inf for those that do not count, and counts(r, key) tells these: their rows may be no numbers.
struct NoBias {
	inline void add(uint32_t, uint64_t, int, float*) const {}
	inline bool counts(uint32_t, uint64_t) const { return true; }
};
// That of one row over one block.
template <class Bias> struct BlockBias {
	const Bias& bias;
	uint32_t r;
	uint64_t first;
	int n;
	inline void add(float* score) const { bias.add(r, first, n, score); }
	inline bool counts(int j) const { return bias.counts(r, first + uint32_t(j)); }
};

// `heads` consecutive query heads over n keys (1 .. ATTN_BLOCK), whose rows start at k and v:
// w.part[i] = sum_j exp(s_ij - max_i) * v_j, stat[i] = max_i, sum_j exp(s_ij - max_i).
// Where no key counts, max is the lowest finite float and the sum 0.
// Prefetching runs ahead from keys on to values, from values on to the keys behind the block.
template <class R, int D, class Bias>
static void attn_block(const float* q, int heads, const uint8_t* k, const uint8_t* v, int n, float scale, AttnBlockScratch<D>& w, float (*stat)[2],
                       const BlockBias<Bias>& bias) {
	constexpr size_t ROW = R::bytes(D);
	typedef std::conditional_t<R::WIDEN, DenseRow<F32>, R> Tile;
	const auto tile_of = [&](const uint8_t* rows, int count) {
		if constexpr (!R::WIDEN) return rows;
		for (int t = 0; t < count; t++) R::widen(rows + t * ROW, D, w.wide[t]);
		return (const uint8_t*)w.wide;
	};
	for (int j = 0; j < n; j += ATTN_TILE) {
		const int rows = n - j < ATTN_TILE ? n - j : ATTN_TILE;
		const uint8_t* next = j + ATTN_NEAR < n ? k + (j + ATTN_NEAR) * ROW : v + (j + ATTN_NEAR - n) * ROW;
		const uint8_t* keys = tile_of(k + j * ROW, rows);
		const size_t share = ATTN_TILE * ROW / heads;
		in_tiles<ATTN_TILE_Q>(0, heads, [&](auto tile, int i) {
			prefetch(next + i * share, tile * share);
			attn_scores<Tile, tile, D>(q + i * D, keys, rows, scale, w.score[i] + j);
		});
	}
	for (int i = 0; i < heads; i++) {
		bias.add(w.score[i]);
		attn_weights(w.score[i], n, stat[i]);
	}
	for (int j = 0; j < n; j += ATTN_NEAR) {
		const int rows = n - j < ATTN_NEAR ? n - j : ATTN_NEAR;
		const uint8_t* next = j + ATTN_NEAR < n ? v + (j + ATTN_NEAR) * ROW : k + n * ROW;
		const uint8_t* values = tile_of(v + j * ROW, rows);
		const size_t share = ATTN_NEAR * ROW / heads;
		in_tiles<ATTN_TILE_Q>(0, heads, [&](auto tile, int i) {
			attn_values<Tile, tile, D>(w.score[i] + j, values, rows, [&](int row) { return bias.counts(j + row); }, j == 0, w.part[i], next + i * share, tile * share);
		});
	}
}

// ---- blocks into a row ----
// Of the blocks so far: max = max_b max_b, sum = sum_b exp(max_b - max) * sum_b.
struct AttnRunning {
	float max = -FLT_MAX, sum = 0;
};
// o = sum_b exp(max_b - r.max) * part_b takes in one more block. A block whose sum is 0 has no keys.
static inline void attn_merge_block(float* o, AttnRunning& r, const float* part, float max, float sum, uint32_t dim) {
	if (sum == 0) return;
	float top = r.max > max ? r.max : max;
	vf mine = exp(splat(r.max - top)), theirs = exp(splat(max - top));
	for (uint32_t d = 0; d < dim; d += LANES) store(o + d, fma(load(o + d), mine, load(part + d) * theirs));
	r.sum = r.sum * mine[0] + sum * theirs[0];
	r.max = top;
}
static inline void attn_finish(float* o, const AttnRunning& r, uint32_t dim) {
	vf inverse = splat(r.sum == 0 ? 0.f : 1.f / r.sum);
	for (uint32_t d = 0; d < dim; d += LANES) store(o + d, load(o + d) * inverse);
}

// o, of `dim` values, from the blocks that hold its keys: their partials and their stats lie one behind the other.
static inline void attn_merge_blocks(float* o, const float* partial, const float* stats, uint64_t keys, uint32_t dim) {
	memset(o, 0, size_t(dim) * sizeof(float));
	AttnRunning running;
	for (uint64_t b = 0; b * LW_ATTN_BLOCK < keys; b++) attn_merge_block(o, running, partial + b * dim, stats[b * 2], stats[b * 2 + 1], dim);
	attn_finish(o, running, dim);
}
// o[d] *= sigmoid(gate[d]).
static inline void attn_gate_head(float* o, const float* gate, uint32_t dim) {
	for (uint32_t d = 0; d < dim; d += LANES) {
		const int n = dim - d < uint32_t(LANES) ? int(dim - d) : LANES;
		store_n(o + d, load_n(o + d, n) * sigmoid(load_n(gate + d, n)), n);
	}
}

// ---- rows through a cache ----
struct AttnTensors {
	const float* q;
	const uint8_t *k, *v;
	float* o;
};

// Query heads [head, head + heads) of key head kv for rows [from, to).
template <class V, class A, class Keys, class Bias>
static void attend_heads(const A& a, const AttnTensors& t, uint32_t kv, uint32_t from, uint32_t to, uint32_t head, int heads,
                         AttnBlockScratch<V::DIM>& w, Keys keys, const Bias& bias) {
	constexpr int D = V::DIM;
	constexpr uint32_t ROWS = 16;
	typedef typename V::Row R;
	const uint8_t* k = t.k + R::bytes(D) * a.ctx * kv;
	const uint8_t* v = t.v + R::bytes(D) * a.ctx * kv;
	for (uint32_t base = from; base < to; base += ROWS) {
		const uint32_t end = to - base < ROWS ? to : base + ROWS;
		AttnRunning running[ROWS][ATTN_HEADS];
		for (uint32_t r = base; r < end; r++)
			memset(t.o + (size_t(r) * a.q_heads + head) * D, 0, size_t(heads) * D * sizeof(float));
		const uint64_t most = keys(end - 1);
		for (uint64_t first = 0; first < most; first += LW_ATTN_BLOCK) {
			for (uint32_t r = base; r < end; r++) {
				const uint64_t seen = keys(r);
				if (first >= seen) continue;
				const int n = int(seen - first < LW_ATTN_BLOCK ? seen - first : LW_ATTN_BLOCK);
				const size_t at = (size_t(r) * a.q_heads + head) * D;
				float stat[ATTN_HEADS][2];
				attn_block<R, D>(t.q + at, heads, k + first * R::bytes(D), v + first * R::bytes(D), n, a.scale, w, stat, BlockBias<Bias>{bias, r, first, n});
				for (int i = 0; i < heads; i++)
					attn_merge_block(t.o + at + size_t(i) * D, running[r - base][i], w.part[i], stat[i][0], stat[i][1], D);
			}
		}
		for (uint32_t r = base; r < end; r++)
			for (int i = 0; i < heads; i++)
				attn_finish(t.o + (size_t(r) * a.q_heads + head + i) * D, running[r - base][i], D);
	}
}

// Tasks [begin, end) of an op whose task kv * rows + r does the query heads of key head kv for row r: so rows given
// together share each block of the cache while it is near. keys(r): keys 0 .. keys(r) - 1 are walked for row r, never
// fewer for a later row.
template <class V, class A, class Keys, class Bias = NoBias>
static void attend_tasks(const A& a, const AttnTensors& tensors, uint32_t begin, uint32_t end, void* scratch, Keys keys, const Bias& bias = Bias()) {
	auto& w = *static_cast<AttnBlockScratch<V::DIM>*>(scratch);
	const uint64_t tasks = uint64_t(a.rows) * a.kv_heads;
	for (uint64_t t = begin; t < end && t < tasks;) {
		const uint32_t kv = uint32_t(t / a.rows), from = uint32_t(t % a.rows);
		const uint32_t to = end - t < a.rows - from ? from + uint32_t(end - t) : a.rows;
		const HeadGroup group(a.q_heads, a.kv_heads, kv);
		for (uint32_t h = group.first; h < group.last; h += ATTN_HEADS)
			attend_heads<V>(a, tensors, kv, from, to, h, int(group.last - h < ATTN_HEADS ? group.last - h : ATTN_HEADS), w, keys, bias);
		t += to - from;
	}
}

}  // namespace LW_CPU_NAMESPACE
