// y[r,d] = table[history[pos + ahead + r], d], pos = step[POS]; zeros for a position or an id outside.
// A threadgroup does a part of one row, each thread VALUES adjacent values. No threadgroup memory.
#include "kernels/shared/metal/formats.h"

constant constexpr uint VALUES = 4;

constant bool has_table_scales [[function_constant(3)]];
constant bool has_table_biases [[function_constant(4)]];

// VALUES values of row `id` from d on, of which `left` or more belong to it. Whole groups of codes are a multiple of
// VALUES, and VALUES codes are 2 or 4 bytes that lie at a multiple of as many.
template <uint BITS, uint GROUP, typename S>
inline float4 read_values(WeightFormat<BITS, GROUP, S>, device const uchar* table, device const S* scales,
                          device const S* biases, uint id, uint d, uint dim, uint) {
	device const uchar* p = table + size_t(id) * (dim / 8 * BITS) + d / 4 * (BITS / 2);
	constexpr uint MASK = (1u << BITS) - 1;
	const uint v = BITS == 4 ? uint(*(device const ushort*)p) : *(device const uint*)p;
	const size_t g = size_t(id) * (dim / GROUP) + d / GROUP;
	const float scale = float(scales[g]), bias = float(biases[g]);
	return float4(fma(scale, float(v & MASK), bias), fma(scale, float(v >> BITS & MASK), bias),
	              fma(scale, float(v >> 2 * BITS & MASK), bias), fma(scale, float(v >> 3 * BITS & MASK), bias));
}
template <typename T>
inline float4 read_values(WeightFormat<0, 1, T>, device const uchar* table, device const T*, device const T*, uint id, uint d,
                          uint dim, uint left) {
	device const T* p = (device const T*)table + size_t(id) * dim + d;
	return float4(float(p[0]), left > 1 ? float(p[1]) : 0.0f, left > 2 ? float(p[2]) : 0.0f, left > 3 ? float(p[3]) : 0.0f);
}

template <typename F>
[[kernel, max_total_threads_per_threadgroup(LW_THREADS_embed)]]
void embed(device const uint* history [[buffer(0)]],
           device const uint* step [[buffer(1)]],
           device const uchar* table [[buffer(2)]],
           device const typename F::type* table_scales [[buffer(3), function_constant(has_table_scales)]],
           device const typename F::type* table_biases [[buffer(4), function_constant(has_table_biases)]],
           device float* y [[buffer(5)]],
           constant embed_args& a [[buffer(24)]],
           uint3 tg [[threadgroup_position_in_grid]],
           uint tid [[thread_index_in_threadgroup]]) {
	const uint r = tg.x, d = (tg.y * LW_THREADS_embed + tid) * VALUES;
	if (r >= a.rows || d >= a.dim) return;
	const ulong at = ulong(step[LW_STEP_POS]) + a.ahead + r;
	const uint left = a.dim - d, id = at < a.ctx ? history[at] : a.vocab;

	device const typename F::type* scales = nullptr;
	device const typename F::type* biases = nullptr;
	if (has_table_scales) scales = table_scales;
	if (has_table_biases) biases = table_biases;
	float4 v = float4(0.0f);
	if (id < a.vocab) v = read_values(F(), table, scales, biases, id, d, a.dim, left);

	device float* to = y + size_t(r) * a.dim + d;
	if (a.dim % VALUES == 0) {
		*(device float4*)to = v;
	} else {
		to[0] = v.x;
		if (left > 1) to[1] = v.y;
		if (left > 2) to[2] = v.z;
		if (left > 3) to[3] = v.w;
	}
}

#define X(v) LW_KERNEL(embed__##v, embed<format::v>)
LW_VARIANTS_embed(X)
