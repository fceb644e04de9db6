// What the kernels of the gated delta net share: the bits of kernels/shared/metal/gdn.h, operation by operation.
#pragma once
#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"

namespace lw_cuda {

constexpr uint32_t HEAD_DIM = 4 * WARP;  // of q, k and v

__device__ __forceinline__ float dot(float4 a, float4 b) {
	return __fmaf_rn(a.w, b.w, __fmaf_rn(a.z, b.z, __fmaf_rn(a.y, b.y, __fmaf_rn(a.x, b.x, 0.0f))));
}
// decay * s + d * k
__device__ __forceinline__ float updated(float s, float decay, float d, float k) { return __fmaf_rn(d, k, __fmul_rn(decay, s)); }
__device__ __forceinline__ float4 updated(float4 s, float decay, float d, float4 k) {
	return {updated(s.x, decay, d, k.x), updated(s.y, decay, d, k.y), updated(s.z, decay, d, k.z), updated(s.w, decay, d, k.w)};
}

}  // namespace lw_cuda
