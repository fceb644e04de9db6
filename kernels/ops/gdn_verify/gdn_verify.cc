// o and d of gdn_step while the state stays as it is: a task takes its tile of the state through the rows in its scratch.
#include "kernels/shared/gdn_rows.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_verify) {
	const gdn_layout a = gdn_of<gdn_verify_args>(args_, slots);
	const uint32_t tiles = a.dim / GDN_TILE;
	float *s = static_cast<float*>(scratch), *d = static_cast<float*>(slots[gdn_verify_slot::d]);
	for (uint32_t task = begin; task < end; task++) {
		const uint32_t h = task / tiles, v0 = task % tiles * GDN_TILE;
		if (h >= a.v_heads) break;
		memcpy(s, a.state_row(h, v0), sizeof(float) * GDN_TILE * a.dim);
		gdn_tile(a, h, v0, s, a.rows, [&](uint32_t r) { return a.out(r, h) + v0; }, [&](uint32_t r) { return d + (a.out(r, h) - a.o) + v0; });
	}
}

}  // namespace LW_CPU_NAMESPACE
