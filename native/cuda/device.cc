// Opening a device, and the words for what CUDA says (device.h).
#include "native/cuda/device.h"

namespace lw {

int32_t cuda_failure(cudaError_t code, uint32_t record, const char* what, lw_error* error) {
	const bool memory = code == cudaErrorMemoryAllocation;
	cudaGetLastError();  // so that the next call does not report it again
	return fail(error, memory ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE, record, int32_t(code), "%.120s: %.90s (CUDA error %d)", what, cudaGetErrorString(code), int(code));
}

cuda_device::~cuda_device() {
	use();
	if (plays) cudaStreamDestroy(plays);
	if (copies) cudaStreamDestroy(copies);
}

int32_t cuda_device::open(uint32_t index, std::shared_ptr<cuda_device>* out, lw_error* error) {
	auto d = std::make_shared<cuda_device>();
	d->index = int(index);
	LW_CUDA(d->use(), "Cannot open the CUDA device");
	LW_CUDA(cudaGetDeviceProperties(&d->properties, d->index), "Cannot ask the CUDA device for its properties");
	LW_CUDA(cudaStreamCreateWithFlags(&d->plays, cudaStreamNonBlocking), "Cannot make a stream");
	LW_CUDA(cudaStreamCreateWithFlags(&d->copies, cudaStreamNonBlocking), "Cannot make a stream");
	*out = std::move(d);
	return LW_STATUS_OK;
}

}  // namespace lw
