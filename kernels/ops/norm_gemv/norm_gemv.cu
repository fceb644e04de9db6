// y[r, y_col + o] = sum_i x[r,i] * inverse[r] * w_norm[i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3, for affine
// weights, with inverse[r] = 1 / sqrt(mean_i(x[r,i]^2) + eps).
#include "kernels/shared/cuda/stream.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F, uint32_t ROWS>
__global__ void __maxnreg__(gemv_registers(ROWS))
norm_gemv_rows(const float* x, const uint8_t* w0, const uint8_t* w0_scales, const uint8_t* w0_biases, const uint8_t* w1, const uint8_t* w1_scales,
     const uint8_t* w1_biases, const uint8_t* w2, const uint8_t* w2_scales, const uint8_t* w2_biases, const uint8_t* w3, const uint8_t* w3_scales,
     const uint8_t* w3_biases, const float* w_norm, float* y, const __grid_constant__ norm_gemv_args a, unsigned long long* stamp) {
	const Concatenation w = {{{w0, w0_scales, w0_biases}, {w1, w1_scales, w1_biases}, {w2, w2_scales, w2_biases}, {w3, w3_scales, w3_biases}},
	                         {a.out0, a.out1, a.out2, a.out3}};
	gemv<F, ROWS, false>(x, w_norm, a.eps, a.rows, a.in_dim, w, y + a.y_col, a.y_stride);
	stamp_end(stamp);
}

template <class F>
__global__ void __launch_bounds__(STREAM_BOUND)
norm_gemv_streamed(const float* x, const uint8_t* w0, const uint8_t* w0_scales, const uint8_t* w0_biases, const uint8_t* w1, const uint8_t* w1_scales,
     const uint8_t* w1_biases, const uint8_t* w2, const uint8_t* w2_scales, const uint8_t* w2_biases, const uint8_t* w3, const uint8_t* w3_scales,
     const uint8_t* w3_biases, const float* w_norm, float* y, const __grid_constant__ norm_gemv_args a, unsigned long long* stamp, float* gated,
     const __grid_constant__ StreamPlan plan, uint32_t* claims) {
	const Concatenation w = {{{w0, w0_scales, w0_biases}, {w1, w1_scales, w1_biases}, {w2, w2_scales, w2_biases}, {w3, w3_scales, w3_biases}},
	                         {a.out0, a.out1, a.out2, a.out3}};
	streamed_gemv<F, true, false>(x, w_norm, a.eps, a.in_dim, w, y + a.y_col, gated, plan, claims);
	stamp_end(stamp);
}

template <class F> bool streamed(const void* words, const Chip& chip, Launch* out) {
	return concatenated_streamed_shape<norm_gemv_args, F>(reinterpret_cast<const void*>(norm_gemv_streamed<F>), words, chip, out);
}

#define LW_ROWS(v, rows) \
	RegisterOverride v##_##rows("norm_gemv__" #v, reinterpret_cast<const void*>(norm_gemv_rows<cuda_format::v, rows>), 15, sizeof(norm_gemv_args), concatenated_shape<norm_gemv_args, cuda_format::v, rows>);
#define LW_VARIANT(v) LW_CUDA_ROWS(LW_ROWS, v)
LW_CUDA_FORMATS(LW_VARIANT)
const Tail GATE = {"swiglu", norm_gemv_slot::y, swiglu_slot::gu, swiglu_slot::h, gate_fits<norm_gemv_args>};
// Behind the others: it is asked first.
#define LW_STREAMED(v) RegisterOverride v##_streamed("norm_gemv__" #v, reinterpret_cast<const void*>(norm_gemv_streamed<cuda_format::v>), 15, sizeof(norm_gemv_args), streamed<cuda_format::v>, 1u << norm_gemv_slot::w_norm, {}, false, &GATE, true);
LW_CUDA_STREAMED_FORMATS(LW_STREAMED)

}  // namespace
}  // namespace lw_cuda
