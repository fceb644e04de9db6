#include "native/core/op_table.h"

#define LW_LIST(...) {__VA_ARGS__}

namespace lw {

// Neither is destroyed: a play may go on while the process ends.
const std::vector<op_info>& op_table() {
	static const auto& table = *new std::vector<op_info>{
#define LW_OP(name, n_axes, n_params, may_be_zero, n_slots, threads, tensors, rules) \
	{#name, n_axes, n_params, may_be_zero, n_slots, threads, tensors, rules},
#include "native/gen/op_table.inc"
#undef LW_OP
	};
	return table;
}

const std::vector<kernel_info>& kernel_table() {
	static const auto& table = *new std::vector<kernel_info>{
#define LW_KERNEL(name, op, special_word, special_value, dtypes) {#name, op, special_word, special_value, dtypes},
#include "native/gen/kernels.inc"
#undef LW_KERNEL
	};
	return table;
}

format_info format_of(uint8_t dtype) {
	switch (dtype) {
#define LW_FORMAT(code, bits, group) \
	case code: return {bits, group};
#include "native/gen/formats.inc"
#undef LW_FORMAT
	default: return {0, 0};
	}
}

}  // namespace lw
