// y[r,o] += sum_i x[r,i] * w[o,i] for rows <= 16, for affine weights: one addition of the finished sum.
#include "kernels/shared/cuda/stream.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {
namespace {

template <class F, uint32_t ROWS>
__global__ void __maxnreg__(gemv_registers(ROWS))
gemv_add_rows(const float* x, const uint8_t* w, const uint8_t* w_scales, const uint8_t* w_biases, float* y, const __grid_constant__ gemv_add_args a, unsigned long long* stamp) {
	const Concatenation all = {{{w, w_scales, w_biases}}, {a.out}};
	gemv<F, ROWS, true>(x, nullptr, 0.0f, a.rows, a.in_dim, all, y, a.out);
	stamp_end(stamp);
}

template <class F, uint32_t ROWS> bool shape(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const gemv_add_args*>(words);
	return gemv_shape<F, ROWS>(a.rows, a.in_dim, tiles_of(a.out), chip, out);
}

template <class F>
__global__ void __launch_bounds__(STREAM_BOUND)
gemv_add_streamed(const float* x, const uint8_t* w, const uint8_t* w_scales, const uint8_t* w_biases, float* y, const __grid_constant__ gemv_add_args a, unsigned long long* stamp,
     const __grid_constant__ StreamPlan plan, uint32_t* claims) {
	const Concatenation all = {{{w, w_scales, w_biases}}, {a.out}};
	streamed_gemv<F, false, true>(x, nullptr, 0.0f, a.in_dim, all, y, nullptr, plan, claims);
	stamp_end(stamp);
}

template <class F> bool streamed(const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const gemv_add_args*>(words);
	return streamed_shape<F>(reinterpret_cast<const void*>(gemv_add_streamed<F>), a.rows, a.in_dim, tiles_of(a.out), chip, out);
}

#define LW_ROWS(v, rows) \
	RegisterOverride v##_##rows("gemv_add__" #v, reinterpret_cast<const void*>(gemv_add_rows<cuda_format::v, rows>), 5, sizeof(gemv_add_args), shape<cuda_format::v, rows>);
#define LW_VARIANT(v) LW_CUDA_ROWS(LW_ROWS, v)
LW_CUDA_FORMATS(LW_VARIANT)
// Behind the others: it is asked first.
#define LW_STREAMED(v) RegisterOverride v##_streamed("gemv_add__" #v, reinterpret_cast<const void*>(gemv_add_streamed<cuda_format::v>), 5, sizeof(gemv_add_args), streamed<cuda_format::v>, 0, {}, false, nullptr, true);
LW_CUDA_STREAMED_FORMATS(LW_STREAMED)

}  // namespace
}  // namespace lw_cuda
