// How a run takes a sampled token, for step_advance and spec_accept alike: a round must end where serial decode does.
#pragma once
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

// Position `at` gets the token; `produced` counts it, and is the caller's to publish. Halts the run where it ends.
static inline void take_token(uint32_t* step, uint32_t* history, uint32_t ctx, uint32_t token, uint32_t at, uint32_t produced) {
	if (at < ctx) history[at] = token;
	step[LW_STEP_SAMPLED] = token;
	const uint32_t stops = step[LW_STEP_STOPS] < LW_STOPS_MAX ? step[LW_STEP_STOPS] : LW_STOPS_MAX;
	bool stop = false;
	for (uint32_t i = 0; i < stops; i++) stop |= step[LW_STEP_STOP_IDS + i] == token;
	if (stop) step[LW_STEP_HALT] = LW_HALT_STOP_TOKEN;
	else if (produced >= step[LW_STEP_LIMIT]) step[LW_STEP_HALT] = LW_HALT_BUDGET;
	else if (at >= ctx) step[LW_STEP_HALT] = LW_HALT_CONTEXT_FULL;
}

}  // namespace LW_CPU_NAMESPACE
