// y as gated_rms_norm makes it of the o of gdn_step, which takes what conv_silu, gdn_gates and gdn_qk_norm make of proj.
// One task takes a key head: its channels of q and k through all rows, then each of its value heads as gdn_step has them,
// with o in y, where the norm then replaces it. Each channel has one task, which reads and writes its state.
// headDim is at most CONV_TILE.
#include "kernels/shared/conv.h"
#include "kernels/shared/gdn_head.h"
#include "kernels/shared/gdn_rows.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t ROWS_MAX = 16;
static_assert(GDN_DIM_MAX <= CONV_TILE, "a head's channels are one tile");

// Of one key head and one of its value heads.
struct head_rows {
	float conv[ROWS_MAX * 3 * GDN_DIM_MAX];  // [r][q, k, v][dim]
	float qk[ROWS_MAX * 2 * GDN_DIM_MAX];    // [r][q, k][dim]
	float g[ROWS_MAX], beta[ROWS_MAX];
};
static_assert(sizeof(head_rows) <= LW_THREAD_SCRATCH_BYTES, "the rows of a head must fit a thread's scratch");

}  // namespace

LW_CPU_KERNEL(gdn_decode) {
	const auto& a = *static_cast<const gdn_decode_args*>(args_);
	const auto at = [&](int slot) { return static_cast<float*>(slots[slot]); };
	const float *proj = at(gdn_decode_slot::proj), *w = at(gdn_decode_slot::w);
	float *conv_state = at(gdn_decode_slot::conv_state), *y = at(gdn_decode_slot::y);
	auto& of = *static_cast<head_rows*>(scratch);
	const uint32_t n = a.head_dim, v_heads = a.v_heads / a.k_heads;
	// Head `head` of the channels, to part `part` of the rows.
	const auto convolve_head = [&](size_t head, uint32_t part) {
		const ConvTile tile(conv_state, proj, a.channels, a.proj_stride, head * n, n);
		tile.convolve_rows(w + head * n * TAPS, of.conv + part * n, 3 * n, a.rows);
		tile.keep(conv_state + head * n, a.rows);
	};
	for (uint32_t key_head = begin; key_head < end && key_head < a.k_heads; key_head++) {
		for (uint32_t part = 0; part < 2; part++) {
			convolve_head(part * a.k_heads + key_head, part);
			const float factor = part == 0 ? gdn_q_factor(n) : 1.f;
			for (uint32_t r = 0; r < a.rows; r++) unit_length(of.qk + (2 * r + part) * n, of.conv + (3 * r + part) * n, n, a.qk_eps, factor);
		}
		for (uint32_t i = 0; i < v_heads; i++) {
			const uint32_t h = a.head_map == 1 ? i * a.k_heads + key_head : key_head * v_heads + i;
			convolve_head(size_t(2) * a.k_heads + h, 2);
			const auto row_of = [&](uint32_t r) { return proj + size_t(r) * a.proj_stride; };
			const auto out = [&](uint32_t r) { return y + (size_t(r) * a.v_heads + h) * n; };
			for (uint32_t r = 0; r < a.rows; r++)
				gdn_gates_of_row(row_of(r) + a.b_col + h, row_of(r) + a.a_col + h, at(gdn_decode_slot::neg_a) + h, at(gdn_decode_slot::dt_bias) + h, 1, of.beta + r, of.g + r);
			const gdn_layout head{of.qk, of.conv, of.g, of.beta, at(gdn_decode_slot::gdn_state) + size_t(h) * n * n, nullptr, a.rows, 1, 1, n, 3 * n, 0};
			for (uint32_t v0 = 0; v0 < n; v0 += GDN_TILE) gdn_tile(head, 0, v0, head.state_row(0, v0), a.rows, [&](uint32_t r) { return out(r) + v0; });
			for (uint32_t r = 0; r < a.rows; r++) gated_norm(out(r), out(r), at(gdn_decode_slot::w_norm), row_of(r) + a.z_col + size_t(h) * n, n, a.eps);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
