// The generated table of ops and kernels, as the tape loader and the players read it.
#pragma once
#include <cstdint>
#include <vector>

#include "native/gen/abi.h"

namespace lw {

enum rule_kind : uint8_t {
	LW_RULE_SUM_AT_MOST,       // sum over terms of the product of each term's operands <= right
	LW_RULE_SUM_EQUALS,        // the same sum equals right
	LW_RULE_PRODUCT_EQUALS,    // product(left) == right
	LW_RULE_PRODUCT_AT_LEAST,  // product(left) >= right
	LW_RULE_MULTIPLE_OF,       // left[0] % right == 0
	LW_RULE_MULTIPLE_OF_GROUP, // left[0] % (group of the record's affine format) == 0
	LW_RULE_ONE_OF,            // right is one of left
	LW_RULE_AT_LEAST,          // left[0] >= right
};

// A word of the record, or a literal when word < 0; a factor of its term.
struct operand {
	int32_t word;
	uint32_t literal;
	uint32_t term;
};
struct rule {
	rule_kind kind;
	uint32_t n_left;
	operand left[12];
	operand right;
};

enum tensor_flags : uint8_t { TENSOR_IN = 1, TENSOR_OUT = 2, TENSOR_WEIGHT = 4, TENSOR_OPTIONAL = 8 };
struct tensor_info {
	uint8_t slot, flags, n_axes;
	uint8_t axes[5];  // word indices, innermost last
};

struct op_info {
	const char* name;
	uint32_t n_axes, n_params;
	uint32_t may_be_zero;  // bit i: word i belongs to optional tensors only
	uint32_t n_slots;
	uint32_t threads;      // of a threadgroup of its .metal kernel; 0: there is none
	std::vector<tensor_info> tensors;
	std::vector<rule> rules;
};

struct kernel_info {
	const char* name;
	uint32_t op;
	int32_t special_word;  // the word that must have special_value, or -1
	uint32_t special_value;
	std::vector<uint8_t> dtypes;  // one a tensor
};

struct format_info {
	uint32_t bits, group;  // bits 0: not an affine format
};

const std::vector<op_info>& op_table();
const std::vector<kernel_info>& kernel_table();
format_info format_of(uint8_t dtype);

}  // namespace lw
