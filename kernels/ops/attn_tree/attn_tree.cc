// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j] + b[r,j]) v[j] over keys j = 0 .. pos + rows - 1 of h's key head,
// b[r,j] = mask[r, j - pos] from key pos on and 0 before; a row whose keys all have -inf gives 0. Tasks as in attn_decode.
// A key with -inf weighs exactly 0, whatever it is: so a row's bits do not depend on rows that it does not see.
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

struct TreeBias {
	const float* mask;
	uint32_t stride;
	uint64_t pos;
	float of(uint32_t r, uint64_t key) const { return key < pos ? 0.f : mask[size_t(r) * stride + (key - pos)]; }
	bool counts(uint32_t r, uint64_t key) const { return of(r, key) >= -FLT_MAX; }
	void add(uint32_t r, uint64_t first, int n, float* score) const {
		for (uint64_t j = first < pos ? pos : first; j < first + uint32_t(n); j++) score[j - first] = counts(r, j) ? score[j - first] + of(r, j) : -INFINITY;
	}
};

template <class V> static void attend_tree(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const attn_tree_args*>(args_);
	const uint64_t pos = static_cast<const uint32_t*>(slots[attn_tree_slot::step])[LW_STEP_POS];
	const TreeBias bias = {static_cast<const float*>(slots[attn_tree_slot::mask]), a.mask_stride, pos};
	const uint64_t keys = keys_seen(uint32_t(pos), a.rows - 1, a.ctx);
	const AttnTensors tensors = {
	    static_cast<const float*>(slots[attn_tree_slot::q]), static_cast<const uint8_t*>(slots[attn_tree_slot::k_cache]),
	    static_cast<const uint8_t*>(slots[attn_tree_slot::v_cache]), static_cast<float*>(slots[attn_tree_slot::o])};
	attend_tasks<V>(a, tensors, begin, end, scratch, [&](uint32_t) { return keys; }, bias);
}

#define X(variant) \
	LW_CPU_KERNEL(attn_tree__##variant) { attend_tree<attn::variant>(args_, slots, begin, end, scratch); }
LW_VARIANTS_attn_tree(X)
#undef X

}  // namespace LW_CPU_NAMESPACE
