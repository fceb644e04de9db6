// simdgroup_matrix: 8x8, two elements a lane in the layout of mma.sync's A, C and D: row lane / 4, columns
// lane % 4 * 2 and the next. B is transposed on the way (movmatrix).
#pragma once
#include "native/shim/cuda/simd.h"

namespace metal {

MSL_FN uint matrix_row(uint lane) { return lane / 4; }
MSL_FN uint matrix_column(uint lane) { return lane % 4 * 2; }

template <typename T, int C, int R>
struct simdgroup_matrix {
	static_assert(C == 8 && R == 8, "simdgroup_matrix is 8x8");
	T e[2];
	simdgroup_matrix() = default;
	// A multiple of the identity.
	MSL_FN explicit simdgroup_matrix(T diagonal) {
		const uint row = matrix_row(warp_lane()), column = matrix_column(warp_lane());
		e[0] = column == row ? diagonal : T(0);
		e[1] = column + 1 == row ? diagonal : T(0);
	}
	MSL_FN vec<T, 2>& thread_elements() { return *reinterpret_cast<vec<T, 2>*>(e); }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int C, int R = C>
MSL_FN simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
	simdgroup_matrix<T, C, R> m;
	m.e[0] = m.e[1] = v;
	return m;
}

// The element at `p + origin` is that of row 0 and column 0; a row (transposed: a column) is `stride` elements long.
// A simdgroup loads and stores as one: its lanes meet before and after.
template <typename T, typename P>
MSL_FN void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const P* p, ulong stride = 8, ulong2 origin = ulong2(0, 0), bool transposed = false) {
	__syncwarp();
	const uint row = matrix_row(warp_lane()), column = matrix_column(warp_lane());
	p += origin.y * stride + origin.x;
	for (uint i = 0; i < 2; i++) m.e[i] = T(transposed ? p[(column + i) * stride + row] : p[row * stride + column + i]);
	__syncwarp();
}
template <typename T, typename P>
MSL_FN void simdgroup_store(simdgroup_matrix<T, 8, 8> m, P* p, ulong stride = 8, ulong2 origin = ulong2(0, 0), bool transposed = false) {
	__syncwarp();
	const uint row = matrix_row(warp_lane()), column = matrix_column(warp_lane());
	p += origin.y * stride + origin.x;
	for (uint i = 0; i < 2; i++) (transposed ? p[(column + i) * stride + row] : p[row * stride + column + i]) = P(m.e[i]);
	__syncwarp();
}

template <typename T>
MSL_FN uint matrix_pair(const simdgroup_matrix<T, 8, 8>& m) {
	return (uint)m.e[0].bits | (uint)m.e[1].bits << 16;
}
MSL_FN uint matrix_transposed(uint pair) {
	uint r;
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
	return r;
}

// Half of the rows of an m16n8k8 product are zero.
#define MSL_MULTIPLY(T, NAME) \
	MSL_FN void simdgroup_multiply_accumulate(simdgroup_matrix<float, 8, 8>& d, simdgroup_matrix<T, 8, 8> a, simdgroup_matrix<T, 8, 8> b, simdgroup_matrix<float, 8, 8> c) { \
		float unused0, unused1; \
		asm volatile( \
			"mma.sync.aligned.m16n8k8.row.col.f32." NAME "." NAME ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};" \
			: "=f"(d.e[0]), "=f"(d.e[1]), "=f"(unused0), "=f"(unused1) \
			: "r"(matrix_pair(a)), "r"(0), "r"(matrix_transposed(matrix_pair(b))), "f"(c.e[0]), "f"(c.e[1]), "f"(0.f), "f"(0.f)); \
		(void)(unused0 + unused1); \
	}
MSL_MULTIPLY(half, "f16")
MSL_MULTIPLY(bfloat, "bf16")
#undef MSL_MULTIPLY

// Any other types, in float arithmetic by shuffles; MSL_PRODUCT_UNROLL says how many of the 8 steps are unrolled.
#ifndef MSL_PRODUCT_UNROLL
#define MSL_PRODUCT_UNROLL 8
#endif
template <typename D, typename A, typename B, typename C>
MSL_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
	const uint lane = warp_lane();
	float s0 = float(c.e[0]), s1 = float(c.e[1]);
	constexpr int unrolled = MSL_PRODUCT_UNROLL;
#pragma unroll unrolled
	for (uint k = 0; k < 8; k++) {
		const float x = float(simd_shuffle(a.e[k & 1], (lane & 28) | k / 2));
		const float b0 = float(simd_shuffle(b.e[0], k * 4 | (lane & 3)));
		const float b1 = float(simd_shuffle(b.e[1], k * 4 | (lane & 3)));
		s0 += x * b0;
		s1 += x * b1;
	}
	d.e[0] = D(s0);
	d.e[1] = D(s1);
}
template <typename D, typename A, typename B>
MSL_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b) {
	simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0)));
}

}  // namespace metal
