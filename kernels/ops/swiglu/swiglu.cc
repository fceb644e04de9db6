// h[r,j] = silu(gu[r,j]) * gu[r,ffn+j]. One task: 1024 columns of one row.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(swiglu) {
	constexpr uint32_t CHUNK = 1024;
	const auto& a = *static_cast<const swiglu_args*>(args_);
	const auto* gu = static_cast<const float*>(slots[swiglu_slot::gu]);
	auto* h = static_cast<float*>(slots[swiglu_slot::h]);
	const uint32_t chunks = (a.ffn + CHUNK - 1) / CHUNK;
	for (uint32_t t = begin; t < end && t / chunks < a.rows; t++) {
		const size_t r = t / chunks;
		const uint32_t from = t % chunks * CHUNK, to = a.ffn - from < CHUNK ? a.ffn : from + CHUNK;
		const float* gate = gu + r * a.gu_stride;
		for (uint32_t j = from; j < to; j += LANES) {
			const int n = to - j < LANES ? to - j : LANES;
			store_n(h + r * a.ffn + j, silu(load_n(gate + j, n)) * load_n(gate + a.ffn + j, n), n);
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
