// Files brought into device memory: threads read pieces into pinned memory while others travel.
#pragma once
#include <vector>

#include "native/cuda/device.h"

namespace lw {

class cuda_upload {
	struct lane;
	std::mutex uploading_;
	std::vector<std::unique_ptr<lane>> lanes_;

public:
	cuda_upload();
	~cuda_upload();
	// The first `bytes` of an open file; `path` is for errors.
	int32_t copy(const cuda_device& device, uint8_t* to, int file, const std::string& path, uint64_t bytes, lw_error* error);
	// Gives back the pinned memory, which is kept from one file to the next.
	void release();
};

// Nanoseconds of each of so many copies from pinned memory, which no file can beat.
int32_t profile_upload(const cuda_device& device, uint8_t* to, uint64_t bytes, uint64_t* ns, uint32_t times, lw_error* error);

}  // namespace lw
