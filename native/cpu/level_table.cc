// Compiled once per instruction set: the table of its kernels.
#include "native/cpu/kernel.h"

namespace LW_CPU_NAMESPACE {

#define LW_KERNEL(name, ...) LW_CPU_KERNEL(name);
#include "native/gen/kernels.inc"
#undef LW_KERNEL

extern const lw_cpu_kernel kernels[];
const lw_cpu_kernel kernels[] = {
#define LW_KERNEL(name, ...) name,
#include "native/gen/kernels.inc"
#undef LW_KERNEL
};

}  // namespace LW_CPU_NAMESPACE
