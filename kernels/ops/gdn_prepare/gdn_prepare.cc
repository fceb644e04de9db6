// conv and convState as conv_silu makes them of proj, qk as gdn_qk_norm makes it of conv, beta and g as gdn_gates.
// Tasks: a head of q or k through all rows, convolution and norm; then CONV_TILE of the channels behind them; last the
// gates. Each channel has one task, which reads and writes its state. headDim is at most CONV_TILE.
#include "kernels/shared/conv.h"
#include "kernels/shared/gdn_head.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_prepare) {
	const auto& a = *static_cast<const gdn_prepare_args*>(args_);
	const auto at = [&](int slot) { return static_cast<float*>(slots[slot]); };
	const float* proj = at(gdn_prepare_slot::proj);
	float *state = at(gdn_prepare_slot::conv_state), *conv = at(gdn_prepare_slot::conv), *qk = at(gdn_prepare_slot::qk);
	const size_t n = a.head_dim, heads = size_t(2) * a.k_heads, values = a.channels - heads * n;
	const size_t tiles = (values + CONV_TILE - 1) / CONV_TILE;
	const auto convolve_channels = [&](size_t first, size_t count) {
		const ConvTile tile(state, proj, a.channels, a.proj_stride, first, count);
		tile.convolve_rows(at(gdn_prepare_slot::w) + first * TAPS, conv + first, a.rows);
		tile.keep(state + first, a.rows);
	};
	for (size_t task = begin; task < end && task < heads + tiles + 1; task++) {
		if (task < heads) {
			convolve_channels(task * n, n);
			const float factor = task < a.k_heads ? gdn_q_factor(a.head_dim) : 1.f;
			for (size_t r = 0; r < a.rows; r++) unit_length(qk + (r * heads + task) * n, conv + r * a.channels + task * n, a.head_dim, a.eps, factor);
		} else if (task < heads + tiles) {
			const size_t first = (task - heads) * CONV_TILE;
			convolve_channels(heads * n + first, values - first < CONV_TILE ? values - first : CONV_TILE);
		} else {
			for (size_t r = 0; r < a.rows; r++) {
				const float* p = proj + r * a.proj_stride;
				gdn_gates_of_row(p + a.b_col, p + a.a_col, at(gdn_prepare_slot::neg_a), at(gdn_prepare_slot::dt_bias), a.v_heads,
				                 at(gdn_prepare_slot::beta) + r * a.v_heads, at(gdn_prepare_slot::g) + r * a.v_heads);
			}
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
