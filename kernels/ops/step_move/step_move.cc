// step.pos += rows. One task.
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(step_move) {
	const auto& a = *static_cast<const step_move_args*>(args_);
	auto* step = static_cast<uint32_t*>(slots[step_move_slot::step]);
	if (begin == 0 && end > 0) step[LW_STEP_POS] += a.rows;
}

}  // namespace LW_CPU_NAMESPACE
