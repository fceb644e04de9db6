// moe[r,c] += sigmoid(logits[r,gateCol]) * shared[r,c]. One task: 2048 columns of one row.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(moe_shared_add) {
	constexpr uint32_t CHUNK = 2048;
	const auto& a = *static_cast<const moe_shared_add_args*>(args_);
	auto* moe = static_cast<float*>(slots[moe_shared_add_slot::moe]);
	const auto* shared = static_cast<const float*>(slots[moe_shared_add_slot::shared]);
	const auto* logits = static_cast<const float*>(slots[moe_shared_add_slot::logits]);
	const uint32_t chunks = (a.dim + CHUNK - 1) / CHUNK;
	for (uint32_t t = begin; t < end && t / chunks < a.rows; t++) {
		const size_t r = t / chunks;
		const uint32_t from = t % chunks * CHUNK, to = a.dim - from < CHUNK ? a.dim : from + CHUNK;
		const vf gate = sigmoid(splat(logits[r * a.logit_stride + a.gate_col]));
		for (uint32_t c = from; c < to; c += LANES) {
			const int n = to - c < LANES ? to - c : LANES;
			float* m = moe + r * a.dim + c;
			store_n(m, fma(gate, load_n(shared + r * a.dim + c, n), load_n(m, n)), n);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
