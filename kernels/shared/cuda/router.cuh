// The choice of experts, by one warp: the top_k greatest logits in descending order, ties to the lower index, and the
// softmax over them. Infinities count as the greatest float, NaN as the lowest, as in router_topk.
#pragma once
#include "kernels/shared/cuda/lanes.cuh"

namespace lw_cuda {

constexpr uint32_t TOP_K_MAX = 32;
// Experts of which a lane holds so many.
constexpr uint32_t experts_of(uint32_t keys) { return keys * WARP; }
#define LW_CUDA_EXPERT_KEYS(X, v) X(v, 8) X(v, 32)

// What a lane of the warp has chosen: lane k the k-th expert.
struct Choice {
	uint32_t id;
	float weight;  // before the softmax: the logit less the greatest
};

// Numbers whose order is that of the logits; zero is none of them.
__device__ __forceinline__ uint32_t expert_order(float logit) {
	constexpr float GREATEST = 3.402823466e+38f;
	// The maximum of NaN and a number is the number.
	const int bits = __float_as_int(fminf(fmaxf(logit, -GREATEST), GREATEST) + 0.0f);
	return static_cast<uint32_t>(bits) ^ (static_cast<uint32_t>(bits >> 31) | 0x80000000u);
}
__device__ __forceinline__ float logit_of(uint32_t order) { return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order); }

// Each lane holds every 32nd expert, so that a warp loads whole lines: every multiprocessor asks for the same ones.
template <uint32_t KEYS> __device__ __forceinline__ Choice choose(const float* logits, uint32_t experts, uint32_t top_k, uint32_t lane) {
	uint32_t keys[KEYS];
#pragma unroll
	for (uint32_t i = 0; i < KEYS; i++) keys[i] = i * WARP + lane < experts ? expert_order(logits[i * WARP + lane]) : 0;
	uint32_t id = 0, top = 0, chosen_key = 0;
#pragma unroll 1
	for (uint32_t k = 0; k < top_k; k++) {
		uint32_t best = 0, mine = ~0u;
#pragma unroll
		for (uint32_t i = 0; i < KEYS; i++) best = max(best, keys[i]);
		const uint32_t key = __reduce_max_sync(0xffffffff, best);
#pragma unroll
		for (uint32_t i = KEYS; i--;) mine = keys[i] == key ? i * WARP + lane : mine;
		const uint32_t winner = __reduce_min_sync(0xffffffff, mine);
#pragma unroll
		for (uint32_t i = 0; i < KEYS; i++) keys[i] = winner == i * WARP + lane ? 0 : keys[i];
		if (lane == k) {
			id = winner;
			chosen_key = key;
		}
		if (k == 0) top = key;
	}
	return {id, lane < top_k ? logit_of(chosen_key) - logit_of(top) : 0.0f};
}

// The softmax of what is chosen, in the same warp.
__device__ __forceinline__ float chosen_weight(uint32_t top_k, uint32_t lane, const Choice& choice) {
	const float term = lane < top_k ? expf(choice.weight) : 0.0f;
	float total = term;
#pragma unroll
	for (uint32_t d = 16; d; d /= 2) total = __fadd_rn(total, __shfl_xor_sync(0xffffffff, total, d));
	return __fdiv_rn(term, total);
}

}  // namespace lw_cuda
