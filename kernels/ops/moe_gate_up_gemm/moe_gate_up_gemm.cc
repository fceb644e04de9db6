// h[p,j] = silu(gate[e,gateRow+j] . x[p / topK]) * (up[e,upRow+j] . x[p / topK]) for the pairs p of expert e,
// order[offsets[e] .. offsets[e+1]]. One task: 32 outputs of one expert. Pairs in no run stay as they are.
#include "kernels/shared/gemm.h"
#include "kernels/shared/gemm_tasks.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

static void moe_gate_up_gemm(UnpackF32 unpack, uint32_t group, const void* args, void* const* slots, uint32_t begin,
                             uint32_t end, void* scratch) {
	using namespace moe_gate_up_gemm_slot;
	const auto& a = *static_cast<const moe_gate_up_gemm_args*>(args);
	const GemmF32 product{unpack, static_cast<const float*>(slots[x]), a.in_dim, *static_cast<GemmScratch*>(scratch)};
	const ExpertRuns runs{static_cast<const uint32_t*>(slots[order]), static_cast<const uint32_t*>(slots[offsets]), a.pairs,
	                      a.experts_plus1 - 1 < a.experts ? a.experts_plus1 - 1 : a.experts};
	const GateUp d{slots + gate, slots + up, a.in_dim, group, a.gate_rows, a.up_rows, a.gate_row, a.up_row, a.ffn, a.top_k,
	               static_cast<float*>(slots[h])};
	gate_up_tasks(product, runs, d, begin, end);
}

#define LW_MOE_GATE_UP_GEMM(v) \
	LW_CPU_KERNEL(moe_gate_up_gemm__##v) { \
		moe_gate_up_gemm(tile::v::unpack, tile::v::group, args_, slots, begin, end, scratch); \
	}
LW_VARIANTS_moe_gate_up_gemm(LW_MOE_GATE_UP_GEMM)

}  // namespace LW_CPU_NAMESPACE
