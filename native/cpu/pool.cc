#include "native/cpu/pool.h"

#include <cstdio>
#include <cstdlib>
#include <new>
#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <dlfcn.h>
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
// threads: from the first pool on, the library stays until the process ends. Elsewhere it is linked to stay (Makefile).
static void stay_loaded() {
#if defined(__APPLE__)
	Dl_info here;
	if (dladdr(reinterpret_cast<const void*>(&stay_loaded), &here) && here.dli_fname) dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
#endif
}

pool::pool(uint32_t threads) {
	if (threads > 1) stay_loaded();
	if (threads < 1) threads = 1;
	for (uint32_t i = 0; i < threads; i++) scratch_.emplace_back(new_scratch(), free);
	shares_ = std::make_unique<share[]>(threads);
	n_threads_ = threads;
	try {
		for (uint32_t i = 1; i < threads; i++) workers_.emplace_back(&pool::work, this, i);
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

// Takes one piece of the owner's share and runs it; false when nothing is left of it.
bool pool::take_from(uint32_t owner, uint32_t thread) {
	std::atomic<uint64_t>& open = shares_[owner].open;
	uint64_t seen = open.load(std::memory_order_acquire);
	for (;;) {
		uint32_t left = uint32_t(seen);
		if (left == 0) return false;
		// Big pieces first, single tasks at the end.
		uint32_t piece = left / 4;
		if (piece == 0) piece = 1;
		if (!open.compare_exchange_weak(seen, seen - piece, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
		// The job cannot change before the piece just taken is done.
		uint32_t begin = first_task(owner + 1) - left;
		job_.run(job_.context, begin, begin + piece, scratch_[thread].get());
		done_.fetch_add(piece, std::memory_order_release);
		return true;
	}
}

bool pool::take(uint32_t thread) {
	for (uint32_t i = 0, n = threads(); i < n; i++)
		if (take_from(thread + i < n ? thread + i : thread + i - n, thread)) return true;
	return false;
}

bool pool::anything() const {
	for (uint32_t i = 0; i < threads(); i++)
		if (uint32_t(shares_[i].open.load()) != 0) return true;
	return false;
}

void pool::work(uint32_t thread) {
	// While there is nothing to do only this thread's own line is looked at: every job is announced there.
	const std::atomic<uint64_t>& own = shares_[thread].open;
	uint32_t seen = 0;
	while (!stop_) {
		for (int spins = 0; uint32_t(own.load(std::memory_order_acquire) >> 32) == seen && spins < SPINS; spins++) {
			if (spins > YIELDS_AFTER && spins % 64 == 0) std::this_thread::yield();
			else pause();
		}
		uint32_t number = uint32_t(own.load(std::memory_order_acquire) >> 32);
		if (number == seen) {
			std::unique_lock<std::mutex> lock(mutex_);
			sleeping_.fetch_add(1);
			wake_.wait(lock, [&] { return stop_ || anything(); });
			sleeping_.fetch_sub(1);
		}
		seen = number;
		while (take(thread)) {
		}
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
	const uint64_t number = uint64_t(++number_) << 32;
	for (uint32_t i = 0; i < threads(); i++) shares_[i].open.store(number | (first_task(i + 1) - first_task(i)));
	if (sleeping_.load() != 0) {
		// Taken and given back, so that no thread is between its last look and its sleep.
		{ std::lock_guard<std::mutex> lock(mutex_); }
		wake_.notify_all();
	}
	while (take(0)) {
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
