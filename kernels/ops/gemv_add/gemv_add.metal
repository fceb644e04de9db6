// y[r,o] += sum_i x[r,i] * w[o,i] for rows <= 16: one addition of the finished sum. Work is shared out as in gemv.
// No threadgroup memory.
#include "kernels/shared/metal/gemv.h"

constant bool has_w_scales [[function_constant(2)]];
constant bool has_w_biases [[function_constant(3)]];

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gemv_add)]]
void gemv_add(device const float* x [[buffer(0)]],
              device const uchar* w [[buffer(1)]],
              device const typename F::type* w_scales [[buffer(2), function_constant(has_w_scales)]],
              device const typename F::type* w_biases [[buffer(3), function_constant(has_w_biases)]],
              device float* y [[buffer(4)]],
              constant gemv_add_args& a [[buffer(24)]],
              uint3 tg [[threadgroup_position_in_grid]],
              uint lane [[thread_index_in_simdgroup]],
              uint sg [[simdgroup_index_in_threadgroup]]) {
	const TileChunk chunk = tile_chunk(tg.x, a.rows);
	const uint o = chunk.tile * TILE + sg * COLUMNS;
	if (o >= a.out || chunk.rows == 0) return;
	WeightRow<F> row;
	row.values = w;
	row.scales = nullptr;
	row.biases = nullptr;
	if (has_w_scales) row.scales = w_scales;
	if (has_w_biases) row.biases = w_biases;
	move_rows(row, o, a.in_dim);
	multiply_chunk<true>(row, a.out - o - 1, x + chunk.first * a.in_dim, chunk.rows, a.in_dim,
	                     y + size_t(chunk.first) * a.out + o, a.out, lane);
}

#define X(v) LW_KERNEL(gemv_add__##v, gemv_add<format::v>)
LW_VARIANTS_gemv_add(X)
