// y[r,o] += sum_i x[r,i] * w[o,i] for rows <= 16: one addition of the finished sum, so the bits are those of gemv followed
// by an addition. A task computes ROWS_PER_TASK outputs of every row.
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/gemv_tasks.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class D>
static void gemv_add(const gemv_add_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* x = static_cast<const float*>(slots[gemv_add_slot::x]);
	auto* y = static_cast<float*>(slots[gemv_add_slot::y]);
	gemv_tasks(
	    D(a.in_dim, group), SingleWeight{first_row(slots + gemv_add_slot::w), a.out}, a.rows,
	    [&](uint32_t r) { return x + size_t(r) * a.in_dim; },
	    [&](uint32_t o, uint32_t r, float v) { y[size_t(r) * a.out + o] += v; }, begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(gemv_add__##v) { \
		gemv_add<ExactDot<format::v>::type>(*static_cast<const gemv_add_args*>(args_), slots, format::v::group, begin, end, \
		                                    scratch); \
	}
LW_VARIANTS_gemv_add(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
