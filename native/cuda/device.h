// One opened CUDA device: its streams, small copies between the host and it, and errors in words.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>

#include "native/core/player.h"

namespace lw {

// "<what>: <why>" with the status that belongs to the error; `what` is a clause such as "Cannot copy 12 bytes".
int32_t cuda_failure(cudaError_t code, uint32_t record, const char* what, lw_error* error);
#define LW_CUDA(call, what)                                                                     \
	do {                                                                                        \
		if (const cudaError_t code_ = (call)) return cuda_failure(code_, LW_NO_RECORD, what, error); \
	} while (0)

// Pinned memory of the host that kernels reach too.
struct pinned_memory {
	uint8_t* at = nullptr;

	pinned_memory() = default;
	pinned_memory(const pinned_memory&) = delete;
	pinned_memory& operator=(const pinned_memory&) = delete;
	~pinned_memory();
	cudaError_t alloc(uint64_t bytes);
};

class cuda_device {
	// Small copies go through here: what is to be written stays until it has travelled, so that a writer waits for
	// nothing, and what is read comes without the driver's own detour.
	std::mutex small_;
	pinned_memory outgoing_, incoming_;
	uint64_t outgoing_bytes_ = 0;
	bool unseen_ = false;  // something was written that the stream of plays has not been told to wait for
	cudaEvent_t written_ = nullptr;

	cudaError_t write_small(uint8_t* to, const void* from, uint64_t bytes);
	cudaError_t read_small(void* to, const uint8_t* from, uint64_t bytes);

public:
	int index = 0;
	cudaDeviceProp properties{};
	cudaStream_t plays = nullptr, copies = nullptr;

	~cuda_device();
	static int32_t open(uint32_t index, std::shared_ptr<cuda_device>* out, lw_error* error);
	// Calls go to the device that the calling thread has chosen.
	cudaError_t use() const { return cudaSetDevice(index); }

	// In the order of the stream of copies. What was written is there for plays behind the next let_plays_see().
	cudaError_t write(uint8_t* to, const void* from, uint64_t bytes);
	cudaError_t read(void* to, const uint8_t* from, uint64_t bytes);
	cudaError_t let_plays_see();
};

}  // namespace lw
