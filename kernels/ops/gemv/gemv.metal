// y[r, y_col + o] = sum_i x[r,i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3.
// Every weight has tiles of its own: the list of tiles is that of w0, then of w1, w2, w3. No threadgroup memory.
#include "kernels/shared/metal/gemv.h"

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

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_gemv)]]
void gemv(device const float* x [[buffer(0)]],
          device const uchar* w0 [[buffer(1)]],
          device const typename F::type* w0_scales [[buffer(2), function_constant(has_w0_scales)]],
          device const typename F::type* w0_biases [[buffer(3), function_constant(has_w0_biases)]],
          device const uchar* w1 [[buffer(4), function_constant(has_w1)]],
          device const typename F::type* w1_scales [[buffer(5), function_constant(has_w1_scales)]],
          device const typename F::type* w1_biases [[buffer(6), function_constant(has_w1_biases)]],
          device const uchar* w2 [[buffer(7), function_constant(has_w2)]],
          device const typename F::type* w2_scales [[buffer(8), function_constant(has_w2_scales)]],
          device const typename F::type* w2_biases [[buffer(9), function_constant(has_w2_biases)]],
          device const uchar* w3 [[buffer(10), function_constant(has_w3)]],
          device const typename F::type* w3_scales [[buffer(11), function_constant(has_w3_scales)]],
          device const typename F::type* w3_biases [[buffer(12), function_constant(has_w3_biases)]],
          device float* y [[buffer(13)]],
          constant gemv_args& a [[buffer(24)]],
          uint3 tg [[threadgroup_position_in_grid]],
          uint lane [[thread_index_in_simdgroup]],
          uint sg [[simdgroup_index_in_threadgroup]]) {
	const TileChunk chunk = tile_chunk(tg.x, a.rows);
	uint tile = chunk.tile;

	WeightRow<F> w;
	w.values = w0;
	w.scales = nullptr;
	w.biases = nullptr;
	if (has_w0_scales) w.scales = w0_scales;
	if (has_w0_biases) w.biases = w0_biases;
	uint out = a.out0, column = 0;
	if (has_w1) {
		if (tile >= tiles_of(out)) {
			tile -= tiles_of(out);
			column += out;
			out = a.out1;
			w.values = w1;
			if (has_w1_scales) w.scales = w1_scales;
			if (has_w1_biases) w.biases = w1_biases;
		}
	}
	if (has_w2) {
		if (tile >= tiles_of(out)) {
			tile -= tiles_of(out);
			column += out;
			out = a.out2;
			w.values = w2;
			if (has_w2_scales) w.scales = w2_scales;
			if (has_w2_biases) w.biases = w2_biases;
		}
	}
	if (has_w3) {
		if (tile >= tiles_of(out)) {
			tile -= tiles_of(out);
			column += out;
			out = a.out3;
			w.values = w3;
			if (has_w3_scales) w.scales = w3_scales;
			if (has_w3_biases) w.biases = w3_biases;
		}
	}
	const uint o = tile * TILE + sg * COLUMNS;
	if (o >= out || chunk.rows == 0) return;

	move_rows(w, o, a.in_dim);
	multiply_chunk<false>(w, out - o - 1, x + chunk.first * a.in_dim, chunk.rows, a.in_dim,
	                      y + size_t(chunk.first) * a.y_stride + a.y_col + column + o, a.y_stride, lane);
}

#define X(v) LW_KERNEL(gemv__##v, gemv<format::v>)
LW_VARIANTS_gemv(X)
