// step.pos += rows; history[pos] = step.sampled = picked; step.produced += 1; step.halt = why the run ends,
// if it does. One task. `produced` is written last, with release order: a thread that polls it while a play
// runs sees everything that belongs to the new token.
#include "kernels/shared/take_token.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(step_advance) {
	const auto& a = *static_cast<const step_advance_args*>(args_);
	const auto* picked = static_cast<const uint32_t*>(slots[step_advance_slot::picked]);
	auto* step = static_cast<uint32_t*>(slots[step_advance_slot::step]);
	auto* history = static_cast<uint32_t*>(slots[step_advance_slot::history]);
	if (begin != 0 || end == 0) return;
	const uint32_t pos = step[LW_STEP_POS] + a.rows, produced = step[LW_STEP_PRODUCED] + 1;
	step[LW_STEP_POS] = pos;
	take_token(step, history, a.ctx, picked[0], pos, produced);
	__atomic_store_n(step + LW_STEP_PRODUCED, produced, __ATOMIC_RELEASE);
}

}  // namespace LW_CPU_NAMESPACE
