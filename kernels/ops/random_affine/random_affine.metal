// w[o,i] = scale * code + bias with codes and scales hashed from seed and place, bit for bit as
// kernels/formats/random.ts makes them:
//   word(i) = mix(mix(i ^ lo) + hi): eight 4-bit or four 8-bit codes; r = word(g) of the scales' stream
//   scale = +-step * (0.75 + u / 2), u of 24 bits of r, + where its lowest bit is set; bias = -scale * top / 2
// A threadgroup makes one row. No threadgroup memory.
#include "kernels/shared/metal/formats.h"

constant constexpr uint SCALE_STREAM = 0x5ca1ab1e;

inline uint mix_bits(uint x) {
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x *= 0x846ca68bu;
	return x ^ (x >> 16);
}
inline uint hashed(uint lo, uint hi, uint i) { return mix_bits(mix_bits(i ^ lo) + hi); }

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_random_affine)]]
void random_affine(device uint* w [[buffer(0)]],
                   device typename F::type* w_scales [[buffer(1)]],
                   device typename F::type* w_biases [[buffer(2)]],
                   constant random_affine_args& a [[buffer(24)]],
                   uint3 tg [[threadgroup_position_in_grid]],
                   uint tid [[thread_index_in_threadgroup]]) {
	typedef typename F::type S;
	const uint o = tg.x;
	if (o >= a.out) return;
	// Rows are whole words: even 16 codes of 4 bits are two. The hash takes a place modulo 2^32.
	const uint words = a.in_dim / 8 * F::bits / 4, groups = a.in_dim / F::group;
	device uint* row = w + size_t(o) * words;
	for (uint i = tid; i < words; i += LW_THREADS_random_affine) row[i] = hashed(a.seed_lo, a.seed_hi, o * words + i);
	for (uint g = tid; g < groups; g += LW_THREADS_random_affine) {
		const uint r = hashed(a.seed_lo, a.seed_hi ^ SCALE_STREAM, o * groups + g);
		// 2^-25 of 24 bits is exact.
		const float size = a.step * (0.75f + float(r >> 8) * (1.0f / 33554432.0f));
		const S scale = S((r & 1) != 0 ? size : -size);
		w_scales[size_t(o) * groups + g] = scale;
		w_biases[size_t(o) * groups + g] = S(-float(scale) * (float((1u << F::bits) - 1) / 2.0f));
	}
}

#define X(v) LW_KERNEL(random_affine__##v, random_affine<format::v>)
LW_VARIANTS_random_affine(X)
