// The causal depthwise convolution of conv_silu, which conv_verify must repeat bit by bit, and its state.
#pragma once
#include "kernels/shared/vec.h"

namespace LW_CPU_NAMESPACE {

// Channels that a task takes; the ops count tasks by it.
constexpr uint32_t CONV_TILE = 256;
constexpr uint32_t TAPS = 4, PAST = 3;

// taps[j][c] = w[c][j] for n channels.
static inline void split_taps(float (&taps)[TAPS][CONV_TILE], const float* w, uint32_t n) {
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

static inline vf convolve(const float (&taps)[TAPS][CONV_TILE], uint32_t c, vf u0, vf u1, vf u2, vf u3) {
	vf y = load(taps[0] + c) * u0;
	y = fma(load(taps[1] + c), u1, y);
	y = fma(load(taps[2] + c), u2, y);
	return silu(fma(load(taps[3] + c), u3, y));
}

// u is the PAST rows of the state followed by rows of proj; the channels of one task, at most CONV_TILE.
struct ConvTile {
	const float *state, *proj;
	size_t channels, proj_stride;
	uint32_t n;  // channels of this tile

	ConvTile(const float* state_, const float* proj_, size_t channels_, size_t stride, size_t first, size_t count)
	    : state(state_ + first), proj(proj_ + first), channels(channels_), proj_stride(stride), n(uint32_t(count)) {}
	// Tile number `tile` of all channels.
	ConvTile(const float* state_, const float* proj_, size_t channels_, size_t stride, size_t tile)
	    : ConvTile(state_, proj_, channels_, stride, tile * CONV_TILE, channels_ - tile * CONV_TILE < CONV_TILE ? channels_ - tile * CONV_TILE : CONV_TILE) {}
	const float* row(size_t i) const { return i < PAST ? state + i * channels : proj + (i - PAST) * proj_stride; }

	// y[t,c] = silu(sum_j w[c,j] * u[t+j,c]); w and y begin at this tile, and rows of y are y_stride apart.
	void convolve_rows(const float* w, float* y, size_t y_stride, uint32_t rows) const {
		float taps[TAPS][CONV_TILE] = {};
		split_taps(taps, w, n);
		for (size_t t = 0; t < rows; t++) {
			const float *u0 = row(t), *u1 = row(t + 1), *u2 = row(t + 2), *u3 = row(t + 3);
			float* out = y + t * y_stride;
			uint32_t c = 0;
			for (; c + LANES <= n; c += LANES) store(out + c, convolve(taps, c, load(u0 + c), load(u1 + c), load(u2 + c), load(u3 + c)));
			if (c < n) {
				int left = int(n - c);
				store_n(out + c, convolve(taps, c, load_n(u0 + c, left), load_n(u1 + c, left), load_n(u2 + c, left), load_n(u3 + c, left)), left);
			}
		}
	}
	// The state becomes rows n, n+1, ... of u. Ascending, so that an old row is moved before it is overwritten.
	void keep(float* to, size_t first) const {
		for (size_t i = 0; i < PAST; i++)
			if (first + i != i) memmove(to + i * channels, row(first + i), n * sizeof(float));
	}
};

}  // namespace LW_CPU_NAMESPACE
