// order = pairs (r * topK + k) stably sorted by expert; offsets[e] .. offsets[e+1] is the run of expert e. Pairs whose id is
// no expert come behind all runs. One task does it all; it needs a counter for each expert in scratch.
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(moe_sort) {
	const auto& a = *static_cast<const moe_sort_args*>(args_);
	const auto* ids = static_cast<const uint32_t*>(slots[moe_sort_slot::ids]);
	auto* order = static_cast<uint32_t*>(slots[moe_sort_slot::order]);
	auto* offsets = static_cast<uint32_t*>(slots[moe_sort_slot::offsets]);
	auto* at = static_cast<uint32_t*>(scratch);
	if (begin > 0 || end == 0) return;
	const uint32_t experts = a.experts_plus1 - 1;
	for (uint32_t e = 0; e <= experts; e++) at[e] = 0;
	for (uint32_t p = 0; p < a.pairs; p++) at[ids[p] < experts ? ids[p] : experts]++;
	uint32_t sum = 0;
	for (uint32_t e = 0; e <= experts; e++) {
		const uint32_t n = at[e];
		offsets[e] = at[e] = sum;
		sum += n;
	}
	for (uint32_t p = 0; p < a.pairs; p++) order[at[ids[p] < experts ? ids[p] : experts]++] = p;
}

}  // namespace LW_CPU_NAMESPACE
