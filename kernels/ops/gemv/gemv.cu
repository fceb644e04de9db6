// y[r, y_col + o] = sum_i x[r,i] * w[o,i] for rows <= 16, o over w0 | w1 | w2 | w3, for affine weights.
#include "kernels/shared/cuda/stream.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F, uint32_t ROWS>
__global__ void __maxnreg__(gemv_registers(ROWS))
gemv_rows(const float* x, const uint8_t* w0, const uint8_t* w0_scales, const uint8_t* w0_biases, const uint8_t* w1, const uint8_t* w1_scales,
     const uint8_t* w1_biases, const uint8_t* w2, const uint8_t* w2_scales, const uint8_t* w2_biases, const uint8_t* w3, const uint8_t* w3_scales,
     const uint8_t* w3_biases, float* y, const __grid_constant__ gemv_args a, unsigned long long* stamp) {
	const Concatenation w = {{{w0, w0_scales, w0_biases}, {w1, w1_scales, w1_biases}, {w2, w2_scales, w2_biases}, {w3, w3_scales, w3_biases}},
	                         {a.out0, a.out1, a.out2, a.out3}};
	gemv<F, ROWS, false>(x, nullptr, 0.0f, a.rows, a.in_dim, w, y + a.y_col, a.y_stride);
	stamp_end(stamp);
}

template <class F>
__global__ void __launch_bounds__(STREAM_BOUND)
gemv_streamed(const float* x, const uint8_t* w0, const uint8_t* w0_scales, const uint8_t* w0_biases, const uint8_t* w1, const uint8_t* w1_scales,
     const uint8_t* w1_biases, const uint8_t* w2, const uint8_t* w2_scales, const uint8_t* w2_biases, const uint8_t* w3, const uint8_t* w3_scales,
     const uint8_t* w3_biases, float* y, const __grid_constant__ gemv_args a, unsigned long long* stamp, float* gated,
     const __grid_constant__ StreamPlan plan, uint32_t* claims) {
	const Concatenation w = {{{w0, w0_scales, w0_biases}, {w1, w1_scales, w1_biases}, {w2, w2_scales, w2_biases}, {w3, w3_scales, w3_biases}},
	                         {a.out0, a.out1, a.out2, a.out3}};
	streamed_gemv<F, false, false>(x, nullptr, 0.0f, a.in_dim, w, y + a.y_col, gated, plan, claims);
	stamp_end(stamp);
}

template <class F> bool streamed(const void* words, const Chip& chip, Launch* out) {
	return concatenated_streamed_shape<gemv_args, F>(reinterpret_cast<const void*>(gemv_streamed<F>), words, chip, out);
}

#define LW_ROWS(v, rows) \
	RegisterOverride v##_##rows("gemv__" #v, reinterpret_cast<const void*>(gemv_rows<cuda_format::v, rows>), 14, sizeof(gemv_args), concatenated_shape<gemv_args, cuda_format::v, rows>);
#define LW_VARIANT(v) LW_CUDA_ROWS(LW_ROWS, v)
LW_CUDA_FORMATS(LW_VARIANT)
const Tail GATE = {"swiglu", gemv_slot::y, swiglu_slot::gu, swiglu_slot::h, gate_fits<gemv_args>};
// Behind the others: it is asked first.
#define LW_STREAMED(v) RegisterOverride v##_streamed("gemv__" #v, reinterpret_cast<const void*>(gemv_streamed<cuda_format::v>), 14, sizeof(gemv_args), streamed<cuda_format::v>, 0, {}, false, &GATE, true);
LW_CUDA_STREAMED_FORMATS(LW_STREAMED)

}  // namespace
}  // namespace lw_cuda
