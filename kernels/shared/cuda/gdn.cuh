// What the kernels of the gated delta net share: the bits of kernels/shared/metal/gdn.h, operation by operation.
#pragma once
#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"

namespace lw_cuda {

constexpr uint32_t HEAD_DIM = 4 * WARP;  // of q, k and v

__device__ __forceinline__ float sigmoid(float x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, expf(-x))); }
__device__ __forceinline__ float silu(float x) { return __fdiv_rn(x, __fadd_rn(1.0f, expf(-x))); }

}  // namespace lw_cuda
