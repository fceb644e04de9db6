// y[r, y_col + o] = sum_i scales[r,i/32] * codes[r,i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3. A task
// computes ROWS_PER_TASK outputs of every row; each row gets the bits that it gets alone. in_dim % 64 == 0.
#include "kernels/shared/dot_act8.h"
#include "kernels/shared/gemv_tasks.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void gemv_act8(const gemv_act8_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* codes = static_cast<const int8_t*>(slots[gemv_act8_slot::codes]);
	const auto* scales = static_cast<const float*>(slots[gemv_act8_slot::scales]);
	const auto* sums = static_cast<const float*>(slots[gemv_act8_slot::sums]);
	auto* y = static_cast<float*>(slots[gemv_act8_slot::y]);
	const ConcatenatedWeights w(slots + gemv_act8_slot::w0, a.out0, a.out1, a.out2, a.out3);
	const auto activation = [&](uint32_t r) {
		return Act8Row{codes + size_t(r) * a.in_dim, scales + size_t(r) * a.groups, sums + size_t(r) * a.groups};
	};
	gemv_tasks(D(a.in_dim, group), w, a.rows, activation, StoreResults{y + a.y_col, a.y_stride}, begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(gemv_act8__##v) { \
		gemv_act8<Act8Dot<format::v::bits, format::v::type>>(*static_cast<const gemv_act8_args*>(args_), slots, \
		                                                     format::v::group, begin, end, scratch); \
	}
LW_VARIANTS_gemv_act8(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
