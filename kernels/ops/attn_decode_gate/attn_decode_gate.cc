// o as attn_decode makes it, gated as attn_gate does. Tasks as in attn_decode: the query heads of one key head for one
// row; task = kv * rows + r. qkv rows hold the queries and gates of all heads (a constraint of the op).
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class V> static void decode_gate(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const attn_decode_gate_args*>(args_);
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_decode_gate_slot::step])[LW_STEP_POS];
	const auto* qkv = static_cast<const float*>(slots[attn_decode_gate_slot::qkv]);
	auto* o = static_cast<float*>(slots[attn_decode_gate_slot::o]);
	const AttnTensors tensors = {
	    static_cast<const float*>(slots[attn_decode_gate_slot::q]), static_cast<const uint8_t*>(slots[attn_decode_gate_slot::k_cache]),
	    static_cast<const uint8_t*>(slots[attn_decode_gate_slot::v_cache]), o};
	attend_tasks<V>(a, tensors, begin, end, scratch, [&](uint32_t r) { return keys_seen(pos, r, a.ctx); });
	const uint64_t tasks = uint64_t(a.rows) * a.kv_heads;
	for (uint64_t t = begin; t < end && t < tasks; t++) {
		const uint64_t r = t % a.rows;
		const HeadGroup group(a.q_heads, a.kv_heads, uint32_t(t / a.rows));
		for (uint64_t h = group.first; h < group.last; h++)
			attn_gate_head(o + (r * a.q_heads + h) * V::DIM, qkv + r * a.qkv_width + (2 * h + 1) * V::DIM, V::DIM);
	}
}

#define X(variant) \
	LW_CPU_KERNEL(attn_decode_gate__##variant) { decode_gate<attn::variant>(args_, slots, begin, end, scratch); }
LW_VARIANTS_attn_decode_gate(X)
#undef X

}  // namespace LW_CPU_NAMESPACE
