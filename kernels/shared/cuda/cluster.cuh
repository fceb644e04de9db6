// Clusters of thread blocks: barriers, each other's shared memory, and bytes sent into it. Devices have them from compute
// capability 9.0 on: kernels of a cluster have their bodies under LW_CLUSTERS, and shapes ask has_clusters.
#pragma once
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/shared/cuda/copies.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define LW_CLUSTERS 1
#define LW_CLUSTER_OF(n) __cluster_dims__(n)
#else
#define LW_CLUSTERS 0
#define LW_CLUSTER_OF(n)
#endif

namespace lw_cuda {

// Of a kernel, on the device in use: what it was compiled for counts, as a newer device may run code for an older one.
inline bool has_clusters(const void* function) {
	cudaFuncAttributes a;
	return cudaFuncGetAttributes(&a, function) == cudaSuccess && a.ptxVersion >= 90;
}

__device__ __forceinline__ uint32_t cluster_rank() {
	uint32_t rank;
	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
	return rank;
}
// What a thread block wrote before it arrived can be seen behind the wait of all.
__device__ __forceinline__ void arrive_at_cluster() {
	__syncwarp();
	asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
// With nothing written but what expect_bytes began, which is seen as it is. Loads under way stay so.
__device__ __forceinline__ void arrive_relaxed_at_cluster() {
	__syncwarp();
	asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void wait_for_cluster() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void sync_cluster() {
	arrive_at_cluster();
	wait_for_cluster();
}
// The same place in the shared memory of thread block `rank`.
template <typename T> __device__ __forceinline__ T* in_block(uint32_t rank, T* p) {
	T* there;
	asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(p), "r"(rank));
	return there;
}

// Bytes that others send, counted by a barrier in the receiver's shared memory. One thread begins, before the cluster
// meets; a barrier serves again when that thread has waited and expects more.
__device__ __forceinline__ void begin_barrier(uint32_t barrier, uint32_t count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory"); }
__device__ __forceinline__ void expect_more_bytes(uint32_t barrier, uint32_t bytes) {
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void expect_more_bytes(uint64_t* barrier, uint32_t bytes) { expect_more_bytes(shared_address(barrier), bytes); }
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, uint32_t bytes) {
	begin_barrier(shared_address(barrier), 1);
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	expect_more_bytes(barrier, bytes);
}
__device__ __forceinline__ uint32_t shared_in_block(uint32_t rank, const void* p) {
	uint32_t there;
	asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
	return there;
}
__device__ __forceinline__ void send(uint32_t rank, float* to, uint64_t* barrier, float v) {
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
	             ::"r"(shared_in_block(rank, to)), "f"(v), "r"(shared_in_block(rank, barrier)) : "memory");
}
__device__ __forceinline__ void send(uint32_t rank, float4* to, uint64_t* barrier, float4 v) {
	asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
	             ::"r"(shared_in_block(rank, to)), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(shared_in_block(rank, barrier)) : "memory");
}
// `turn`: how often the barrier has served before.
__device__ __forceinline__ void wait_for_bytes(uint64_t* barrier, uint32_t turn = 0) {
	uint32_t done = 0;
	while (!done)
		asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
		             : "=r"(done) : "r"(shared_address(barrier)), "r"(turn % 2) : "memory");
}

}  // namespace lw_cuda
