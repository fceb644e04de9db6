// What translated kernels are made of: threadgroup variables, and the values that [[attributes]] read.
#pragma once
#include "native/shim/core/msl_core.h"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

#define MSL_TG_LOCAL(TYPE, NAME, DIMS) __shared__ TYPE NAME DIMS
#define MSL_KERNEL static __device__ __forceinline__
#define MSL_CONSTANT static __constant__ const

namespace metal {

#define MSL_ID(name, X, Y, Z) \
	MSL_FN uint msl_id1_##name() { return X; } \
	MSL_FN uint2 msl_id2_##name() { return uint2(X, Y); } \
	MSL_FN uint3 msl_id3_##name() { return uint3(X, Y, Z); }
MSL_ID(tg, blockIdx.x, blockIdx.y, blockIdx.z)
MSL_ID(tid, threadIdx.x, threadIdx.y, threadIdx.z)
MSL_ID(ntid, blockDim.x, blockDim.y, blockDim.z)
MSL_ID(ntg, gridDim.x, gridDim.y, gridDim.z)
MSL_ID(gid, blockIdx.x * blockDim.x + threadIdx.x, blockIdx.y * blockDim.y + threadIdx.y, blockIdx.z * blockDim.z + threadIdx.z)
#undef MSL_ID

MSL_FN uint msl_id_idx() { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
MSL_FN uint msl_id_lane() { return msl_id_idx() & 31; }
MSL_FN uint msl_id_sg() { return msl_id_idx() >> 5; }
MSL_FN uint msl_id_nsg() { return (blockDim.x * blockDim.y * blockDim.z + 31) / 32; }
MSL_FN uint msl_id_wsz() { return 32; }

}  // namespace metal
