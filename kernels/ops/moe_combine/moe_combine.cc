// y[r,c] = sum_k weights[r,k] * d[r,k,c], k ascending. One task: 1024 columns of one row.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(moe_combine) {
	constexpr uint32_t CHUNK = 1024;
	const auto& a = *static_cast<const moe_combine_args*>(args_);
	const auto* d = static_cast<const float*>(slots[moe_combine_slot::d]);
	const auto* weights = static_cast<const float*>(slots[moe_combine_slot::weights]);
	auto* y = static_cast<float*>(slots[moe_combine_slot::y]);
	const uint32_t chunks = (a.dim + CHUNK - 1) / CHUNK;
	for (uint32_t t = begin; t < end && t / chunks < a.rows; t++) {
		const size_t r = t / chunks;
		const uint32_t from = t % chunks * CHUNK, to = a.dim - from < CHUNK ? a.dim : from + CHUNK;
		for (uint32_t c = from; c < to; c += LANES) {
			const int n = to - c < LANES ? to - c : LANES;
			vf sum = zero();
			for (uint32_t k = 0; k < a.top_k; k++) {
				const size_t pair = r * a.top_k + k;
				sum = fma(splat(weights[pair]), load_n(d + pair * a.dim + c, n), sum);
			}
			store_n(y + r * a.dim + c, sum, n);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
