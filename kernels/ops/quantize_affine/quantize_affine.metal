// w[o,i] = scale * code + bias per group of x[o,i], by MLX's rule (packAffine in kernels/formats/affine.ts), in f32:
//   step = max((high - low) / top, 1e-7), negative unless |low| > |high|; edge = the end with the larger magnitude;
//   c = round(edge / step); c != 0: step = edge / c, bias = edge; else bias = 0; code = round((x - bias) / step).
// Values are first rounded to the scale type; codes are found with the step before its own rounding. Divisions must
// round correctly: this file is not for fast arithmetic.
// A threadgroup does one row, each thread VALUES adjacent values of it at a time; the threads of a group are
// neighbours in one simdgroup. No threadgroup memory.
#include "kernels/shared/metal/formats.h"

constant constexpr uint VALUES = 8;

// The lowest, and the highest, of v over GROUP / VALUES lanes.
template <uint GROUP>
inline float group_min(float v) {
	for (uint d = GROUP / VALUES / 2; d > 0; d /= 2) {
		const float other = simd_shuffle_xor(v, ushort(d));
		v = other < v ? other : v;
	}
	return v;
}
template <uint GROUP>
inline float group_max(float v) {
	for (uint d = GROUP / VALUES / 2; d > 0; d /= 2) {
		const float other = simd_shuffle_xor(v, ushort(d));
		v = other > v ? other : v;
	}
	return v;
}

template <typename E, typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_quantize_affine)]]
void quantize_affine(device const E* x [[buffer(0)]],
                     device uint* w [[buffer(1)]],
                     device typename F::type* w_scales [[buffer(2)]],
                     device typename F::type* w_biases [[buffer(3)]],
                     constant quantize_affine_args& a [[buffer(24)]],
                     uint3 tg [[threadgroup_position_in_grid]],
                     uint tid [[thread_index_in_threadgroup]]) {
	typedef typename F::type S;
	constexpr float TOP = float((1u << F::bits) - 1);
	constexpr uint IN_WORD = 32 / F::bits;
	const uint o = tg.x;
	if (o >= a.out) return;
	for (uint first = 0; first < a.in_dim; first += LW_THREADS_quantize_affine * VALUES) {
		// Threads behind the row's end take part in the collectives with zeros; groups are whole.
		const uint i = first + tid * VALUES;
		const size_t at = size_t(o) * a.in_dim + i;
		float v[VALUES];
		for (uint j = 0; j < VALUES; j++) v[j] = i < a.in_dim ? float(S(float(x[at + j]))) : 0.0f;
		float low = v[0], high = v[0];
		for (uint j = 1; j < VALUES; j++) {
			low = v[j] < low ? v[j] : low;
			high = v[j] > high ? v[j] : high;
		}
		low = group_min<F::group>(low);
		high = group_max<F::group>(high);

		const bool low_edge = fabs(low) > fabs(high);
		const float width = (high - low) / TOP, least = 1e-7f;
		float step = width > least ? width : least;
		if (!low_edge) step = -step;
		const float edge = low_edge ? low : high, c = rint(edge / step);
		if (c != 0.0f) step = edge / c;
		const float bias = c != 0.0f ? edge : 0.0f;
		if (i < a.in_dim) {
			uint words[VALUES / IN_WORD] = {};
			for (uint j = 0; j < VALUES; j++) {
				float q = (v[j] - bias) / step;
				// The comparisons turn NaN into 0.
				q = q > 0.0f ? q : 0.0f;
				q = q < TOP ? q : TOP;
				words[j / IN_WORD] |= uint(rint(q)) << j % IN_WORD * F::bits;
			}
			for (uint j = 0; j < VALUES / IN_WORD; j++) w[at / IN_WORD + j] = words[j];
			if (i % F::group == 0) {
				w_scales[at / F::group] = S(step);
				w_biases[at / F::group] = S(bias);
			}
		}
	}
}

// The variant's name is the type of x, then the format of w.
template <typename E, typename F>
struct Quantization {
	typedef E from;
	typedef F to;
};
namespace quantization {
#define X(name, bits, group, type) \
	typedef Quantization<float, format::name> f32_##name; \
	typedef Quantization<half, format::name> f16_##name; \
	typedef Quantization<bfloat, format::name> bf16_##name;
LW_WEIGHT_FORMATS(X)
#undef X
}  // namespace quantization

#define X(v) LW_KERNEL(quantize_affine__##v, quantize_affine<quantization::v::from, quantization::v::to>)
LW_VARIANTS_quantize_affine(X)
