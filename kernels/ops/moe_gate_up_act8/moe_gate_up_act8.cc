// h[r,k,j] = silu(gate[e, gate_row + j] . x[r]) * (up[e, up_row + j] . x[r]), x = scales * codes, e = ids[r,k];
// zeros for an expert outside. A task computes ROWS_PER_TASK / 2 of j for one (r,k). in_dim % 64 == 0.
#include "kernels/shared/dot_act8.h"
#include "kernels/shared/expert_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void moe_gate_up_act8(const moe_gate_up_act8_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end,
                             void* scratch) {
	const auto* codes = static_cast<const int8_t*>(slots[moe_gate_up_act8_slot::codes]);
	const auto* scales = static_cast<const float*>(slots[moe_gate_up_act8_slot::scales]);
	const auto* sums = static_cast<const float*>(slots[moe_gate_up_act8_slot::sums]);
	const auto activation = [&](uint32_t r) {
		return Act8Row{codes + size_t(r) * a.in_dim, scales + size_t(r) * a.groups, sums + size_t(r) * a.groups};
	};
	const auto* ids = static_cast<const uint32_t*>(slots[moe_gate_up_act8_slot::ids]);
	const IndexedUpRows w{first_row(slots + moe_gate_up_act8_slot::gate), first_row(slots + moe_gate_up_act8_slot::up), ids,
	                      a.experts, a.gate_rows, a.up_rows, a.gate_row, a.up_row};
	expert_gate_up(D(a.in_dim, group), ExpertUpSizes{a.rows, a.top_k, a.ffn}, w, activation,
	               static_cast<float*>(slots[moe_gate_up_act8_slot::h]), begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(moe_gate_up_act8__##v) { \
		moe_gate_up_act8<Act8Dot<format::v::bits, format::v::type>>(*static_cast<const moe_gate_up_act8_args*>(args_), slots, \
		                                                            format::v::group, begin, end, scratch); \
	}
LW_VARIANTS_moe_gate_up_act8(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
