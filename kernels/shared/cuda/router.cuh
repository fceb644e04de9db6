// The choice of experts, by one warp: the top_k greatest logits in descending order, ties to the lower index, and the
// softmax over them. Infinities count as the greatest float, NaN as the lowest, as in router_topk.
#pragma once
#include <cstdint>

namespace lw_cuda {

constexpr uint32_t TOP_K_MAX = 32, EXPERTS_MAX = 1024;

struct Choice {
	uint32_t ids[TOP_K_MAX];
	float weights[TOP_K_MAX];  // before the softmax: the logit less the greatest
};

// Numbers whose order is that of the logits; zero is none of them.
__device__ __forceinline__ uint32_t expert_order(float logit) {
	constexpr float GREATEST = 3.402823466e+38f;
	const float v = !(logit >= -GREATEST) ? -GREATEST : logit > GREATEST ? GREATEST : logit;
	const uint32_t bits = __float_as_uint(v + 0.0f);
	return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float logit_of(uint32_t order) { return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order); }

// Each lane holds KEYS experts that follow one another, so that of equal ones in two lanes the lower lane's is lower.
template <uint32_t KEYS> __device__ __forceinline__ void choose_of(const float* logits, uint32_t experts, uint32_t top_k, uint32_t lane, Choice* out) {
	uint32_t keys[KEYS];
#pragma unroll
	for (uint32_t j = 0; j < KEYS; j++) keys[j] = lane * KEYS + j < experts ? expert_order(logits[lane * KEYS + j]) : 0;
	uint32_t mine = 0, top = 0, chosen_key = 0;
	for (uint32_t k = 0; k < top_k; k++) {
		uint32_t best[4] = {};
#pragma unroll
		for (uint32_t j = 0; j < KEYS; j++) best[j % 4] = max(best[j % 4], keys[j]);
		best[0] = max(max(best[0], best[1]), max(best[2], best[3]));
		const uint32_t key = __reduce_max_sync(0xffffffff, best[0]);
		const uint32_t winner = __ffs(__ballot_sync(0xffffffff, best[0] == key)) - 1;
		if (lane == winner) {
			bool found = false;
#pragma unroll
			for (uint32_t j = 0; j < KEYS; j++) {
				const bool here = !found && keys[j] == key;
				if (here) mine = lane * KEYS + j;
				keys[j] = here ? 0 : keys[j];
				found |= here;
			}
			out->ids[k] = mine;
		}
		if (k == 0) top = key;
		if (lane == k) chosen_key = key;
	}
	if (lane < top_k) out->weights[lane] = logit_of(chosen_key) - logit_of(top);
}

__device__ __forceinline__ void choose(const float* logits, uint32_t experts, uint32_t top_k, uint32_t lane, Choice* out) {
	if (experts <= 256) choose_of<8>(logits, experts, top_k, lane, out);
	else choose_of<32>(logits, experts, top_k, lane, out);
}

// The softmax of what is chosen, in the same warp.
__device__ __forceinline__ float chosen_weight(uint32_t top_k, uint32_t lane, const Choice& choice) {
	const float term = lane < top_k ? expf(choice.weights[lane]) : 0.0f;
	float total = term;
#pragma unroll
	for (uint32_t d = 16; d; d /= 2) total = __fadd_rn(total, __shfl_xor_sync(0xffffffff, total, d));
	return __fdiv_rn(term, total);
}

}  // namespace lw_cuda
