// w[o,i] = scale * code + bias per group of x[o,i], by MLX's rule (packAffine in kernels/formats/affine.ts), in f32:
//   step = max((high - low) / top, 1e-7), negative unless |low| > |high|; edge = the end with the larger magnitude;
//   c = round(edge / step); c != 0: step = edge / c, bias = edge; else bias = 0; code = round((x - bias) / step).
// Values are first rounded to the scale type; codes are found with the step before its own rounding.
// One task quantises one row.
#include "kernels/shared/weight_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class S> static inline float rounded(float v) {
	const uint16_t h = S::put(v);
	return S::get(&h);
}

// Codes, one to a byte, of n values that S holds exactly.
template <uint32_t BITS, class S>
static void quantise_group(const float* x, uint32_t n, uint8_t* codes, uint8_t* scale, uint8_t* bias) {
	constexpr float TOP = (1 << BITS) - 1;
	float low = x[0], high = x[0];
	for (uint32_t i = 1; i < n; i++) {
		low = x[i] < low ? x[i] : low;
		high = x[i] > high ? x[i] : high;
	}
	const bool low_edge = std::fabs(low) > std::fabs(high);
	const float width = (high - low) / TOP, least = 1e-7f;
	float step = width > least ? width : least;
	if (!low_edge) step = -step;
	const float edge = low_edge ? low : high, c = std::nearbyint(edge / step);
	if (c != 0) step = edge / c;
	const float b = c != 0 ? edge : 0;
	for (uint32_t i = 0; i < n; i++) {
		float q = (x[i] - b) / step;
		// The comparisons turn NaN into 0. Adding 1.5 * 2^23 rounds to an integer, ties to even.
		q = q > 0 ? q : 0;
		q = q < TOP ? q : TOP;
		q += 12582912.f;
		uint32_t u;
		memcpy(&u, &q, 4);
		codes[i] = uint8_t(u);
	}
	store_as(scale, S::put(step));
	store_as(bias, S::put(b));
}

template <class X, class F>
static void quantize_affine(const quantize_affine_args& a, void* const* slots, uint32_t begin, uint32_t end) {
	typedef typename F::type S;
	typedef typename X::storage E;
	const auto* x = static_cast<const E*>(slots[quantize_affine_slot::x]);
	auto* codes = static_cast<uint8_t*>(slots[quantize_affine_slot::w]);
	auto* scales = static_cast<uint8_t*>(slots[quantize_affine_slot::w_scales]);
	auto* biases = static_cast<uint8_t*>(slots[quantize_affine_slot::w_biases]);
	const size_t groups = a.in_dim / F::group;
	for (uint32_t o = begin; o < end && o < a.out; o++) {
		for (size_t g = o * groups; g < (o + 1) * groups; g++) {
			float v[F::group];
			uint8_t c[F::group];
			for (uint32_t i = 0; i < F::group; i++) v[i] = rounded<S>(X::get(x + g * F::group + i));
			quantise_group<F::bits, S>(v, F::group, c, scales + 2 * g, biases + 2 * g);
			uint8_t* to = codes + g * F::group * F::bits / 8;
			if (F::bits == 8) memcpy(to, c, F::group);
			else
				for (uint32_t i = 0; i < F::group / 2; i++) to[i] = uint8_t(c[2 * i] | c[2 * i + 1] << 4);
		}
	}
}

// The variant's name is the type of x, then the format of w.
#define LW_FROM(X, x) \
	LW_TO(X, x, q4g16_f16) LW_TO(X, x, q4g16_bf16) LW_TO(X, x, q4g32_f16) LW_TO(X, x, q4g32_bf16) \
	LW_TO(X, x, q4g64_f16) LW_TO(X, x, q4g64_bf16) LW_TO(X, x, q4g128_f16) LW_TO(X, x, q4g128_bf16) \
	LW_TO(X, x, q8g16_f16) LW_TO(X, x, q8g16_bf16) LW_TO(X, x, q8g32_f16) LW_TO(X, x, q8g32_bf16) \
	LW_TO(X, x, q8g64_f16) LW_TO(X, x, q8g64_bf16) LW_TO(X, x, q8g128_f16) LW_TO(X, x, q8g128_bf16)
#define LW_TO(X, x, v) \
	LW_CPU_KERNEL(quantize_affine__##x##_##v) { \
		quantize_affine<X, format::v>(*static_cast<const quantize_affine_args*>(args_), slots, begin, end); \
	}
LW_FROM(F32, f32)
LW_FROM(F16, f16)
LW_FROM(BF16, bf16)

}  // namespace LW_CPU_NAMESPACE
