// y[b] = sum_i x[b,i] modulo 2^32. One task sums one block, eight vectors at a time, so that loads and not adds
// are what it waits for.
#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(stream_read) {
	const auto& a = *static_cast<const stream_read_args*>(args_);
	const auto* x = static_cast<const uint32_t*>(slots[stream_read_slot::x]);
	auto* y = static_cast<uint32_t*>(slots[stream_read_slot::y]);
	constexpr uint32_t WIDE = 8, STEP = WIDE * LANES;
	for (uint32_t b = begin; b < end && b < a.blocks; b++) {
		const uint32_t* p = x + size_t(b) * a.dim;
		vu part[WIDE] = {};
		uint32_t i = 0;
		for (; i + STEP <= a.dim; i += STEP)
			for (uint32_t k = 0; k < WIDE; k++) part[k] += load_as<vu>(p + i + k * LANES);
		uint32_t sum = 0;
		for (const vu& v : part)
			for (int lane = 0; lane < LANES; lane++) sum += v[lane];
		for (; i < a.dim; i++) sum += p[i];
		y[b] = sum;
	}
}

}  // namespace LW_CPU_NAMESPACE
