// ids[r,p,:], values[r,p,:] = the top_k greatest of part p of logits[r], value descending, then position ascending; what
// is not above -inf (NaN neither) is passed over, and places that stay empty get 0xffffffff and -inf. The id of position
// i is from[r,i] for i < given, else i. Task r * parts + p does one part; top_k <= 16.
// A value enters the sorted list only if it is above the last one of a full list: most vectors cost one comparison.
#include <limits>

#include "kernels/shared/vec.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t TOP_K_MAX = 16;
constexpr uint32_t NO_ID = 0xffffffff;
constexpr float LEAST = -std::numeric_limits<float>::infinity();

struct Selected {
	uint32_t k, n = 0;
	float bar = LEAST;  // what a value must be above
	float value[TOP_K_MAX];
	uint32_t at[TOP_K_MAX];

	explicit Selected(uint32_t k_) : k(k_) {}
	void offer(float v, uint32_t i) {
		if (!(v > bar)) return;
		uint32_t place = n < k ? n++ : k - 1;
		// An equal value that came earlier stays in front.
		for (; place > 0 && v > value[place - 1]; place--) {
			value[place] = value[place - 1];
			at[place] = at[place - 1];
		}
		value[place] = v;
		at[place] = i;
		if (n == k) bar = value[k - 1];
	}
	void scan(const float* x, uint32_t first, uint32_t last) {
		constexpr uint32_t STEP = 4 * LANES;
		uint32_t i = first;
		for (; last - i >= STEP; i += STEP) {
			const vf b = splat(bar);
			const vi above = (load(x + i) > b) | (load(x + i + LANES) > b) | (load(x + i + 2 * LANES) > b) | (load(x + i + 3 * LANES) > b);
			if (!any(above)) continue;
			for (uint32_t j = i; j < i + STEP; j++) offer(x[j], j);
		}
		for (; i < last; i++) offer(x[i], i);
	}
};

}  // namespace

LW_CPU_KERNEL(select_topk) {
	const auto& a = *static_cast<const select_topk_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[select_topk_slot::logits]);
	const auto* from = static_cast<const uint32_t*>(slots[select_topk_slot::from]);
	auto* ids = static_cast<uint32_t*>(slots[select_topk_slot::ids]);
	auto* values = static_cast<float*>(slots[select_topk_slot::values]);
	const uint64_t piece = (uint64_t(a.vocab) + a.parts - 1) / a.parts, tasks = uint64_t(a.rows) * a.parts;
	for (uint64_t t = begin; t < end && t < tasks; t++) {
		const uint64_t r = t / a.parts, p = t % a.parts, behind = p * piece + piece;
		const uint32_t last = uint32_t(behind < a.vocab ? behind : a.vocab), first = uint32_t(p * piece < last ? p * piece : last);
		Selected s(a.top_k);
		s.scan(logits + r * a.vocab, first, last);
		for (uint32_t k = 0; k < a.top_k; k++) {
			const bool taken = k < s.n;
			ids[t * a.top_k + k] = !taken ? NO_ID : s.at[k] < a.given ? from[r * a.given + s.at[k]] : s.at[k];
			values[t * a.top_k + k] = taken ? s.value[k] : LEAST;
		}
	}
}

}  // namespace LW_CPU_NAMESPACE
