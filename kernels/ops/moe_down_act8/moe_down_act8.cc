// y[r,d] = sum_k weights[r,k] * (down[e,d] . h[r,k]), h = scales * codes, e = ids[r,k], k ascending; an expert
// outside adds nothing. A task computes ROWS_PER_TASK of d for every row. ffn % 64 == 0.
#include "kernels/shared/dot_act8.h"
#include "kernels/shared/expert_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void moe_down_act8(const moe_down_act8_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* codes = static_cast<const int8_t*>(slots[moe_down_act8_slot::codes]);
	const auto* scales = static_cast<const float*>(slots[moe_down_act8_slot::scales]);
	const auto* sums = static_cast<const float*>(slots[moe_down_act8_slot::sums]);
	const auto activation = [&](uint32_t pair) {
		return Act8Row{codes + size_t(pair) * a.ffn, scales + size_t(pair) * a.groups, sums + size_t(pair) * a.groups};
	};
	expert_down(D(a.ffn, group), ExpertDownSizes{a.rows, a.top_k, a.experts, a.dim},
	            first_row(slots + moe_down_act8_slot::down), static_cast<const uint32_t*>(slots[moe_down_act8_slot::ids]),
	            static_cast<const float*>(slots[moe_down_act8_slot::weights]), activation,
	            static_cast<float*>(slots[moe_down_act8_slot::y]), begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(moe_down_act8__##v) { \
		moe_down_act8<Act8Dot<format::v::bits, format::v::type>>(*static_cast<const moe_down_act8_args*>(args_), slots, \
		                                                         format::v::group, begin, end, scratch); \
	}
LW_VARIANTS_moe_down_act8(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
