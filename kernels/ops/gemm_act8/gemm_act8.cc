// y[r, yCol + o] = sum_i x[r,i] * w[o,i], x = codes * scales, o over the rows of w0 | w1 | w2 | w3.
// One task: 64 outputs of up to 128 rows. Other columns of y stay as they are.
#include "kernels/shared/gemm_act8.h"
#include "kernels/shared/gemm_tasks.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <int BITS>
static void gemm_act8(UnpackCodes unpack, uint32_t group, const void* args, void* const* slots, uint32_t begin,
                      uint32_t end, void* scratch) {
	const auto& a = *static_cast<const gemm_act8_args*>(args);
	const GemmAct8<BITS> product{unpack, static_cast<const int8_t*>(slots[gemm_act8_slot::codes]),
	                             static_cast<const float*>(slots[gemm_act8_slot::scales]),
	                             static_cast<const float*>(slots[gemm_act8_slot::sums]),
	                             *static_cast<Act8Scratch*>(scratch)};
	const DenseProduct d{slots + gemm_act8_slot::w0, {a.out0, a.out1, a.out2, a.out3}, a.rows, a.in_dim, group,
	                     static_cast<float*>(slots[gemm_act8_slot::y]), a.y_stride, a.y_col};
	dense_tasks(product, d, begin, end);
}

#define LW_GEMM_ACT8(v) \
	LW_CPU_KERNEL(gemm_act8__##v) { \
		gemm_act8<tile::v::bits>(tile::v::codes, tile::v::group, args_, slots, begin, end, scratch); \
	}
LW_VARIANTS_gemm_act8(LW_GEMM_ACT8)

}  // namespace LW_CPU_NAMESPACE
