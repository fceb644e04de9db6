// Device memory by plain allocations, and files brought into it through pinned buffers.
#pragma once
#include "native/cuda/device.h"

namespace lw {

struct cuda_memory : memory_block {
	std::shared_ptr<cuda_device> device;
	uint8_t* at = nullptr;

	~cuda_memory() override;
	// Zero-filled when `zero`.
	static int32_t alloc(std::shared_ptr<cuda_device> device, uint64_t bytes, bool zero, std::shared_ptr<cuda_memory>* out, lw_error* error);
	// Copies all of it from memory of the host: while one piece travels, the next is read.
	int32_t fill(const uint8_t* from, lw_error* error);
};

}  // namespace lw
