// o[r,h] = sum_b exp(m_b - M) partial[r,h,b] / sum_b exp(m_b - M) l_b, where (m_b, l_b) = stats[r,h,b] and
// M = max_b m_b, over the blocks b that hold keys 0 .. pos + r, in order. One task does one row and head.
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(attn_merge) {
	const auto& a = *static_cast<const attn_merge_args*>(args_);
	const auto* partial = static_cast<const float*>(slots[attn_merge_slot::partial]);
	const auto* stats = static_cast<const float*>(slots[attn_merge_slot::stats]);
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_merge_slot::step])[LW_STEP_POS];
	auto* o = static_cast<float*>(slots[attn_merge_slot::o]);
	const uint64_t tasks = uint64_t(a.rows) * a.q_heads;
	for (uint64_t t = begin; t < end && t < tasks; t++) {
		const uint64_t keys = keys_seen(pos, uint32_t(t / a.q_heads), uint64_t(a.blocks) * LW_ATTN_BLOCK);
		attn_merge_blocks(o + t * a.head_dim, partial + t * a.blocks * a.head_dim, stats + t * a.blocks * 2, keys, a.head_dim);
	}
}

}  // namespace LW_CPU_NAMESPACE
