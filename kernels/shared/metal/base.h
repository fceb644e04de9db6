// What every .metal file includes: the standard library, generated argument structs, the names by which variants
// instantiate kernels, and sums over a threadgroup.
#pragma once
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
using namespace metal;
#include "native/gen/metal_ops.h"

// One kernel of an op without variants is the function of its name; others are instantiations.
#define LW_KERNEL(NAME, ...) template [[host_name(#NAME)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;

// Arrays stay in registers only where every index is a constant: loops over them are unrolled.
#define LW_UNROLL _Pragma("unroll")

constant constexpr uint SIMD = 32;

inline float silu(float x) { return x / (1.0f + precise::exp(-x)); }
inline float sigmoid(float x) { return 1.0f / (1.0f + precise::exp(-x)); }

// Sum over a threadgroup; `slots` has one place a simdgroup. Every thread gets it.
inline float threadgroup_sum(float v, threadgroup float* slots, uint lane, uint sg, uint simdgroups) {
	v = simd_sum(v);
	if (lane == 0) slots[sg] = v;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	return simd_sum(lane < simdgroups ? slots[lane] : 0.0f);
}
