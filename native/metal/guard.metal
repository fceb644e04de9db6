// live[i] = groups[i] while the step block's halt word is LW_HALT_RUNNING, else 0; ran = (1 or 0, tokens produced so far).
// It goes before each play that is queued behind another one: the host cannot know in time whether that one halts,
// and the play's records take their grids from `live`, so that a play after a halt launches nothing.
// A thread does one word; no threadgroup memory.
#include "kernels/shared/metal/base.h"

struct play_guard_args {
	uint words;
};

[[kernel, max_total_threads_per_threadgroup(256)]]
void play_guard(device const uint* step [[buffer(0)]],
                device const uint* groups [[buffer(1)]],
                device uint* live [[buffer(2)]],
                device uint* ran [[buffer(3)]],
                constant play_guard_args& a [[buffer(24)]],
                uint3 tid [[thread_position_in_grid]]) {
	const bool runs = step[LW_STEP_HALT] == LW_HALT_RUNNING;
	if (tid.x < a.words) live[tid.x] = runs ? groups[tid.x] : 0u;
	if (tid.x == 0) {
		ran[0] = runs ? 1u : 0u;
		ran[1] = step[LW_STEP_PRODUCED];
	}
}
