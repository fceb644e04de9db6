// Uploading (upload.h).
#include "native/cuda/upload.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

namespace lw {

namespace {

// All lanes together keep the copy engine busy for two milliseconds, longer than any of them sleeps.
constexpr uint64_t PIECE = 4u << 20;
constexpr uint32_t PIECES = 2;
// A thread takes 5 to 10 GB/s out of the page cache, a PCIe 5 slot 55.
constexpr uint32_t LANES = 12;

// 0, or errno; EIO also where the file ends early.
int read_all(int file, uint8_t* to, uint64_t bytes, uint64_t offset) {
	while (bytes > 0) {
		const ssize_t n = pread(file, to, bytes, off_t(offset));
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return n < 0 ? errno : EIO;
		to += n;
		offset += uint64_t(n);
		bytes -= uint64_t(n);
	}
	return 0;
}

}  // namespace

// One thread's pieces: one travels while the next is read.
struct cuda_upload::lane {
	pinned_memory pieces[PIECES];
	cudaEvent_t travelled[PIECES] = {};

	~lane() {
		for (cudaEvent_t e : travelled)
			if (e) cudaEventDestroy(e);
	}
	// The piece, free to be filled.
	cudaError_t take(uint32_t i) {
		if (travelled[i]) return cudaEventSynchronize(travelled[i]);
		const cudaError_t code = pieces[i].at ? cudaSuccess : pieces[i].alloc(PIECE);
		// Sleeps: there may be no more processors than lanes.
		return code ? code : cudaEventCreateWithFlags(&travelled[i], cudaEventDisableTiming | cudaEventBlockingSync);
	}
};

cuda_upload::cuda_upload() = default;
cuda_upload::~cuda_upload() = default;

int32_t cuda_upload::copy(const cuda_device& device, uint8_t* to, int file, const std::string& path, uint64_t bytes, lw_error* error) {
	std::lock_guard<std::mutex> lock(uploading_);
	const uint64_t pieces = (bytes + PIECE - 1) / PIECE;
	const uint32_t n = uint32_t(std::min<uint64_t>(pieces, std::min(LANES, std::max(1u, std::thread::hardware_concurrency()))));
	while (lanes_.size() < n) lanes_.push_back(std::make_unique<lane>());

	std::atomic<uint64_t> next{0};
	std::atomic<cudaError_t> failed{cudaSuccess};
	std::atomic<int> unread{0};
	auto run = [&](lane& l) {
		cudaError_t code = device.use();
		for (uint32_t turn = 0; !code && !failed && !unread; turn = (turn + 1) % PIECES) {
			const uint64_t begin = next++ * PIECE;
			if (begin >= bytes) return;
			if ((code = l.take(turn))) break;
			const uint64_t length = std::min(PIECE, bytes - begin);
			if (const int bad = read_all(file, l.pieces[turn].at, length, begin)) {
				unread = bad;
				return;
			}
			code = cudaMemcpyAsync(to + begin, l.pieces[turn].at, length, cudaMemcpyHostToDevice, device.copies);
			if (!code) code = cudaEventRecord(l.travelled[turn], device.copies);
		}
		if (code) failed = code;
	};
	std::vector<std::thread> others;
	try {
		for (uint32_t i = 1; i < n; i++) others.emplace_back([&, i] { run(*lanes_[i]); });
	} catch (const std::system_error&) {  // no more threads: those there are do it
	}
	run(*lanes_[0]);
	for (std::thread& t : others) t.join();

	const cudaError_t ended = cudaStreamSynchronize(device.copies);
	if (unread) return fail(error, LW_STATUS_IO, LW_NO_RECORD, unread, "Cannot read %.150s: %s", path.c_str(), strerror(unread));
	if (!failed) failed = ended;
	LW_CUDA(failed, "Cannot upload weights");
	return LW_STATUS_OK;
}

void cuda_upload::release() {
	std::lock_guard<std::mutex> lock(uploading_);
	lanes_.clear();
}

int32_t profile_upload(const cuda_device& device, uint8_t* to, uint64_t bytes, uint64_t* ns, uint32_t times, lw_error* error) {
	LW_CUDA(device.use(), "Cannot use the CUDA device");
	pinned_memory from;
	LW_CUDA(from.alloc(bytes), "Cannot pin memory");
	memset(from.at, 0, bytes);
	LW_CUDA(cudaStreamSynchronize(device.copies), "Cannot upload memory");
	for (uint32_t i = 0; i < times; i++) {
		const auto begin = std::chrono::steady_clock::now();
		LW_CUDA(cudaMemcpyAsync(to, from.at, bytes, cudaMemcpyHostToDevice, device.copies), "Cannot upload memory");
		LW_CUDA(cudaStreamSynchronize(device.copies), "Cannot upload memory");
		ns[i] = uint64_t(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
	}
	return LW_STATUS_OK;
}

}  // namespace lw
