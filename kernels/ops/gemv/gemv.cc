// y[r, y_col + o] = sum_i x[r,i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3. A task computes ROWS_PER_TASK
// outputs of every row: the rows share one stream of weights, and each gets the bits that it gets alone.
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/gemv_tasks.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

// The group is a number at run time here: only (bits, scale type) or the dense type make code.
template <class D>
static void gemv(const gemv_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* x = static_cast<const float*>(slots[gemv_slot::x]);
	auto* y = static_cast<float*>(slots[gemv_slot::y]);
	const ConcatenatedWeights w(slots + gemv_slot::w0, a.out0, a.out1, a.out2, a.out3);
	gemv_tasks(
	    D(a.in_dim, group), w, a.rows, [&](uint32_t r) { return x + size_t(r) * a.in_dim; },
	    StoreResults{y + a.y_col, a.y_stride}, begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(gemv__##v) { \
		gemv<ExactDot<format::v>::type>(*static_cast<const gemv_args*>(args_), slots, format::v::group, begin, end, scratch); \
	}
LW_VARIANTS_gemv(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
