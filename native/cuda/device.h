// One opened CUDA device: its streams, and errors in words.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "native/core/player.h"

namespace lw {

// "<what>: <why>" with the status that belongs to the error; `what` is a clause such as "Cannot copy 12 bytes".
int32_t cuda_failure(cudaError_t code, uint32_t record, const char* what, lw_error* error);
#define LW_CUDA(call, what)                                                                     \
	do {                                                                                        \
		if (const cudaError_t code_ = (call)) return cuda_failure(code_, LW_NO_RECORD, what, error); \
	} while (0)

struct cuda_device {
	int index = 0;
	cudaDeviceProp properties{};
	cudaStream_t plays = nullptr, copies = nullptr;

	~cuda_device();
	static int32_t open(uint32_t index, std::shared_ptr<cuda_device>* out, lw_error* error);
	// Calls go to the device that the calling thread has chosen.
	cudaError_t use() const { return cudaSetDevice(index); }
};

}  // namespace lw
