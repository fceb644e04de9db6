// The tokens of a round: picked[i,0] in order while draft i, which stands at history[pos+1+i], agrees.
// One simdgroup; lane i judges picked[i,0] as if the round came to it: whether its draft agrees and whether it ends the
// run. The round's last token is that of the first lane which either stops. Each lane up to it writes its own token,
// that lane the run's end, lane 0 the counts. `produced` is written last, behind a barrier: who sees it count finds
// the rest of the new tokens in memory.
#include "kernels/shared/metal/base.h"

static_assert(LW_THREADS_spec_accept == SIMD, "a token a lane, rows is at most 16");

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_spec_accept)]]
void spec_accept(device const uint* picked [[buffer(0)]],
                 device uint* step [[buffer(1)]],
                 device uint* history [[buffer(2)]],
                 constant spec_accept_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint lane [[thread_index_in_simdgroup]]) {
	if (tg.x > 0 || a.rows == 0) return;
	const uint pos = step[LW_STEP_POS], drafts = min(step[LW_STEP_DRAFTS], a.rows - 1);
	const uint produced = step[LW_STEP_PRODUCED], stops = min(step[LW_STEP_STOPS], LW_STOPS_MAX);
	const bool running = step[LW_STEP_HALT] == LW_HALT_RUNNING;

	const uint token = lane <= drafts ? picked[lane * a.pitch] : 0, at = pos + lane + 1;
	const bool agrees = lane < drafts && at < a.ctx && history[at] == token;
	bool stop = false;
	for (uint i = 0; i < stops; i++) stop = stop || step[LW_STEP_STOP_IDS + i] == token;
	uint halt = LW_HALT_RUNNING;
	if (stop) halt = LW_HALT_STOP_TOKEN;
	else if (produced + lane + 1 >= step[LW_STEP_LIMIT]) halt = LW_HALT_BUDGET;
	else if (at >= a.ctx) halt = LW_HALT_CONTEXT_FULL;
	// Lane `drafts` at the latest: it has no draft.
	const uint last = simd_min(agrees && halt == LW_HALT_RUNNING ? SIMD : lane);
	const bool taken = running && lane <= last;
	const uint n = running ? last + 1 : 0;
	const uint accepted = simd_sum(taken && agrees ? 1u : 0u);

	// Every lane has read what it judges by before any lane writes.
	simdgroup_barrier(mem_flags::mem_device);
	if (taken) {
		if (agrees) step[LW_STEP_ACCEPTED_AT + lane]++;
		if (at < a.ctx) history[at] = token;
	}
	if (taken && lane == last) {
		step[LW_STEP_SAMPLED] = token;
		step[LW_STEP_HALT] = halt;
	}
	if (lane == 0) {
		step[LW_STEP_POS] = pos + n;
		step[LW_STEP_COMMITTED] = n;
		step[LW_STEP_ROUNDS]++;
		step[LW_STEP_DRAFTED] += drafts;
		step[LW_STEP_ACCEPTED] += accepted;
		step[LW_STEP_DRAFTS] = 0;
	}
	threadgroup_barrier(mem_flags::mem_device);
	if (lane == 0) step[LW_STEP_PRODUCED] = produced + n;
}
