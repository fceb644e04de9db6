// Warpgroup products of Hopper: 64 rows of f16 in registers by N columns in shared memory, sums in f32. A warpgroup is
// four consecutive warps, the first a multiple of 4. Other architectures compile these to nothing and must not run them.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LW_WGMMA 1
#endif

namespace lw_cuda {

// Rows of 64 f16 (128 bytes) lie one behind the other from a multiple of 1024 bytes on. Within a row, piece c of 16 bytes
// stands at place c ^ row % 8: the 128-byte swizzle of the matrix units.
constexpr uint32_t SWIZZLE_ROW = 128;
constexpr uint32_t SWIZZLE_ALIGNMENT = 1024;
__device__ __forceinline__ uint32_t swizzled(uint32_t row, uint32_t piece) { return row * SWIZZLE_ROW + ((piece ^ row % 8) << 4); }

// Of columns in swizzled rows, 16 products deep; the next 16 are DEPTH_STEP further. Eight rows take 1024 bytes.
__device__ __forceinline__ uint64_t columns_at(uint32_t address) {
	return uint64_t(address >> 4 & 0x3fff) | uint64_t(1) << 16 | uint64_t(SWIZZLE_ALIGNMENT >> 4) << 32 | uint64_t(1) << 62;
}
constexpr uint64_t DEPTH_STEP = 2;

// What ordinary stores put into shared memory can be read by the matrix units once a barrier follows.
__device__ __forceinline__ void show_to_matrix_units() {
#ifdef LW_WGMMA
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Before the first product that reads registers which were written since the last one.
__device__ __forceinline__ void begin_products() {
#ifdef LW_WGMMA
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void end_batch() {
#ifdef LW_WGMMA
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
// Until at most LEFT batches are under way.
template <int LEFT> __device__ __forceinline__ void wait_for_batches() {
#ifdef LW_WGMMA
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
#endif
}
// Keeps uses of the sums behind the wait.
template <int COUNT> __device__ __forceinline__ void settle(float (&d)[COUNT]) {
#pragma unroll
	for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// d (+)= a b over 16 products. Thread: rows 16 warp + lane / 4 (d[4 j], d[4 j + 1]) and 8 more (d[4 j + 2], d[4 j + 3]),
// columns 8 j + lane % 4 * 2 and the next. a[0], a[1]: products lane % 4 * 2 and the next of both rows; a[2], a[3]: 8 more.
#define LW_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define LW_D8(i) LW_D4(i), LW_D4(i + 4)
#define LW_D16(i) LW_D8(i), LW_D8(i + 8)
#define LW_A "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns), "r"(int(add))

__device__ __forceinline__ void multiply(float (&d)[8], const uint32_t (&a)[4], uint64_t columns, bool add) {
#ifdef LW_WGMMA
	asm volatile(
		"{.reg .pred p; setp.ne.b32 p, %13, 0;"
		"wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, p, 1, 1, 0;}"
		: LW_D8(0)
		: LW_A);
#endif
}
__device__ __forceinline__ void multiply(float (&d)[12], const uint32_t (&a)[4], uint64_t columns, bool add) {
#ifdef LW_WGMMA
	asm volatile(
		"{.reg .pred p; setp.ne.b32 p, %17, 0;"
		"wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, %16, p, 1, 1, 0;}"
		: LW_D8(0), LW_D4(8)
		: LW_A);
#endif
}
__device__ __forceinline__ void multiply(float (&d)[16], const uint32_t (&a)[4], uint64_t columns, bool add) {
#ifdef LW_WGMMA
	asm volatile(
		"{.reg .pred p; setp.ne.b32 p, %21, 0;"
		"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
		"{%16,%17,%18,%19}, %20, p, 1, 1, 0;}"
		: LW_D16(0)
		: LW_A);
#endif
}
__device__ __forceinline__ void multiply(float (&d)[32], const uint32_t (&a)[4], uint64_t columns, bool add) {
#ifdef LW_WGMMA
	asm volatile(
		"{.reg .pred p; setp.ne.b32 p, %37, 0;"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
		"%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 0;}"
		: LW_D16(0), LW_D16(16)
		: LW_A);
#endif
}
#undef LW_A
// The same with 64 rows a in shared memory, which lie as columns do.
__device__ __forceinline__ void multiply(float (&d)[32], uint64_t rows, uint64_t columns, bool add) {
#ifdef LW_WGMMA
	asm volatile(
		"{.reg .pred p; setp.ne.b32 p, %34, 0;"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
		"%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;}"
		: LW_D16(0), LW_D16(16)
		: "l"(rows), "l"(columns), "r"(int(add)));
#endif
}
// The same with b's rows in shared memory: product k of all 64 columns is swizzled row k. The next 16 are ROW_STEP further.
constexpr uint64_t ROW_STEP = 16 * SWIZZLE_ROW >> 4;
__device__ __forceinline__ void multiply_transposed(float (&d)[32], const uint32_t (&a)[4], uint64_t columns, bool add) {
#ifdef LW_WGMMA
	asm volatile(
		"{.reg .pred p; setp.ne.b32 p, %37, 0;"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
		"%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, p, 1, 1, 1;}"
		: LW_D16(0), LW_D16(16)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(columns), "r"(int(add)));
#endif
}
#undef LW_D16
#undef LW_D8
#undef LW_D4

// The device in use has warpgroup products, and they are compiled for it.
inline bool has_warpgroups() {
	constexpr int architectures[] = {__CUDA_ARCH_LIST__};
	bool compiled = false;
	for (const int a : architectures) compiled |= a == 900;
	int device = 0, major = 0;
	return compiled && !cudaGetDevice(&device) && !cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) && major == 9;
}

}  // namespace lw_cuda
