// y[t,c] = silu(sum_j w[c,j] * u[t-3+j,c]); u is the 3 rows of convState followed by the first `channels`
// columns of proj, and convState becomes the last 3 rows of u. One task takes CONV_TILE channels through all
// rows, so it alone reads and writes their state.
#include "kernels/shared/conv.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(conv_silu) {
	const auto& a = *static_cast<const conv_silu_args*>(args_);
	auto* state = static_cast<float*>(slots[conv_silu_slot::conv_state]);
	for (uint32_t task = begin; task < end && size_t(task) * CONV_TILE < a.channels; task++) {
		const size_t c0 = size_t(task) * CONV_TILE;
		const ConvTile tile(state, static_cast<const float*>(slots[conv_silu_slot::proj]), a.channels, a.proj_stride, task);
		tile.convolve_rows(static_cast<const float*>(slots[conv_silu_slot::w]) + c0 * TAPS, static_cast<float*>(slots[conv_silu_slot::y]) + c0, a.channels, a.rows);
		tile.keep(state + c0, a.rows);
	}
}

}  // namespace LW_CPU_NAMESPACE
