#include "native/cpu/pool.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#if defined(__linux__)
#include <sched.h>
#endif

#include "native/cpu/kernel.h"

namespace lw {

namespace {

// About 50 us of looking out before a thread sleeps: longer than the gap between two records, shorter than
// anybody would notice as a busy core.
constexpr int SPINS = 4000, YIELDS_AFTER = 1000;

inline void pause() {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	asm volatile("yield");
#endif
}

void* new_scratch() {
	void* p = nullptr;
	if (posix_memalign(&p, 64, LW_THREAD_SCRATCH_BYTES)) throw std::bad_alloc();
	return p;
}

}  // namespace

// A caller that unloads the library with a device still open must not pull the code away from under its
// threads: from the first pool on, the library stays until the process ends.
static void stay_loaded() {
	Dl_info here;
	if (dladdr(reinterpret_cast<const void*>(&stay_loaded), &here) && here.dli_fname) dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

pool::pool(uint32_t threads) {
	if (threads > 1) stay_loaded();
	if (threads < 1) threads = 1;
	for (uint32_t i = 0; i < threads; i++) scratch_.emplace_back(new_scratch(), free);
	try {
		for (uint32_t i = 1; i < threads; i++) workers_.emplace_back(&pool::work, this, scratch_[i].get());
	} catch (...) {
		// A thread that is neither joined nor detached would end the process.
		stop();
		throw;
	}
}

pool::~pool() { stop(); }

void pool::stop() {
	{
		std::lock_guard<std::mutex> lock(mutex_);
		stop_ = true;
	}
	wake_.notify_all();
	for (auto& w : workers_) w.join();
}

// Takes one piece of the open job and runs it; false when there is none.
bool pool::take(void* scratch) {
	uint64_t seen = open_.load(std::memory_order_acquire);
	for (;;) {
		uint32_t left = uint32_t(seen);
		if (left == 0) return false;
		// Big pieces first, single tasks at the end.
		uint32_t piece = left / (threads() * 4);
		if (piece == 0) piece = 1;
		if (!open_.compare_exchange_weak(seen, seen - piece, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
		// The job cannot change before the piece just taken is done.
		uint32_t begin = job_.tasks - left;
		job_.run(job_.context, begin, begin + piece, scratch);
		done_.fetch_add(piece, std::memory_order_release);
		return true;
	}
}

void pool::work(void* scratch) {
	for (;;) {
		int spins = 0;
		while (!take(scratch)) {
			if (++spins < SPINS) {
				if (spins > YIELDS_AFTER && spins % 64 == 0) std::this_thread::yield();
				else pause();
				continue;
			}
			std::unique_lock<std::mutex> lock(mutex_);
			sleeping_.fetch_add(1);
			wake_.wait(lock, [&] { return stop_ || uint32_t(open_.load()) != 0; });
			sleeping_.fetch_sub(1);
			if (stop_) return;
			spins = 0;
		}
		if (stop_) return;
	}
}

void pool::run(body b, void* context, uint32_t tasks) {
	if (tasks == 0) return;
	if (tasks == 1 || workers_.empty()) {
		b(context, 0, tasks, scratch_[0].get());
		return;
	}
	job_ = {b, context, tasks};
	done_.store(0, std::memory_order_relaxed);
	uint64_t number = (open_.load(std::memory_order_relaxed) >> 32) + 1;
	open_.store(number << 32 | tasks);
	if (sleeping_.load() != 0) {
		// Taken and given back, so that no thread is between its last look and its sleep.
		{ std::lock_guard<std::mutex> lock(mutex_); }
		wake_.notify_all();
	}
	while (take(scratch_[0].get())) {
	}
	for (int spins = 0; done_.load(std::memory_order_acquire) != tasks; spins++) {
		if (spins > YIELDS_AFTER) std::this_thread::yield();
		else pause();
	}
}

uint32_t usable_processors() {
	uint32_t n = std::thread::hardware_concurrency();
#if defined(__linux__)
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set) == 0) n = uint32_t(CPU_COUNT(&set));
	if (FILE* f = fopen("/sys/fs/cgroup/cpu.max", "r")) {
		long long quota, period;
		if (fscanf(f, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
			uint32_t whole = uint32_t((quota + period - 1) / period);
			if (whole < n) n = whole;
		}
		fclose(f);
	}
#endif
	return n ? n : 1;
}

}  // namespace lw
