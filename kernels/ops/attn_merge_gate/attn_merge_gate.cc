// o as attn_merge makes it, gated as attn_gate does. One task does one row and head.
// qkv rows hold the queries and gates of all heads (a constraint of the op).
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(attn_merge_gate) {
	const auto& a = *static_cast<const attn_merge_gate_args*>(args_);
	const auto* partial = static_cast<const float*>(slots[attn_merge_gate_slot::partial]);
	const auto* stats = static_cast<const float*>(slots[attn_merge_gate_slot::stats]);
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_merge_gate_slot::step])[LW_STEP_POS];
	const auto* qkv = static_cast<const float*>(slots[attn_merge_gate_slot::qkv]);
	auto* o = static_cast<float*>(slots[attn_merge_gate_slot::o]);
	const uint64_t tasks = uint64_t(a.rows) * a.q_heads;
	for (uint64_t t = begin; t < end && t < tasks; t++) {
		const uint64_t r = t / a.q_heads, h = t % a.q_heads, keys = keys_seen(pos, uint32_t(r), uint64_t(a.blocks) * LW_ATTN_BLOCK);
		float* ot = o + t * a.head_dim;
		attn_merge_blocks(ot, partial + t * a.blocks * a.head_dim, stats + t * a.blocks * 2, keys, a.head_dim);
		attn_gate_head(ot, qkv + r * a.qkv_width + (2 * h + 1) * a.head_dim, a.head_dim);
	}
}

}  // namespace LW_CPU_NAMESPACE
