// nll[r] = logsumexp(logits[r, 0:min(vocab, step.vocabUsed)]) - logits[r, id], id = history[step.pos + first + r + 1];
// 0 where that position or id does not exist. One task takes one row. The sum is f64 of f32 exponentials and
// the difference is f64, so that a mean over many tokens keeps its digits.
#include "kernels/shared/argmax.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(token_nll) {
	const auto& a = *static_cast<const token_nll_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[token_nll_slot::logits]);
	const auto* step = static_cast<const uint32_t*>(slots[token_nll_slot::step]);
	const auto* history = static_cast<const uint32_t*>(slots[token_nll_slot::history]);
	auto* nll = static_cast<float*>(slots[token_nll_slot::nll]);
	const uint32_t used = a.vocab < step[LW_STEP_VOCAB_USED] ? a.vocab : step[LW_STEP_VOCAB_USED];
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const float* x = logits + size_t(r) * a.vocab;
		const uint64_t at = uint64_t(step[LW_STEP_POS]) + a.first + r + 1;
		if (at >= a.ctx || history[at] >= used) {
			nll[r] = 0;
			continue;
		}
		const float top = max_of(x, used);
		sum_f64 sum;
		uint32_t i = 0;
		for (; i + LANES <= used; i += LANES) sum.add(exp(load(x + i) - top));
		double rest = 0;
		for (; i < used; i++) rest += double(exp(splat(x[i] - top))[0]);
		nll[r] = float(double(top) + std::log(sum.total() + rest) - double(x[history[at]]));
	}
}

}  // namespace LW_CPU_NAMESPACE
