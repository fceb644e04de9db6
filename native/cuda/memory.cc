// Allocation and upload (memory.h).
#include "native/cuda/memory.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace lw {

namespace {

constexpr uint64_t PIECE = 32u << 20;
constexpr uint32_t PIECES = 4;
// Page cache to pinned memory goes at about 10 GB/s a thread, a PCIe 5 slot takes 55.
constexpr uint32_t READERS = 8;

struct pinned_piece {
	uint8_t* at = nullptr;
	cudaEvent_t travelled = nullptr;
	~pinned_piece() {
		if (at) cudaFreeHost(at);
		if (travelled) cudaEventDestroy(travelled);
	}
};

// memcpy by several threads, which also take the page faults of a mapped file.
void copy_by_threads(uint8_t* to, const uint8_t* from, uint64_t bytes) {
	const uint32_t n = uint32_t(std::min<uint64_t>(std::min(READERS, std::max(1u, std::thread::hardware_concurrency())), bytes / (1u << 20) + 1));
	const uint64_t share = (bytes + n - 1) / n;
	std::vector<std::thread> others;
	for (uint32_t i = 1; i < n; i++) {
		const uint64_t begin = std::min(bytes, i * share), end = std::min(bytes, begin + share);
		others.emplace_back([=] { memcpy(to + begin, from + begin, end - begin); });
	}
	memcpy(to, from, std::min(share, bytes));
	for (std::thread& t : others) t.join();
}

}  // namespace

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

int32_t cuda_memory::fill(const uint8_t* from, lw_error* error) {
	LW_CUDA(device->use(), "Cannot use the CUDA device");
	pinned_piece pieces[PIECES];
	for (uint64_t begin = 0, i = 0; begin < bytes; begin += PIECE, i++) {
		pinned_piece& p = pieces[i % PIECES];
		if (!p.at) {
			LW_CUDA(cudaMallocHost(reinterpret_cast<void**>(&p.at), std::min(PIECE, bytes)), "Cannot pin memory for an upload");
			LW_CUDA(cudaEventCreateWithFlags(&p.travelled, cudaEventDisableTiming), "Cannot make an event");
		} else LW_CUDA(cudaEventSynchronize(p.travelled), "Cannot upload weights");
		const uint64_t n = std::min(PIECE, bytes - begin);
		copy_by_threads(p.at, from + begin, n);
		LW_CUDA(cudaMemcpyAsync(at + begin, p.at, n, cudaMemcpyHostToDevice, device->copies), "Cannot upload weights");
		LW_CUDA(cudaEventRecord(p.travelled, device->copies), "Cannot upload weights");
	}
	LW_CUDA(cudaStreamSynchronize(device->copies), "Cannot upload weights");
	return LW_STATUS_OK;
}

}  // namespace lw
