// step.pos += rows; history[pos] = step.sampled = picked; step.produced += 1; step.halt = why the run ends,
// if it does. One task. `produced` is written last, with release order: a thread that polls it while a play
// runs sees everything that belongs to the new token.
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(step_advance) {
	const auto& a = *static_cast<const step_advance_args*>(args_);
	const auto* picked = static_cast<const uint32_t*>(slots[step_advance_slot::picked]);
	auto* step = static_cast<uint32_t*>(slots[step_advance_slot::step]);
	auto* history = static_cast<uint32_t*>(slots[step_advance_slot::history]);
	if (begin != 0 || end == 0) return;
	const uint32_t token = picked[0], pos = step[LW_STEP_POS] + a.rows, produced = step[LW_STEP_PRODUCED] + 1;
	step[LW_STEP_POS] = pos;
	if (pos < a.ctx) history[pos] = token;
	step[LW_STEP_SAMPLED] = token;
	const uint32_t stops = step[LW_STEP_STOPS] < LW_STOPS_MAX ? step[LW_STEP_STOPS] : LW_STOPS_MAX;
	bool stop = false;
	for (uint32_t i = 0; i < stops; i++) stop |= step[LW_STEP_STOP_IDS + i] == token;
	if (stop) step[LW_STEP_HALT] = LW_HALT_STOP_TOKEN;
	else if (produced >= step[LW_STEP_LIMIT]) step[LW_STEP_HALT] = LW_HALT_BUDGET;
	else if (pos >= a.ctx) step[LW_STEP_HALT] = LW_HALT_CONTEXT_FULL;
	__atomic_store_n(step + LW_STEP_PRODUCED, produced, __ATOMIC_RELEASE);
}

}  // namespace LW_CPU_NAMESPACE
