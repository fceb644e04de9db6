// y[r, y_col + o] = sum_i n[r,i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3, with
// n[r,i] = x[r,i] / sqrt(mean_i(x[r,i]^2) + eps) * w_norm[i]: the bits of rms_norm followed by gemv. A task computes
// ROWS_PER_TASK outputs of every row; a run of tasks norms each row once, into scratch.
#include "kernels/shared/dot_affine.h"
#include "kernels/shared/gemv_tasks.h"
#include "kernels/shared/sum_squares.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

// The group is a number at run time here, as in gemv.
template <class D>
static void norm_gemv(const norm_gemv_args& a, void* const* slots, uint32_t group, uint32_t begin, uint32_t end, void* scratch) {
	const auto* x = static_cast<const float*>(slots[norm_gemv_slot::x]);
	const auto* w_norm = static_cast<const float*>(slots[norm_gemv_slot::w_norm]);
	auto* y = static_cast<float*>(slots[norm_gemv_slot::y]);
	const ConcatenatedWeights w(slots + norm_gemv_slot::w0, a.out0, a.out1, a.out2, a.out3);
	const D d(a.in_dim, group);
	// One row, behind the prepared ones.
	float* normed = reinterpret_cast<float*>(static_cast<char*>(scratch) + a.rows * d.prepared_bytes());
	const auto norm = [&](uint32_t r) {
		norm_row(normed, x + size_t(r) * a.in_dim, w_norm, a.eps, a.in_dim);
		return normed;
	};
	gemv_tasks(d, w, a.rows, norm, StoreResults{y + a.y_col, a.y_stride}, begin, end, scratch);
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(norm_gemv__##v) { \
		norm_gemv<ExactDot<format::v>::type>(*static_cast<const norm_gemv_args*>(args_), slots, format::v::group, begin, end, scratch); \
	}
LW_VARIANTS_norm_gemv(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
