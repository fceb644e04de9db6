// at.pos = step.pos + ahead - back - ofRound * step.committed. One task.
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(step_place) {
	const auto& a = *static_cast<const step_place_args*>(args_);
	const auto* step = static_cast<const uint32_t*>(slots[step_place_slot::step]);
	if (begin != 0 || end == 0) return;
	static_cast<uint32_t*>(slots[step_place_slot::at])[LW_STEP_POS] = step[LW_STEP_POS] + a.ahead - a.back - a.of_round * step[LW_STEP_COMMITTED];
}

}  // namespace LW_CPU_NAMESPACE
