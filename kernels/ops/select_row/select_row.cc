// y = row n-1 of x, n = step.committed, at least 1 and at most rows. One task.
#include <cstring>

#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

LW_CPU_KERNEL(select_row) {
	const auto& a = *static_cast<const select_row_args*>(args_);
	if (begin != 0 || end == 0) return;
	const uint32_t committed = static_cast<const uint32_t*>(slots[select_row_slot::step])[LW_STEP_COMMITTED];
	const uint32_t row = committed == 0 ? 0 : (committed < a.rows ? committed : a.rows) - 1;
	memcpy(slots[select_row_slot::y], static_cast<const float*>(slots[select_row_slot::x]) + size_t(row) * a.dim, a.dim * sizeof(float));
}

}  // namespace LW_CPU_NAMESPACE
