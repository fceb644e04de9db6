// What the attention kernels share: rows of a KV cache in each element type, the kernels' variants, which keys a
// row sees, and decode attention of up to ATTN_QUERIES query heads over one block of keys. A block's partial is
// computed by attn_scores, attn_weights, attn_values and attn_gathered, and enters a row's result through
// attn_factors and attn_add, in block order, wherever that happens: so attn_decode gives the bits of attn_split
// followed by attn_merge.
#pragma once
#include "kernels/shared/metal/base.h"

constant constexpr float ATTN_LOWEST = -3.402823466e+38f;

// ---- rows of a KV cache ----
// attn_row_bytes: of a row of `dim` values. attn_load8, attn_load4: values d .. of a row, d a multiple of 8 or 4.
// attn_store: value d of a row by lane d % 32; the lanes of a simdgroup hold 32 consecutive values.
template <typename T>
struct DenseRow {};
struct Q8Row {};  // dim codes, then an f16 scale for each 32 of them: value = scale * code
constant constexpr uint Q8_GROUP = 32;

namespace attn_row {
typedef DenseRow<float> f32;
typedef DenseRow<half> f16;
typedef DenseRow<bfloat> bf16;
typedef Q8Row q8;
}  // namespace attn_row

template <typename T>
inline size_t attn_row_bytes(DenseRow<T>, uint dim) { return dim * sizeof(T); }
inline size_t attn_row_bytes(Q8Row, uint dim) { return dim + dim / Q8_GROUP * 2; }

inline void attn_load4(DenseRow<float>, device const uchar* row, uint, uint d, thread float* x) {
	const float4 v = *(device const float4*)(row + d * 4);
	x[0] = v.x;
	x[1] = v.y;
	x[2] = v.z;
	x[3] = v.w;
}
inline void attn_load8(DenseRow<float>, device const uchar* row, uint dim, uint d, thread float* x) {
	attn_load4(DenseRow<float>(), row, dim, d, x);
	attn_load4(DenseRow<float>(), row, dim, d + 4, x + 4);
}

template <typename T>
inline void attn_unpack(uint pair, thread float* x) {
	const vec<T, 2> v = as_type<vec<T, 2>>(pair);
	x[0] = float(v.x);
	x[1] = float(v.y);
}
template <typename T>
inline void attn_load4(DenseRow<T>, device const uchar* row, uint, uint d, thread float* x) {
	const uint2 v = *(device const uint2*)(row + d * 2);
	attn_unpack<T>(v.x, x);
	attn_unpack<T>(v.y, x + 2);
}
template <typename T>
inline void attn_load8(DenseRow<T>, device const uchar* row, uint, uint d, thread float* x) {
	const uint4 v = *(device const uint4*)(row + d * 2);
	attn_unpack<T>(v.x, x);
	attn_unpack<T>(v.y, x + 2);
	attn_unpack<T>(v.z, x + 4);
	attn_unpack<T>(v.w, x + 6);
}

inline void attn_unpack_codes(uint codes, float scale, thread float* x) {
	LW_UNROLL
	for (uint i = 0; i < 4; i++) x[i] = float(int(codes << (24 - 8 * i)) >> 24) * scale;
}
// Rows of q8 are whole words, but whole double words from 128 values on only.
inline void attn_load4(Q8Row, device const uchar* row, uint dim, uint d, thread float* x) {
	const float scale = float(*(device const half*)(row + dim + d / Q8_GROUP * 2));
	attn_unpack_codes(*(device const uint*)(row + d), scale, x);
}
inline void attn_load8(Q8Row, device const uchar* row, uint dim, uint d, thread float* x) {
	const float scale = float(*(device const half*)(row + dim + d / Q8_GROUP * 2));
	attn_unpack_codes(*(device const uint*)(row + d), scale, x);
	attn_unpack_codes(*(device const uint*)(row + d + 4), scale, x + 4);
}

template <typename T>
inline void attn_store(DenseRow<T>, device uchar* row, uint, uint d, float x) { ((device T*)row)[d] = T(x); }
// scale = f16(max |x| / 127). Magnitudes are compared as integers: so a NaN is the largest, and makes the scale NaN.
inline void attn_store(Q8Row, device uchar* row, uint dim, uint d, float x) {
	const uint top = simd_max(as_type<uint>(x) & 0x7fffffffu);
	const half scale = half(as_type<float>(top) / 127.0f);
	const float inverse = float(scale) > 0.0f ? 1.0f / float(scale) : 0.0f;
	float code = x * inverse;
	code = code > -127.0f ? code : -127.0f;  // also NaN
	code = code < 127.0f ? code : 127.0f;
	row[d] = uchar(int(rint(code)));
	if (d % Q8_GROUP == 0) *(device half*)(row + dim + d / Q8_GROUP * 2) = scale;
}

// Tags named as the variants of the kernels: element type of the caches, head dimension.
template <typename R, uint D>
struct AttnVariant {
	typedef R row;
	static constant constexpr uint dim = D;
};
namespace attn {
#define LW_ATTN_DIMS(name) \
	typedef AttnVariant<attn_row::name, 64> name##_h64; \
	typedef AttnVariant<attn_row::name, 128> name##_h128; \
	typedef AttnVariant<attn_row::name, 256> name##_h256; \
	typedef AttnVariant<attn_row::name, 512> name##_h512;
LW_ATTN_DIMS(f32)
LW_ATTN_DIMS(f16)
LW_ATTN_DIMS(bf16)
LW_ATTN_DIMS(q8)
#undef LW_ATTN_DIMS
}  // namespace attn

// ---- heads and keys ----
// Query heads [first, first + count) read key head kv; all of them in range whatever the two counts.
struct HeadGroup {
	uint first, count;
};
inline uint heads_per_key(uint q_heads, uint kv_heads) { return (q_heads + kv_heads - 1) / kv_heads; }
inline HeadGroup head_group(uint q_heads, uint kv_heads, uint kv) {
	const uint each = heads_per_key(q_heads, kv_heads);
	const uint first = min(each * kv, q_heads);
	return HeadGroup{first, min(each, q_heads - first)};
}
// Keys that row r sees: positions 0 .. pos + r, never more than `limit`.
inline ulong keys_seen(uint pos, uint r, ulong limit) {
	const ulong n = ulong(pos) + r + 1;
	return n < limit ? n : limit;
}

// ---- one block of keys ----
constant constexpr uint ATTN_THREADS = 256;
constant constexpr uint ATTN_QUERIES = ATTN_THREADS / SIMD;       // query heads that go through a block together
constant constexpr uint ATTN_KEYS = 4;                            // keys of a register tile
constant constexpr uint ATTN_SCORE4 = LW_ATTN_BLOCK / 4 + 1;      // float4s from head to head: spread over the banks
constant constexpr uint ATTN_LANES = 8;                           // lanes that share the dims of a key
constant constexpr uint ATTN_DIMS = 8 * ATTN_LANES;               // dims of a key that they load at a time
constant constexpr uint ATTN_PASS = SIMD / ATTN_LANES * ATTN_KEYS;  // keys of a simdgroup at a time

// The heads of a threadgroup: those of tile `tile` of key head `kv`.
inline HeadGroup head_tile(uint q_heads, uint kv_heads, uint kv, uint tile) {
	const HeadGroup all = head_group(q_heads, kv_heads, kv);
	const uint skip = min(tile * ATTN_QUERIES, all.count);
	return HeadGroup{all.first + skip, min(ATTN_QUERIES, all.count - skip)};
}
inline uint head_tiles(uint q_heads, uint kv_heads) {
	return (heads_per_key(q_heads, kv_heads) + ATTN_QUERIES - 1) / ATTN_QUERIES;
}

// `heads` rows of q into threadgroup memory. Of each ATTN_DIMS dims, the first float4 of every lane comes before
// the second ones, so that lanes read consecutive places.
inline void attn_stage(device const float* q, uint dim, uint heads, threadgroup float4* query, uint tid) {
	for (uint f = tid; f < heads * dim / 4; f += ATTN_THREADS) {
		const uint at = f % (2 * ATTN_LANES);
		query[f - at + at % 2 * ATTN_LANES + at / 2] = ((device const float4*)q)[f];
	}
}

// Sums of 2 * W heads over lanes that differ in bit W; a lane keeps the half of the heads that its bit names.
template <uint W>
inline void attn_fold(thread float (*acc)[ATTN_KEYS], uint lane) {
	const bool upper = (lane & W) != 0;
	LW_UNROLL
	for (uint i = 0; i < W; i++) {
		LW_UNROLL
		for (uint j = 0; j < ATTN_KEYS; j++) {
			const float low = acc[i][j], high = acc[i + W][j];
			acc[i][j] = (upper ? high : low) + simd_shuffle_xor(upper ? low : high, W);
		}
	}
}

// score[i][j] = scale * query[i] . k[j] over n keys (1 .. LW_ATTN_BLOCK), whose rows start at k. A lane holds
// ATTN_KEYS keys for all heads: a key is loaded once, a query once for ATTN_KEYS keys. Keys from n on are the last
// one again.
template <typename V>
inline void attn_scores(device const uchar* k, uint n, uint heads, float scale, threadgroup const float4* query,
                        threadgroup float4* score, uint lane, uint sg) {
	typedef typename V::row R;
	const uint part = lane % ATTN_LANES, slot = lane / ATTN_LANES * ATTN_KEYS;
	for (uint first = sg * ATTN_PASS; first < n; first += ATTN_QUERIES * ATTN_PASS) {
		float acc[ATTN_QUERIES][ATTN_KEYS];
		LW_UNROLL
		for (uint i = 0; i < ATTN_QUERIES; i++) {
			LW_UNROLL
			for (uint j = 0; j < ATTN_KEYS; j++) acc[i][j] = 0.0f;
		}
		for (uint d = 0; d < V::dim; d += ATTN_DIMS) {
			float x[ATTN_KEYS][8];
			LW_UNROLL
			for (uint j = 0; j < ATTN_KEYS; j++)
				attn_load8(R(), k + attn_row_bytes(R(), V::dim) * min(first + slot + j, n - 1), V::dim, d + part * 8, x[j]);
			LW_UNROLL
			for (uint i = 0; i < ATTN_QUERIES; i++) {
				if (i >= heads) break;
				threadgroup const float4* at = query + (i * V::dim + d) / 4 + part;
				const float4 a = at[0], b = at[ATTN_LANES];
				LW_UNROLL
				for (uint j = 0; j < ATTN_KEYS; j++) {
					float s = fma(a.x, x[j][0], acc[i][j]);
					s = fma(a.y, x[j][1], s);
					s = fma(a.z, x[j][2], s);
					s = fma(a.w, x[j][3], s);
					s = fma(b.x, x[j][4], s);
					s = fma(b.y, x[j][5], s);
					s = fma(b.z, x[j][6], s);
					acc[i][j] = fma(b.w, x[j][7], s);
				}
			}
		}
		attn_fold<4>(acc, lane);
		attn_fold<2>(acc, lane);
		attn_fold<1>(acc, lane);
		if (part < heads)
			score[part * ATTN_SCORE4 + (first + slot) / 4] =
				float4(acc[0][0] * scale, acc[0][1] * scale, acc[0][2] * scale, acc[0][3] * scale);
	}
}

// s[j] becomes exp(s[j] - max) for one head, by one simdgroup; zeros follow up to a multiple of ATTN_KEYS.
// Returns the maximum and the sum.
inline float2 attn_weights(uint n, threadgroup float* s, uint lane) {
	float top = ATTN_LOWEST;
	for (uint j = lane; j < n; j += SIMD) top = max(top, s[j]);
	top = simd_max(top);
	float sum = 0.0f;
	const uint padded = (n + ATTN_KEYS - 1) / ATTN_KEYS * ATTN_KEYS;
	for (uint j = lane; j < padded; j += SIMD) {
		const float p = j < n ? precise::exp(s[j] - top) : 0.0f;
		s[j] = p;
		sum += p;
	}
	return float2(top, simd_sum(sum));
}

// A bias has add(s, first, n, lane): what it adds to the scores s of keys first .. first + n - 1, -inf for those that do not
// count, and counts(key), which tells these: their rows may be no numbers. Lane l adds to keys l, l + 32, ..., for these it
// weighs afterwards.
struct NoBias {
	inline void add(threadgroup float*, uint, uint, uint) const {}
	inline bool counts(uint) const { return true; }
};

// acc[i] = 4 dims of the sum of weight[i][j] * v[j] over this thread's share of the keys, the first of which is key `base` of
// the bias: dim / 4 threads hold a row, and each such part of the threadgroup takes every so manyth run of ATTN_KEYS keys.
template <typename V, typename BIAS>
inline void attn_values(thread const BIAS& bias, uint base, device const uchar* v, uint n, uint heads, threadgroup const float4* weight,
                        thread float (*acc)[4], uint tid) {
	typedef typename V::row R;
	const uint wide = V::dim / 4, parts = ATTN_THREADS / wide;
	LW_UNROLL
	for (uint i = 0; i < ATTN_QUERIES; i++) {
		LW_UNROLL
		for (uint c = 0; c < 4; c++) acc[i][c] = 0.0f;
	}
	for (uint first = tid / wide * ATTN_KEYS; first < n; first += parts * ATTN_KEYS) {
		float x[ATTN_KEYS][4];
		LW_UNROLL
		for (uint j = 0; j < ATTN_KEYS; j++)
			attn_load4(R(), v + attn_row_bytes(R(), V::dim) * min(first + j, n - 1), V::dim, tid % wide * 4, x[j]);
		LW_UNROLL
		for (uint j = 0; j < ATTN_KEYS; j++) {
			if (bias.counts(base + min(first + j, n - 1))) continue;
			LW_UNROLL
			for (uint c = 0; c < 4; c++) x[j][c] = 0.0f;
		}
		LW_UNROLL
		for (uint i = 0; i < ATTN_QUERIES; i++) {
			if (i >= heads) break;
			const float4 p = weight[i * ATTN_SCORE4 + first / 4];
			LW_UNROLL
			for (uint c = 0; c < 4; c++) {
				float s = fma(p.x, x[0][c], acc[i][c]);
				s = fma(p.y, x[1][c], s);
				s = fma(p.z, x[2][c], s);
				acc[i][c] = fma(p.w, x[3][c], s);
			}
		}
	}
}

// Sums of attn_values over the parts of the threadgroup, two heads at a time through threadgroup memory: between
// attn_publish and attn_gathered lies a barrier. Result e of a pair is dim e % dim of its head e / dim.
template <typename V>
inline void attn_publish(thread float (*acc)[4], threadgroup float4* sums, uint tid) {
	LW_UNROLL
	for (uint i = 0; i < 2; i++) sums[i * ATTN_THREADS + tid] = float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
}
template <typename V>
inline float attn_gathered(uint e, threadgroup const float* sums) {
	threadgroup const float* at = sums + e / V::dim * (4 * ATTN_THREADS) + e % V::dim;
	float sum = at[0];
	LW_UNROLL
	for (uint p = 1; p < 4 * ATTN_THREADS / V::dim; p++) sum += at[p * V::dim];
	return sum;
}
// Results of a pair that one thread holds.
template <typename V>
struct AttnResults {
	static constant constexpr uint count = (2 * V::dim + ATTN_THREADS - 1) / ATTN_THREADS;
};

// ---- blocks into a row ----
// Of the blocks so far: max = max_b max_b, sum = sum_b exp(max_b - max) * sum_b. `before` and `top` are the
// maxima without and with one more block. Its partial counts `y` times, what was there `x` times; a block whose
// sum is 0 has no keys, and its maximum does not count.
inline float attn_block_max(float max, float sum) { return sum == 0.0f ? ATTN_LOWEST : max; }
inline float2 attn_factors(float before, float top, float max, float sum) {
	return float2(precise::exp(before - top), sum == 0.0f ? 0.0f : precise::exp(max - top));
}
// A block that counts nothing leaves the row as it is, whatever its partial is.
inline float attn_add(float o, float partial, float2 factors) {
	return factors.y == 0.0f ? o : fma(o, factors.x, partial * factors.y);
}
inline float attn_sum(float sum, float block_sum, float2 factors) { return fma(sum, factors.x, block_sum * factors.y); }
inline float attn_inverse(float sum) { return sum == 0.0f ? 0.0f : 1.0f / sum; }
