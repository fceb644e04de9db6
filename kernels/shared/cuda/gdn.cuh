// What the kernels of the gated delta net share: the bits of kernels/shared/metal/gdn.h, operation by operation.
#pragma once
#include "kernels/shared/cuda/lanes.cuh"
#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"

namespace lw_cuda {

constexpr uint32_t HEAD_DIM = 4 * WARP;  // of q, k and v

}  // namespace lw_cuda
