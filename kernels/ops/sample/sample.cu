// The rule of sample.metal, on whose weights and whole-number sums each decision rests: the same token for the same
// logits. A cluster of thread blocks reads the row once and keeps it in shared memory as orders
// (kernels/shared/cuda/logits.cuh); every thread block comes to the same decisions from sums over the cluster.
// Where a bound that keeps all survivors leaves few candidates, one thread block gets them and compares each with all.
// Else a filter keeps a prefix of the descending order, told by its last token: that token's value comes from a descent
// over histograms of what lies between the bound and the greatest value; its id, where not all tokens of this value
// survive, from a walk over them.
#include "kernels/shared/cuda/logits.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t RUNS = LOGIT_CLUSTER * LOGIT_WARPS;
constexpr uint32_t BUCKET_BITS = 11, BUCKETS = 1 << BUCKET_BITS;
constexpr uint32_t MAXIMA = 4 * RUNS;
constexpr float GREATEST = 3.402823466e+38f;
static_assert(BUCKETS == 2 * LOGIT_THREADS && MAXIMA == LOGIT_THREADS, "two buckets a thread, a maximum a thread");

// Candidates in the order of their ids.
constexpr uint32_t FEW = LOGIT_THREADS;
struct Candidates {
	uint32_t order[FEW], id[FEW];
	uint64_t weight[FEW];
};

struct Shared {
	union {
		struct {
			uint64_t histogram[BUCKETS], total[BUCKETS];
		};
		Candidates few;
	};
	// By turns: who has seen the sums of one turn writes those of the next while others still read.
	uint64_t sum[2][RUNS];
	uint64_t of_warp[LOGIT_WARPS];
	uint64_t found_above;
	uint32_t found_bucket, found_id;
	uint32_t maxima[MAXIMA];
	BestShared best;
	uint32_t order[1];  // LOGITS_MAX / LOGIT_CLUSTER or fewer
};

__device__ __forceinline__ uint64_t warp_sum(uint64_t v) {
#pragma unroll
	for (uint32_t d = 1; d < WARP; d *= 2) v += __shfl_xor_sync(~0u, v, d);
	return v;
}
// The sum up to and with this lane.
__device__ __forceinline__ uint64_t warp_prefix(uint64_t v, uint32_t lane) {
#pragma unroll
	for (uint32_t d = 1; d < WARP; d *= 2) {
		const uint64_t below = __shfl_up_sync(~0u, v, d);
		if (lane >= d) v += below;
	}
	return v;
}

// x * 2^bits, rounded to nearest; 0 <= x <= 1, bits < 64.
__device__ __forceinline__ uint64_t mass_of(float x, uint32_t bits) {
	const uint32_t u = __float_as_uint(x), m = (u & 0x7fffff) | 0x800000;
	const int shift = int(u >> 23) - 150 + int(bits);
	if (shift >= 0) return uint64_t(m) << shift;
	return shift < -24 ? 0 : (uint64_t(m) + (1ull << (-shift - 1))) >> -shift;
}

// The first word of Philox4x32-10 of the counter (counter, 0, 0, 0).
__device__ __forceinline__ uint32_t philox4x32(uint32_t key0, uint32_t key1, uint32_t counter) {
	uint32_t c0 = counter, c1 = 0, c2 = 0, c3 = 0;
	for (uint32_t round = 0; round < 10; round++) {
		const uint64_t a = uint64_t(0xd2511f53u) * c0, b = uint64_t(0xcd9e8d57u) * c2;
		c0 = uint32_t(b >> 32) ^ c1 ^ key0;
		c1 = uint32_t(b);
		c2 = uint32_t(a >> 32) ^ c3 ^ key1;
		c3 = uint32_t(a);
		key0 += 0x9e3779b9u;
		key1 += 0xbb67ae85u;
	}
	return c0;
}

// What a token adds to a sum: 1 if it survives, its weight if it does, 1 if its value is that of the last survivor.
enum Measure { COUNT, WEIGHT, TIES };

struct Sampler {
	Shared& s;
	LogitRun run;
	uint32_t turn = 0;

	// No survivor is below.
	uint32_t floor = LOWEST_ORDER;
	// Survivors of top-k and top-p: greater values, and of this value those up to this id.
	uint32_t last_order = NAN_ORDER, last_id = NO_INDEX;
	uint64_t least = 0;  // by min-p

	// weight = 2^((value - top) * (scale + scale_rest)), in units of 2^-bits
	float top, scale, scale_rest;
	uint32_t top_order, bits;

	__device__ explicit Sampler(Shared& shared) : s(shared) {}

	__device__ uint64_t weight(uint32_t order) const {
		if (order == top_order) return 1ull << bits;
		if (order <= LOWEST_ORDER) return 0;
		// Difference and product with what rounding took from them: exp keeps it as a factor.
		const float v = of_order(order), d = __fsub_rn(top, v), back = __fsub_rn(d, top);
		const float d_rest = __fsub_rn(__fsub_rn(top, __fsub_rn(d, back)), __fadd_rn(v, back));
		const float z = __fmul_rn(d, scale);
		if (!(z < 64.0f)) return 0;
		const float rest = __fadd_rn(__fmaf_rn(d, scale, -z), __fmaf_rn(d, scale_rest, __fmul_rn(d_rest, scale)));
		const float e = exp2f(-z);
		return mass_of(__fmaf_rn(__fmul_rn(e, -0.693147181f), rest, e), bits);
	}

	template <Measure M> __device__ uint64_t measure(uint32_t i) const {
		const uint32_t order = s.order[i];
		if (M == TIES) return order == last_order;
		if (order < floor || order < last_order || (order == last_order && run.first + i > last_id)) return 0;
		if (M == COUNT) return 1;
		const uint64_t w = weight(order);
		return w >= least ? w : 0;
	}

	// The measure of every run, for all to read; returns the total.
	template <Measure M> __device__ uint64_t sum_runs() {
		uint64_t m = 0;
		for (uint32_t i = run.begin + run.lane; i < run.end; i += WARP) m += measure<M>(i);
		m = warp_sum(m);
		turn ^= 1;
		if (run.lane < LOGIT_CLUSTER) *in_block(run.lane, &s.sum[turn][run.rank * LOGIT_WARPS + run.warp]) = m;
		sync_cluster();
		uint64_t total = 0;
		for (uint32_t i = run.lane; i < RUNS; i += WARP) total += s.sum[turn][i];
		return warp_sum(total);
	}

	// Calls found(token) in one lane of the cluster: of the token at which the running measure passes `target`, which is
	// less than the total. sum_runs left the sums.
	template <Measure M, typename FOUND> __device__ void locate(uint64_t target, FOUND found) const {
		constexpr uint32_t EACH = RUNS / WARP;
		const uint64_t* sum = s.sum[turn] + run.lane * EACH;
		uint64_t own = 0;
		for (uint32_t i = 0; i < EACH; i++) own += sum[i];
		uint64_t before = warp_prefix(own, run.lane) - own;
		uint32_t at = NO_INDEX;
		if (before <= target && target - before < own)
			for (at = run.lane * EACH; target - before >= s.sum[turn][at]; at++) before += s.sum[turn][at];
		const uint32_t mine = run.rank * LOGIT_WARPS + run.warp, owner = __ffs(__ballot_sync(~0u, at == mine));
		if (!owner) return;
		target -= __shfl_sync(~0u, before, owner - 1);
		// The part of the run that a lane has, then the place in it.
		const uint32_t part = (run.end - run.begin + WARP - 1) / WARP, first = min(run.begin + run.lane * part, run.end), stop = min(first + part, run.end);
		own = 0;
		for (uint32_t i = first; i < stop; i++) own += measure<M>(i);
		before = warp_prefix(own, run.lane) - own;
		if (target < before || target - before >= own) return;
		uint32_t i = first;
		for (uint64_t m; target - before >= (m = measure<M>(i)); i++) before += m;
		found(run.first + i);
	}

	// Makes the survivors those of the shortest prefix of the descending order whose measure reaches `target`, which is
	// more than 0 and not more than the total.
	template <Measure M> __device__ void keep_prefix(uint64_t target) {
		uint32_t base = floor, span = top_order - floor;  // between base and base + span
		uint32_t shift = span >> BUCKET_BITS ? WARP - BUCKET_BITS - __clz(span) : 0;
		for (;;) {
			for (uint32_t b = run.tid; b < BUCKETS; b += LOGIT_THREADS) s.histogram[b] = 0;
			__syncthreads();
			for (uint32_t i = run.begin + run.lane; i < run.end; i += WARP) {
				const uint32_t above = s.order[i] - base;
				if (s.order[i] < base || above > span) continue;
				if (const uint64_t m = measure<M>(i)) atomicAdd(reinterpret_cast<unsigned long long*>(&s.histogram[above >> shift]), m);
			}
			sync_cluster();
			constexpr uint32_t OWN = BUCKETS / LOGIT_CLUSTER;
			if (run.tid < OWN) {
				const uint32_t b = run.rank * OWN + run.tid;
				uint64_t total = 0;
#pragma unroll
				for (uint32_t c = 0; c < LOGIT_CLUSTER; c++) total += *in_block(c, &s.histogram[b]);
#pragma unroll
				for (uint32_t c = 0; c < LOGIT_CLUSTER; c++) *in_block(c, &s.total[b]) = total;
			}
			sync_cluster();
			// Thread t has the buckets 2 t and 2 t + 1 from above.
			const uint32_t b = BUCKETS - 1 - 2 * run.tid;
			const uint64_t upper = s.total[b], lower = s.total[b - 1], upto = warp_prefix(upper + lower, run.lane);
			if (run.lane == WARP - 1) s.of_warp[run.warp] = upto;
			__syncthreads();
			uint64_t above = warp_sum(run.lane < run.warp ? s.of_warp[run.lane] : 0) + upto - upper - lower;
			if (above < target && above + upper + lower >= target) {
				const bool second = above + upper < target;
				s.found_bucket = second ? b - 1 : b;
				s.found_above = second ? above + upper : above;
			}
			__syncthreads();
			base += s.found_bucket << shift;
			target -= s.found_above;
			if (shift == 0) break;
			span = (1u << shift) - 1;
			shift = shift > BUCKET_BITS ? shift - BUCKET_BITS : 0;
		}
		last_order = floor = base;
		last_id = NO_INDEX;
		const uint64_t each = M == COUNT ? 1 : weight(base), kept = (target + each - 1) / each;
		if (sum_runs<TIES>() == kept) return;
		locate<TIES>(kept - 1, [&](uint32_t id) {
			for (uint32_t c = 0; c < LOGIT_CLUSTER; c++) *in_block(c, &s.found_id) = id;
		});
		sync_cluster();
		last_id = s.found_id;
	}

	// An order that every value has whose weight is `share` or more, however that was rounded; others may have it too.
	__device__ uint32_t order_of_share(float temperature, float share) const {
		const float span = -logf(share * 0.99999f) * temperature;
		return order_of(top - span * 1.00001f - fabsf(top) * 1e-6f);
	}
	__device__ void raise_floor(uint32_t order) { floor = max(floor, min(order, top_order)); }

	// The greatest order that at least k of the maxima have.
	__device__ uint32_t kth_maximum(uint32_t k) const {
		uint32_t order = 0;
		for (uint32_t bit = 1u << 31; bit; bit >>= 1)
			if (__syncthreads_count(s.maxima[run.tid] >= (order | bit)) >= int(k)) order |= bit;
		return order;
	}

	// The window's tokens penalised, from the logit and not from what stands in s.order: a token may come twice. False
	// when there is nothing to do.
	__device__ bool penalise(const float* logits, const uint32_t* step, const uint32_t* history, uint32_t n, uint32_t ctx, uint64_t p) const {
		const float penalty = __uint_as_float(step[LW_STEP_REPEAT_PENALTY]);
		const uint64_t window = step[LW_STEP_REPEAT_WINDOW], begin = p > window ? p - window : 0, end = min(p, uint64_t(ctx));
		if (!(penalty > 0.0f) || penalty == 1.0f || begin >= end) return false;
		for (uint64_t at = begin + run.tid; at < end; at += LOGIT_THREADS) {
			const uint32_t id = history[at], i = id - run.first;
			if (id < run.first || id >= n || i >= run.count) continue;
			const float x = of_order(finite_or_lowest(logits[id]));
			s.order[i] = finite_or_lowest(x > 0.0f ? __fdiv_rn(x, penalty) : __fmul_rn(x, penalty));
		}
		__syncthreads();
		return true;
	}

	// What top-p lets reach of a total, more than 0.
	__device__ static uint64_t part_of(uint64_t total, float top_p) {
		const uint64_t f = top_p > 0.0f ? uint32_t(__fmul_rn(top_p, 4294967296.0f)) : 0, low = (total & 0xffffffff) * f;
		return max((total >> 32) * f + (low >> 32) + (low & 0xffffffff ? 1 : 0), uint64_t(1));
	}
	// What the walk passes of a total: floor(total * (2 x + 1) / 2^33). Whole numbers pass a fraction where they pass its
	// whole part.
	__device__ static uint64_t walk_to(uint64_t total, const uint32_t* step, uint64_t p) {
		const uint32_t x = philox4x32(step[LW_STEP_SEED_LO], step[LW_STEP_SEED_HI], uint32_t(p));
		const uint64_t low = (total & 0xffffffff) * x, half = total >> 1, fraction = (low & 0xffffffff) + (half & 0xffffffff);
		return (total >> 32) * x + (low >> 32) + (half >> 32) + (fraction >> 32);
	}

	// Over the thread block: the sum, and in `before` that of the threads before this one.
	__device__ uint64_t sum_of_block(uint64_t v, uint64_t& before) {
		const uint64_t upto = warp_prefix(v, run.lane);
		__syncthreads();
		if (run.lane == WARP - 1) s.of_warp[run.warp] = upto;
		__syncthreads();
		before = warp_sum(run.lane < run.warp ? s.of_warp[run.lane] : 0) + upto - v;
		return warp_sum(s.of_warp[run.lane]);
	}

	// With all survivors of top-k among `count` <= FEW candidates at or above the floor, as sum_runs<COUNT> has counted
	// them: goes through the filters and draws. `target` is what top-p lets reach, 0 where that is a part of the survivors
	// of top-k. k = 0: all.
	__device__ void draw_of_few(uint32_t count, uint32_t k, uint64_t target, const uint32_t* step, uint64_t p, uint32_t* picked) {
		const uint32_t mine = run.rank * LOGIT_WARPS + run.warp;
		uint64_t before = 0;
		for (uint32_t i = run.lane; i < mine; i += WARP) before += s.sum[turn][i];
		uint32_t to = uint32_t(warp_sum(before));
		Candidates& few = *in_block(0, &s.few);
		for (uint32_t base = run.begin; base < run.end; base += WARP) {
			const uint32_t i = base + run.lane;
			const bool is = i < run.end && measure<COUNT>(i);
			const uint32_t all = __ballot_sync(~0u, is), at = to + __popc(all & ((1u << run.lane) - 1));
			if (is) few.order[at] = s.order[i], few.id[at] = run.first + i;
			to += __popc(all);
		}
		sync_cluster();
		if (run.rank) return;

		const bool exists = run.tid < count;
		const uint32_t order = exists ? s.few.order[run.tid] : 0;
		const uint64_t own = exists ? weight(order) : 0;
		s.few.weight[run.tid] = own;
		__syncthreads();
		// Candidates before this one in the descending order, and their weight.
		uint32_t rank = 0;
		uint64_t above = 0;
		for (uint32_t i = 0; i < count; i++) {
			const uint32_t other = s.few.order[i];
			if (other < order || (other == order && i >= run.tid)) continue;
			rank++;
			above += s.few.weight[i];
		}
		bool survives = exists && (k == 0 || rank < k);
		const float top_p = __uint_as_float(step[LW_STEP_TOP_P]);
		if (top_p < 1.0f) {
			if (!target) target = part_of(sum_of_block(survives ? own : 0, before), top_p);
			survives = survives && above < target;
		}
		survives = survives && own >= least;
		const uint64_t total = sum_of_block(survives ? own : 0, before), at = walk_to(total, step, p);
		if (survives && before <= at && at - before < own) *picked = s.few.id[run.tid];
	}

	__device__ void draw(const uint32_t* step, uint32_t n, uint64_t p, uint32_t* picked) {
		// 1 / ln 2 over the temperature, each in two floats.
		const float temperature = fminf(__uint_as_float(step[LW_STEP_TEMPERATURE]), GREATEST);
		scale = __fdiv_rn(1.44269502f, temperature);
		scale_rest = __fdiv_rn(__fadd_rn(__fmaf_rn(-scale, temperature, 1.44269502f), 1.92596299e-8f), temperature);
		top = of_order(top_order);
		bits = 63;
		for (uint32_t m = 1; m < n; m *= 2) bits--;  // n weights fit 64 bits

		const float unit = __uint_as_float((127 - bits) << 23), top_p = __uint_as_float(step[LW_STEP_TOP_P]), min_p = __uint_as_float(step[LW_STEP_MIN_P]);
		const uint32_t k = step[LW_STEP_TOP_K] < n ? step[LW_STEP_TOP_K] : 0;
		const float least_share = fminf(min_p, 1.0f);
		uint64_t target = 0;
		if (k > 0) {
			// k maxima of parts of the row are at or above the k-th greatest of them: so are k tokens.
			if (k <= MAXIMA) raise_floor(kth_maximum(k));
		} else {
			if (top_p < 1.0f) {
				const uint64_t total = sum_runs<WEIGHT>();
				target = part_of(total, top_p);
				// n tokens that weigh rest / 2 n each do not make up the rest, so the prefix ends before any lighter one.
				const uint64_t rest = total - target;
				if (rest > n) raise_floor(order_of_share(temperature, 0.5f * float(rest) * unit / float(n)));
			}
		}
		// What min-p leaves may not reach the target of top-p: where that counts, its bound does not.
		const uint32_t floor_of_prefix = floor;
		const uint64_t whole_least = min_p > 0.0f ? mass_of(least_share, bits) : 0;
		if (k == 0 && min_p > 0.0f) raise_floor(order_of_share(temperature, least_share));
		if (floor > LOWEST_ORDER) {
			const uint64_t count = sum_runs<COUNT>();
			if (count <= FEW) {
				least = whole_least;
				return draw_of_few(uint32_t(count), k, target, step, p, picked);
			}
		}
		floor = floor_of_prefix;
		if (k > 0) keep_prefix<COUNT>(k);
		if (top_p < 1.0f) keep_prefix<WEIGHT>(target ? target : part_of(sum_runs<WEIGHT>(), top_p));
		least = whole_least;
		locate<WEIGHT>(walk_to(sum_runs<WEIGHT>(), step, p), [&](uint32_t token) { *picked = token; });
	}
};

__global__ void LW_CLUSTER_OF(LOGIT_CLUSTER) __launch_bounds__(LOGIT_THREADS)
sample(const float* logits, const uint32_t* step, const uint32_t* history, float*, uint32_t* picked, const __grid_constant__ sample_args a, unsigned long long* stamp) {
#if LW_CLUSTERS
	extern __shared__ uint64_t memory[];
	Sampler sampler(*reinterpret_cast<Shared*>(memory));
	LogitRun& run = sampler.run;
	Shared& s = sampler.s;
	arrive_at_cluster();
	wait_for_previous();
	const uint32_t n = min(a.vocab, step[LW_STEP_VOCAB_USED]);
	const uint64_t p = uint64_t(step[LW_STEP_POS]) + a.rows;
	run.take(a.vocab);
	Best best = no_best();
	run.read(logits, [](float x) { return finite_or_lowest(x); }, [&](uint32_t i, uint32_t order) {
		// Tokens from n on are none; their loads do not wait for n.
		if (run.first + i >= n) order = NAN_ORDER;
		s.order[i] = order;
		best.see(order, run.first + i);
	});
	__syncthreads();
	if (sampler.penalise(logits, step, history, n, a.ctx, p)) {
		best = no_best();
		for (uint32_t i = run.tid; i < run.count; i += LOGIT_THREADS) best.see(s.order[i], run.first + i);
	}
	wait_for_cluster();  // all of the cluster run
	// The maximum of 8 lanes to every thread block, a lane one.
	uint32_t most = best.order;
#pragma unroll
	for (uint32_t d = 1; d < 8; d *= 2) most = max(most, __shfl_xor_sync(~0u, most, d));
	*in_block(run.lane % 8, &s.maxima[(run.rank * LOGIT_WARPS + run.warp) * 4 + run.lane / 8]) = most;
	best = cluster_best(run, best, s.best);

	// By its bits, for a temperature too small for the arithmetic is not 0.
	const uint32_t temperature_bits = step[LW_STEP_TEMPERATURE];
	const bool greedy = temperature_bits == 0 || temperature_bits > 0x7f800000;
	if (best.order <= LOWEST_ORDER) {
		sync_cluster();  // all have seen the first best
		best = no_best();
		run.read(logits, [](float x) { return order_of(x); }, [&](uint32_t i, uint32_t order) {
			if (run.first + i < n) best.see(order, run.first + i);
		});
		best = cluster_best(run, best, s.best);
		if (run.rank == 0 && run.tid == 0) *picked = best.at == NO_INDEX ? 0 : best.at;
	} else if (greedy) {
		if (run.rank == 0 && run.tid == 0) *picked = best.at;
	} else {
		sampler.top_order = best.order;
		sampler.draw(step, n, p, picked);
	}
#endif
	stamp_end(stamp);
}

bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const sample_args*>(words);
	if (a.vocab > LOGITS_MAX || a.vocab < 4 * LOGIT_THREADS || !has_clusters((const void*)sample)) return false;
	const uint32_t orders = (a.vocab + 4 * LOGIT_CLUSTER - 1) / (4 * LOGIT_CLUSTER) * 4;
	*out = {{LOGIT_CLUSTER, 1, 1}, LOGIT_THREADS, uint32_t(sizeof(Shared)) + orders * 4};
	return true;
}
RegisterOverride sample_override("sample", (const void*)sample, 5, sizeof(sample_args), shape);

}  // namespace
}  // namespace lw_cuda
