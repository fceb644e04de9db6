// d[p,o] = down[e,o] . h[p] for the pairs p of expert e, order[offsets[e] .. offsets[e+1]].
// One task: 64 outputs of one expert. Pairs in no run stay as they are.
#include "kernels/shared/gemm.h"
#include "kernels/shared/gemm_tasks.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

static void moe_down_gemm(UnpackF32 unpack, uint32_t group, const void* args, void* const* slots, uint32_t begin,
                          uint32_t end, void* scratch) {
	using namespace moe_down_gemm_slot;
	const auto& a = *static_cast<const moe_down_gemm_args*>(args);
	const GemmF32 product{unpack, static_cast<const float*>(slots[h]), a.ffn, *static_cast<GemmScratch*>(scratch)};
	const ExpertRuns runs{static_cast<const uint32_t*>(slots[order]), static_cast<const uint32_t*>(slots[offsets]), a.pairs,
	                      a.experts_plus1 - 1 < a.experts ? a.experts_plus1 - 1 : a.experts};
	down_tasks(product, runs, Down{slots + down, a.ffn, group, a.dim, static_cast<float*>(slots[d])}, begin, end);
}

#define LW_MOE_DOWN_GEMM(v) \
	LW_CPU_KERNEL(moe_down_gemm__##v) { \
		moe_down_gemm(tile::v::unpack, tile::v::group, args_, slots, begin, end, scratch); \
	}
LW_VARIANTS_moe_down_gemm(LW_MOE_DOWN_GEMM)

}  // namespace LW_CPU_NAMESPACE
