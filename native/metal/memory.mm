// Buffers, windows and residency (memory.h).
#include "native/metal/memory.h"

#include <unistd.h>

#include <algorithm>

namespace lw {

// Residency sets came with macOS 15; an older SDK does not declare them.
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
#define LW_HAS_RESIDENCY 1
#endif

namespace {

uint64_t page_bytes() {
	static const uint64_t bytes = uint64_t(sysconf(_SC_PAGESIZE));
	return bytes;
}

uint64_t page_down(uint64_t n) { return n / page_bytes() * page_bytes(); }
uint64_t page_up(uint64_t n) { return page_down(n + page_bytes() - 1); }

// Order between dispatches is the tape's business (barriers, and a fence between plays), so Metal need not track it.
constexpr MTLResourceOptions OPTIONS = MTLResourceStorageModeShared | MTLResourceHazardTrackingModeUntracked;

}  // namespace

working_set::working_set(id<MTLDevice> device, [[maybe_unused]] id<MTLCommandQueue> queue) : device_(ref<id<MTLDevice>>::retained(device)) {
#if LW_HAS_RESIDENCY
	if (@available(macOS 15.0, *)) {
		ref<MTLResidencySetDescriptor*> d([MTLResidencySetDescriptor new]);
		residency_ = ref<id>([device newResidencySetWithDescriptor:d.get() error:nil]);
		if (residency_) [queue addResidencySet:residency_.get()];
	}
#endif
}

uint64_t working_set::recommended() const { return [device_.get() recommendedMaxWorkingSetSize]; }

uint64_t working_set::free() const {
	std::lock_guard<std::mutex> lock(mutex_);
	return recommended() > bytes_ ? recommended() - bytes_ : 0;
}

int32_t working_set::reserve(uint64_t bytes, lw_error* error) {
	std::lock_guard<std::mutex> lock(mutex_);
	const uint64_t most = recommended();
	if (bytes > most || bytes_ > most - bytes)
		return fail(error, LW_STATUS_OUT_OF_MEMORY, LW_NO_RECORD, 0, "Cannot take %llu bytes of GPU memory: %llu are in use, and this GPU recommends at most %llu", (unsigned long long)bytes, (unsigned long long)bytes_, (unsigned long long)most);
	bytes_ += bytes;
	return LW_STATUS_OK;
}

void working_set::give_back(uint64_t bytes) {
	std::lock_guard<std::mutex> lock(mutex_);
	bytes_ -= bytes;
}

void working_set::add([[maybe_unused]] id<MTLBuffer> buffer) {
#if LW_HAS_RESIDENCY
	std::lock_guard<std::mutex> lock(mutex_);
	if (@available(macOS 15.0, *)) {
		if (!residency_) return;
		[(id<MTLResidencySet>)residency_.get() addAllocation:buffer];
		changed_ = true;
	}
#endif
}

void working_set::remove([[maybe_unused]] id<MTLBuffer> buffer) {
#if LW_HAS_RESIDENCY
	std::lock_guard<std::mutex> lock(mutex_);
	if (@available(macOS 15.0, *)) {
		if (!residency_) return;
		[(id<MTLResidencySet>)residency_.get() removeAllocation:buffer];
		[(id<MTLResidencySet>)residency_.get() commit];
	}
#endif
}

void working_set::commit() {
#if LW_HAS_RESIDENCY
	std::lock_guard<std::mutex> lock(mutex_);
	if (!changed_) return;
	changed_ = false;
	if (@available(macOS 15.0, *)) {
		[(id<MTLResidencySet>)residency_.get() commit];
		[(id<MTLResidencySet>)residency_.get() requestResidency];
	}
#endif
}

metal_memory::~metal_memory() {
	@autoreleasepool {
		for (window& w : windows_) set_->remove(w.buffer.get());
		windows_.clear();
	}
	if (bytes) set_->give_back(bytes);
}

int32_t metal_memory::alloc(std::shared_ptr<working_set> set, uint64_t bytes, std::shared_ptr<metal_memory>* out, lw_error* error) {
	@autoreleasepool {
		const uint64_t most = [set->device() maxBufferLength];
		if (bytes > most) return LW_REFUSE(error, "Cannot allocate %llu bytes: a buffer of this GPU holds at most %llu", (unsigned long long)bytes, (unsigned long long)most);
		if (int32_t bad = set->reserve(bytes, error)) return bad;
		auto made = std::make_shared<metal_memory>(set);
		made->bytes = bytes;  // from here on its destructor gives them back
		ref<id<MTLBuffer>> buffer([set->device() newBufferWithLength:bytes options:OPTIONS]);
		if (!buffer) return fail(error, LW_STATUS_OUT_OF_MEMORY, LW_NO_RECORD, 0, "Cannot allocate %llu bytes of GPU memory: Metal has none left", (unsigned long long)bytes);
		made->host = static_cast<uint8_t*>([buffer.get() contents]);
		set->add(buffer.get());
		made->windows_.push_back({std::move(buffer), 0, bytes});
		*out = std::move(made);
		return LW_STATUS_OK;
	}
}

int32_t metal_memory::over(std::shared_ptr<working_set> set, std::shared_ptr<memory_block> mapping, std::shared_ptr<metal_memory>* out, lw_error* error) {
	@autoreleasepool {
		const uint64_t bytes = mapping->bytes;
		if (int32_t bad = set->reserve(bytes, error)) return bad;
		auto made = std::make_shared<metal_memory>(set);
		made->bytes = bytes;
		made->host = mapping->host;
		made->read_only = true;
		made->mapping_ = std::move(mapping);
		const uint64_t most = page_down([set->device() maxBufferLength]);
		for (uint64_t at = 0; at < bytes; at += most)
			if (int32_t bad = made->add_window(at, std::min(most, bytes - at), error)) return bad;
		*out = std::move(made);
		return LW_STATUS_OK;
	}
}

// The last page of a mapping is there as a whole, whatever the file's length.
int32_t metal_memory::add_window(uint64_t offset, uint64_t length, lw_error* error) {
	ref<id<MTLBuffer>> buffer([set_->device() newBufferWithBytesNoCopy:host + offset length:page_up(length) options:OPTIONS deallocator:nil]);
	if (!buffer) return fail(error, LW_STATUS_OUT_OF_MEMORY, LW_NO_RECORD, 0, "Cannot give %llu bytes of a mapped file to the GPU", (unsigned long long)length);
	set_->add(buffer.get());
	windows_.push_back({std::move(buffer), offset, length});
	return LW_STATUS_OK;
}

int32_t metal_memory::place(uint64_t offset, uint64_t length, uint32_t slot, id<MTLBuffer>* buffer, uint64_t* at, lw_error* error) {
	std::lock_guard<std::mutex> lock(mutex_);
	for (int made = 0; made < 2; made++) {
		for (const window& w : windows_)
			if (w.offset <= offset && offset + length <= w.offset + w.bytes) {
				*buffer = w.buffer.get();
				*at = offset - w.offset;
				return LW_STATUS_OK;
			}
		// The range lies across the border of two windows: it gets one of its own over the same pages.
		const uint64_t begin = page_down(offset), most = [set_->device() maxBufferLength];
		const uint64_t pages = page_up(offset + length - begin);
		if (pages > most) return LW_REFUSE(error, "Cannot load tape: slot %u lies in pages of %llu bytes, a buffer of this GPU holds at most %llu", slot, (unsigned long long)pages, (unsigned long long)most);
		if (int32_t bad = add_window(begin, std::min(page_up(offset + length), bytes) - begin, error)) return bad;
	}
	return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "Cannot load tape: slot %u has no window", slot);
}

}  // namespace lw
