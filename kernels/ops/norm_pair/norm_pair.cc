// y[r] = a[r] / rms(a[r]) * wA ++ b[r] / rms(b[r]) * wB. One task does one row.
#include "kernels/shared/sum_squares.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(norm_pair) {
	const auto& a = *static_cast<const norm_pair_args*>(args_);
	const auto at = [&](int slot) { return static_cast<const float*>(slots[slot]); };
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		float* y = static_cast<float*>(slots[norm_pair_slot::y]) + size_t(r) * a.two_dim;
		norm_row(y, at(norm_pair_slot::a) + size_t(r) * a.dim, at(norm_pair_slot::w_a), a.eps, a.dim);
		norm_row(y + a.dim, at(norm_pair_slot::b) + size_t(r) * a.dim, at(norm_pair_slot::w_b), a.eps, a.dim);
	}
}

}  // namespace LW_CPU_NAMESPACE
