// convState[i] = row n+i of u = convState ++ proj, n = min(step.committed, rows). One task takes CONV_TILE channels.
#include "kernels/shared/conv.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(conv_commit) {
	const auto& a = *static_cast<const conv_commit_args*>(args_);
	auto* state = static_cast<float*>(slots[conv_commit_slot::conv_state]);
	const uint32_t committed = static_cast<const uint32_t*>(slots[conv_commit_slot::step])[LW_STEP_COMMITTED];
	for (uint32_t task = begin; task < end && size_t(task) * CONV_TILE < a.channels; task++) {
		const ConvTile tile(state, static_cast<const float*>(slots[conv_commit_slot::proj]), a.channels, a.proj_stride, task);
		tile.keep(state + size_t(task) * CONV_TILE, committed < a.rows ? committed : a.rows);
	}
}

}  // namespace LW_CPU_NAMESPACE
