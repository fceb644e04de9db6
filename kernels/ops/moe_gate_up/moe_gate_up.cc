// h[r,k,j] = silu(gate[e, gate_row + j] . x[r]) * (up[e, up_row + j] . x[r]), e = ids[r,k]; zeros for an expert
// outside. A task computes ROWS_PER_TASK / 2 of j for one (r,k).
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/expert_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void moe_gate_up(const moe_gate_up_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* x = static_cast<const float*>(slots[moe_gate_up_slot::x]);
	const auto* ids = static_cast<const uint32_t*>(slots[moe_gate_up_slot::ids]);
	const IndexedUpRows w{first_row(slots + moe_gate_up_slot::gate), first_row(slots + moe_gate_up_slot::up), ids, a.experts,
	                      a.gate_rows, a.up_rows, a.gate_row, a.up_row};
	expert_gate_up(
	    D(a.in_dim, group), ExpertUpSizes{a.rows, a.top_k, a.ffn}, w, [&](uint32_t r) { return x + size_t(r) * a.in_dim; },
	    static_cast<float*>(slots[moe_gate_up_slot::h]), begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(moe_gate_up__##v) { \
		moe_gate_up<ExactDot<format::v>::type>(*static_cast<const moe_gate_up_args*>(args_), slots, format::v::group, begin, \
		                                       end, scratch); \
	}
LW_VARIANTS_moe_gate_up(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
