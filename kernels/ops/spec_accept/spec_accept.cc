// The tokens of a round: picked[i,0] in order while draft i, which stands at history[pos+1+i], agrees. One task.
// `produced` is written last, with release order, as step_advance does.
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(spec_accept) {
	const auto& a = *static_cast<const spec_accept_args*>(args_);
	const auto* picked = static_cast<const uint32_t*>(slots[spec_accept_slot::picked]);
	auto* step = static_cast<uint32_t*>(slots[spec_accept_slot::step]);
	auto* history = static_cast<uint32_t*>(slots[spec_accept_slot::history]);
	if (begin != 0 || end == 0) return;
	const uint32_t pos = step[LW_STEP_POS], drafts = step[LW_STEP_DRAFTS] < a.rows ? step[LW_STEP_DRAFTS] : a.rows - 1;
	const uint32_t stops = step[LW_STEP_STOPS] < LW_STOPS_MAX ? step[LW_STEP_STOPS] : LW_STOPS_MAX;
	uint32_t n = 0, produced = step[LW_STEP_PRODUCED], accepted = 0;
	for (bool agrees = true; agrees && n <= drafts && step[LW_STEP_HALT] == LW_HALT_RUNNING; n++) {
		const uint32_t token = picked[size_t(n) * a.pitch], at = pos + n + 1;
		agrees = n < drafts && at < a.ctx && history[at] == token;
		if (agrees) {
			accepted++;
			step[LW_STEP_ACCEPTED_AT + n]++;
		}
		if (at < a.ctx) history[at] = token;
		step[LW_STEP_SAMPLED] = token;
		produced++;
		bool stop = false;
		for (uint32_t i = 0; i < stops; i++) stop |= step[LW_STEP_STOP_IDS + i] == token;
		if (stop) step[LW_STEP_HALT] = LW_HALT_STOP_TOKEN;
		else if (produced >= step[LW_STEP_LIMIT]) step[LW_STEP_HALT] = LW_HALT_BUDGET;
		else if (at >= a.ctx) step[LW_STEP_HALT] = LW_HALT_CONTEXT_FULL;
	}
	step[LW_STEP_POS] = pos + n;
	step[LW_STEP_COMMITTED] = n;
	step[LW_STEP_ROUNDS]++;
	step[LW_STEP_DRAFTED] += drafts;
	step[LW_STEP_ACCEPTED] += accepted;
	step[LW_STEP_DRAFTS] = 0;
	__atomic_store_n(step + LW_STEP_PRODUCED, produced, __ATOMIC_RELEASE);
}

}  // namespace LW_CPU_NAMESPACE
