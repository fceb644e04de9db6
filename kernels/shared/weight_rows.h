// Walks rows of stored weights, a few at a time, against activation rows that stay the same. Owns where a weight
// row lies and what the formats' names mean; the arithmetic is a "dot" of dot_dense.h, dot_affine.h or dot_act8.h:
//   row_bytes(), scale_bytes()   bytes of one weight row: values or codes, and its scales (or biases)
//   prepared_bytes()             scratch for one activation row in the order in which weight codes come out
//   prepare(x, to)               fills it
//   dot<O, R>(rows, ahead, x, stride, out)   out[o * R + r] = rows[o] . x[r] for O rows and R activations, O * R a
//                                multiple of 4; the bits of each depend on its own row and activation alone.
//                                Prefetches as many bytes of values from `ahead` on
#pragma once
#include <type_traits>

#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

// Weight rows that one dot takes at once, and that one task multiplies (ROWS_PER_TASK in concatenation.ts).
constexpr uint32_t TILE_ROWS = 4;
constexpr uint32_t ROWS_PER_TASK = 32;
// Activation rows that a dot takes at most, and the weight rows that it takes with them: R * O sums fill registers.
constexpr uint32_t WIDEST_DOT = 4;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr uint32_t WIDEST_DOT_ROWS = TILE_ROWS;
#else
constexpr uint32_t WIDEST_DOT_ROWS = TILE_ROWS / 2;
#endif

struct WeightRow {
	const uint8_t *values, *scales, *biases;

	template <class D> WeightRow at(const D& d, size_t row) const {
		return {values + row * d.row_bytes(), scales + row * d.scale_bytes(), biases + row * d.scale_bytes()};
	}
};

// The first row of a weight from its three slots; a dense one has no scales.
static inline WeightRow first_row(void* const* slots) {
	return {static_cast<const uint8_t*>(slots[0]), static_cast<const uint8_t*>(slots[1]),
	        static_cast<const uint8_t*>(slots[2])};
}

// How far ahead of the reads weights are prefetched. They are so in the order of addresses, which neighbouring rows
// share, while a tile reads its rows side by side: hardware prefetchers then see one long stream.
constexpr size_t PREFETCH_BYTES = 8192;

// put(o, r, row_at(o) . x[r]) for o in [begin, end) and r < rows; x: rows prepared activations. `after` is the row
// where the caller goes on reading. MOST: no more rows than this (1, or any number).
template <uint32_t MOST, class D, class RowAt, class Put>
static inline void multiply_rows(const D& d, const char* x, uint32_t rows, uint32_t begin, uint32_t end, RowAt row_at,
                                 WeightRow after, Put put) {
	const size_t stride = d.prepared_bytes(), tile_bytes = TILE_ROWS * d.row_bytes();
	const uint32_t lead = uint32_t((PREFETCH_BYTES + tile_bytes - 1) / tile_bytes) * TILE_ROWS;
	for (uint32_t o = begin; o < end; o += TILE_ROWS) {
		const uint32_t n = end - o < TILE_ROWS ? end - o : TILE_ROWS;
		WeightRow tile[TILE_ROWS];
		// Behind the last row the tile repeats it.
		for (uint32_t i = 0; i < TILE_ROWS; i++) tile[i] = row_at(o + (i < n ? i : n - 1));
		const WeightRow ahead = o + lead < end ? row_at(o + lead) : after.at(d, o + lead - end);
		for (size_t i = 0; i < TILE_ROWS * d.scale_bytes(); i += 64) {
			__builtin_prefetch(ahead.scales + i);
			__builtin_prefetch(ahead.biases + i);
		}
		uint32_t r = 0;
		const auto step = [&](auto width) {
			constexpr uint32_t R = decltype(width)::value, O = R == WIDEST_DOT ? WIDEST_DOT_ROWS : TILE_ROWS;
			float out[TILE_ROWS * R];
			for (uint32_t i = 0; i < TILE_ROWS; i += O)
				d.template dot<O, R>(tile + i, ahead.values + i * d.row_bytes(), x + r * stride, stride, out + i * R);
			for (uint32_t i = 0; i < n; i++)
				for (uint32_t k = 0; k < R; k++) put(o + i, r + k, out[i * R + k]);
			r += R;
		};
		if (MOST > 1) {
			while (rows - r >= WIDEST_DOT) step(std::integral_constant<uint32_t, MOST == 1 ? 1 : WIDEST_DOT>());
			if (rows - r >= 2) step(std::integral_constant<uint32_t, MOST == 1 ? 1 : 2>());
		}
		if (rows - r >= 1) step(std::integral_constant<uint32_t, 1>());
	}
}

// ---- the formats by the names that kernels carry ----
template <class T> struct DenseFormat {
	static constexpr uint32_t bits = 0, group = 1;
	typedef T type;
};
template <uint32_t BITS, uint32_t GROUP, class S> struct AffineFormat {
	static constexpr uint32_t bits = BITS, group = GROUP;
	typedef S type;
};
namespace format {
typedef DenseFormat<F32> f32;
typedef DenseFormat<F16> f16;
typedef DenseFormat<BF16> bf16;
#define LW_FORMATS(bits, group) \
	typedef AffineFormat<bits, group, F16> q##bits##g##group##_f16; \
	typedef AffineFormat<bits, group, BF16> q##bits##g##group##_bf16;
LW_FORMATS(4, 16) LW_FORMATS(4, 32) LW_FORMATS(4, 64) LW_FORMATS(4, 128)
LW_FORMATS(8, 16) LW_FORMATS(8, 32) LW_FORMATS(8, 64) LW_FORMATS(8, 128)
#undef LW_FORMATS
}  // namespace format

}  // namespace LW_CPU_NAMESPACE
