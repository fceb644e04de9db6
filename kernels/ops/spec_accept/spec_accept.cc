// The tokens of a round: picked[i,0] in order while draft i, which stands at history[pos+1+i], agrees. One task.
// `produced` is written last, with release order, as step_advance does.
#include "kernels/shared/take_token.h"
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(spec_accept) {
	const auto& a = *static_cast<const spec_accept_args*>(args_);
	const auto* picked = static_cast<const uint32_t*>(slots[spec_accept_slot::picked]);
	auto* step = static_cast<uint32_t*>(slots[spec_accept_slot::step]);
	auto* history = static_cast<uint32_t*>(slots[spec_accept_slot::history]);
	if (begin != 0 || end == 0) return;
	const uint32_t pos = step[LW_STEP_POS], drafts = step[LW_STEP_DRAFTS] < a.rows ? step[LW_STEP_DRAFTS] : a.rows - 1;
	uint32_t n = 0, produced = step[LW_STEP_PRODUCED], accepted = 0;
	for (bool agrees = true; agrees && n <= drafts && step[LW_STEP_HALT] == LW_HALT_RUNNING; n++) {
		const uint32_t token = picked[size_t(n) * a.pitch], at = pos + n + 1;
		agrees = n < drafts && at < a.ctx && history[at] == token;
		if (agrees) {
			accepted++;
			step[LW_STEP_ACCEPTED_AT + n]++;
		}
		take_token(step, history, a.ctx, token, at, ++produced);
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
