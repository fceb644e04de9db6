// Device memory by plain allocations. Of a step block the host keeps a copy in sight.
#pragma once
#include <atomic>

#include "native/cuda/device.h"

namespace lw {

constexpr uint64_t STEP_BYTES = LW_STEP_WORDS * sizeof(uint32_t);

class cuda_memory : public memory_block {
	// A step block at the memory's begin as the host sees it: every play writes it there, and so does the host between plays.
	std::mutex sight_;
	bool hidden_ = false;  // something else may change it
	pinned_memory step_;
	std::atomic<uint32_t*> seen_{nullptr};

public:
	std::shared_ptr<cuda_device> device;
	uint8_t* at = nullptr;

	~cuda_memory() override;
	// Zero-filled when `zero`.
	static int32_t alloc(std::shared_ptr<cuda_device> device, uint64_t bytes, bool zero, std::shared_ptr<cuda_memory>* out, lw_error* error);

	int32_t write(uint64_t offset, const void* from, uint64_t bytes, lw_error* error);
	int32_t read(uint64_t offset, void* to, uint64_t bytes, lw_error* error);
	int32_t copy(uint64_t offset, const uint8_t* from, uint64_t n, lw_error* error);

	// Begins to keep the step block in sight. `out`: where plays leave it.
	int32_t show_step(uint32_t** out, lw_error* error);
	// The step block as it is now, without asking the device; null where it is not kept in sight.
	uint32_t* seen_step() const { return seen_; }
	// From now on something else may change it.
	void hide_step();
};

}  // namespace lw
