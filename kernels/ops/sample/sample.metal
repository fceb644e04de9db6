// picked = the token drawn for position p = step.pos + rows from logits[0:min(vocab, step.vocabUsed)]:
//   repeat penalty over the distinct tokens of history[p-window .. p), temperature, then what survives of top-k, top-p
//   and min-p in that order, then a walk over the survivors in id order until their share of probability passes
//   u = (x + 0.5) / 2^32, x = Philox(seed, p). Temperature 0: argmax of the penalised logits.
// Descending order means: value, then lower id. NaN is never picked; without any number above -inf, argmax.
//
// One threadgroup does it all. Nothing is sorted. A filter keeps a prefix of the descending order, and such a prefix
// is told by its last token alone: that token's value comes from a radix descent over a histogram, its id from a walk
// over the tokens of that value. Weights exp((value - top) / temperature) are whole multiples of 2^-bits of the
// greatest: their sums, hence all decisions on them, are exact and the same in any order of threads.
//
// Each simdgroup owns a run of the vocabulary. Where a bound that provably keeps all survivors is known, it packs its
// candidates in order at the front of its run of work[0] (values) and work[1] (ids); until then candidates are all
// tokens, read from the logits (from work[0] if some are penalised).
// Threadgroup memory: 2 * 2048 * 4 + 1024 * 4 + 3 * 32 * 8 + 12 bytes.
#include "kernels/shared/metal/float_order.h"
#include "kernels/shared/metal/mass.h"
#include "kernels/shared/metal/philox.h"

constant constexpr uint THREADS = LW_THREADS_sample;
constant constexpr uint GROUPS = THREADS / SIMD;
constant constexpr uint BUCKETS = 2048;
constant constexpr float GREATEST = 3.402823466e+38f;
static_assert(GROUPS == SIMD, "a lane a simdgroup when their sums meet");

struct Where {
	uint tid, lane, sg;
};

// What a candidate adds to a sum: 1 if it survives, its weight if it does, 1 if its value is that of the last survivor.
constant constexpr uint COUNT = 0, WEIGHT = 1, TIES = 2;

struct Candidates {
	device const float* value;
	device const uint* id;
	uint begin, end;  // of this simdgroup
	bool packed;      // ids are listed; else candidate i is token i

	// Survivors of top-k and top-p: greater values, and of this value those up to this id.
	uint last_order, last_id;
	ulong least;  // by min-p

	// weight = 2^((value - top) * (scale + scale_rest)), in units of 2^-bits
	float top, scale, scale_rest;
	uint top_order, bits;

	uint token(uint i) const { return packed ? id[i] : i; }

	ulong weight(uint order) const {
		if (order == top_order) return 1ul << bits;
		if (order <= LOWEST_ORDER) return 0;
		// Difference and product with what rounding took from them: exp keeps it as a factor.
		const float v = of_order(order), d = top - v, back = d - top;
		const float d_rest = (top - (d - back)) - (v + back);
		const float z = d * scale;
		if (!(z < 64.0f)) return 0;
		const float rest = fma(d, scale, -z) + fma(d, scale_rest, d_rest * scale);
		const float e = precise::exp2(-z);
		return mass_of(fma(e * -0.693147181f, rest, e), bits);
	}
};

template <uint MEASURE>
inline ulong measure(thread const Candidates& c, uint i) {
	const uint order = FiniteOrLowest::order(c.value[i]);
	if (MEASURE == TIES) return order == c.last_order ? 1 : 0;
	if (order < c.last_order || (order == c.last_order && c.token(i) > c.last_id)) return 0;
	if (MEASURE == COUNT) return 1;
	const ulong w = c.weight(order);
	return w >= c.least ? w : 0;
}

// sums[s] = the measure of simdgroup s's candidates, for all threads to read; returns the total.
template <uint MEASURE>
inline ulong sum_runs(thread const Candidates& c, Where w, threadgroup ulong* sums) {
	ulong m = 0;
	for (uint i = c.begin + w.lane; i < c.end; i += SIMD) m += measure<MEASURE>(c, i);
	m = simd_mass(m);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (w.lane == 0) sums[w.sg] = m;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	return simd_mass(sums[w.lane]);
}

// Which of 32 sums in order takes the running sum past `target`; target becomes what it must pass inside.
inline uint run_past(thread ulong& target, threadgroup const ulong* sums, uint lane) {
	const ulong own = sums[lane], upto = simd_prefix_mass(own, lane);
	const uint at = simd_min(upto > target ? lane : SIMD - 1);
	const ulong before = simd_mass(lane < at ? own : 0);
	target -= before;
	return at;
}

// The token at which the running measure passes `target`, which is less than the total. sum_runs left `sums`.
template <uint MEASURE>
inline uint locate(thread const Candidates& c, Where w, ulong target, threadgroup ulong* sums, threadgroup uint2* runs) {
	if (w.lane == 0) runs[w.sg] = uint2(c.begin, c.end);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	const uint2 run = runs[run_past(target, sums, w.lane)];
	uint begin = run.x, end = run.y;
	while (end - begin > SIMD) {
		const uint part = ((end - begin + GROUPS - 1) / GROUPS + SIMD - 1) / SIMD * SIMD;
		const uint first = min(begin + w.sg * part, end), stop = min(first + part, end);
		ulong m = 0;
		for (uint i = first + w.lane; i < stop; i += SIMD) m += measure<MEASURE>(c, i);
		m = simd_mass(m);
		threadgroup_barrier(mem_flags::mem_threadgroup);
		if (w.lane == 0) sums[w.sg] = m;
		threadgroup_barrier(mem_flags::mem_threadgroup);
		begin += run_past(target, sums, w.lane) * part;
		end = min(begin + part, end);
	}
	const uint i = begin + w.lane;
	const ulong upto = simd_prefix_mass(i < end ? measure<MEASURE>(c, i) : 0, w.lane);
	const uint at = simd_min(upto > target ? w.lane : SIMD - 1);
	return c.token(min(begin + at, end - 1));
}

// Packs this simdgroup's candidates of at least this order. Writes stay within what all lanes have read.
inline void pack(thread Candidates& c, Where w, uint least_order, device float* value, device uint* id) {
	uint kept = c.begin;
	for (uint at = c.begin; at < c.end; at += 4 * SIMD) {
		const uint first = at + 4 * w.lane;
		float x[4];
		uint keep = 0;
		if (first + 4 <= c.end) {
			const float4 v = *(device const float4*)(c.value + first);
			x[0] = v.x;
			x[1] = v.y;
			x[2] = v.z;
			x[3] = v.w;
		} else {
			for (uint k = 0; k < 4; k++) x[k] = first + k < c.end ? c.value[first + k] : 0.0f;
		}
		simdgroup_barrier(mem_flags::mem_device);
		for (uint k = 0; k < 4; k++)
			if (first + k < c.end && FiniteOrLowest::order(x[k]) >= least_order) keep |= 1u << k;
		const uint own = popcount(keep), before = simd_prefix_exclusive_sum(own);
		uint to = kept + before;
		kept += simd_sum(own);
		for (uint k = 0; k < 4; k++) {
			if (!(keep >> k & 1)) continue;
			value[to] = x[k];
			id[to] = first + k;
			to++;
		}
	}
	c.value = value;
	c.id = id;
	c.end = kept;
	c.packed = true;
	threadgroup_barrier(mem_flags::mem_device);
}

inline ulong bucket_mass(uint b, threadgroup const atomic_uint* low, threadgroup const atomic_uint* high) {
	const uint upper = atomic_load_explicit(high + b, memory_order_relaxed);
	return ulong(upper) << 32 | atomic_load_explicit(low + b, memory_order_relaxed);
}

// Makes the survivors those of the shortest prefix of the descending order whose measure reaches `target`, which is
// more than 0 and not more than the total.
template <uint MEASURE>
inline void keep_prefix(thread Candidates& c, Where w, ulong target, threadgroup atomic_uint* low,
                        threadgroup atomic_uint* high, threadgroup ulong* sums, threadgroup uint2* runs,
                        threadgroup uint* found, device float* value, device uint* id) {
	uint prefix = 0, unread = 32;
	for (uint level = 0; level < 3; level++) {
		const uint shift = level == 0 ? 21 : level == 1 ? 10 : 0, mask = level == 2 ? 1023 : BUCKETS - 1;
		for (uint b = w.tid; b < BUCKETS; b += THREADS) {
			atomic_store_explicit(low + b, 0u, memory_order_relaxed);
			atomic_store_explicit(high + b, 0u, memory_order_relaxed);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		for (uint i = c.begin + w.lane; i < c.end; i += SIMD) {
			const uint order = FiniteOrLowest::order(c.value[i]);
			if (level > 0 && order >> unread != prefix) continue;
			const ulong m = measure<MEASURE>(c, i);
			if (m == 0) continue;
			// 64 bits in two words: whoever makes the low one wrap carries.
			const uint b = order >> shift & mask, add = uint(m);
			const uint was = atomic_fetch_add_explicit(low + b, add, memory_order_relaxed);
			const uint carry = uint(m >> 32) + (was + add < add ? 1 : 0);
			if (carry) atomic_fetch_add_explicit(high + b, carry, memory_order_relaxed);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		// Thread t has the buckets 2 t and 2 t + 1 from above.
		const uint b = BUCKETS - 1 - 2 * w.tid;
		const ulong upper = bucket_mass(b, low, high);
		const ulong lower = bucket_mass(b - 1, low, high);
		const ulong upto = simd_prefix_mass(upper + lower, w.lane);
		if (w.lane == SIMD - 1) sums[w.sg] = upto;
		threadgroup_barrier(mem_flags::mem_threadgroup);
		ulong above = simd_mass(w.lane < w.sg ? sums[w.lane] : 0) + upto - upper - lower;
		if (above < target && above + upper + lower >= target) {
			const bool second = above + upper < target;
			if (second) above += upper;
			found[0] = second ? b - 1 : b;
			found[1] = uint(above);
			found[2] = uint(above >> 32);
		}
		threadgroup_barrier(mem_flags::mem_threadgroup);
		prefix = level == 0 ? found[0] : level == 1 ? prefix << 11 | found[0] : prefix << 10 | found[0];
		target -= ulong(found[2]) << 32 | found[1];
		unread = shift;
	}
	if (!c.packed) pack(c, w, prefix, value, id);
	const ulong each = MEASURE == COUNT ? 1 : c.weight(prefix);
	c.last_order = prefix;
	sum_runs<TIES>(c, w, sums);
	c.last_id = locate<TIES>(c, w, (target + each - 1) / each - 1, sums, runs);
}

// An order that every value has whose weight is `share` or more, however that was rounded; others may have it too.
inline uint order_of_share(thread const Candidates& c, float temperature, float share) {
	const float span = -precise::log(share * 0.99999f) * temperature;
	return order_of(c.top - span * 1.00001f - fabs(c.top) * 1e-6f);
}

// The order that at least k threads' maxima have, and the greatest such; k <= THREADS.
inline uint kth_maximum(uint k, Where w, threadgroup const uint* maxima, threadgroup uint* found) {
	const uint own = maxima[w.tid];
	uint before = 0;
	for (uint t = 0; t < THREADS; t++) {
		const uint other = maxima[t];
		before += other > own || (other == own && t < w.tid) ? 1 : 0;
	}
	if (before == k - 1) found[0] = own;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	return found[0];
}

// value = logits, the window's tokens penalised; false when there is nothing to do.
inline bool penalise(device float* value, device const float* logits, uint n, device const uint* step,
                     device const uint* history, uint ctx, ulong p, uint tid) {
	const float penalty = as_type<float>(step[LW_STEP_REPEAT_PENALTY]);
	const ulong window = step[LW_STEP_REPEAT_WINDOW], first = p > window ? p - window : 0, end = min(p, ulong(ctx));
	if (!(penalty > 0.0f) || penalty == 1.0f || first >= end) return false;
	for (uint i = tid; i < n / 4; i += THREADS) ((device float4*)value)[i] = ((device const float4*)logits)[i];
	if (n / 4 * 4 + tid < n) value[n / 4 * 4 + tid] = logits[n / 4 * 4 + tid];
	threadgroup_barrier(mem_flags::mem_device);
	for (ulong at = first + tid; at < end; at += THREADS) {
		const uint id = history[at];
		if (id >= n) continue;
		// From the logit, not from the value, and in one piece: a token may come twice.
		const float x = of_order(FiniteOrLowest::order(logits[id])), y = x > 0.0f ? x / penalty : x * penalty;
		atomic_store_explicit((device atomic_uint*)(value + id), as_type<uint>(y), memory_order_relaxed);
	}
	threadgroup_barrier(mem_flags::mem_device);
	return true;
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_sample)]]
void sample(device const float* logits [[buffer(0)]],
            device const uint* step [[buffer(1)]],
            device const uint* history [[buffer(2)]],
            device float* work [[buffer(3)]],
            device uint* picked [[buffer(4)]],
            constant sample_args& a [[buffer(24)]],
            uint3 tg [[threadgroup_position_in_grid]],
            uint tid [[thread_index_in_threadgroup]],
            uint lane [[thread_index_in_simdgroup]],
            uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup atomic_uint low[BUCKETS];
	threadgroup atomic_uint high[BUCKETS];
	threadgroup uint maxima[THREADS];
	threadgroup ulong sums[GROUPS];
	threadgroup uint2 runs[GROUPS];
	threadgroup uint slots[2 * GROUPS];
	threadgroup uint found[3];
	if (tg.x > 0) return;
	Where w;
	w.tid = tid;
	w.lane = lane;
	w.sg = sg;
	const uint n = min(a.vocab, step[LW_STEP_VOCAB_USED]);
	const ulong p = ulong(step[LW_STEP_POS]) + a.rows;
	device uint* id = (device uint*)(work + a.vocab);

	Candidates c;
	c.value = penalise(work, logits, n, step, history, a.ctx, p, tid) ? (device const float*)work : logits;
	Best best = best_of<FiniteOrLowest>(c.value, 0, n, tid, THREADS);
	maxima[tid] = best.order;
	best = threadgroup_best(best, slots, lane, sg, GROUPS);
	// By its bits, for a temperature too small for the arithmetic is not 0.
	const uint temperature_bits = step[LW_STEP_TEMPERATURE];
	const bool greedy = temperature_bits == 0 || temperature_bits > 0x7f800000;
	const bool lowest = best.order <= LOWEST_ORDER;
	if (lowest || greedy) {
		threadgroup_barrier(mem_flags::mem_threadgroup);
		if (lowest) best = threadgroup_best(best_of<EveryFloat>(logits, 0, n, tid, THREADS), slots, lane, sg, GROUPS);
		if (tid == 0) picked[0] = best.at == NO_INDEX ? 0 : best.at;
		return;
	}

	const uint run = ((n + GROUPS - 1) / GROUPS + 4 * SIMD - 1) / (4 * SIMD) * (4 * SIMD);
	c.id = id;
	c.begin = min(sg * run, n);
	c.end = min(c.begin + run, n);
	c.packed = false;
	c.last_order = NAN_ORDER;
	c.last_id = NO_INDEX;
	c.least = 0;
	// 1 / ln 2 over the temperature, each in two floats.
	const float temperature = min(as_type<float>(temperature_bits), GREATEST);
	c.scale = 1.44269502f / temperature;
	c.scale_rest = (fma(-c.scale, temperature, 1.44269502f) + 1.92596299e-8f) / temperature;
	c.top = of_order(best.order);
	c.top_order = best.order;
	c.bits = 63;
	for (uint m = 1; m < n; m *= 2) c.bits--;  // n weights fit 64 bits

	const uint k = step[LW_STEP_TOP_K];
	if (k > 0 && k < n) {
		// k threads have a maximum at or above the k-th greatest maximum: so have k tokens.
		if (k <= THREADS) pack(c, w, kth_maximum(k, w, maxima, found), work, id);
		keep_prefix<COUNT>(c, w, k, low, high, sums, runs, found, work, id);
	}
	const float unit = as_type<float>((127 - c.bits) << 23), top_p = as_type<float>(step[LW_STEP_TOP_P]);
	if (top_p < 1.0f) {
		const ulong total = sum_runs<WEIGHT>(c, w, sums);
		bool whole = true;
		ulong target = mass_times(total, top_p > 0.0f ? uint(top_p * 4294967296.0f) : 0, whole);
		target = max(target + (whole ? 0 : 1), ulong(1));
		// n tokens that weigh rest / 2 n each do not make up the rest, so the prefix ends before any lighter one.
		const ulong rest = total - target;
		const float share = 0.5f * float(rest) * unit / float(n);
		if (!c.packed && rest > n) pack(c, w, order_of_share(c, temperature, share), work, id);
		keep_prefix<WEIGHT>(c, w, target, low, high, sums, runs, found, work, id);
	}
	const float min_p = as_type<float>(step[LW_STEP_MIN_P]);
	if (min_p > 0.0f) {
		const float share = min(min_p, 1.0f);
		c.least = mass_of(share, c.bits);
		if (!c.packed) pack(c, w, order_of_share(c, temperature, share), work, id);
	}
	// The walk passes floor(total * (2 x + 1) / 2^33): whole numbers pass a fraction where they pass its whole part.
	const ulong total = sum_runs<WEIGHT>(c, w, sums);
	const uint x = philox4x32(step[LW_STEP_SEED_LO], step[LW_STEP_SEED_HI], uint(p));
	const ulong low_part = (total & 0xffffffff) * x, half_total = total >> 1;
	const ulong fraction = (low_part & 0xffffffff) + (half_total & 0xffffffff);
	const ulong target = (total >> 32) * x + (low_part >> 32) + (half_total >> 32) + (fraction >> 32);
	const uint token = locate<WEIGHT>(c, w, target, sums, runs);
	if (tid == 0) picked[0] = token;
}
