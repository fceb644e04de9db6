// Runs kernels of the Metal Shading Language on the CPU: a threadgroup at a time on one OS thread, each GPU thread
// a fiber, simdgroups of 32 lanes. Collectives and barriers are meeting points; one that not all reach is an error.
// Owns no memory of the device and knows no op.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define SIMT_MSAN 1
#include <sanitizer/msan_interface.h>
#endif
#endif

namespace simt {

struct U3 {
	uint32_t x, y, z;
};

// What a kernel's [[attributes]] read, for one thread.
struct Ids {
	U3 tid, tg, ntid, ntg;
	uint32_t idx, lane, sg, nsg;
};

// Buffers by index: slots, then the argument struct. A thread calls `entry` once.
typedef void (*Entry)(void* const* buffers, const Ids&);

// A compiled kernel and what it was compiled for.
struct Kernel {
	const char* name;
	Entry entry;
	bool meets;  // has a barrier or a collective: its threads need fibers
	uint32_t threads, threadgroup_bytes;  // at most
	uint32_t buffers;                     // of slots and of the argument struct
	const Kernel* next;
};
extern const Kernel* registry;
struct Register {
	Kernel kernel;
	Register(const char* name, Entry entry, bool meets, uint32_t threads, uint32_t threadgroup_bytes, uint32_t buffers)
		: kernel{name, entry, meets, threads, threadgroup_bytes, buffers, registry} {
		registry = &kernel;
	}
};

// Threadgroup memory that Apple GPUs give to one threadgroup.
constexpr uint32_t THREADGROUP_BYTES_MAX = 32768;

// What went wrong, with the place, and where: one line.
struct Failure {
	char text[200];
};

// Runs threadgroups [first, end) of a grid, numbered x first. False after a failure, which stops the rest.
bool run(const Kernel& kernel, U3 grid, U3 threads, void* const* buffers, uint32_t first, uint32_t end, Failure* failure);

// Between two runs that wait for one another (only a race detector needs to know).
void fence();

// ---- for the shim's metal_stdlib ----
// One value a lane in; when the last lane has come, done(values, mask of lanes) runs once; all read one value out.
typedef void (*Done)(uint64_t* values, uint32_t mask);
uint64_t exchange(uint64_t value, uint32_t op, uint32_t from, Done done = nullptr);
void tg_barrier();
void sg_barrier();
void* tg_local(const void* site, size_t bytes, size_t align);
uint32_t lane();

// Complains under MemorySanitizer when nobody wrote what a collective takes.
inline void must_be_written([[maybe_unused]] const void* p, [[maybe_unused]] size_t bytes) {
#ifdef SIMT_MSAN
	__msan_check_mem_is_initialized(p, bytes);
#endif
}

// Work of the emulator for all lanes, which is no access of a GPU thread.
#if defined(__clang__)
#define SIMT_RUNTIME __attribute__((no_sanitize("thread"), no_sanitize("memory")))
#else
#define SIMT_RUNTIME __attribute__((no_sanitize("thread")))
#endif

}  // namespace simt
