// Allocation, copies, and the step block in the host's sight (memory.h).
#include "native/cuda/memory.h"

#include <algorithm>
#include <cstring>

namespace lw {

cuda_memory::~cuda_memory() {
	if (!at) return;
	device->use();
	cudaFree(at);
}

int32_t cuda_memory::alloc(std::shared_ptr<cuda_device> device, uint64_t bytes, bool zero, std::shared_ptr<cuda_memory>* out, lw_error* error) {
	LW_CUDA(device->use(), "Cannot use the CUDA device");
	auto made = std::make_shared<cuda_memory>();
	made->device = device;
	void* at = nullptr;
	if (const cudaError_t code = cudaMalloc(&at, bytes)) {
		char what[120];
		int n = snprintf(what, sizeof what, "Cannot allocate %llu bytes on %.40s", (unsigned long long)bytes, device->properties.name);
		size_t free = 0, total = 0;
		if (!cudaMemGetInfo(&free, &total)) snprintf(what + n, sizeof what - size_t(n), ", which has %llu free", (unsigned long long)free);
		return cuda_failure(code, LW_NO_RECORD, what, error);
	}
	made->at = static_cast<uint8_t*>(at);
	made->bytes = bytes;
	if (zero) {
		LW_CUDA(cudaMemsetAsync(at, 0, bytes, device->copies), "Cannot clear memory");
		LW_CUDA(cudaStreamSynchronize(device->copies), "Cannot clear memory");
	}
	*out = std::move(made);
	return LW_STATUS_OK;
}

int32_t cuda_memory::write(uint64_t offset, const void* from, uint64_t n, lw_error* error) {
	if (!n) return LW_STATUS_OK;
	LW_CUDA(device->use(), "Cannot use the CUDA device");
	std::lock_guard<std::mutex> lock(sight_);
	LW_CUDA(device->write(at + offset, from, n), "Cannot write to device memory");
	if (uint32_t* seen = seen_; seen && offset < STEP_BYTES) memcpy(reinterpret_cast<uint8_t*>(seen) + offset, from, std::min(n, STEP_BYTES - offset));
	return LW_STATUS_OK;
}

int32_t cuda_memory::read(uint64_t offset, void* to, uint64_t n, lw_error* error) {
	if (!n) return LW_STATUS_OK;
	if (const uint32_t* seen = seen_; seen && offset <= STEP_BYTES && n <= STEP_BYTES - offset) {
		memcpy(to, reinterpret_cast<const uint8_t*>(seen) + offset, n);
		return LW_STATUS_OK;
	}
	LW_CUDA(device->use(), "Cannot use the CUDA device");
	LW_CUDA(device->read(to, at + offset, n), "Cannot read device memory");
	return LW_STATUS_OK;
}

int32_t cuda_memory::copy(uint64_t offset, const uint8_t* from, uint64_t n, lw_error* error) {
	if (!n) return LW_STATUS_OK;
	LW_CUDA(device->use(), "Cannot use the CUDA device");
	LW_CUDA(cudaMemcpyAsync(at + offset, from, n, cudaMemcpyDeviceToDevice, device->copies), "Cannot copy device memory");
	LW_CUDA(cudaStreamSynchronize(device->copies), "Cannot copy device memory");
	if (uint32_t* seen = seen_; seen && offset < STEP_BYTES) LW_CUDA(device->read(seen, at, STEP_BYTES), "Cannot read device memory");
	return LW_STATUS_OK;
}

int32_t cuda_memory::show_step(uint32_t** out, lw_error* error) {
	std::lock_guard<std::mutex> lock(sight_);
	if (!step_.at) {
		LW_CUDA(step_.alloc(STEP_BYTES), "Cannot pin memory");
		LW_CUDA(device->read(step_.at, at, STEP_BYTES), "Cannot read device memory");
		if (!hidden_) seen_ = reinterpret_cast<uint32_t*>(step_.at);
	}
	*out = reinterpret_cast<uint32_t*>(step_.at);
	return LW_STATUS_OK;
}

void cuda_memory::hide_step() {
	std::lock_guard<std::mutex> lock(sight_);
	hidden_ = true;
	seen_ = nullptr;
}

}  // namespace lw
