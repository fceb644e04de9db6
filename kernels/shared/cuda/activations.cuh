// Activations as affine.cuh multiplies them: rows in shared memory, as the digits of fixed-point integers in the order
// of the matrix unit's B operand, and the sums that biases are multiplied by.
//
// A row's integers are its values times the power of two that brings the greatest of them just under 2^WIDTH: at least
// 26 bits of the greatest, which is more than a float has. Everything is a function of the row and the format alone.
#pragma once
#include "kernels/shared/cuda/affine.cuh"

namespace lw_cuda {

// Eight adjacent values; with `weights` they are values times weights, and `squares` is the sum of the values' squares.
struct Eight {
	float v[8];
	float squares;
};
// Plain loads: earlier records wrote these.
__device__ __forceinline__ Eight load_eight(const float* x) {
	Eight e;
	const float4 a = *reinterpret_cast<const float4*>(x), b = *reinterpret_cast<const float4*>(x + 4);
	e.v[0] = a.x, e.v[1] = a.y, e.v[2] = a.z, e.v[3] = a.w, e.v[4] = b.x, e.v[5] = b.y, e.v[6] = b.z, e.v[7] = b.w;
	e.squares = 0.0f;
	return e;
}
__device__ __forceinline__ void weigh(Eight& e, const Eight& weights) {
#pragma unroll
	for (uint32_t i = 0; i < 8; i++) {
		e.squares = __fmaf_rn(e.v[i], e.v[i], e.squares);
		e.v[i] = __fmul_rn(e.v[i], weights.v[i]);
	}
}
__device__ __forceinline__ Eight load_eight(const float* x, const float* weights) {
	Eight e = load_eight(x);
	if (weights) weigh(e, load_eight(weights));
	return e;
}
// As bits, so that NaN is greater than infinity and that greater than all.
__device__ __forceinline__ uint32_t greatest(const Eight& e) {
	uint32_t bits = 0;
#pragma unroll
	for (uint32_t i = 0; i < 8; i++) bits = max(bits, __float_as_uint(e.v[i]) & 0x7fffffff);
	return bits;
}
__device__ __forceinline__ float sum(const Eight& e) {
	return __fadd_rn(__fadd_rn(__fadd_rn(e.v[0], e.v[1]), __fadd_rn(e.v[2], e.v[3])), __fadd_rn(__fadd_rn(e.v[4], e.v[5]), __fadd_rn(e.v[6], e.v[7])));
}
// Over eight adjacent lanes of those in `mask`.
__device__ __forceinline__ float sum_of_eight_lanes(float v, uint32_t mask) {
#pragma unroll
	for (uint32_t d = 4; d; d /= 2) v = __fadd_rn(v, __shfl_xor_sync(mask, v, d));
	return v;
}

// The power of two for a row with this greatest value (as bits): its exponent, so that 2^exponent is a number.
template <class F> __device__ __forceinline__ int fixed_exponent(uint32_t greatest_bits) {
	const int exponent = static_cast<int>(greatest_bits >> 23) - 127;
	return F::WIDTH - 1 - max(min(exponent, 127), -95);
}
__device__ __forceinline__ float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// Byte i of word k becomes byte k of word i.
__device__ __forceinline__ void transpose_bytes(uint32_t (&w)[4]) {
	const uint32_t a = __byte_perm(w[0], w[1], 0x5140), b = __byte_perm(w[2], w[3], 0x5140);
	const uint32_t c = __byte_perm(w[0], w[1], 0x7362), d = __byte_perm(w[2], w[3], 0x7362);
	w[0] = __byte_perm(a, b, 0x5410);
	w[1] = __byte_perm(a, b, 0x7632);
	w[2] = __byte_perm(c, d, 0x5410);
	w[3] = __byte_perm(c, d, 0x7632);
}
// An integer as signed bytes, lowest first, whose sum of v[i] * 256^i it is.
__device__ __forceinline__ uint32_t to_digits(int v) { return (static_cast<uint32_t>(v) + 0x00808080u) ^ 0x00808080u; }

// Writes the digits of values 8 * item .. 8 * item + 7 of a row, whose digits begin at `row`.
template <class F> __device__ __forceinline__ void write_digits(const Eight& e, float to_fixed, uint8_t* row, uint32_t item) {
	int x[8];
#pragma unroll
	for (uint32_t i = 0; i < 8; i++) x[i] = __float2int_rn(__fmul_rn(e.v[i], to_fixed));
	uint32_t first[4], second[4];
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		// The operands of the two products with codes 2i (low) and 2i + 1 (high) of a word, or with bytes i and i + 4.
		first[i] = to_digits(F::BITS == 4 ? x[2 * i + 1] : x[i]);
		second[i] = to_digits(F::BITS == 4 ? 16 * x[2 * i] - x[2 * i + 1] : x[i + 4]);
	}
	transpose_bytes(first);
	transpose_bytes(second);
	// A step is 8 words of codes, words i and i + 4 for lane i of 4: an item is a word of four-bit codes, or two of bytes.
	constexpr uint32_t ITEMS = F::STEP / 8;
	const uint32_t step = item / ITEMS, word = item % ITEMS * (8 / ITEMS);
	uint8_t* to = row + step * F::STEP_DIGITS + word % 4 * (F::STEP_DIGITS / 16) + word / 4 * (F::STEP_DIGITS / 32);
#pragma unroll
	for (uint32_t digit = 0; digit < 4; digit++) {
		// Another order of the digits in each of four steps keeps the steps apart in the banks of shared memory.
		uint8_t* at = to + (digit ^ step % 4) * (F::STEP_DIGITS / 4);
		if (F::BITS == 4) {
			*reinterpret_cast<uint2*>(at) = make_uint2(first[digit], second[digit]);
		} else {
			*reinterpret_cast<uint32_t*>(at) = first[digit];
			*reinterpret_cast<uint32_t*>(at + F::STEP_DIGITS / 16) = second[digit];
		}
	}
}

// Where the activations of a block lie in its shared memory, for so many rows of in_dim values.
template <class F> struct StagedLayout {
	uint32_t digits_stride, sums_stride, sums, squares, greatest, units, inverses, bytes;

	__host__ __device__ StagedLayout(uint32_t rows, uint32_t in_dim) {
		const uint32_t padded = F::chunks(in_dim) * F::CHUNK;
		digits_stride = padded * 4;
		sums_stride = padded / 64;
		sums = rows * digits_stride;  // a multiple of 16
		squares = sums + rows * sums_stride * 4;
		greatest = squares + rows * sums_stride * 4;
		units = greatest + rows * sums_stride * 4;
		inverses = units + rows * 4;
		bytes = (inverses + rows * 4 + 15) / 16 * 16;
	}
};

// Threads begin .. begin + count - 1 of a block, whole warps, which meet at a barrier of their own.
struct Team {
	uint32_t rank, count, barrier;
	__device__ __forceinline__ void meet() const {
		if (count == WARP) __syncwarp();
		else asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(count) : "memory");
	}
};

// The norm's weights of a thread's first items, of one row: loaded before the wait, so that behind it nothing but x is.
constexpr uint32_t HELD = 2;
struct HeldNorm {
	Eight of[HELD];
	__device__ __forceinline__ HeldNorm(const float* w_norm, uint32_t in_dim, const Team& team) {
#pragma unroll
		for (uint32_t h = 0; h < HELD; h++)
			if (const uint32_t item = team.rank + h * team.count; item < in_dim / 8) of[h] = load_eight(w_norm + item * 8);
	}
};

// Stages `rows` rows of x, in_dim values each, ROWS >= rows of them laid out. With w_norm: of x * w_norm, and results
// are to be multiplied by 1 / sqrt(mean(x^2) + eps). A team's barrier has to follow before anybody reads. `norm`: null, or of
// one row w_norm's first weights.
// IN_PLACE: values lie where their digits will, from the survey on, for one row of whole chunks of four-bit codes without w_norm. All of a
// long row is under way at once then.
template <class F, uint32_t ROWS, bool IN_PLACE = false>
__device__ __forceinline__ Staged stage(uint8_t* shared, const float* x, const float* w_norm, float eps, uint32_t rows, uint32_t in_dim, const Team& team, const HeldNorm* norm = nullptr) {
	const StagedLayout<F> layout(ROWS, in_dim);
	float* sums = reinterpret_cast<float*>(shared + layout.sums);
	float* squares = reinterpret_cast<float*>(shared + layout.squares);
	uint32_t* greatests = reinterpret_cast<uint32_t*>(shared + layout.greatest);
	float* units = reinterpret_cast<float*>(shared + layout.units);
	float* inverses = reinterpret_cast<float*>(shared + layout.inverses);

	const uint32_t row_items = in_dim / 8, items = rows * row_items, pads = layout.sums_stride - in_dim / 64;
	const auto load = [&](uint32_t item) {
		const uint32_t row = ROWS == 1 ? 0 : item / row_items, i = item - row * row_items;
		return load_eight(x + size_t(row) * in_dim + i * 8, w_norm ? w_norm + i * 8 : nullptr);
	};
	const auto survey = [&](uint32_t item, const Eight& e) {
		const uint32_t mask = 0xffu << (threadIdx.x & 24);
		const uint32_t row = ROWS == 1 ? 0 : item / row_items, i = item - row * row_items;
		const float total = sum_of_eight_lanes(sum(e), mask);
		const float square = w_norm ? sum_of_eight_lanes(e.squares, mask) : 0.0f;
		uint32_t bits = greatest(e);
#pragma unroll
		for (uint32_t d = 4; d; d /= 2) bits = max(bits, __shfl_xor_sync(mask, bits, d));
		if (threadIdx.x % 8 == 0) {
			const uint32_t at = row * layout.sums_stride + i / 8;
			sums[at] = total;
			squares[at] = square;
			greatests[at] = bits;
		}
	};
	// The first items stay in registers from the survey to the digits.
	Eight held[HELD];
	float* values = reinterpret_cast<float*>(shared);
	if constexpr (IN_PLACE) {
		static_assert(ROWS == 1 && F::STEP_DIGITS == F::STEP * 4);
		for (uint32_t item = team.rank; item < items; item += team.count) {
			copy16(values + item * 8, x + item * 8);
			copy16(values + item * 8 + 4, x + item * 8 + 4);
		}
		end_copies();
		wait_for_copies(false);
#pragma unroll 1
		for (uint32_t item = team.rank; item < items; item += team.count) survey(item, load_eight(values + item * 8));
	} else {
#pragma unroll
		for (uint32_t h = 0; h < HELD; h++)
			if (team.rank + h * team.count < items) held[h] = norm ? load_eight(x + (team.rank + h * team.count) * 8) : load(team.rank + h * team.count);
#pragma unroll
		for (uint32_t h = 0; h < HELD; h++)
			if (team.rank + h * team.count < items) {
				if (norm) weigh(held[h], norm->of[h]);
				survey(team.rank + h * team.count, held[h]);
			}
		for (uint32_t item = team.rank + HELD * team.count; item < items; item += team.count) survey(item, load(item));
	}
	for (uint32_t i = team.rank; i < rows * pads; i += team.count) sums[i / pads * layout.sums_stride + in_dim / 64 + i % pads] = 0.0f;
	team.meet();

	// A row's greatest value and its squares, by a warp.
	const float reciprocal = 1.0f / static_cast<float>(in_dim);
	const auto measure = [&](uint32_t row, int* exponent) {
		const uint32_t lane = threadIdx.x % WARP;
		uint32_t bits = 0;
		float square = 0.0f;
		for (uint32_t i = lane; i < in_dim / 64; i += WARP) {
			bits = max(bits, greatests[row * layout.sums_stride + i]);
			if (w_norm) square = __fadd_rn(square, squares[row * layout.sums_stride + i]);
		}
		bits = __reduce_max_sync(0xffffffff, bits);
		*exponent = fixed_exponent<F>(bits);
		float inverse = power_of_two(-*exponent - F::SHIFT);
		if (w_norm) {
#pragma unroll
			for (uint32_t d = WARP / 2; d; d /= 2) square = __fadd_rn(square, __shfl_xor_sync(0xffffffff, square, d));
			inverse = __fmul_rn(inverse, rsqrtf(__fmaf_rn(square, reciprocal, eps)));
		}
		if (bits >= 0x7f800000) inverse = __int_as_float(0x7fffffff);
		if (lane == 0) {
			units[row] = power_of_two(*exponent + F::SHIFT);
			inverses[row] = inverse;
		}
	};
	int exponent = 0;
	if (ROWS == 1) {
		measure(0, &exponent);
	} else {
		for (uint32_t row = team.rank / WARP; row < rows; row += team.count / WARP) measure(row, &exponent);
		team.meet();
	}
	const auto write = [&](uint32_t item, const Eight& e) {
		const uint32_t row = ROWS == 1 ? 0 : item / row_items, i = item - row * row_items;
		const float to_fixed = ROWS == 1 ? power_of_two(exponent) : __fmul_rn(units[row], 1.0f / (1 << F::SHIFT));
		write_digits<F>(e, to_fixed, shared + row * layout.digits_stride, i);
	};
	if constexpr (IN_PLACE) {
		// Eight lanes have a step.
#pragma unroll 1
		for (uint32_t item = team.rank; item < items; item += team.count) {
			const Eight e = load_eight(values + item * 8);
			__syncwarp();
			write(item, e);
		}
	} else {
#pragma unroll
		for (uint32_t h = 0; h < HELD; h++)
			if (team.rank + h * team.count < items) write(team.rank + h * team.count, held[h]);
		for (uint32_t item = team.rank + HELD * team.count; item < items; item += team.count) write(item, load(item));
	}
	return {shared, sums, units, inverses, layout.digits_stride, layout.sums_stride};
}

}  // namespace lw_cuda
