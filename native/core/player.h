// What a backend must provide. core/ owns handles, checks and the order of plays; a player owns its device.
// Paths that reach a player have been checked: it refuses only what this device cannot do.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "native/core/tape.h"

namespace lw {

// A piece of device memory. `host` is its address for players that compute on the host, else null.
struct memory_block {
	virtual ~memory_block() = default;
	uint64_t bytes = 0;
	bool read_only = false;
	uint8_t* host = nullptr;
};

// A loaded tape, as the player wants it.
struct played_tape {
	virtual ~played_tape() = default;
};

struct player {
	virtual ~player() = default;
	virtual void info(lw_device_info_block* out) = 0;
	virtual bool has_kernel(uint32_t kernel) = 0;
	// Records come as threadgroups of the op's .metal kernel, not as tasks.
	virtual bool threadgroups() { return false; }
	virtual int32_t alloc(uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) = 0;
	virtual int32_t map(const std::string& path, uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) = 0;
	// Nanoseconds of each of so many copies of pinned memory over the whole block.
	virtual int32_t profile_upload(memory_block&, uint64_t*, uint32_t, lw_error* error) { return LW_REFUSE(error, "Nothing is uploaded to this device: it uses files in place"); }
	virtual int32_t write(memory_block& m, uint64_t offset, const void* from, uint64_t bytes, lw_error* error) = 0;
	virtual int32_t read(memory_block& m, uint64_t offset, void* to, uint64_t bytes, lw_error* error) = 0;
	virtual int32_t copy(memory_block& to, uint64_t to_offset, memory_block& from, uint64_t from_offset, uint64_t bytes, lw_error* error) = 0;
	// Tokens of the step block at the memory's begin that a reader may have now, also while a play runs.
	virtual uint32_t produced(memory_block& step) = 0;
	virtual int32_t load(std::shared_ptr<const tape> t, std::unique_ptr<played_tape>* out, lw_error* error) = 0;
	virtual int32_t play(played_tape& t, uint32_t times, uint32_t* played, lw_error* error) = 0;
	virtual int32_t profile(played_tape& t, uint64_t* ns, lw_error* error) = 0;
};

// Where a bound slot lies, for players that compute on the host.
inline uint8_t* host_address(const slot_range& s) { return s.memory->host + s.offset; }
// The word of the step block by which a tape says that its run has ended; null without a step block.
inline uint32_t* halt_word(const tape& t) {
	return t.step_slot == LW_NO_SLOT ? nullptr : reinterpret_cast<uint32_t*>(host_address(t.slots[t.step_slot])) + LW_STEP_HALT;
}

// Each backend's way in: how many devices there are, and opening one. Defined by native/<kind>/.
struct backend {
	uint32_t (*count)();
	int32_t (*open)(uint32_t index, uint32_t threads, std::unique_ptr<player>* out, lw_error* error);
	const char* (*why_none)();  // when count is 0; null where that needs no reason
};
extern const backend cpu_backend, null_backend, emu_backend;
extern const backend metal_backend;  // where LW_METAL is defined
extern const backend cuda_backend;   // where LW_CUDA_PLAYER is defined

// The half of a player whose memory is the machine's own (core/host_memory.cc).
struct host_player : player {
	int32_t alloc(uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) override;
	int32_t map(const std::string& path, uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) override;
	int32_t write(memory_block& m, uint64_t offset, const void* from, uint64_t bytes, lw_error* error) override;
	int32_t read(memory_block& m, uint64_t offset, void* to, uint64_t bytes, lw_error* error) override;
	int32_t copy(memory_block& to, uint64_t to_offset, memory_block& from, uint64_t from_offset, uint64_t bytes, lw_error* error) override;
	uint32_t produced(memory_block& step) override;
};
// A file of weights, open for reading; one of another length is refused. The caller closes it.
int32_t open_weights(const std::string& path, uint64_t bytes, int* file, lw_error* error);
// Total and available memory of the machine; 0 when unknown.
void host_memory_bytes(uint64_t* total, uint64_t* available);

}  // namespace lw
