// history[step.pos + 1 + index] = picked; step.drafts = index + 1. One task.
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(draft_append) {
	const auto& a = *static_cast<const draft_append_args*>(args_);
	auto* step = static_cast<uint32_t*>(slots[draft_append_slot::step]);
	if (begin != 0 || end == 0) return;
	const uint32_t at = step[LW_STEP_POS] + 1 + a.index;
	if (at < a.ctx) static_cast<uint32_t*>(slots[draft_append_slot::history])[at] = *static_cast<const uint32_t*>(slots[draft_append_slot::picked]);
	step[LW_STEP_DRAFTS] = a.index + 1;
}

}  // namespace LW_CPU_NAMESPACE
