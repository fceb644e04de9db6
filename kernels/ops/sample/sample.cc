// picked = the token drawn for position p = step.pos + rows from logits[0:min(vocab, step.vocabUsed)]:
//   repeat penalty over the distinct tokens of history[p-window .. p), temperature, then what survives of
//   top-k, top-p and min-p in that order, then a walk over the survivors in id order until their share of
//   probability passes u = (x + 0.5) / 2^32, x = Philox(seed, p). Temperature 0: argmax of the penalised logits.
// Descending order means: value, then lower id. NaN is never picked; without any number above -inf, argmax.
// One task does it all in work[0] (values, later relative probabilities) and work[1] (ids). Nothing is
// sorted: a cut that provably keeps all survivors thins the vocabulary out, then a radix descent finds the
// exact boundary, in time linear in the vocabulary.
#include <cfloat>

#include "kernels/shared/argmax.h"
#include "kernels/shared/philox.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

namespace {

constexpr uint32_t BLOCK = 256;
constexpr uint32_t BUCKETS = 2048;

struct sample_scratch {
	double histogram[BUCKETS];
	float block_max[LW_AXIS_MAX / BLOCK];
};
static_assert(sizeof(sample_scratch) <= LW_THREAD_SCRATCH_BYTES, "one maximum a block must fit a thread's scratch");

// u32 in the order of the floats, which are not NaN and not -0.
inline uint32_t key_of(float x) {
	uint32_t u = load_as<uint32_t>(&x);
	return u >> 31 ? ~u : u | 0x80000000u;
}
inline float of_key(uint32_t key) {
	uint32_t u = key >> 31 ? key & 0x7fffffffu : ~key;
	return load_as<float>(&u);
}

// The end of a prefix in descending order: all values with a greater key, and the first `ties` with this key.
struct boundary {
	uint32_t key, ties;
};

// The shortest prefix whose weight (the values themselves, or 1 each) reaches target > 0; all if none does.
template <bool BY_VALUE> boundary descend(const float* value, uint32_t n, double target, double* histogram) {
	double above = 0;
	uint32_t prefix = 0, unread = 32;
	constexpr uint32_t widths[] = {11, 11, 10};
	for (uint32_t bits : widths) {
		const uint32_t shift = unread - bits, mask = (1u << bits) - 1;
		for (uint32_t b = 0; b <= mask; b++) histogram[b] = 0;
		for (uint32_t i = 0; i < n; i++) {
			uint32_t key = key_of(value[i]);
			if (uint64_t(key) >> unread == prefix) histogram[key >> shift & mask] += BY_VALUE ? double(value[i]) : 1.0;
		}
		uint32_t b = mask;
		for (; b > 0 && above + histogram[b] < target; b--) above += histogram[b];
		prefix = prefix << bits | b;
		unread = shift;
	}
	double ties = std::ceil((target - above) / (BY_VALUE ? double(of_key(prefix)) : 1.0));
	return {prefix, ties < n ? uint32_t(ties) : n};
}

struct candidates {
	float *value, *id;  // id: u32 in the memory of floats; not there while `all`
	uint32_t n;
	bool all;  // entry i is token i

	uint32_t token(uint32_t i) const { return all ? i : load_as<uint32_t>(id + i); }

	// Keeps the entries for which keep(value) holds, in their order.
	template <class Keep> void filter(Keep keep) {
		uint32_t kept = 0;
		for (uint32_t i = 0; i < n; i++) {
			float v = value[i];
			if (!keep(v)) continue;
			store_as(id + kept, token(i));
			value[kept++] = v;
		}
		n = kept;
		all = false;
	}
	void keep_from(float cut) {
		uint32_t kept = 0, i = 0;
		auto one = [&](uint32_t at) {
			float v = value[at];
			if (!(v >= cut)) return;
			store_as(id + kept, token(at));
			value[kept++] = v;
		};
		for (; i + LANES <= n; i += LANES)
			if (any((vi)(load(value + i) >= cut)))
				for (uint32_t j = 0; j < LANES; j++) one(i + j);
		for (; i < n; i++) one(i);
		n = kept;
		all = false;
	}
	void keep_prefix(boundary b) {
		filter([&](float v) {
			uint32_t key = key_of(v);
			return key > b.key || (key == b.key && b.ties && b.ties--);
		});
	}
};

inline float finite_or_lowest(float x) {
	if (!(x >= -FLT_MAX)) return LOWEST;
	return x > FLT_MAX ? FLT_MAX : x + 0.f;
}

// value = logits with NaN as -inf and +inf as the greatest float, the window's tokens penalised.
void penalise(float* value, const float* logits, uint32_t n, const uint32_t* step, const uint32_t* history, uint32_t ctx, uint64_t p) {
	uint32_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		vf x = load(logits + i);
		// + 0 makes -0 into 0, so that equal values have one key.
		x = min(splat(FLT_MAX), x) + 0.f;
		store(value + i, x == x ? x : splat(LOWEST));
	}
	for (; i < n; i++) value[i] = finite_or_lowest(logits[i]);
	const float penalty = load_as<float>(step + LW_STEP_REPEAT_PENALTY);
	if (!(penalty > 0.f)) return;
	const uint64_t window = step[LW_STEP_REPEAT_WINDOW], end = p < ctx ? p : ctx;
	for (uint64_t at = p > window ? p - window : 0; at < end; at++) {
		const uint32_t id = history[at];
		if (id >= n) continue;
		// From the logit, not from the value: a token that comes twice is penalised once.
		float x = finite_or_lowest(logits[id]);
		value[id] = finite_or_lowest(x > 0.f ? x / penalty : x * penalty);
	}
}

// value = exp((value - top) / temperature); returns the sum.
double exponentiate(float* value, uint32_t n, float top, float temperature) {
	sum_f64 sum;
	uint32_t i = 0;
	for (; i + LANES <= n; i += LANES) {
		vf p = exp((load(value + i) - top) / temperature);
		store(value + i, p);
		sum.add(p);
	}
	if (i < n) {
		int left = int(n - i);
		store_n(value + i, exp((load_n(value + i, left) - top) / temperature), left);
	}
	double rest = 0;
	for (; i < n; i++) rest += double(value[i]);
	return sum.total() + rest;
}

double sum_of(const float* value, uint32_t n) {
	sum_f64 sum;
	uint32_t i = 0;
	for (; i + LANES <= n; i += LANES) sum.add(load(value + i));
	double rest = 0;
	for (; i < n; i++) rest += double(value[i]);
	return sum.total() + rest;
}

uint32_t draw(const candidates& c, double u) {
	auto mass_at = [&](uint32_t i) { return sum_of(c.value + i, c.n - i < BLOCK ? c.n - i : BLOCK); };
	double rest = 0;
	for (uint32_t i = 0; i < c.n; i += BLOCK) rest += mass_at(i);
	rest *= u;
	for (uint32_t i = 0; i < c.n; i += BLOCK) {
		double mass = mass_at(i);
		if (mass <= rest) {
			rest -= mass;
			continue;
		}
		for (uint32_t j = i; j < c.n && j < i + BLOCK; j++) {
			rest -= double(c.value[j]);
			if (rest < 0) return c.token(j);
		}
	}
	// Rounding left u behind the last one that has a probability.
	uint32_t last = c.n - 1;
	while (last > 0 && c.value[last] == 0) last--;
	return c.token(last);
}

// What survives the filters: relative probabilities, the greatest of them 1.
void thin_out(candidates& c, const uint32_t* step, float top, sample_scratch& w) {
	const float temperature = load_as<float>(step + LW_STEP_TEMPERATURE);
	const uint32_t k = step[LW_STEP_TOP_K], blocks = (c.n + BLOCK - 1) / BLOCK;
	const float top_p = load_as<float>(step + LW_STEP_TOP_P), min_p = load_as<float>(step + LW_STEP_MIN_P);
	if (k > 0 && k < c.n) {
		// k blocks have a maximum at or above the k-th greatest maximum: so have k tokens.
		if (k <= blocks) c.keep_from(of_key(descend<false>(w.block_max, blocks, k, w.histogram).key));
		c.keep_prefix(descend<false>(c.value, c.n, k, w.histogram));
	}
	const double total = exponentiate(c.value, c.n, top, temperature);
	if (top_p < 1.f) {
		// Tokens below the cut weigh less than 1 - top_p together, so the prefix ends before them.
		c.keep_from(float(0.999 * (1.0 - double(top_p > 0.f ? top_p : 0.f)) * total / c.n));
		double target = double(top_p) * total;
		c.keep_prefix(descend<true>(c.value, c.n, target > 0 ? target : DBL_MIN, w.histogram));
	}
	if (min_p > 0.f) c.keep_from(min_p < 1.f ? min_p : 1.f);
}

}  // namespace

LW_CPU_KERNEL(sample) {
	const auto& a = *static_cast<const sample_args*>(args_);
	const auto* logits = static_cast<const float*>(slots[sample_slot::logits]);
	const auto* step = static_cast<const uint32_t*>(slots[sample_slot::step]);
	const auto* history = static_cast<const uint32_t*>(slots[sample_slot::history]);
	auto* work = static_cast<float*>(slots[sample_slot::work]);
	auto* picked = static_cast<uint32_t*>(slots[sample_slot::picked]);
	if (begin != 0 || end == 0) return;
	auto& w = *static_cast<sample_scratch*>(scratch);
	const uint32_t n = a.vocab < step[LW_STEP_VOCAB_USED] ? a.vocab : step[LW_STEP_VOCAB_USED];
	const uint64_t p = uint64_t(step[LW_STEP_POS]) + a.rows;
	penalise(work, logits, n, step, history, a.ctx, p);
	const bool greedy = !(load_as<float>(step + LW_STEP_TEMPERATURE) > 0.f);
	float top = LOWEST;
	for (uint32_t i = 0, b = 0; i < n; i += BLOCK, b++) {
		w.block_max[b] = max_of(work + i, n - i < BLOCK ? n - i : BLOCK);
		if (w.block_max[b] > top) top = w.block_max[b];
	}
	if (top == LOWEST || greedy) {
		picked[0] = argmax_of(top == LOWEST ? logits : work, n);
		return;
	}
	candidates c{work, work + a.vocab, n, true};
	thin_out(c, step, top, w);
	// A temperature that is no number leaves nothing that compares.
	if (c.n == 0) {
		picked[0] = argmax_of(logits, n);
		return;
	}
	const uint32_t x = philox4x32(step[LW_STEP_SEED_LO], step[LW_STEP_SEED_HI], {{uint32_t(p), 0, 0, 0}}).word[0];
	picked[0] = draw(c, (double(x) + 0.5) * 0x1p-32);
}

}  // namespace LW_CPU_NAMESPACE
