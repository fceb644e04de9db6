// y[b,i] = x[b,i]. One task copies one block.
#include <cstring>

#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(stream_copy) {
	const auto& a = *static_cast<const stream_copy_args*>(args_);
	const auto* x = static_cast<const uint32_t*>(slots[stream_copy_slot::x]);
	auto* y = static_cast<uint32_t*>(slots[stream_copy_slot::y]);
	for (uint32_t b = begin; b < end && b < a.blocks; b++)
		memcpy(y + size_t(b) * a.dim, x + size_t(b) * a.dim, size_t(a.dim) * 4);
}

}  // namespace LW_CPU_NAMESPACE
