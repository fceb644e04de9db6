#include "native/cpu/level.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__linux__) && defined(__aarch64__)
#include <sys/auxv.h>
#endif

// LW_LEVELS(X) lists the levels of this build, best first; the Makefile defines it.
#define LW_DECLARE(level) \
	namespace lw_cpu_##level { \
	extern const lw_cpu_kernel kernels[]; \
	}
LW_LEVELS(LW_DECLARE)

namespace lw {
namespace {

[[maybe_unused]] bool usable_baseline() { return true; }
#if defined(__x86_64__)
// Not every compiler's __builtin_cpu_supports knows this one.
bool has_f16c() {
	unsigned a, b, c, d;
	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
[[maybe_unused]] bool usable_avx2() {
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
[[maybe_unused]] bool usable_avx512() {
	return usable_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}
#elif defined(__aarch64__)
[[maybe_unused]] bool usable_dotprod() {
#if defined(__linux__)
	return getauxval(AT_HWCAP) & (1u << 20);  // HWCAP_ASIMDDP
#else
	return true;  // every Apple processor since the M1
#endif
}
#endif

const level levels[] = {
#define LW_ENTRY(level) {#level, usable_##level, lw_cpu_##level::kernels},
	LW_LEVELS(LW_ENTRY)
};

}  // namespace

const level* all_levels(uint32_t* n) {
	*n = sizeof levels / sizeof levels[0];
	return levels;
}

}  // namespace lw
