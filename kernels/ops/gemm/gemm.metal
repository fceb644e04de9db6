// y[r, y_col + o] = sum_i x[r,i] * w[o,i], o over the rows of w0 | w1 | w2 | w3. A threadgroup does 64 rows by 64 outputs
// of one weight: row tile tg.x, so that neighbours share weights, and output tile tg.y, counted over the weights.
// Threadgroup memory: 18432 + 256 bytes. 96 to 128 registers a thread on sm_90, none spilled.
// Other columns of y stay as they are.
#include "kernels/shared/metal/gemm.h"

constant bool has_w0_scales [[function_constant(2)]];
constant bool has_w0_biases [[function_constant(3)]];
constant bool has_w1 [[function_constant(4)]];
constant bool has_w1_scales [[function_constant(5)]];
constant bool has_w1_biases [[function_constant(6)]];
constant bool has_w2 [[function_constant(7)]];
constant bool has_w2_scales [[function_constant(8)]];
constant bool has_w2_biases [[function_constant(9)]];
constant bool has_w3 [[function_constant(10)]];
constant bool has_w3_scales [[function_constant(11)]];
constant bool has_w3_biases [[function_constant(12)]];

// Steps over a weight of `out` rows if the tile lies behind it.
inline bool behind(thread uint& tile, thread uint& col, thread uint& out, uint next_out) {
	const uint tiles = (out + GEMM_TILE - 1) / GEMM_TILE;
	if (tile < tiles) return false;
	tile -= tiles;
	col += out;
	out = next_out;
	return true;
}

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gemm)]]
void gemm(device const float* x [[buffer(0)]],
          device const uint* w0 [[buffer(1)]],
          device const typename F::type* w0_scales [[buffer(2), function_constant(has_w0_scales)]],
          device const typename F::type* w0_biases [[buffer(3), function_constant(has_w0_biases)]],
          device const uint* w1 [[buffer(4), function_constant(has_w1)]],
          device const typename F::type* w1_scales [[buffer(5), function_constant(has_w1_scales)]],
          device const typename F::type* w1_biases [[buffer(6), function_constant(has_w1_biases)]],
          device const uint* w2 [[buffer(7), function_constant(has_w2)]],
          device const typename F::type* w2_scales [[buffer(8), function_constant(has_w2_scales)]],
          device const typename F::type* w2_biases [[buffer(9), function_constant(has_w2_biases)]],
          device const uint* w3 [[buffer(10), function_constant(has_w3)]],
          device const typename F::type* w3_scales [[buffer(11), function_constant(has_w3_scales)]],
          device const typename F::type* w3_biases [[buffer(12), function_constant(has_w3_biases)]],
          device float* y [[buffer(13)]],
          constant gemm_args& a [[buffer(24)]],
          uint3 tg [[threadgroup_position_in_grid]],
          uint tid [[thread_index_in_threadgroup]],
          uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup float4 memory[GEMM_MEMORY];
	threadgroup uint rows[GEMM_TILE];
	threadgroup float* floats = (threadgroup float*)memory;

	const uint r0 = tg.x * GEMM_TILE;
	uint tile = tg.y, col = a.y_col, out = a.out0, weight = 0;
	if (behind(tile, col, out, a.out1)) weight = 1;
	if (weight == 1 && behind(tile, col, out, a.out2)) weight = 2;
	if (weight == 2 && behind(tile, col, out, a.out3)) weight = 3;
	if (r0 >= a.rows || tile >= (out + GEMM_TILE - 1) / GEMM_TILE) return;

	GemmWeight<F> w = {w0, nullptr, nullptr, 0};
	if (has_w0_scales) w.scales = w0_scales;
	if (has_w0_biases) w.biases = w0_biases;
#define TAKE(n) \
	if (has_w##n && weight == n) w.values = w##n; \
	if (has_w##n##_scales && weight == n) w.scales = w##n##_scales; \
	if (has_w##n##_biases && weight == n) w.biases = w##n##_biases;
	TAKE(1) TAKE(2) TAKE(3)
#undef TAKE
	// Behind the last row of the weight or of x the tile repeats it: what comes of that is not stored.
	const uint o0 = tile * GEMM_TILE, n = min(a.rows - r0, GEMM_TILE), outs = min(out - o0, GEMM_TILE);
	w.row = min(o0 + tid / 2, out - 1);
	if (tid < GEMM_TILE) rows[tid] = min(r0 + tid, a.rows - 1);
	threadgroup_barrier(mem_flags::mem_threadgroup);

	simdgroup_float8x8 sums[GEMM_SUMS];
	multiply_tile<F>(sums, x, rows, n, w, a.in_dim, sg * 16, sg * 16 + 8, floats, tid);
	store_sums<2>(sums, n, sg * 16, floats);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	for (uint i = tid; i < n * GEMM_TILE; i += LW_THREADS_gemm) {
		const uint r = i / GEMM_TILE, o = i % GEMM_TILE;
		if (o < outs) y[size_t(r0 + r) * a.y_stride + col + o0 + o] = floats[r * GEMM_OUT_LINE + o];
	}
}

#define X(v) LW_KERNEL(gemm__##v, gemm<format::v>)
LW_VARIANTS_gemm(X)
