// convState[l] and gdnState[l] as conv_silu and gdn_step leave them after the first n = min(step.committed, rows) rows of
// layer l. A task takes a tile of one head of one layer, and a tile of its channels where there are as many.
#include "kernels/shared/conv.h"
#include "kernels/shared/gdn_rows.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_commit) {
	const auto& a = *static_cast<const gdn_commit_args*>(args_);
	const auto at = [&](int slot) { return static_cast<float*>(slots[slot]); };
	const uint32_t committed = static_cast<const uint32_t*>(slots[gdn_commit_slot::step])[LW_STEP_COMMITTED];
	const uint32_t n = committed < a.rows ? committed : a.rows, tiles = a.head_dim / GDN_TILE, tasks = a.v_heads * tiles;
	for (uint32_t task = begin; task < end && task / tasks < a.layers; task++) {
		const size_t layer = task / tasks, first = layer * a.rows;
		const uint32_t mine = task % tasks, h = mine / tiles, v0 = mine % tiles * GDN_TILE;
		const gdn_layout rows{at(gdn_commit_slot::qk) + first * 2 * a.k_heads * a.head_dim, nullptr, at(gdn_commit_slot::g) + first * a.v_heads, nullptr,
		                      at(gdn_commit_slot::gdn_state) + layer * a.v_heads * a.head_dim * a.head_dim, nullptr,
		                      a.rows, a.k_heads, a.v_heads, a.head_dim, a.channels, a.head_map};
		const float* d = at(gdn_commit_slot::d) + (first * a.v_heads + h) * a.head_dim + v0;
		gdn_apply(rows, h, rows.state_row(h, v0), n, [&](uint32_t r) { return d + size_t(r) * a.v_heads * a.head_dim; });
		const float* proj = at(gdn_commit_slot::proj) + first * a.proj_stride;
		float* past = at(gdn_commit_slot::conv_state) + layer * PAST * a.channels;
		for (size_t tile = mine; tile * CONV_TILE < a.channels; tile += tasks) ConvTile(past, proj, a.channels, a.proj_stride, tile).keep(past + tile * CONV_TILE, n);
	}
}

}  // namespace LW_CPU_NAMESPACE
