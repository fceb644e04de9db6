// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head.
// One task does the query heads of one key head for one row; task = kv * rows + r, so that rows given
// together share each block of the cache while it is near.
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class V> static void decode(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const attn_decode_args*>(args_);
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_decode_slot::step])[LW_STEP_POS];
	const AttnTensors tensors = {
	    static_cast<const float*>(slots[attn_decode_slot::q]), static_cast<const uint8_t*>(slots[attn_decode_slot::k_cache]),
	    static_cast<const uint8_t*>(slots[attn_decode_slot::v_cache]), static_cast<float*>(slots[attn_decode_slot::o])};
	attend_tasks<V>(a, tensors, begin, end, scratch, [&](uint32_t r) { return keys_seen(pos, r, a.ctx); });
}

#define X(variant) \
	LW_CPU_KERNEL(attn_decode__##variant) { decode<attn::variant>(args_, slots, begin, end, scratch); }
LW_VARIANTS_attn_decode(X)
#undef X

}  // namespace LW_CPU_NAMESPACE
