// half and bfloat: 16 bits in memory, float in arithmetic, rounded to nearest even.
#pragma once
#include "native/shim/core/base.h"

namespace metal {

// IEEE binary16.
struct half_code {
	MSL_BOTH static uint16_t round(float f) {
#if defined(__CUDA_ARCH__)
		return __half_as_ushort(__float2half_rn(f));
#elif defined(__F16C__) && !defined(__CUDACC__)
		return (uint16_t)_cvtss_sh(f, 0);
#else
		uint32_t x = bitcast<uint32_t>(f), sign = (x >> 16) & 0x8000, m = x & 0x7fffffff;
		if (m >= 0x7f800000) return (uint16_t)(sign | (m > 0x7f800000 ? 0x7e00 : 0x7c00));
		if (m >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
		if (m < 0x38800000) {
			// The adder rounds to multiples of 2^-24, the step of subnormal halves.
			float a = bitcast<float>(m) + 0.5f;
			return (uint16_t)(sign | (bitcast<uint32_t>(a) - 0x3f000000u));
		}
		m += ((m >> 13) & 1) + 0xfff;
		return (uint16_t)(sign | ((m - 0x38000000) >> 13));
#endif
	}
	MSL_BOTH static float widen(uint16_t h) {
#if defined(__CUDA_ARCH__)
		return __half2float(__ushort_as_half(h));
#elif defined(__F16C__) && !defined(__CUDACC__)
		return _cvtsh_ss(h);
#else
		uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 0x3ff;
		if (e == 31) return bitcast<float>(sign | 0x7f800000u | (m << 13));
		if (e == 0) return bitcast<float>(sign | bitcast<uint32_t>((float)m * 5.9604644775390625e-8f));
		return bitcast<float>(sign | ((e + 112) << 23) | (m << 13));
#endif
	}
};

// The upper half of a float.
struct bfloat_code {
	MSL_BOTH static uint16_t round(float f) {
		uint32_t x = bitcast<uint32_t>(f);
		if ((x & 0x7fffffff) > 0x7f800000) return (uint16_t)((x >> 16) | 0x40);
		return (uint16_t)((x + 0x7fff + ((x >> 16) & 1)) >> 16);
	}
	MSL_BOTH static float widen(uint16_t h) { return bitcast<float>((uint32_t)h << 16); }
};

template <typename Code>
struct short_float {
	uint16_t bits;

	short_float() = default;
	template <typename A, typename = typename std::enable_if<std::is_arithmetic<A>::value>::type>
	MSL_BOTH short_float(A a) : bits(Code::round((float)a)) {}
	template <typename Other>
	MSL_BOTH explicit short_float(short_float<Other> o) : bits(Code::round((float)o)) {}
	MSL_BOTH operator float() const { return Code::widen(bits); }

	MSL_BOTH short_float& operator+=(float o) { return *this = short_float((float)*this + o); }
	MSL_BOTH short_float& operator-=(float o) { return *this = short_float((float)*this - o); }
	MSL_BOTH short_float& operator*=(float o) { return *this = short_float((float)*this * o); }
	MSL_BOTH short_float& operator/=(float o) { return *this = short_float((float)*this / o); }
};

template <typename C>
MSL_BOTH short_float<C> operator+(short_float<C> a, short_float<C> b) {
	return short_float<C>((float)a + (float)b);
}
template <typename C>
MSL_BOTH short_float<C> operator-(short_float<C> a, short_float<C> b) {
	return short_float<C>((float)a - (float)b);
}
template <typename C>
MSL_BOTH short_float<C> operator*(short_float<C> a, short_float<C> b) {
	return short_float<C>((float)a * (float)b);
}
template <typename C>
MSL_BOTH short_float<C> operator/(short_float<C> a, short_float<C> b) {
	return short_float<C>((float)a / (float)b);
}
template <typename C>
MSL_BOTH short_float<C> operator-(short_float<C> a) {
	short_float<C> negated;
	negated.bits = a.bits ^ 0x8000;
	return negated;
}

typedef short_float<half_code> half;
typedef short_float<bfloat_code> bfloat;
static_assert(sizeof(half) == 2 && sizeof(bfloat) == 2, "16-bit floats");

}  // namespace metal
