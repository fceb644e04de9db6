// scales[r,g] = max|x| / 127 over 32 elements, codes = x / scale rounded to nearest even, sums = scale * sum(codes).
// split: inside each 64 codes the even elements come before the odd ones. One task quantises one row. A group with
// a NaN gets the scale NaN.
#include "kernels/shared/lanes.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

constexpr uint32_t GROUP = 32, VECTORS = GROUP / LANES;

// Adding 1.5 * 2^23 rounds to an integer, which the low bits of the sum hold.
static inline vi round_to_int(vf v) { return (vi)(v + 12582912.f) - 0x4b400000; }

// Codes of one group in element order; returns their sum.
static inline int quantise(const float* x, float* scale, int8_t* codes) {
	vf v[VECTORS], top = zero(), nan = zero();
	LW_UNROLL for (uint32_t i = 0; i < VECTORS; i++) {
		v[i] = load(x + i * LANES);
		top = max((vf)((vi)v[i] & 0x7fffffff), top);
		// 0 * x is NaN for a NaN (and for an infinity, whose scale would say the same).
		nan = nan + v[i] * 0.f;
	}
	const float s = (hmax(top) + sum(nan)) / 127.f;
	*scale = s;
	// A group of zeros, and NaN, get codes 0.
	const vf divisor = splat(s > 0 ? s : 1.f), limit = splat(127.f);
	int total = 0;
	LW_UNROLL for (uint32_t i = 0; i < VECTORS; i++) {
		vf q = s > 0 ? v[i] / divisor : zero();
		// Beyond 127 only where the scale is subnormal and so imprecise.
		q = min(max(q, -limit), limit);
		int32_t c[LANES];
		store_as(c, round_to_int(q));
		for (int l = 0; l < LANES; l++) {
			total += c[l];
			codes[i * LANES + l] = int8_t(c[l]);
		}
	}
	return total;
}

LW_CPU_KERNEL(quant_act8) {
	const auto& a = *static_cast<const quant_act8_args*>(args_);
	const auto* x = static_cast<const float*>(slots[quant_act8_slot::x]);
	auto* codes = static_cast<int8_t*>(slots[quant_act8_slot::codes]);
	auto* scales = static_cast<float*>(slots[quant_act8_slot::scales]);
	auto* sums = static_cast<float*>(slots[quant_act8_slot::sums]);
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		for (uint32_t g = 0; g < a.groups; g++) {
			const size_t at = size_t(r) * a.dim + size_t(g) * GROUP, group = size_t(r) * a.groups + g;
			int8_t c[GROUP];
			float scale;
			const int total = quantise(x + at, &scale, c);
			scales[group] = scale;
			sums[group] = scale * float(total);
			if (!a.split) {
				memcpy(codes + at, c, GROUP);
				continue;
			}
			int8_t* to = codes + size_t(r) * a.dim + g / 2 * 64 + g % 2 * 16;
			for (uint32_t i = 0; i < GROUP / 2; i++) {
				to[i] = c[2 * i];
				to[32 + i] = c[2 * i + 1];
			}
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
