// For each row r in order, with S = gdnState[h] ([v][k]), q and k of the value head's key head:
// S *= exp(g[r,h]); d = beta[r,h] * (v - S k); S += d k^T; o[r,h] = S q.
// The v rows of S are independent: one task takes GDN_TILE of them through all rows, so each is read from and
// written to memory once, and a row gets the bits that it gets alone.
#include "kernels/shared/gdn_rows.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_step) {
	const gdn_layout a = gdn_of<gdn_step_args>(args_, slots);
	const uint32_t tiles = a.dim / GDN_TILE;
	for (uint32_t task = begin; task < end; task++) {
		const uint32_t h = task / tiles, v0 = task % tiles * GDN_TILE;
		if (h >= a.v_heads) break;
		gdn_tile(a, h, v0, a.state_row(h, v0), a.rows, [&](uint32_t r) { return a.out(r, h) + v0; });
	}
}

}  // namespace LW_CPU_NAMESPACE
