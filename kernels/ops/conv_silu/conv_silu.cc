// y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]); u is the 3 rows of convState followed by the first `channels`
// columns of proj, and convState becomes the last 3 rows of u. One task takes TILE channels through all
// rows, so it alone reads and writes their state.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t TILE = 256;  // op.ts counts tasks by it
constexpr uint32_t TAPS = 4, PAST = 3;

// taps[j][c] = w[c][j] for n channels.
inline void split_taps(float (&taps)[TAPS][TILE], const float* w, uint32_t n) {
	uint32_t c = 0;
	for (; c + LANES <= n; c += LANES) {
		const float* p = w + size_t(c) * TAPS;
		vf a = load(p), b = load(p + LANES), d = load(p + 2 * LANES), e = load(p + 3 * LANES);
		vf even0 = evens(a, b), even1 = evens(d, e), odd0 = odds(a, b), odd1 = odds(d, e);
		store(taps[0] + c, evens(even0, even1));
		store(taps[1] + c, evens(odd0, odd1));
		store(taps[2] + c, odds(even0, even1));
		store(taps[3] + c, odds(odd0, odd1));
	}
	for (; c < n; c++)
		for (uint32_t j = 0; j < TAPS; j++) taps[j][c] = load_as<float>(w + size_t(c) * TAPS + j);
}

inline vf convolve(const float (&taps)[TAPS][TILE], uint32_t c, vf u0, vf u1, vf u2, vf u3) {
	vf y = load(taps[0] + c) * u0;
	y = fma(load(taps[1] + c), u1, y);
	y = fma(load(taps[2] + c), u2, y);
	return silu(fma(load(taps[3] + c), u3, y));
}

}  // namespace

LW_CPU_KERNEL(conv_silu) {
	const auto& a = *static_cast<const conv_silu_args*>(args_);
	const auto* proj = static_cast<const float*>(slots[conv_silu_slot::proj]);
	const auto* w = static_cast<const float*>(slots[conv_silu_slot::w]);
	auto* state = static_cast<float*>(slots[conv_silu_slot::conv_state]);
	auto* y = static_cast<float*>(slots[conv_silu_slot::y]);
	const size_t channels = a.channels;
	float taps[TAPS][TILE] = {};
	for (uint32_t task = begin; task < end && size_t(task) * TILE < channels; task++) {
		const size_t c0 = size_t(task) * TILE;
		const uint32_t n = uint32_t(channels - c0 < TILE ? channels - c0 : TILE);
		split_taps(taps, w + c0 * TAPS, n);
		// Row i of u at these channels; rows 0..2 are the state.
		auto row = [&](size_t i) -> const float* { return i < PAST ? state + i * channels + c0 : proj + (i - PAST) * a.proj_stride + c0; };
		for (size_t t = 0; t < a.rows; t++) {
			const float *u0 = row(t), *u1 = row(t + 1), *u2 = row(t + 2), *u3 = row(t + 3);
			float* out = y + t * channels + c0;
			uint32_t c = 0;
			for (; c + LANES <= n; c += LANES) store(out + c, convolve(taps, c, load(u0 + c), load(u1 + c), load(u2 + c), load(u3 + c)));
			if (c < n) {
				int left = int(n - c);
				store_n(out + c, convolve(taps, c, load_n(u0 + c, left), load_n(u1 + c, left), load_n(u2 + c, left), load_n(u3 + c, left)), left);
			}
		}
		// Ascending, so that with fewer than 3 rows an old row is moved before it is overwritten.
		for (size_t i = 0; i < PAST; i++) memcpy(state + i * channels + c0, row(a.rows + i), n * sizeof(float));
	}
}

}  // namespace LW_CPU_NAMESPACE
