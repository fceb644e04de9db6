// gdnState as gdn_step leaves it after the first min(step.committed, rows) rows; what they read is not kept.
#include "kernels/shared/gdn_rows.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_commit) {
	const auto& args = *static_cast<const gdn_commit_args*>(args_);
	const auto at = [&](int slot) { return static_cast<float*>(slots[slot]); };
	const uint32_t committed = static_cast<const uint32_t*>(slots[gdn_commit_slot::step])[LW_STEP_COMMITTED];
	const gdn_layout a{at(gdn_commit_slot::qk), at(gdn_commit_slot::conv), at(gdn_commit_slot::g), at(gdn_commit_slot::beta), at(gdn_commit_slot::gdn_state), nullptr,
	                   args.rows, args.k_heads, args.v_heads, args.head_dim, args.channels, args.head_map};
	const uint32_t rows = committed < a.rows ? committed : a.rows, tiles = a.dim / GDN_TILE;
	float* read = static_cast<float*>(scratch);
	for (uint32_t task = begin; task < end; task++) {
		const uint32_t h = task / tiles, v0 = task % tiles * GDN_TILE;
		if (h >= a.v_heads) break;
		gdn_tile(a, h, v0, a.state_row(h, v0), rows, [&](uint32_t) { return read; });
	}
}

}  // namespace LW_CPU_NAMESPACE
