// What the text of a kernel says about its arguments.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fake {

struct argument {
	uint32_t buffer;
	int constant;  // the function constant by which it is there, or -1
	bool written;
};
struct kernel_text {
	uint64_t constants = 0;  // declared function constants
	uint32_t threads_max = 1024;
	std::vector<argument> arguments;
};
kernel_text read_source(const std::string& source);

}  // namespace fake
