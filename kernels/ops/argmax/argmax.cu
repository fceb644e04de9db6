// picked[r] = lowest index of the maximum of logits[r, 0:min(vocab, step.vocabUsed)]; NaN is passed over, and a row
// without a number gives 0. A cluster of thread blocks does a row (kernels/shared/cuda/logits.cuh).
#include "kernels/shared/cuda/logits.cuh"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

__global__ void LW_CLUSTER_OF(LOGIT_CLUSTER) __launch_bounds__(LOGIT_THREADS)
argmax(const float* logits, const uint32_t* step, uint32_t* picked, const __grid_constant__ argmax_args a, unsigned long long* stamp) {
#if LW_CLUSTERS
	__shared__ BestShared best_of;
	LogitRun run;
	arrive_at_cluster();
	wait_for_previous();
	const uint32_t row = blockIdx.x / LOGIT_CLUSTER;
	const float* x = logits + size_t(row) * a.vocab;
	run.take(a.vocab);
	const uint32_t n = step[LW_STEP_VOCAB_USED];
	Best best = no_best();
	run.read(x, [](float v) { return order_of(v); }, [&](uint32_t i, uint32_t order) {
		if (run.first + i < n) best.see(order, run.first + i);
	});
	wait_for_cluster();  // all of the cluster run
	best = cluster_best(run, best, best_of);
	if (run.rank == 0 && run.tid == 0) picked[row] = best.at == NO_INDEX ? 0 : best.at;
#endif
	stamp_end(stamp);
}

bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const argmax_args*>(words);
	// Rows begin at multiples of 16 bytes, and are worth a cluster.
	if (a.vocab % 4 || a.vocab < LOGIT_CLUSTER * LOGIT_THREADS || !has_clusters((const void*)argmax)) return false;
	*out = {{a.rows * LOGIT_CLUSTER, 1, 1}, LOGIT_THREADS, 0};
	return true;
}
RegisterOverride argmax_override("argmax", (const void*)argmax, 3, sizeof(argmax_args), shape);

}  // namespace
}  // namespace lw_cuda
