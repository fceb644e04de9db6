// picked[r] = lowest index of the maximum of logits[r, 0:min(vocab, step.vocabUsed)]; NaN is passed over, and
// a row without a number gives 0. One task takes one row.
#include "kernels/shared/argmax.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(argmax) {
	const auto& a = *static_cast<const argmax_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[argmax_slot::logits]);
	const auto* step = static_cast<const uint32_t*>(slots[argmax_slot::step]);
	auto* picked = static_cast<uint32_t*>(slots[argmax_slot::picked]);
	const uint32_t used = a.vocab < step[LW_STEP_VOCAB_USED] ? a.vocab : step[LW_STEP_VOCAB_USED];
	for (uint32_t r = begin; r < end && r < a.rows; r++) picked[r] = argmax_of(logits + size_t(r) * a.vocab, used);
}

}  // namespace LW_CPU_NAMESPACE
