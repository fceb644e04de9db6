// The fibers of simt.h, and what sanitizers need to know of them. AddressSanitizer: switches are announced, and
// threadgroup arrays get red zones. ThreadSanitizer (clang's, this file with SIMT_TSAN in place of -fsanitize=thread):
// every GPU thread is a fiber that only barriers order. MemorySanitizer: threadgroup memory begins poisoned. Their
// reports are followed by the kernel and the thread that ran.
#include "native/emu/simt.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SIMT_ASAN 1
#include <sanitizer/asan_interface.h>
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_set_fiber_name(void* fiber, const char* name);
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#endif
#if defined(SIMT_ASAN) || defined(SIMT_MSAN) || defined(SIMT_TSAN)
#define SIMT_CHECKED 1
#include <sanitizer/common_interface_defs.h>
#endif

// The fibers' own machinery is no access of a GPU thread.
#if defined(__clang__)
#define NOSAN __attribute__((no_sanitize("thread"), no_sanitize("address"), no_sanitize("memory")))
#else
#define NOSAN __attribute__((no_sanitize("thread"), no_sanitize("address")))
#endif

extern "C" void simt_switch(void** save_sp, void** load_sp);

namespace simt {

const Kernel* registry;

namespace {

constexpr size_t STACK = 64 * 1024;
constexpr uint32_t NOBODY = ~0u;  // no GPU thread runs
constexpr uint32_t LANES = 32, THREADS_MAX = 1024, SITES_MAX = 64, BARRIER = 999;
#ifdef SIMT_TSAN
// Destroyed late: a fiber that got a dead one's number would hide races between threadgroups.
constexpr uint32_t DEAD_FIBERS = 4096;
// Behind a threadgroup's memory: what its barriers release and acquire, two addresses for all threads and two a
// simdgroup. They alternate: a thread that reaches the next barrier tells nothing to one that still leaves the last.
constexpr size_t SYNC_BYTES = 16 * (1 + THREADS_MAX / LANES);
#endif

struct Lane {
	void *sp, *tsan, *fake;
	char* stack;
	uint32_t op;
};
struct Simdgroup {
	uint64_t in[LANES], out[LANES];
	uint32_t begun, live, run, arrived;  // lanes: with a thread, not returned, able to go on; how many wait
	uint32_t barriers;                   // that all lanes have reached
};
struct Site {
	const void* key;
	void* memory;
	size_t bytes;
};

// One OS thread's threadgroup.
struct Worker {
	Lane lanes[THREADS_MAX];
	Simdgroup groups[THREADS_MAX / LANES];
	Ids ids[THREADS_MAX];
#ifdef SIMT_TSAN
	void* dead[DEAD_FIBERS];
	uint32_t next_dead;
#endif
	void *main_sp, *main_tsan, *main_fake;
	const void* main_stack;
	size_t main_size;
	uint32_t n, n_groups, live, at_barrier, barriers, current, n_sites, used;
	const Kernel* kernel;
	void* const* buffers;
	Site sites[SITES_MAX];
	char *stacks, *arena;
	bool failed;
	Failure* failure;
	uint32_t guarded;

	Worker() {
		memset(static_cast<void*>(this), 0, sizeof *this);
#ifndef SIMT_TSAN
		stacks = static_cast<char*>(mmap(nullptr, STACK * THREADS_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
		if (stacks == MAP_FAILED) throw std::bad_alloc();
		for (uint32_t i = 0; i < THREADS_MAX; i++) lanes[i].stack = stacks + i * STACK;
#endif
		arena = static_cast<char*>(aligned_alloc(64, THREADGROUP_BYTES_MAX));
		if (!arena) throw std::bad_alloc();
#ifdef SIMT_ASAN
		pthread_attr_t attributes;
		void* at;
		pthread_getattr_np(pthread_self(), &attributes);
		pthread_attr_getstack(&attributes, &at, &main_size);
		pthread_attr_destroy(&attributes);
		main_stack = at;
#endif
	}
	// A page below each of the first `lanes_used` stacks that ends the process at an overflow. No more than are used: the
	// system counts the pieces that pages are cut into, and gives a process 65,530.
	void guard([[maybe_unused]] uint32_t lanes_used) {
#ifndef SIMT_TSAN
		for (; guarded < lanes_used; guarded++) mprotect(lanes[guarded].stack, 4096, PROT_NONE);
#endif
	}
	~Worker() {
#ifdef SIMT_TSAN
		free(stacks);
#else
		munmap(stacks, STACK * THREADS_MAX);
#endif
		free(arena);
	}
};
thread_local Worker* w;

#ifdef SIMT_TSAN
constexpr bool ALWAYS_FIBERS = true;
#else
constexpr bool ALWAYS_FIBERS = false;
#endif

// A thread as text: kernel, threadgroup, thread.
constexpr size_t PLACE_MAX = 160;
NOSAN void place(char* out, uint32_t thread) {
	const Ids& d = w->ids[thread];
	snprintf(out, PLACE_MAX, "%s, threadgroup %u,%u,%u, thread %u, simdgroup %u, lane %u", w->kernel->name, d.tg.x, d.tg.y, d.tg.z, d.idx, d.sg, d.lane);
}

#ifdef SIMT_CHECKED
// Behind a sanitizer's report.
NOSAN void say_place() {
	if (!w || w->current == NOBODY) return;
	char text[PLACE_MAX + 16] = "    in kernel ";
	place(text + strlen(text), w->current);
	const size_t end = strlen(text);
	text[end] = '\n';
	if (write(STDERR_FILENO, text, end + 1) < 0) return;
}
#endif

// Back to the caller of run(); the other fibers are left where they stand: kernels own nothing.
[[noreturn]] NOSAN void leave_all() {
	void* dead;
#ifdef SIMT_ASAN
	__sanitizer_start_switch_fiber(nullptr, w->main_stack, w->main_size);
#endif
#ifdef SIMT_TSAN
	__tsan_switch_to_fiber(w->main_tsan, __tsan_switch_to_fiber_no_sync);
#endif
	simt_switch(&dead, &w->main_sp);
	__builtin_unreachable();
}

[[noreturn]] NOSAN void die(const char* what, uint32_t thread) {
	char where[PLACE_MAX];
	place(where, thread);
	snprintf(w->failure->text, sizeof w->failure->text, "%s (%s)", what, where);
	w->failed = true;
#ifdef SIMT_TSAN
	__tsan_release(&registry);
#endif
	leave_all();
}

NOSAN inline void go(void** save, uint32_t to) {
	w->current = to;
#ifdef SIMT_TSAN
	__tsan_switch_to_fiber(w->lanes[to].tsan, __tsan_switch_to_fiber_no_sync);
#endif
	simt_switch(save, &w->lanes[to].sp);
}

// The next thread that can run: in the same simdgroup first, then in the others; or THREADS_MAX.
NOSAN uint32_t pick(uint32_t group) {
	for (uint32_t i = 0; i < w->n_groups; i++) {
		uint32_t s = group + i < w->n_groups ? group + i : group + i - w->n_groups;
		if (w->groups[s].run) return s * LANES + uint32_t(__builtin_ctz(w->groups[s].run));
	}
	return THREADS_MAX;
}

constexpr const char* STUCK = "no thread can go on: a barrier or a simdgroup operation was not reached by all";

NOSAN void leave(void** save, uint32_t group) {
	uint32_t me = w->current, next = pick(group);
	if (next == THREADS_MAX) die(STUCK, me);
#ifdef SIMT_ASAN
	__sanitizer_start_switch_fiber(&w->lanes[me].fake, w->lanes[next].stack, STACK);
#endif
	go(save, next);
#ifdef SIMT_ASAN
	__sanitizer_finish_switch_fiber(w->lanes[me].fake, nullptr, nullptr);
#endif
}

NOSAN void entry() {
#ifdef SIMT_ASAN
	__sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
	uint32_t me = w->current;
	w->kernel->entry(w->buffers, w->ids[me]);
#ifdef SIMT_TSAN
	__tsan_release(&registry);
#endif
	uint32_t group = me / LANES;
	Simdgroup& g = w->groups[group];
	g.live &= ~(1u << me % LANES);
	g.run &= ~(1u << me % LANES);
	w->live--;
	if (g.live && g.arrived == uint32_t(__builtin_popcount(g.live))) die("a thread returned while its simdgroup waits in a simdgroup operation", me);
	if (w->live && w->at_barrier == w->live) die("a thread returned while the others wait at a barrier", me);
	if (w->live == 0) leave_all();
	uint32_t next = pick(group);
	if (next == THREADS_MAX) die(STUCK, me);
#ifdef SIMT_ASAN
	__sanitizer_start_switch_fiber(nullptr, w->lanes[next].stack, STACK);
#endif
	void* dead;
	go(&dead, next);
	__builtin_unreachable();
}

#ifdef SIMT_TSAN
// Memory without a past: the threads that used it before were ordered with none of those to come.
void* recycled(void* old, size_t bytes) {
	AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
	free(old);
	void* p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
	return p;
}
char* all_sync() { return w->arena + THREADGROUP_BYTES_MAX + 8 * (w->barriers % 2); }
char* group_sync(uint32_t group) { return w->arena + THREADGROUP_BYTES_MAX + 16 * (1 + group) + 8 * (w->groups[group].barriers % 2); }
#endif

NOSAN void begin_threadgroup(uint32_t n) {
	w->n = w->live = n;
	w->n_groups = (n + LANES - 1) / LANES;
	w->at_barrier = 0;
	w->used = 0;
	w->n_sites = 0;
#ifdef SIMT_TSAN
	w->arena = static_cast<char*>(recycled(w->arena, THREADGROUP_BYTES_MAX + SYNC_BYTES));
	w->stacks = static_cast<char*>(recycled(w->stacks, n * STACK));
	for (uint32_t i = 0; i < n; i++) w->lanes[i].stack = w->stacks + i * STACK;
#endif
	for (uint32_t s = 0; s < w->n_groups; s++) {
		uint32_t k = n - s * LANES;
		w->groups[s].begun = w->groups[s].live = w->groups[s].run = k >= LANES ? ~0u : (1u << k) - 1;
		w->groups[s].arrived = 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		void** top = reinterpret_cast<void**>(w->lanes[i].stack + STACK);
#if defined(__x86_64__)
		top -= 2;  // keeps 16-byte alignment at entry
		*top = reinterpret_cast<void*>(entry);
		top -= 6;
		for (int r = 0; r < 6; r++) top[r] = nullptr;
#else
		top -= 20;
		memset(top, 0, 160);
		top[11] = reinterpret_cast<void*>(entry);
#endif
		w->lanes[i].sp = top;
#ifdef SIMT_TSAN
		w->lanes[i].tsan = __tsan_create_fiber(0);
		char name[64];  // as much as reports show
		const U3& at = w->ids[i].tg;
		snprintf(name, sizeof name, "threadgroup %u,%u,%u, thread %u of %s", at.x, at.y, at.z, i, w->kernel->name);
		__tsan_set_fiber_name(w->lanes[i].tsan, name);
#endif
#ifdef SIMT_ASAN
		__asan_unpoison_memory_region(w->lanes[i].stack + 4096, STACK - 4096);
#endif
	}
}

NOSAN void run_threadgroup(U3 at, U3 grid, U3 threads) {
	uint32_t n = threads.x * threads.y * threads.z, i = 0;
	for (uint32_t z = 0; z < threads.z; z++)
		for (uint32_t y = 0; y < threads.y; y++)
			for (uint32_t x = 0; x < threads.x; x++, i++) w->ids[i] = Ids{{x, y, z}, at, threads, grid, i, i % LANES, i / LANES, (n + LANES - 1) / LANES};
	if (!w->kernel->meets && !ALWAYS_FIBERS) {
		for (w->current = 0; w->current < n; w->current++) w->kernel->entry(w->buffers, w->ids[w->current]);
		w->current = NOBODY;
		return;
	}
	begin_threadgroup(n);
	uint32_t first = pick(0);
#ifdef SIMT_ASAN
	__sanitizer_start_switch_fiber(&w->main_fake, w->lanes[first].stack, STACK);
#endif
#ifdef SIMT_TSAN
	w->main_tsan = __tsan_get_current_fiber();
#endif
	go(&w->main_sp, first);
#ifdef SIMT_ASAN
	__sanitizer_finish_switch_fiber(w->main_fake, nullptr, nullptr);
#endif
#ifdef SIMT_ASAN
	for (uint32_t j = 0; j < w->n_sites; j++) free(w->sites[j].memory);
#endif
	w->current = NOBODY;
#ifdef SIMT_TSAN
	for (uint32_t j = 0; j < n; j++) {
		void*& slot = w->dead[w->next_dead++ % DEAD_FIBERS];
		if (slot) __tsan_destroy_fiber(slot);
		slot = w->lanes[j].tsan;
	}
#endif
}

}  // namespace

NOSAN uint64_t exchange(uint64_t value, uint32_t op, uint32_t from, Done done) {
	uint32_t me = w->current, group = me / LANES, l = me % LANES;
	Simdgroup& g = w->groups[group];
	if (g.live != g.begun) die("a simdgroup operation after lanes of the simdgroup have returned", me);
	g.in[l] = value;
	w->lanes[me].op = op;
	g.arrived++;
	if (g.arrived == uint32_t(__builtin_popcount(g.live))) {
		for (uint32_t i = 0; i < LANES; i++) {
			if ((g.live >> i & 1) && w->lanes[group * LANES + i].op != op) die("lanes of one simdgroup are in different simdgroup operations", me);
			g.out[i] = g.in[i];
			asm volatile("" ::: "memory");  // not a memcpy, which a sanitizer would watch
		}
		g.arrived = 0;
		g.barriers += op == BARRIER;
		g.run = g.live;
		if (done) done(g.out, g.live);
	} else {
		g.run &= ~(1u << l);
		leave(&w->lanes[me].sp, group);
	}
	return g.out[from % LANES];
}

NOSAN uint32_t lane() { return w->current % LANES; }

NOSAN void sg_barrier() {
#ifdef SIMT_TSAN
	char* sync = group_sync(w->current / LANES);
	__tsan_release(sync);
	exchange(0, BARRIER, 0);
	__tsan_acquire(sync);
#else
	exchange(0, BARRIER, 0);
#endif
}

NOSAN void tg_barrier() {
	uint32_t me = w->current, group = me / LANES;
	if (w->live != w->n) die("a barrier after threads of the threadgroup have returned", me);
#ifdef SIMT_TSAN
	char* sync = all_sync();
	__tsan_release(sync);
#endif
	if (++w->at_barrier == w->live) {
		w->at_barrier = 0;
		w->barriers++;
		for (uint32_t i = 0; i < w->n_groups; i++) w->groups[i].run = w->groups[i].live;
	} else {
		w->groups[group].run &= ~(1u << me % LANES);
		leave(&w->lanes[me].sp, group);
	}
#ifdef SIMT_TSAN
	__tsan_acquire(sync);
#endif
}

NOSAN void* tg_local(const void* key, size_t bytes, size_t align) {
	for (uint32_t i = 0; i < w->n_sites; i++)
		if (w->sites[i].key == key) return w->sites[i].memory;
	if (w->n_sites == SITES_MAX) die("more than 64 threadgroup variables", w->current);
	w->used = uint32_t((w->used + align - 1) / align * align);
	if (w->used + bytes > w->kernel->threadgroup_bytes) die("more threadgroup memory than the kernel was compiled for", w->current);
#ifdef SIMT_ASAN
	void* p = malloc(bytes);  // its own red zones
#else
	void* p = w->arena + w->used;
#endif
	w->used += uint32_t(bytes);
	// All ones is NaN: reading what nobody wrote shows.
	for (size_t i = 0; i < bytes; i++) {
		static_cast<char*>(p)[i] = -1;
		asm volatile("" ::: "memory");
	}
#ifdef SIMT_MSAN
	__msan_allocated_memory(p, bytes);
#endif
	w->sites[w->n_sites++] = Site{key, p, bytes};
	return p;
}

void fence() {
#ifdef SIMT_TSAN
	__tsan_acquire(&registry);
#endif
}

bool run(const Kernel& kernel, U3 grid, U3 threads, void* const* buffers, uint32_t first, uint32_t end, Failure* failure) {
	if (threads.x * threads.y * threads.z > kernel.threads) {
		snprintf(failure->text, sizeof failure->text, "%s is compiled for %u threads", kernel.name, kernel.threads);
		return false;
	}
	static thread_local struct Owner {
		Worker* worker = new Worker;
		~Owner() { delete worker; }
	} owner;
	w = owner.worker;
#ifdef SIMT_CHECKED
	__sanitizer_set_death_callback(say_place);
#endif
	w->guard(threads.x * threads.y * threads.z);
	w->kernel = &kernel;
	w->current = NOBODY;
	w->buffers = buffers;
	w->failed = false;
	w->failure = failure;
	for (uint32_t i = first; i < end && !w->failed; i++) run_threadgroup({i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y}, grid, threads);
	const bool failed = w->failed;
	w = nullptr;
	return !failed;
}

}  // namespace simt

#ifdef SIMT_TSAN
// Heard in a program that has this file in it; under a shared library, with halt_on_error, the callback above is.
extern "C" void __tsan_on_report(void*) { simt::say_place(); }
#endif
