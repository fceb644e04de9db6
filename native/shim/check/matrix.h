// simdgroup_matrix.
#pragma once

namespace metal {

template <typename T, int C, int R>
struct simdgroup_matrix {
	T e[2];
	simdgroup_matrix();
	explicit simdgroup_matrix(T);
	__private vec<T, 2>& thread_elements();
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int C, int R = C>
simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T);

#define MSL_MATRIX(SPACE) \
	template <typename T> \
	void simdgroup_load(__private simdgroup_matrix<T, 8, 8>&, SPACE const T*, ulong = 8, ulong2 = vec_of<ulong, 2>(0, 0), bool = false); \
	template <typename T> \
	void simdgroup_store(simdgroup_matrix<T, 8, 8>, SPACE T*, ulong = 8, ulong2 = vec_of<ulong, 2>(0, 0), bool = false);
MSL_MATRIX(__global)
MSL_MATRIX(__local)
#undef MSL_MATRIX

template <typename D, typename A, typename B, typename C>
void simdgroup_multiply_accumulate(__private simdgroup_matrix<D, 8, 8>&, simdgroup_matrix<A, 8, 8>, simdgroup_matrix<B, 8, 8>, simdgroup_matrix<C, 8, 8>);
template <typename D, typename A, typename B>
void simdgroup_multiply(__private simdgroup_matrix<D, 8, 8>&, simdgroup_matrix<A, 8, 8>, simdgroup_matrix<B, 8, 8>);

}  // namespace metal
