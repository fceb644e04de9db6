// Memory of a Metal device. Owns buffers, windows over mapped files, the residency set and the account of bytes; knows
// no tape.
#pragma once
#import <Metal/Metal.h>

#include <mutex>

#include "native/core/player.h"
#include "native/metal/ref.h"

namespace lw {

// All memories of one opened device together.
class working_set {
	mutable std::mutex mutex_;
	ref<id<MTLDevice>> device_;
	ref<id> residency_;  // id<MTLResidencySet>; nil before macOS 15
	uint64_t bytes_ = 0;
	[[maybe_unused]] bool changed_ = false;

public:
	working_set(id<MTLDevice> device, id<MTLCommandQueue> queue);
	id<MTLDevice> device() const { return device_.get(); }
	uint64_t recommended() const;
	uint64_t free() const;
	// Takes bytes from what the GPU recommends, or names both numbers.
	int32_t reserve(uint64_t bytes, lw_error* error);
	void give_back(uint64_t bytes);
	void add(id<MTLBuffer> buffer);
	// At once, since the buffer's memory goes with it.
	void remove(id<MTLBuffer> buffer);
	// Makes what was added resident; before a play, in one go.
	void commit();
};

// A buffer over part of a memory.
struct window {
	ref<id<MTLBuffer>> buffer;
	uint64_t offset, bytes;
};

class metal_memory : public memory_block {
	std::shared_ptr<working_set> set_;
	std::shared_ptr<memory_block> mapping_;  // null: the only window owns the bytes
	std::mutex mutex_;
	std::vector<window> windows_;

	int32_t add_window(uint64_t offset, uint64_t bytes, lw_error* error);

public:
	explicit metal_memory(std::shared_ptr<working_set> set) : set_(std::move(set)) {}
	~metal_memory() override;
	static int32_t alloc(std::shared_ptr<working_set> set, uint64_t bytes, std::shared_ptr<metal_memory>* out, lw_error* error);
	// Over a mapped file, without a copy.
	static int32_t over(std::shared_ptr<working_set> set, std::shared_ptr<memory_block> mapping, std::shared_ptr<metal_memory>* out, lw_error* error);
	// The buffer that holds a range as a whole, and where in it the range begins. `slot` is for the error.
	int32_t place(uint64_t offset, uint64_t bytes, uint32_t slot, id<MTLBuffer>* buffer, uint64_t* at, lw_error* error);
};

}  // namespace lw
