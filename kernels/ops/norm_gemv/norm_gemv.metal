// y[r, y_col + o] = sum_i x[r,i] * inverse[r] * w_norm[i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3, with
// inverse[r] = 1 / sqrt(mean_i(x[r,i]^2) + eps). Work is shared out as in gemv: a threadgroup does a tile of TILE columns
// for a chunk of up to ROWS rows. A simdgroup reads whole rows of x for its dots, so the squares cost it no read: it sums
// them beside, and multiplies by the inverse at the end. No threadgroup memory.
#include "kernels/shared/metal/dot.h"

constant constexpr uint TILE = COLUMNS * (LW_THREADS_norm_gemv / SIMD);
constant constexpr uint ROWS = 4;

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

inline uint tiles_of(uint out) { return (out + TILE - 1) / TILE; }

// R rows of x times w_norm as a dot reads them; squares[r] gets what this lane reads of row r.
template <uint R>
struct WeighedRows {
	device const float* x;
	device const float* w_norm;
	uint in_dim;
	float squares[R];
	inline float4 four(uint r, uint k) {
		return weigh(r, *(device const float4*)(x + r * in_dim + k), *(device const float4*)(w_norm + k));
	}
	inline float4 any_four(uint r, uint k) {
		return weigh(r, load_part(x + r * in_dim + k, in_dim - k), load_part(w_norm + k, in_dim - k));
	}
	inline float4 weigh(uint r, float4 v, float4 w) {
		float s = fma(v.x, v.x, squares[r]);
		s = fma(v.y, v.y, s);
		s = fma(v.z, v.z, s);
		squares[r] = fma(v.w, v.w, s);
		return v * w;
	}
};

// R rows of x against rows 0..last of w; y: the first of its columns in the first of its rows.
template <uint R, typename F>
inline void multiply(thread const WeightRow<F>& w, uint last, device const float* x, device const float* w_norm, float eps,
                     uint in_dim, device float* y, uint y_stride, uint lane) {
	// Values that sum_lanes takes: a power of two.
	constexpr uint N = COLUMNS * (R == 3 ? 4 : R);
	float sums[N] = {};
	WeighedRows<R> rows = {x, w_norm, in_dim, {}};
	add_lane_dots_of<R>(w, last, rows, in_dim, lane, sums);
	const float sum = sum_lanes<N>(sums, lane);
	const uint i = lane / (SIMD / N), r = i / COLUMNS, c = i % COLUMNS;
	float squares = 0.0f;
	LW_UNROLL
	for (uint k = 0; k < R; k++) {
		const float all = simd_sum(rows.squares[k]);
		squares = k == r ? all : squares;
	}
	const float inverse = precise::rsqrt(squares / float(in_dim) + eps);
	if (lane % (SIMD / N) == 0 && r < R && c <= last) y[size_t(r) * y_stride + c] = sum * inverse;
}

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_norm_gemv)]]
void norm_gemv(device const float* x [[buffer(0)]],
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
               device const float* w_norm [[buffer(13)]],
               device float* y [[buffer(14)]],
               constant norm_gemv_args& a [[buffer(16)]],
               uint3 tg [[threadgroup_position_in_grid]],
               uint lane [[thread_index_in_simdgroup]],
               uint sg [[simdgroup_index_in_threadgroup]]) {
	// As even as can be: 5 rows are 3 and 2.
	const uint chunks = (a.rows + ROWS - 1) / ROWS, per_chunk = (a.rows + chunks - 1) / chunks;
	const uint first_row = tg.x % chunks * per_chunk;
	uint tile = tg.x / chunks;

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
	if (o >= out || first_row >= a.rows) return;

	move_rows(w, o, a.in_dim);
	const uint last = out - o - 1, rows = min(per_chunk, a.rows - first_row);
	device const float* xr = x + first_row * a.in_dim;
	device float* yr = y + size_t(first_row) * a.y_stride + a.y_col + column + o;
	if (rows == 1) multiply<1>(w, last, xr, w_norm, a.eps, a.in_dim, yr, a.y_stride, lane);
	else if (rows == 2) multiply<2>(w, last, xr, w_norm, a.eps, a.in_dim, yr, a.y_stride, lane);
	else if (rows == 3) multiply<3>(w, last, xr, w_norm, a.eps, a.in_dim, yr, a.y_stride, lane);
	else multiply<4>(w, last, xr, w_norm, a.eps, a.in_dim, yr, a.y_stride, lane);
}

#define X(v) LW_KERNEL(norm_gemv__##v, norm_gemv<format::v>)
LW_VARIANTS_norm_gemv(X)
