// Products of affine weights with up to 8 activations by the integer matrix unit (mma.m16n8k32), one warp for 16 rows
// of weights.
//
// An activation is a fixed-point number of its row (activations.cuh): an integer that is cut into four signed bytes,
// its digits. Weights are the A operand, the digits of an activation four columns of B, and the products add up to
// exact integers. Bytes of four-bit weights go in as they are stored, low + 16 * high, and once more as low alone:
//   16 * (low * x_low + high * x_high) = (low + 16 * high) * x_high + low * (16 * x_low - x_high)
// so B holds the digits of x_high and of 16 * x_low - x_high, and unpacking is one AND for eight codes. Group by group
// the digit sums of a row of weights are added up, times the scale, in f32; bias times the group's sum of x joins them.
//
// The order of sums is that of the format and of in_dim: whatever the number of activations, the same bits. What a lane
// sums for an activation belongs to one of four classes, (parity of the group) * 2 + (lower or upper two digits). With
// one activation columns 0-3 hold its digits for even groups, columns 4-7 those for odd ones, so each lane has one
// class; with more each pair of lanes has one activation and both parities.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/shared/cuda/copies.cuh"
#include "kernels/shared/cuda/lanes.cuh"

namespace lw_cuda {

// Weights on their way into shared memory.
__device__ __forceinline__ void copy16(void* to, const void* from) { copy16(shared_address(to), from); }
__device__ __forceinline__ void copy8(void* to, const void* from) { copy8(shared_address(to), from); }
// Until all of this thread's groups of copies are there, or all but the last one.
__device__ __forceinline__ void wait_for_copies(bool but_one) {
	if (but_one) wait_for_copies<1>();
	else wait_for_copies<0>();
}
__device__ __forceinline__ uint32_t load_half(const void* at) {
	uint16_t v;
	asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(at));
	return v;
}
__device__ __forceinline__ void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Types of scales: the number in the lower or upper half of a word.
struct Bf16Scale {
	static __device__ __forceinline__ float half(uint32_t word, bool upper) {
		return __uint_as_float(__byte_perm(word, 0, upper ? 0x3244 : 0x1044));
	}
};
struct F16Scale {
	static __device__ __forceinline__ float half(uint32_t word, bool upper) {
		return __half2float(__ushort_as_half(static_cast<unsigned short>(upper ? word >> 16 : word & 0xffff)));
	}
};

// A warp takes a row of weights in chunks of CHUNK codes, 256 bytes; a step is 32 bytes of each of its rows.
template <uint32_t BITS_, uint32_t GROUP_, class SCALE> struct Affine {
	static constexpr uint32_t BITS = BITS_, GROUP = GROUP_, STEPS = 8;
	static constexpr uint32_t STEP = 256 / BITS, CHUNK = STEPS * STEP, GROUPS = CHUNK / GROUP, GROUP_STEPS = GROUP / STEP;
	// Groups of a chunk that one class of lanes adds the biases of.
	static constexpr uint32_t CLASS_GROUPS = GROUPS > 4 ? GROUPS / 4 : 1;
	// Products are those of the activation's integer and the code, times 2^SHIFT.
	static constexpr int SHIFT = BITS == 4 ? 4 : 0;
	// Integers of activations are at most 2^WIDTH in size, so that neither they nor 16 * x_low - x_high leave 31 bits.
	static constexpr int WIDTH = BITS == 4 ? 26 : 30;
	// Bytes of a step's digits of one activation.
	static constexpr uint32_t STEP_DIGITS = BITS == 4 ? 256 : 128;
	static_assert(GROUP_STEPS * STEP == GROUP && GROUPS % 2 == 0);
	typedef SCALE Scale;
	static uint32_t __host__ __device__ chunks(uint32_t in_dim) { return (in_dim + CHUNK - 1) / CHUNK; }
};

// Formats by their names in kernels.
namespace cuda_format {
typedef Affine<4, 64, Bf16Scale> q4g64_bf16;
typedef Affine<4, 64, F16Scale> q4g64_f16;
typedef Affine<8, 64, Bf16Scale> q8g64_bf16;
typedef Affine<8, 64, F16Scale> q8g64_f16;
}  // namespace cuda_format
#define LW_CUDA_FORMATS(X) X(q4g64_bf16) X(q4g64_f16) X(q8g64_bf16) X(q8g64_f16)

// A weight as it lies in memory.
struct Weight {
	const uint8_t* codes;
	const uint8_t* scales;
	const uint8_t* biases;
};

// The 16 rows of weights of a tile: two halves of 8 rows that follow one another in memory. Rows behind the `last` of a
// half repeat it.
template <class F> struct TileRows {
	Weight half[2];
	uint32_t last[2];

	__device__ __forceinline__ void set(uint32_t i, const Weight& w, size_t row, uint32_t last_row, uint32_t in_dim) {
		half[i] = {w.codes + row * (in_dim / 8 * F::BITS), w.scales + row * (in_dim / F::GROUP * 2), w.biases + row * (in_dim / F::GROUP * 2)};
		last[i] = last_row;
	}
	__device__ __forceinline__ size_t offset(uint32_t row, uint32_t groups) const { return size_t(min(row % 8, row < 8 ? last[0] : last[1])) * groups * 2; }
	__device__ __forceinline__ const uint8_t* scales_at(uint32_t row, uint32_t groups) const { return (row < 8 ? half[0].scales : half[1].scales) + offset(row, groups); }
	__device__ __forceinline__ const uint8_t* biases_at(uint32_t row, uint32_t groups) const { return (row < 8 ? half[0].biases : half[1].biases) + offset(row, groups); }
};

// A chunk of a tile in shared memory. Rows are as far apart as keeps eight of them apart in the banks, for ldmatrix.
// Behind the end of a row scales and biases are zero, codes anything.
template <class F> struct alignas(16) Chunk {
	static constexpr uint32_t BYTES = 256, STRIDE = BYTES + 16;
	uint8_t codes[16 * STRIDE];
	alignas(16) uint16_t scales[16][F::GROUPS], biases[16][F::GROUPS];

	__device__ __forceinline__ const uint8_t* codes_of(uint32_t row) const { return codes + row * STRIDE; }
	__device__ __forceinline__ const uint16_t* scales_of(uint32_t row) const { return scales[row]; }
	__device__ __forceinline__ const uint16_t* biases_of(uint32_t row) const { return biases[row]; }

	// Copies of the asynchronous kind. The warp has to come together between the last use of the chunk before and this.
	// Weights lie at multiples of 8 bytes.
	__device__ __forceinline__ void copy(const TileRows<F>& from, uint32_t chunk, uint32_t in_dim, uint32_t lane) {
		const uint32_t row_bytes = in_dim / 8 * F::BITS, bytes = min(BYTES, row_bytes - chunk * BYTES);
#pragma unroll
		for (uint32_t h = 0; h < 2; h++) {
			const uint8_t* begin = from.half[h].codes + chunk * BYTES;
			uint8_t* to = codes + h * 8 * STRIDE;
			if (from.last[h] >= 7 && bytes == BYTES && reinterpret_cast<uintptr_t>(begin) % 16 == 0) {
				begin += lane / 16 * row_bytes + lane % 16 * 16;
				to += lane / 16 * STRIDE + lane % 16 * 16;
#pragma unroll
				for (uint32_t row = 0; row < 8; row += 2) {
					copy16(to + row * STRIDE, begin);
					begin += 2 * row_bytes;
				}
			} else if (lane * 8 < bytes) {
				begin += lane * 8;
				to += lane * 8;
				for (uint32_t row = 0; row < 8; row++) {
					copy8(to + row * STRIDE, begin);
					if (row < from.last[h]) begin += row_bytes;
				}
			}
		}
		const uint32_t groups = in_dim / F::GROUP, first = chunk * F::GROUPS;
		if (groups % 4 == 0 && F::GROUPS >= 4) {
			constexpr uint32_t PIECES = F::GROUPS / 4;
			const uint32_t own = lane / PIECES, group = lane % PIECES * 4;
			if (own < 16) {
				if (first + group < groups) {
					copy8(&scales[own][group], from.scales_at(own, groups) + (first + group) * 2);
					copy8(&biases[own][group], from.biases_at(own, groups) + (first + group) * 2);
				} else {
					*reinterpret_cast<uint2*>(&scales[own][group]) = *reinterpret_cast<uint2*>(&biases[own][group]) = uint2{};
				}
			}
		} else {
			for (uint32_t i = lane; i < 16 * F::GROUPS; i += WARP) {
				const uint32_t own = i / F::GROUPS, group = i % F::GROUPS;
				const bool inside = first + group < groups;
				scales[own][group] = inside ? load_half(from.scales_at(own, groups) + (first + group) * 2) : 0;
				biases[own][group] = inside ? load_half(from.biases_at(own, groups) + (first + group) * 2) : 0;
			}
		}
	}
};

// Activations in shared memory, as activations.cuh writes them, padded to whole chunks.
struct Staged {
	const uint8_t* digits;   // [rows][chunks][STEPS][STEP_DIGITS]
	const float* sums;       // [rows][chunks * CHUNK / 64]: of 64 values each, zero behind the end
	const float* units;      // [rows]: 2^e, an activation times 2^e is its integer times 2^SHIFT
	const float* inverses;   // [rows]: 2^-e times what the row's results are to be multiplied by; NaN for a row that has one
	uint32_t digits_stride, sums_stride;
};

// What a lane sums: for each pair of activations, each parity of groups (one activation: its own parity alone), each of
// its two rows of weights.
template <uint32_t ROWS> struct LaneSums {
	static constexpr uint32_t TILES = (ROWS + 1) / 2, PARITIES = ROWS == 1 ? 1 : 2, N = TILES * PARITIES * 2;
	float v[TILES][PARITIES][2];
};

struct Digits {
	int v[4];
};
__device__ __forceinline__ Digits multiply_add(Digits c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
	Digits d;
	asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
	    : "=r"(d.v[0]), "=r"(d.v[1]), "=r"(d.v[2]), "=r"(d.v[3])
	    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c.v[0]), "r"(c.v[1]), "r"(c.v[2]), "r"(c.v[3]));
	return d;
}

// Integers n and m as bits of these floats plus n and m stand for ONES + n and TIMES_256 + 256 * m, exact up to 2^22 in
// size; one subtraction and one addition give n + 256 * m.
constexpr int ONES_BITS = 0x4b400000, TIMES_256_BITS = 0x4f400000;
constexpr float BOTH = 1.5f * 8388608.0f * 257.0f;
__device__ __forceinline__ float digit_pair(int ones, int times_256) {
	return __fadd_rn(__fadd_rn(__int_as_float(times_256), -BOTH), __int_as_float(ones));
}

// Four 8 x 16 byte matrices, which are the A operand: word lane % 4 of rows lane / 4 and lane / 4 + 8, and of the same
// rows 16 bytes on.
__device__ __forceinline__ uint4 load_matrices(uint32_t at) {
	uint4 v;
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
	return v;
}

// Adds one step's products with the digits of one tile of activations.
template <class F> __device__ __forceinline__ Digits multiply_step(Digits d, const uint4& w, const uint8_t* digits, bool mine) {
	if (F::BITS == 4) {
		const uint4 b = mine ? *reinterpret_cast<const uint4*>(digits) : uint4{};
		constexpr uint32_t LOW = 0x0f0f0f0f;
		d = multiply_add(d, w.x, w.y, w.z, w.w, b.x, b.z);
		return multiply_add(d, w.x & LOW, w.y & LOW, w.z & LOW, w.w & LOW, b.y, b.w);
	} else {
		const uint2 b = mine ? *reinterpret_cast<const uint2*>(digits) : uint2{};
		return multiply_add(d, w.x, w.y, w.z, w.w, b.x, b.y);
	}
}

// N words from shared memory at a multiple of their size, at once.
template <uint32_t N> __device__ __forceinline__ void load_words(uint32_t* to, const void* from) {
	if constexpr (N == 4) {
		const uint4 v = *static_cast<const uint4*>(from);
		to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
	} else if constexpr (N == 2) {
		const uint2 v = *static_cast<const uint2*>(from);
		to[0] = v.x, to[1] = v.y;
	} else {
		static_assert(N == 1);
		to[0] = *static_cast<const uint32_t*>(from);
	}
}

// Adds the products of a chunk of weights with chunk number `number` of the activations to the sums. C says where in shared
// memory the rows of a chunk lie, as Chunk does.
template <class F, uint32_t ROWS, class C>
__device__ __forceinline__ void add_chunk(const C& c, const Staged& x, uint32_t number, uint32_t lane, LaneSums<ROWS>& sums) {
	constexpr uint32_t SWIZZLE = F::STEP_DIGITS / 4, TILES = LaneSums<ROWS>::TILES, PARITIES = LaneSums<ROWS>::PARITIES;
	const uint32_t column = lane / 4, upper = lane % 2;
	const uint8_t* chunk_digits = x.digits + number * (F::STEPS * F::STEP_DIGITS) + (ROWS == 1 ? 0 : column / 4) * x.digits_stride;
	const uint8_t* digits[4];
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) digits[i] = chunk_digits + ((column % 4 * 4 + lane % 4) * (F::STEP_DIGITS / 16) ^ i * SWIZZLE);
	// Where the lane's row of a matrix of 8 rows of 16 bytes begins: rows 0-7, 8-15, and the same 16 bytes on.
	const uint32_t codes = shared_address(c.codes_of(lane % 16) + lane / 16 * 16);

	uint32_t scale_words[2][F::GROUPS / 2];
#pragma unroll
	for (uint32_t i = 0; i < 2; i++) load_words<F::GROUPS / 2>(scale_words[i], c.scales_of(column + 8 * i));

	// Biases, times sums of x in the unit of the class's integers.
#pragma unroll
	for (uint32_t parity = 0; parity < PARITIES; parity++) {
		const uint32_t first = (ROWS == 1 ? lane % 4 : lane % 2 + 2 * parity) * F::CLASS_GROUPS;
		if (F::GROUPS < 4 && first >= F::GROUPS) continue;
		float biases[2][F::CLASS_GROUPS];
#pragma unroll
		for (uint32_t i = 0; i < 2; i++) {
			const uint16_t* b = c.biases_of(column + 8 * i) + first;
			const uint32_t word = F::CLASS_GROUPS == 2 ? *reinterpret_cast<const uint32_t*>(b) : *b;
#pragma unroll
			for (uint32_t k = 0; k < F::CLASS_GROUPS; k++) biases[i][k] = F::Scale::half(word, k);
		}
#pragma unroll
		for (uint32_t tile = 0; tile < TILES; tile++) {
			const uint32_t row = ROWS == 1 ? 0 : 2 * tile + lane % 4 / 2;
			const float unit = __fmul_rn(x.units[row], upper ? 1.0f / 65536.0f : 1.0f);
			uint32_t words[F::CLASS_GROUPS * (F::GROUP / 64)];
			load_words<F::CLASS_GROUPS * (F::GROUP / 64)>(words, x.sums + row * x.sums_stride + (number * F::GROUPS + first) * (F::GROUP / 64));
#pragma unroll
			for (uint32_t k = 0; k < F::CLASS_GROUPS; k++) {
				float sum = __uint_as_float(words[k * (F::GROUP / 64)]);
				if (F::GROUP == 128) sum = __fadd_rn(sum, __uint_as_float(words[k * 2 + 1]));
				sum = __fmul_rn(sum, unit);
#pragma unroll
				for (uint32_t i = 0; i < 2; i++) sums.v[tile][parity][i] = __fmaf_rn(biases[i][k], sum, sums.v[tile][parity][i]);
			}
		}
	}

#pragma unroll
	for (uint32_t pair = 0; pair < F::GROUPS / 2; pair++) {
		uint4 w[2 * F::GROUP_STEPS];
#pragma unroll
		for (uint32_t k = 0; k < 2 * F::GROUP_STEPS; k++) w[k] = load_matrices(codes + (2 * pair * F::GROUP_STEPS + k) * 32);
		float scales[2][PARITIES];
#pragma unroll
		for (uint32_t i = 0; i < 2; i++) {
#pragma unroll
			for (uint32_t p = 0; p < PARITIES; p++) scales[i][p] = F::Scale::half(scale_words[i][pair], ROWS == 1 ? lane % 4 / 2 : p);
		}
#pragma unroll
		for (uint32_t tile = 0; tile < TILES; tile++) {
			constexpr Digits ZERO = {{ONES_BITS, TIMES_256_BITS, ONES_BITS, TIMES_256_BITS}};
			Digits d = ZERO;
#pragma unroll
			for (uint32_t parity = 0; parity < 2; parity++) {
#pragma unroll
				for (uint32_t k = 0; k < F::GROUP_STEPS; k++) {
					const uint32_t in_pair = parity * F::GROUP_STEPS + k, step = 2 * pair * F::GROUP_STEPS + in_pair;
					d = multiply_step<F>(d, w[in_pair], digits[step % 4] + tile * 2 * x.digits_stride + step * F::STEP_DIGITS, ROWS > 1 || column / 4 == parity);
				}
				// One activation: both parities' products are in one set of sums, in columns of their own.
				if (ROWS > 1 || parity == 1) {
#pragma unroll
					for (uint32_t i = 0; i < 2; i++) {
						float& sum = sums.v[tile][ROWS == 1 ? 0 : parity][i];
						sum = __fmaf_rn(scales[i][ROWS == 1 ? 0 : parity], digit_pair(d.v[2 * i], d.v[2 * i + 1]), sum);
					}
					d = ZERO;
				}
			}
		}
	}
}

// The finished sums of a lane's two rows of weights with activation `row`, for one activation in all four lanes of a row,
// else in the two that have it.
template <uint32_t ROWS> __device__ __forceinline__ void finish(const LaneSums<ROWS>& sums, uint32_t tile, float inverse, uint32_t lane, float (&out)[2]) {
	const float unit = __fmul_rn(inverse, lane % 2 ? 65536.0f : 1.0f);
#pragma unroll
	for (uint32_t i = 0; i < 2; i++) {
		float v[2];
#pragma unroll
		for (uint32_t p = 0; p < LaneSums<ROWS>::PARITIES; p++) {
			v[p] = __fmul_rn(sums.v[tile][p][i], unit);
			v[p] = __fadd_rn(v[p], __shfl_xor_sync(0xffffffff, v[p], 1));
		}
		out[i] = __fadd_rn(v[0], ROWS == 1 ? __shfl_xor_sync(0xffffffff, v[0], 2) : v[1]);
	}
}

}  // namespace lw_cuda
