// y of conv_silu while convState stays as it is. One task takes CONV_TILE channels through all rows.
#include "kernels/shared/conv.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(conv_verify) {
	const auto& a = *static_cast<const conv_verify_args*>(args_);
	for (uint32_t task = begin; task < end && size_t(task) * CONV_TILE < a.channels; task++) {
		const size_t c0 = size_t(task) * CONV_TILE;
		const ConvTile tile(static_cast<const float*>(slots[conv_verify_slot::conv_state]), static_cast<const float*>(slots[conv_verify_slot::proj]), a.channels, a.proj_stride, task);
		tile.convolve_rows(static_cast<const float*>(slots[conv_verify_slot::w]) + c0 * TAPS, static_cast<float*>(slots[conv_verify_slot::y]) + c0, a.channels, a.rows);
	}
}

}  // namespace LW_CPU_NAMESPACE
