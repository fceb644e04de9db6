// h[p,j] = silu(gate[e,gateRow+j] . x[p / topK]) * (up[e,upRow+j] . x[p / topK]), x = codes * scales, for the pairs p of
// expert e, order[offsets[e] .. offsets[e+1]]. One task: 32 outputs of one expert. Pairs in no run stay as they are.
#include "kernels/shared/gemm_act8.h"
#include "kernels/shared/gemm_tasks.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <int BITS>
static void moe_gate_up_gemm_act8(UnpackCodes unpack, uint32_t group, const void* args, void* const* slots,
                                  uint32_t begin, uint32_t end, void* scratch) {
	using namespace moe_gate_up_gemm_act8_slot;
	const auto& a = *static_cast<const moe_gate_up_gemm_act8_args*>(args);
	const GemmAct8<BITS> product{unpack, static_cast<const int8_t*>(slots[codes]), static_cast<const float*>(slots[scales]),
	                             static_cast<const float*>(slots[sums]), *static_cast<Act8Scratch*>(scratch)};
	const ExpertRuns runs{static_cast<const uint32_t*>(slots[order]), static_cast<const uint32_t*>(slots[offsets]), a.pairs,
	                      a.experts_plus1 - 1 < a.experts ? a.experts_plus1 - 1 : a.experts};
	const GateUp d{slots + gate, slots + up, a.in_dim, group, a.gate_rows, a.up_rows, a.gate_row, a.up_row, a.ffn, a.top_k,
	               static_cast<float*>(slots[h])};
	gate_up_tasks(product, runs, d, begin, end);
}

#define LW_MOE_GATE_UP_GEMM_ACT8(v) \
	LW_CPU_KERNEL(moe_gate_up_gemm_act8__##v) { \
		moe_gate_up_gemm_act8<tile::v::bits>(tile::v::codes, tile::v::group, args_, slots, begin, end, scratch); \
	}
LW_VARIANTS_moe_gate_up_gemm_act8(LW_MOE_GATE_UP_GEMM_ACT8)

}  // namespace LW_CPU_NAMESPACE
