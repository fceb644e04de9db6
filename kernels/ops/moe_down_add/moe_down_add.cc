// x[r,d] += sum_k weights[r,k] * (down[e,d] . h[r,k]) + sigmoid(logits[r,gate_col]) * (shared_down[d] . h[r,top_k]),
// e = ids[r,k], k < top_k ascending; an expert outside adds nothing. The bits of moe_down, gemv, moe_shared_add and an
// addition one after the other. A task computes ROWS_PER_TASK of d for every row. slots = top_k + 1.
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/expert_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void moe_down_add(const moe_down_add_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	namespace slot = moe_down_add_slot;
	const auto* h = static_cast<const float*>(slots[slot::h]);
	const auto* ids = static_cast<const uint32_t*>(slots[slot::ids]);
	const auto* weights = static_cast<const float*>(slots[slot::weights]);
	const auto* logits = static_cast<const float*>(slots[slot::logits]);
	const uint64_t first = uint64_t(begin) * ROWS_PER_TASK, behind = uint64_t(end) * ROWS_PER_TASK;
	if (first >= a.dim || begin >= end) return;
	const uint32_t o0 = uint32_t(first), o1 = uint32_t(behind < a.dim ? behind : a.dim);
	const D d(a.ffn, group);
	const WeightRow down = first_row(slots + slot::down), shared_down = first_row(slots + slot::shared_down);
	// Sums of one row, behind the prepared activation: of its experts, and of the shared one.
	float* routed = reinterpret_cast<float*>(static_cast<char*>(scratch) + d.prepared_bytes());
	float* shared = routed + a.dim;
	for (uint32_t r = 0; r < a.rows; r++) {
		const float* hr = h + size_t(r) * a.slots * a.ffn;
		expert_down(
		    d, ExpertDownSizes{1, a.top_k, a.experts, a.dim}, down, ids + size_t(r) * a.top_k, weights + size_t(r) * a.top_k,
		    [&](uint32_t k) { return hr + size_t(k) * a.ffn; }, routed, begin, end, scratch);
		d.prepare(hr + size_t(a.top_k) * a.ffn, scratch);
		multiply_rows<1>(
		    d, static_cast<const char*>(scratch), 1, o0, o1, [&](uint32_t o) { return shared_down.at(d, o); },
		    shared_down.at(d, o0), [&](uint32_t o, uint32_t, float v) { shared[o] = v; });
		const vf gate = sigmoid(splat(logits[size_t(r) * a.logit_stride + a.gate_col]));
		float* x = static_cast<float*>(slots[slot::x]) + size_t(r) * a.dim;
		for (uint32_t o = o0; o < o1; o += LANES) {
			const int n = o1 - o < LANES ? o1 - o : LANES;
			store_n(x + o, load_n(x + o, n) + fma(gate, load_n(shared + o, n), load_n(routed + o, n)), n);
		}
	}
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(moe_down_add__##v) { \
		moe_down_add<ExactDot<format::v>::type>(*static_cast<const moe_down_add_args*>(args_), slots, format::v::group, begin, \
		                                        end, scratch); \
	}
LW_VARIANTS_moe_down_add(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
