// y[r, yCol + o] = sum_i x[r,i] * w[o,i], o over the rows of w0 | w1 | w2 | w3. One task: 64 outputs of up to 128 rows.
// Other columns of y stay as they are.
#include "kernels/shared/gemm.h"
#include "kernels/shared/gemm_tasks.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

static void gemm(UnpackF32 unpack, uint32_t group, const void* args, void* const* slots, uint32_t begin, uint32_t end,
                 void* scratch) {
	const auto& a = *static_cast<const gemm_args*>(args);
	const GemmF32 product{unpack, static_cast<const float*>(slots[gemm_slot::x]), a.in_dim,
	                      *static_cast<GemmScratch*>(scratch)};
	const DenseProduct d{slots + gemm_slot::w0, {a.out0, a.out1, a.out2, a.out3}, a.rows, a.in_dim, group,
	                     static_cast<float*>(slots[gemm_slot::y]), a.y_stride, a.y_col};
	dense_tasks(product, d, begin, end);
}

#define LW_GEMM(v) \
	LW_CPU_KERNEL(gemm__##v) { gemm(tile::v::unpack, tile::v::group, args_, slots, begin, end, scratch); }
LW_VARIANTS_gemm(LW_GEMM)

}  // namespace LW_CPU_NAMESPACE
