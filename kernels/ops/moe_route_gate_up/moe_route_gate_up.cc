// ids[r,:], weights[r,:] = router_topk of logits[r, 0:experts]; n = rms_norm of x with w_norm;
// h[r,k,j] = silu(gate[e, gate_row + j] . n[r]) * (up[e, up_row + j] . n[r]), e = ids[r,k], k < top_k;
// h[r,top_k,j] = silu(shared_gate[j] . n[r]) * (shared_up[j] . n[r]). The bits of rms_norm, router_topk, moe_gate_up, gemv
// and swiglu one after the other. A task computes ROWS_PER_TASK / 2 of j for one (r,k); a run of tasks chooses the experts
// of each of its rows for itself and norms the row, and the run with the first task of a row writes its choice.
// top_k <= 32, top_k <= experts <= logit_stride, slots = top_k + 1.
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/expert_rows.h"
#include "kernels/shared/router.h"
#include "kernels/shared/sum_squares.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

namespace {

// The weights of the row that was chosen for last: those of its experts, then those of the shared one.
struct RoutedUpRows {
	IndexedUpRows routed;
	WeightRow shared_gate, shared_up;
	uint32_t slots, top_k, row;

	bool has(uint32_t pair) const { return pair / slots == row; }
	template <class D> WeightRow gate_at(const D& d, uint32_t pair, uint32_t j) const {
		const uint32_t k = pair % slots;
		return k == top_k ? shared_gate.at(d, j) : routed.gate_at(d, k, j);
	}
	template <class D> WeightRow up_at(const D& d, uint32_t pair, uint32_t j) const {
		const uint32_t k = pair % slots;
		return k == top_k ? shared_up.at(d, j) : routed.up_at(d, k, j);
	}
};

}  // namespace

template <class D>
static void moe_route_gate_up(const moe_route_gate_up_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end,
                              void* scratch) {
	namespace slot = moe_route_gate_up_slot;
	const auto* x = static_cast<const float*>(slots[slot::x]);
	const auto* w_norm = static_cast<const float*>(slots[slot::w_norm]);
	const auto* logits = static_cast<const float*>(slots[slot::logits]);
	auto* all_ids = static_cast<uint32_t*>(slots[slot::ids]);
	auto* all_weights = static_cast<float*>(slots[slot::weights]);
	const uint64_t row_tasks = uint64_t(a.slots) * ((2 * a.ffn + ROWS_PER_TASK - 1) / ROWS_PER_TASK);
	for (uint64_t r = (uint64_t(begin) + row_tasks - 1) / row_tasks; r * row_tasks < end && r < a.rows; r++)
		choose_experts(logits + r * a.logit_stride, a.experts, a.top_k, all_ids + r * a.top_k, all_weights + r * a.top_k);

	const D d(a.in_dim, group);
	float* normed = reinterpret_cast<float*>(static_cast<char*>(scratch) + d.prepared_bytes());
	uint32_t ids[TOP_K_MAX];
	float weights[TOP_K_MAX];
	RoutedUpRows w{{first_row(slots + slot::gate), first_row(slots + slot::up), ids, a.experts, a.gate_rows, a.up_rows, a.gate_row,
	                a.up_row},
	               first_row(slots + slot::shared_gate),
	               first_row(slots + slot::shared_up),
	               a.slots,
	               a.top_k,
	               0};
	const auto enter = [&](uint32_t r) {
		choose_experts(logits + size_t(r) * a.logit_stride, a.experts, a.top_k, ids, weights);
		w.row = r;
		norm_row(normed, x + size_t(r) * a.in_dim, w_norm, a.eps, a.in_dim);
		return normed;
	};
	expert_gate_up(d, ExpertUpSizes{a.rows, a.slots, a.ffn}, w, enter, static_cast<float*>(slots[slot::h]), begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(moe_route_gate_up__##v) { \
		moe_route_gate_up<ExactDot<format::v>::type>(*static_cast<const moe_route_gate_up_args*>(args_), slots, \
		                                             format::v::group, begin, end, scratch); \
	}
LW_VARIANTS_moe_route_gate_up(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
