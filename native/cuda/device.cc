// Opening a device, small copies, and the words for what CUDA says (device.h).
#include "native/cuda/device.h"

#include <cstring>

namespace lw {

namespace {

// A prompt's ids and a step block are well below this.
constexpr uint64_t SMALL_BYTES = 16u << 10;
constexpr uint64_t OUTGOING_BYTES = 4 * SMALL_BYTES;
constexpr uint64_t COPY_ALIGN = 16;

}  // namespace

int32_t cuda_failure(cudaError_t code, uint32_t record, const char* what, lw_error* error) {
	const bool memory = code == cudaErrorMemoryAllocation;
	cudaGetLastError();  // so that the next call does not report it again
	return fail(error, memory ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE, record, int32_t(code), "%.120s: %.90s (CUDA error %d)", what, cudaGetErrorString(code), int(code));
}

pinned_memory::~pinned_memory() {
	if (at) cudaFreeHost(at);
}

cudaError_t pinned_memory::alloc(uint64_t bytes) { return cudaHostAlloc(reinterpret_cast<void**>(&at), bytes, cudaHostAllocMapped | cudaHostAllocPortable); }

cuda_device::~cuda_device() {
	use();
	if (written_) cudaEventDestroy(written_);
	if (plays) cudaStreamDestroy(plays);
	if (copies) cudaStreamDestroy(copies);
}

int32_t cuda_device::open(uint32_t index, std::shared_ptr<cuda_device>* out, lw_error* error) {
	auto d = std::make_shared<cuda_device>();
	d->index = int(index);
	LW_CUDA(d->use(), "Cannot open the CUDA device");
	LW_CUDA(cudaGetDeviceProperties(&d->properties, d->index), "Cannot ask the CUDA device for its properties");
	for (cudaStream_t* s : {&d->plays, &d->copies}) LW_CUDA(cudaStreamCreateWithFlags(s, cudaStreamNonBlocking), "Cannot make a stream");
	LW_CUDA(cudaEventCreateWithFlags(&d->written_, cudaEventDisableTiming), "Cannot make an event");
	LW_CUDA(d->outgoing_.alloc(OUTGOING_BYTES), "Cannot pin memory");
	LW_CUDA(d->incoming_.alloc(SMALL_BYTES), "Cannot pin memory");
	*out = std::move(d);
	return LW_STATUS_OK;
}

cudaError_t cuda_device::write_small(uint8_t* to, const void* from, uint64_t bytes) {
	std::lock_guard<std::mutex> lock(small_);
	if (outgoing_bytes_ + bytes > OUTGOING_BYTES) {
		if (const cudaError_t code = cudaStreamSynchronize(copies)) return code;
		outgoing_bytes_ = 0;
	}
	uint8_t* kept = outgoing_.at + outgoing_bytes_;
	memcpy(kept, from, bytes);
	outgoing_bytes_ += (bytes + COPY_ALIGN - 1) / COPY_ALIGN * COPY_ALIGN;
	unseen_ = true;
	return cudaMemcpyAsync(to, kept, bytes, cudaMemcpyHostToDevice, copies);
}

cudaError_t cuda_device::read_small(void* to, const uint8_t* from, uint64_t bytes) {
	std::lock_guard<std::mutex> lock(small_);
	cudaError_t code = cudaMemcpyAsync(incoming_.at, from, bytes, cudaMemcpyDeviceToHost, copies);
	if (!code) code = cudaStreamSynchronize(copies);
	if (code) return code;
	outgoing_bytes_ = 0;
	memcpy(to, incoming_.at, bytes);
	return code;
}

cudaError_t cuda_device::write(uint8_t* to, const void* from, uint64_t bytes) {
	if (bytes <= SMALL_BYTES) return write_small(to, from, bytes);
	const cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, copies);
	return code ? code : cudaStreamSynchronize(copies);
}

cudaError_t cuda_device::read(void* to, const uint8_t* from, uint64_t bytes) {
	if (bytes <= SMALL_BYTES) return read_small(to, from, bytes);
	const cudaError_t code = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, copies);
	return code ? code : cudaStreamSynchronize(copies);
}

cudaError_t cuda_device::let_plays_see() {
	std::lock_guard<std::mutex> lock(small_);
	if (!unseen_) return cudaSuccess;
	unseen_ = false;
	const cudaError_t code = cudaEventRecord(written_, copies);
	return code ? code : cudaStreamWaitEvent(plays, written_, 0);
}

}  // namespace lw
