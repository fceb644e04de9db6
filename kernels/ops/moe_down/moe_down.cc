// y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), e = ids[r,k], k ascending; an expert outside adds nothing.
// A task computes ROWS_PER_TASK of d for every row.
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/expert_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void moe_down(const moe_down_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* h = static_cast<const float*>(slots[moe_down_slot::h]);
	expert_down(
	    D(a.ffn, group), ExpertDownSizes{a.rows, a.top_k, a.experts, a.dim}, first_row(slots + moe_down_slot::down),
	    static_cast<const uint32_t*>(slots[moe_down_slot::ids]), static_cast<const float*>(slots[moe_down_slot::weights]),
	    [&](uint32_t pair) { return h + size_t(pair) * a.ffn; }, static_cast<float*>(slots[moe_down_slot::y]), begin, end,
	    scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(moe_down__##v) { \
		moe_down<ExactDot<format::v>::type>(*static_cast<const moe_down_args*>(args_), slots, format::v::group, begin, end, \
		                                    scratch); \
	}
LW_VARIANTS_moe_down(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
