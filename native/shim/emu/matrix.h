// simdgroup_matrix: 8x8, two elements a lane in Apple's layout, products by the last lane to come.
#pragma once
#include "native/shim/emu/simd.h"

namespace metal {

inline uint matrix_row(uint lane) {
	return (lane / 4 & 4) + lane / 2 % 4;
}
// Of the first element; the second stands in the next column.
inline uint matrix_column(uint lane) {
	return (lane / 4 & 2) * 2 + lane % 2 * 2;
}

template <typename T, int C, int R>
struct simdgroup_matrix {
	static_assert(C == 8 && R == 8, "simdgroup_matrix is 8x8");
	T e[2];
	simdgroup_matrix() = default;
	// A multiple of the identity.
	explicit simdgroup_matrix(T diagonal) {
		const uint row = matrix_row(simt::lane()), column = matrix_column(simt::lane());
		for (uint i = 0; i < 2; i++) e[i] = column + i == row ? diagonal : T(0);
	}
	vec<T, 2>& thread_elements() { return *reinterpret_cast<vec<T, 2>*>(e); }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int C, int R = C>
inline simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T v) {
	simdgroup_matrix<T, C, R> m;
	m.e[0] = m.e[1] = v;
	return m;
}

// The element at `p + origin` is that of row 0 and column 0; a row (transposed: a column) is `stride` elements long.
template <typename T, typename P>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const P* p, ulong stride = 8, ulong2 origin = ulong2(0, 0), bool transposed = false) {
	simt::exchange(0, OP_MATRIX_LOAD, 0);
	const uint row = matrix_row(simt::lane()), column = matrix_column(simt::lane());
	p += origin.y * stride + origin.x;
	for (uint i = 0; i < 2; i++) m.e[i] = T(transposed ? p[(column + i) * stride + row] : p[row * stride + column + i]);
}
template <typename T, typename P>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> m, P* p, ulong stride = 8, ulong2 origin = ulong2(0, 0), bool transposed = false) {
	simt::exchange(0, OP_MATRIX_STORE, 0);
	const uint row = matrix_row(simt::lane()), column = matrix_column(simt::lane());
	p += origin.y * stride + origin.x;
	for (uint i = 0; i < 2; i++) (transposed ? p[(column + i) * stride + row] : p[row * stride + column + i]) = P(m.e[i]);
}

// One lane's share of d = a * b + c.
template <typename D, typename A, typename B, typename C>
struct matrix_product {
	D* d;
	const A* a;
	const B* b;
	const C* c;

	SIMT_RUNTIME static void multiply(uint64_t* lanes, uint32_t) {
		float a[8][8], b[8][8], c[8][8];
		for (uint lane = 0; lane < 32; lane++) {
			const auto* part = reinterpret_cast<const matrix_product*>(lanes[lane]);
			const uint row = matrix_row(lane), column = matrix_column(lane);
			for (uint i = 0; i < 2; i++) {
				a[row][column + i] = float(part->a[i]);
				b[row][column + i] = float(part->b[i]);
				c[row][column + i] = float(part->c[i]);
			}
		}
		for (int i = 0; i < 8; i++)
			for (int k = 0; k < 8; k++)
				for (int j = 0; j < 8; j++) c[i][j] += a[i][k] * b[k][j];
		for (uint lane = 0; lane < 32; lane++) {
			const auto* part = reinterpret_cast<const matrix_product*>(lanes[lane]);
			const uint row = matrix_row(lane), column = matrix_column(lane);
			for (uint i = 0; i < 2; i++) part->d[i] = D(c[row][column + i]);
		}
	}
};

template <typename D, typename A, typename B, typename C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b, simdgroup_matrix<C, 8, 8> c) {
	typedef matrix_product<D, A, B, C> Product;
	simt::must_be_written(a.e, sizeof a.e);
	simt::must_be_written(b.e, sizeof b.e);
	simt::must_be_written(c.e, sizeof c.e);
	Product share{d.e, a.e, b.e, c.e};
	simt::exchange(reinterpret_cast<uint64_t>(&share), OP_MATRIX_MULTIPLY, 0, Product::multiply);
}
template <typename D, typename A, typename B>
inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a, simdgroup_matrix<B, 8, 8> b) {
	simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(D(0)));
}

}  // namespace metal
