// w[o,i] = scale * code + bias with codes and scales hashed from seed and place, bit for bit as
// kernels/formats/random.ts makes them:
//   word(i) = mix(mix(i ^ lo) + hi): eight 4-bit or four 8-bit codes; r = word(g) of the scales' stream
//   scale = +-step * (0.75 + u / 2), u of 24 bits of r, + where its lowest bit is set; bias = -scale * top / 2
// One task makes one row.
#include "kernels/shared/weight_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

static inline uint32_t mix(uint32_t x) {
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ x >> 16;
}
static inline uint32_t word(uint32_t lo, uint32_t hi, uint32_t i) { return mix(mix(i ^ lo) + hi); }

constexpr uint32_t SCALE_STREAM = 0x5ca1ab1e;

template <class F>
static void random_affine(const random_affine_args& a, void* const* slots, uint32_t begin, uint32_t end) {
	typedef typename F::type S;
	auto* codes = static_cast<uint8_t*>(slots[random_affine_slot::w]);
	auto* scales = static_cast<uint8_t*>(slots[random_affine_slot::w_scales]);
	auto* biases = static_cast<uint8_t*>(slots[random_affine_slot::w_biases]);
	// Rows are whole words: even 16 codes of 4 bits are two.
	const size_t words = size_t(a.in_dim) * F::bits / 32, groups = a.in_dim / F::group;
	constexpr float MIDDLE = float((1 << F::bits) - 1) / 2;
	const uint32_t lo = a.seed_lo, hi = a.seed_hi;
	for (uint32_t o = begin; o < end && o < a.out; o++) {
		uint32_t made[64];
		for (size_t i = 0; i < words; i += 64) {
			const uint32_t first = uint32_t(o * words + i), n = uint32_t(words - i < 64 ? words - i : 64);
			for (uint32_t k = 0; k < 64; k++) made[k] = word(lo, hi, first + k);
			memcpy(codes + 4 * (o * words + i), made, n * 4);
		}
		for (size_t g = o * groups; g < (o + 1) * groups; g++) {
			const uint32_t r = word(lo, hi ^ SCALE_STREAM, uint32_t(g));
			const float size = a.step * (0.75f + float(r >> 8) * 0x1p-25f);
			const uint16_t scale = S::put(r & 1 ? size : -size);
			store_as(scales + 2 * g, scale);
			store_as(biases + 2 * g, S::put(-S::get(&scale) * MIDDLE));
		}
	}
}

#define LW_RANDOM(v) \
	LW_CPU_KERNEL(random_affine__##v) { \
		random_affine<format::v>(*static_cast<const random_affine_args*>(args_), slots, begin, end); \
	}
LW_VARIANTS_random_affine(LW_RANDOM)

}  // namespace LW_CPU_NAMESPACE
