// What the matrix products with affine weights share: sums over k of x[r,k] * w[o,k] for a tile of OUTS weight rows and up
// to TOKENS rows of x, on warpgroup products. w = scale * code + bias a group, so a slab of 64 k gives
//   sums[o,r] += scale[o] * (x . (code - middle)) + (bias[o] + middle * scale[o]) * sum(x)
// Codes are exact in f16. A row of x is scaled by a power of two and split in two f16, hi + lo: 22 bits of each value that
// is not below 2^-11 of the greatest one. Products of a slab add up in the matrix units, slabs in f32 arithmetic. A row's
// scale is chosen by its first slab with room for values 64 times as great; a slab that needs more makes it smaller, and
// the sums so far with it.
//
// A block is two warpgroups of 64 * TILES weight rows each, as tiles of 64 that take turns: while one is multiplied the
// other is added to the sums. Weight rows are the rows of the warpgroup product, so that a thread unpacks codes right into
// registers; x is the other operand, in shared memory, converted there while the slab before is multiplied.
//
// Order of k within a slab: thread lane % 4 = t of a quad holds codes 16 t .. 16 t + 15 of its rows. Word a of 8 codes
// gives the pairs (c, c + 4), c < 4, which stand as products 32 a + 8 c + 2 t and the next; x is stored in that order.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/shared/cuda/copies.cuh"
#include "kernels/shared/cuda/wgmma.cuh"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {

constexpr uint32_t GEMM_THREADS = 256;
constexpr uint32_t GEMM_SLAB = 64;
constexpr uint32_t GEMM_BATCH = 2 * GEMM_SLAB;  // k of codes that come together, for whole memory lines
constexpr uint32_t GEMM_STAGES = 3;             // batches of codes under way or in use

template <int BITS, int GROUP, class S> struct AffineWeight {
	static constexpr int bits = BITS, group = GROUP;
	typedef S scale_type;
};

// X(variant, weight): what these kernels serve. Other formats are left to the translated kernels.
#define LW_GEMM_FORMATS(X) \
	X(q4g64_f16, AffineWeight<4, 64, __half>) \
	X(q4g64_bf16, AffineWeight<4, 64, __nv_bfloat16>) \
	X(q4g128_f16, AffineWeight<4, 128, __half>) \
	X(q4g128_bf16, AffineWeight<4, 128, __nv_bfloat16>) \
	X(q8g64_f16, AffineWeight<8, 64, __half>) \
	X(q8g64_bf16, AffineWeight<8, 64, __nv_bfloat16>) \
	X(q8g128_f16, AffineWeight<8, 128, __half>) \
	X(q8g128_bf16, AffineWeight<8, 128, __nv_bfloat16>)

template <class F, int TOKENS, int TILES> struct GemmShared {
	static constexpr uint32_t outs = 128 * TILES;
	static constexpr uint32_t line = GEMM_BATCH / 8 * F::bits;         // bytes of a weight row in a batch
	alignas(SWIZZLE_ALIGNMENT) uint8_t x[2][2][TOKENS * SWIZZLE_ROW];  // slab % 2; hi, lo
	alignas(16) uint8_t codes[GEMM_STAGES][outs * line];
	float2 scales[2][outs];         // slab % 2; scale, bias + middle * scale
	float2 sums[2][TOKENS / 2];     // of two rows of x as they are scaled
	float2 ratios[2][TOKENS / 2];   // their scales over those of the slab before
	float2 units[TOKENS / 2];       // at the end, what takes their scales back
	const uint8_t* weights[outs];   // codes of the weight rows
	uint32_t rows[TOKENS];          // of x
};
// The matrix units want an alignment that dynamic shared memory does not promise.
template <class SHARED> constexpr uint32_t gemm_bytes() { return uint32_t(sizeof(SHARED) + SWIZZLE_ALIGNMENT); }
template <class SHARED> __device__ __forceinline__ SHARED& gemm_shared() {
	extern __shared__ uint8_t memory[];
	return *reinterpret_cast<SHARED*>((reinterpret_cast<uintptr_t>(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT);
}

__device__ __forceinline__ uint32_t bits_of(__half2 h) { return *reinterpret_cast<uint32_t*>(&h); }
__device__ __forceinline__ __half2 half2_of(uint32_t u) { return *reinterpret_cast<__half2*>(&u); }
__device__ __forceinline__ uint32_t masked_or(uint32_t word, uint32_t mask, uint32_t bits) {
	uint32_t r;
	asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(word), "r"(mask), "r"(bits));
	return r;
}

// Pairs (c, c + 4), c < 4, of each 8 of 16 codes, less the middle of their range. 0x6400 is 1024 in f16, whose last digit
// is 1.
template <int BITS> struct Codes;
template <> struct Codes<4> {
	static constexpr float middle = 8;
	static __device__ __forceinline__ void unpack(const uint8_t* at, uint32_t (&pairs)[2][4]) {
		const uint2 words = *reinterpret_cast<const uint2*>(at);
		const __half2 from_low = half2_of(0xe408e408);                                     // -(1024 + 8)
		const __half2 sixteenth = half2_of(0x2c002c00), from_high = half2_of(0xd480d480);  // 1/16, -(1024 / 16 + 8)
#pragma unroll
		for (int a = 0; a < 2; a++) {
			const uint32_t low = a ? words.y : words.x, high = low >> 8;
			pairs[a][0] = bits_of(__hadd2(half2_of(masked_or(low, 0x000f000f, 0x64006400)), from_low));
			pairs[a][1] = bits_of(__hfma2(half2_of(masked_or(low, 0x00f000f0, 0x64006400)), sixteenth, from_high));
			pairs[a][2] = bits_of(__hadd2(half2_of(masked_or(high, 0x000f000f, 0x64006400)), from_low));
			pairs[a][3] = bits_of(__hfma2(half2_of(masked_or(high, 0x00f000f0, 0x64006400)), sixteenth, from_high));
		}
	}
};
template <> struct Codes<8> {
	static constexpr float middle = 128;
	static __device__ __forceinline__ void unpack(const uint8_t* at, uint32_t (&pairs)[2][4]) {
		const uint4 words = *reinterpret_cast<const uint4*>(at);
		const __half2 from = half2_of(0xe480e480);  // -(1024 + 128)
#pragma unroll
		for (int a = 0; a < 2; a++)
#pragma unroll
			for (uint32_t c = 0; c < 4; c++) {
				const uint32_t both = __byte_perm(a ? words.z : words.x, a ? words.w : words.y, c * 0x0011 + (c + 4) * 0x1100);
				pairs[a][c] = bits_of(__hadd2(half2_of(masked_or(both, 0x00ff00ff, 0x64006400)), from));
			}
	}
};

__device__ __forceinline__ uint16_t load_weight16(const void* p) {
	uint16_t v;
	asm("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
	return v;
}
__device__ __forceinline__ float widened(__half, uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
__device__ __forceinline__ float widened(__nv_bfloat16, uint16_t bits) { return __uint_as_float(uint32_t(bits) << 16); }

// A block's product. The kernel names the weight row of every thread below OUTS and fills `rows` of the shared memory
// with a row of x for every token.
template <class F, int TOKENS, int TILES> struct Gemm {
	typedef GemmShared<F, TOKENS, TILES> Shared;
	typedef typename F::scale_type S;
	static constexpr uint32_t OUTS = Shared::outs;

	Shared& m;
	const uint32_t in_dim, slabs;
	const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const uint16_t* scale_of = nullptr;  // of this thread's weight row
	const uint16_t* bias_of = nullptr;
	uint2 scale_bits, bias_bits, next_scale_bits, next_bias_bits;  // of four groups, and of the four behind them

	__device__ __forceinline__ Gemm(Shared& shared, uint32_t in_dim) : m(shared), in_dim(in_dim), slabs(in_dim / GEMM_SLAB) {}

	__device__ __forceinline__ void set_weight(const void* codes, const void* scales, const void* biases, size_t row) {
		m.weights[threadIdx.x] = static_cast<const uint8_t*>(codes) + row * (in_dim / 8 * F::bits);
		scale_of = static_cast<const uint16_t*>(scales) + row * (in_dim / F::group);
		bias_of = static_cast<const uint16_t*>(biases) + row * (in_dim / F::group);
	}
	// Of the block's weight rows, number i = 0 .. 2 TILES - 1 of this thread: of tile i / 2, its row lane / 4 or 8 further.
	__device__ __forceinline__ uint32_t out_of(int i) const { return warp / 4 * (64 * TILES) + i / 2 * 64 + warp % 4 * 16 + i % 2 * 8 + lane / 4; }
	__device__ __forceinline__ uint32_t token_of(int pass) const { return pass * 32 + warp * 4 + lane / 8; }

	// Where 16 codes of thread t of a quad lie in a batch: halves change places so that rows side by side use all banks.
	static __device__ __forceinline__ uint32_t codes_at(uint32_t row, uint32_t half, uint32_t t) {
		return row * Shared::line + (half ^ (F::bits == 4 ? row / 2 % 2 : row % 2)) * (Shared::line / 2) + t * (Shared::line / 8);
	}
	// Asks for a batch of codes; every call ends a batch of copies, also behind the last one.
	__device__ __forceinline__ void fetch_codes(uint32_t batch) {
		constexpr uint32_t ACROSS = Shared::line / 8, DOWN = GEMM_THREADS / ACROSS;
		const uint32_t part = threadIdx.x % ACROSS, half = part / (ACROSS / 2);
		if (2 * batch + half < slabs) {
			const uint32_t to = shared_address(m.codes[batch % GEMM_STAGES]);
#pragma unroll
			for (uint32_t row = threadIdx.x / ACROSS; row < OUTS; row += DOWN) copy8(to + codes_at(row, half, 0) + part % (ACROSS / 2) * 8, m.weights[row] + batch * Shared::line + part * 8);
		}
		end_copies();
	}

	// 16-bit numbers of the groups from `group` on, zeros behind the last.
	__device__ __forceinline__ uint2 four_groups(const uint16_t* p, uint32_t group) const {
		const uint32_t groups = in_dim / F::group;
		uint2 v = {0, 0};
		if (groups % 4 == 0) {
			if (group < groups) asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p + group));
		} else {
			if (group < groups) v.x = load_weight16(p + group);
			if (group + 1 < groups) v.x |= uint32_t(load_weight16(p + group + 1)) << 16;
			if (group + 2 < groups) v.y = load_weight16(p + group + 2);
			if (group + 3 < groups) v.y |= uint32_t(load_weight16(p + group + 3)) << 16;
		}
		return v;
	}
	// Shows scale and bias of this thread's weight row in a slab; slabs come in order.
	__device__ __forceinline__ void show_scales(uint32_t slab) {
		if (threadIdx.x >= OUTS) return;
		const uint32_t group = slab * GEMM_SLAB / F::group;
		if (slab % (4 * F::group / GEMM_SLAB) == 0 && slab > 0) {
			scale_bits = next_scale_bits;
			bias_bits = next_bias_bits;
			next_scale_bits = four_groups(scale_of, group + 4);
			next_bias_bits = four_groups(bias_of, group + 4);
		}
		const uint32_t shift = group % 2 * 16;
		const float scale = widened(S(), uint16_t((group % 4 < 2 ? scale_bits.x : scale_bits.y) >> shift));
		const float bias = widened(S(), uint16_t((group % 4 < 2 ? bias_bits.x : bias_bits.y) >> shift));
		m.scales[slab % 2][threadIdx.x] = {scale, fmaf(Codes<F::bits>::middle, scale, bias)};
	}

	// Asks for the first weights, which a kernel may do before it waits for other records. A barrier after set_weight()
	// comes before it.
	__device__ __forceinline__ void begin() {
		for (uint32_t b = 0; b < GEMM_STAGES - 1; b++) fetch_codes(b);
		if (threadIdx.x < OUTS) {
			scale_bits = four_groups(scale_of, 0);
			bias_bits = four_groups(bias_of, 0);
			next_scale_bits = four_groups(scale_of, 4);
			next_bias_bits = four_groups(bias_of, 4);
		}
	}

	// A pass of the block converts 32 rows of x, 8 threads a row.
	template <int PASSES> __device__ __forceinline__ void load_x(const float4* const (&from)[PASSES], uint32_t slab, float4 (&v)[PASSES][2]) {
#pragma unroll
		for (int p = 0; p < PASSES; p++) {
			v[p][0] = from[p][slab * (GEMM_SLAB / 4)];
			v[p][1] = from[p][slab * (GEMM_SLAB / 4) + 1];
		}
	}
	// 8 values of a row: those of word lane % 2 of thread lane % 8 / 2 of a quad. `up` has the scales of the rows; returns
	// whether one of them changed.
	template <int PASSES> __device__ __forceinline__ bool store_x(uint32_t slab, const float4 (&v)[PASSES][2], float (&up)[PASSES]) {
		uint8_t* hi = m.x[slab % 2][0];
		uint8_t* lo = m.x[slab % 2][1];
		const uint32_t t = lane % 8 / 2, a = lane % 2;
		bool changed = false;
#pragma unroll
		for (int p = 0; p < PASSES; p++) {
			const float f[8] = {v[p][0].x, v[p][0].y, v[p][0].z, v[p][0].w, v[p][1].x, v[p][1].y, v[p][1].z, v[p][1].w};
			float top = 0;
#pragma unroll
			for (int i = 0; i < 8; i++) top = fmaxf(top, fabsf(f[i]));
			float sum = ((f[0] + f[1]) + (f[2] + f[3])) + ((f[4] + f[5]) + (f[6] + f[7]));
#pragma unroll
			for (int d = 1; d < 8; d *= 2) {
				top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
				sum += __shfl_xor_sync(~0u, sum, d);
			}
			float ratio = 1;
			if (slab == 0 || top * up[p] >= 32768) {
				// The greatest value comes to lie between 2^8 and 2^9.
				const float scale = __uint_as_float((262 - max(__float_as_uint(top) >> 23, 9u)) << 23);
				if (slab > 0) {
					ratio = scale / up[p];
					changed = true;
				}
				up[p] = scale;
			}
			const uint32_t token = token_of(p);
#pragma unroll
			for (int c = 0; c < 4; c++) {
				const float first = f[c] * up[p], second = f[c + 4] * up[p];
				const __half2 h = __floats2half2_rn(first, second);
				const float2 back = __half22float2(h);
				const __half2 l = __floats2half2_rn(first - back.x, second - back.y);
				const uint32_t at = swizzled(token, 4 * a + c) + 4 * t;
				*reinterpret_cast<__half2*>(hi + at) = h;
				*reinterpret_cast<__half2*>(lo + at) = l;
			}
			if (lane % 8 == 0) {
				reinterpret_cast<float*>(m.sums[slab % 2])[token] = sum * up[p];
				reinterpret_cast<float*>(m.ratios[slab % 2])[token] = ratio;
				if (slab + 1 == slabs) reinterpret_cast<float*>(m.units)[token] = 1 / up[p];
			}
		}
		return changed;
	}

	// The operand of a tile from the codes of its two rows.
	__device__ __forceinline__ void unpack(uint32_t slab, int tile, uint32_t (&operand)[4][4]) {
#pragma unroll
		for (int r = 0; r < 2; r++) {
			uint32_t pairs[2][4];
			Codes<F::bits>::unpack(m.codes[slab / 2 % GEMM_STAGES] + codes_at(out_of(2 * tile + r), slab % 2, lane % 4), pairs);
#pragma unroll
			for (int a = 0; a < 2; a++)
#pragma unroll
				for (int c = 0; c < 4; c++) operand[2 * a + c / 2][r + c % 2 * 2] = pairs[a][c];
		}
	}

	template <int N> __device__ __forceinline__ void issue(uint32_t slab, const uint32_t (&operand)[4][4], float (&d)[N / 2]) {
		const uint64_t hi = columns_at(shared_address(m.x[slab % 2][0])), lo = columns_at(shared_address(m.x[slab % 2][1]));
		begin_products();
#pragma unroll
		for (int k = 0; k < 4; k++) {
			multiply(d, operand[k], hi + k * DEPTH_STEP, k > 0);
			multiply(d, operand[k], lo + k * DEPTH_STEP, true);
		}
		end_batch();
	}

	template <int N> __device__ __forceinline__ void fold(uint32_t slab, int tile, const float (&d)[N / 2], float (&sums)[N / 2]) {
		const float2 first = m.scales[slab % 2][out_of(2 * tile)], second = m.scales[slab % 2][out_of(2 * tile + 1)];
#pragma unroll
		for (int j = 0; j < N / 8; j++) {
			const float2 x = m.sums[slab % 2][4 * j + lane % 4];
			sums[4 * j] = fmaf(first.x, d[4 * j], fmaf(first.y, x.x, sums[4 * j]));
			sums[4 * j + 1] = fmaf(first.x, d[4 * j + 1], fmaf(first.y, x.y, sums[4 * j + 1]));
			sums[4 * j + 2] = fmaf(second.x, d[4 * j + 2], fmaf(second.y, x.x, sums[4 * j + 2]));
			sums[4 * j + 3] = fmaf(second.x, d[4 * j + 3], fmaf(second.y, x.y, sums[4 * j + 3]));
		}
	}
	template <int N> __device__ __forceinline__ void scale_sums(const float2* by, float (&sums)[TILES][N / 2]) {
#pragma unroll
		for (int j = 0; j < N / 8; j++) {
			const float2 f = by[4 * j + lane % 4];
#pragma unroll
			for (int i = 0; i < TILES; i++) {
				sums[i][4 * j] *= f.x;
				sums[i][4 * j + 1] *= f.y;
				sums[i][4 * j + 2] *= f.x;
				sums[i][4 * j + 3] *= f.y;
			}
		}
	}

	// Sums of the first N tokens for the tiles of this warpgroup, as multiply() lays them out.
	template <int N> __device__ __forceinline__ void run(const float* x, float (&sums)[TILES][N / 2]) {
		constexpr int PASSES = (N + 31) / 32;
#pragma unroll
		for (int t = 0; t < TILES; t++)
#pragma unroll
			for (int i = 0; i < N / 2; i++) sums[t][i] = 0;
		float4 v[PASSES][2];
		float up[PASSES];
		const float4* from[PASSES];
#pragma unroll
		for (int p = 0; p < PASSES; p++) from[p] = reinterpret_cast<const float4*>(x + size_t(m.rows[token_of(p)]) * in_dim) + lane % 8 * 2;
		load_x(from, 0, v);
		show_scales(0);
		store_x(0, v, up);
		show_to_matrix_units();
		if (slabs > 1) load_x(from, 1, v);
		wait_for_copies<1>();
		__syncthreads();
		bool changed = false;  // a scale of x in this slab
		for (uint32_t s = 0; s < slabs; s++) {
			float d[TILES][N / 2];
			uint32_t operand[TILES][4][4];
#pragma unroll
			for (int t = 0; t < TILES; t++) {
				unpack(s, t, operand[t]);
				issue<N>(s, operand[t], d[t]);
			}
			// What is asked of memory comes behind the fence, which waits for all that a thread has under way.
			bool changes = false;
			if (s + 1 < slabs) {
				changes = store_x(s + 1, v, up);
				show_to_matrix_units();
				show_scales(s + 1);
			}
			if (s % 2 == 0) fetch_codes(s / 2 + GEMM_STAGES - 1);
			if (s + 2 < slabs) load_x(from, s + 2, v);
			if (changed) scale_sums<N>(m.ratios[s % 2], sums);
			if (TILES == 2) {
				wait_for_batches<1>();
				settle(d[0]);
				fold<N>(s, 0, d[0], sums[0]);
			}
			wait_for_batches<0>();
			settle(d[TILES - 1]);
			fold<N>(s, TILES - 1, d[TILES - 1], sums[TILES - 1]);
			if (s % 2 == 1) wait_for_copies<1>();
			changed = __syncthreads_or(changes);
		}
		scale_sums<N>(m.units, sums);
	}
};

}  // namespace lw_cuda
