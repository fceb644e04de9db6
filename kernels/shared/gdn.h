// What gdn_step and gdn_chunk share: where the vectors of a row and a value head lie, and which key head
// serves a value head. Owns no arithmetic.
#pragma once
#include "kernels/shared/vec.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

constexpr uint32_t GDN_DIM_MAX = 256;

struct gdn_layout {
	const float *qk, *conv, *g, *beta;
	float *state, *o;
	uint32_t rows, k_heads, v_heads, dim, channels, head_map;

	uint32_t key_head(uint32_t h) const { return head_map == 1 ? h % k_heads : h / (v_heads / k_heads); }
	const float* q(size_t r, uint32_t key_head) const { return qk + (2 * r * k_heads + key_head) * dim; }
	const float* k(size_t r, uint32_t key_head) const { return qk + ((2 * r + 1) * k_heads + key_head) * dim; }
	const float* v(size_t r, uint32_t h) const { return conv + r * channels + (size_t(2) * k_heads + h) * dim; }
	size_t gate(size_t r, uint32_t h) const { return r * v_heads + h; }
	float* out(size_t r, uint32_t h) const { return o + (r * v_heads + h) * dim; }
	// Row v of the state of head h: its dim keys.
	float* state_row(uint32_t h, uint32_t v) const { return state + (size_t(h) * dim + v) * dim; }
};

// The argument structs and slots of these ops are alike because kernels/shared/gdn.ts declares them once.
static_assert(sizeof(gdn_step_args) == sizeof(gdn_chunk_args) && int(gdn_step_slot::o) == int(gdn_chunk_slot::o), "gdn_step and gdn_chunk must take the same tensors");
static_assert(sizeof(gdn_step_args) == sizeof(gdn_verify_args) && int(gdn_step_slot::o) == int(gdn_verify_slot::o), "and gdn_verify too");
template <class Args> static inline gdn_layout gdn_of(const void* args, void* const* slots) {
	const auto& a = *static_cast<const Args*>(args);
	auto at = [&](int slot) { return static_cast<float*>(slots[slot]); };
	return {at(gdn_step_slot::qk), at(gdn_step_slot::conv), at(gdn_step_slot::g), at(gdn_step_slot::beta), at(gdn_step_slot::gdn_state), at(gdn_step_slot::o),
		a.rows, a.k_heads, a.v_heads, a.head_dim, a.channels, a.head_map};
}

}  // namespace LW_CPU_NAMESPACE
