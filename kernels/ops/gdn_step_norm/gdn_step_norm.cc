// y as gated_rms_norm makes it of the o of gdn_step. One task takes a head: its tiles through all rows, with o in y,
// where the norm then replaces it.
#include "kernels/shared/gdn_head.h"
#include "kernels/shared/gdn_rows.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(gdn_step_norm) {
	const auto& args = *static_cast<const gdn_step_norm_args*>(args_);
	const auto at = [&](int slot) { return static_cast<float*>(slots[slot]); };
	const gdn_layout a{at(gdn_step_norm_slot::qk), at(gdn_step_norm_slot::conv), at(gdn_step_norm_slot::g), at(gdn_step_norm_slot::beta), at(gdn_step_norm_slot::gdn_state), at(gdn_step_norm_slot::y),
	                   args.rows, args.k_heads, args.v_heads, args.head_dim, args.channels, args.head_map};
	for (uint32_t h = begin; h < end && h < a.v_heads; h++) {
		for (uint32_t v0 = 0; v0 < a.dim; v0 += GDN_TILE) gdn_tile(a, h, v0, a.state_row(h, v0), a.rows, [&](uint32_t r) { return a.out(r, h) + v0; });
		for (uint32_t r = 0; r < a.rows; r++) {
			const float* z = at(gdn_step_norm_slot::proj) + size_t(r) * args.proj_stride + args.z_col + size_t(h) * a.dim;
			gated_norm(a.out(r, h), a.out(r, h), at(gdn_step_norm_slot::w), z, a.dim, args.eps);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
