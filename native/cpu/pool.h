// A persistent pool of threads that share out the tasks of one job after another.
//
// Every thread has a share of the tasks, of equal jobs always the same one, so that what they read stays in its
// caches; who has done its own helps with the others'. A job is finished when all its tasks are, not when all
// threads have shown up: a thread that the system keeps from running delays nothing that it has not begun, so
// fewer cores than threads only cost speed. Between jobs threads look out for work for some microseconds and
// then sleep.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace lw {

class pool {
public:
	typedef void (*body)(void* context, uint32_t begin, uint32_t end, void* scratch);

	explicit pool(uint32_t threads);
	~pool();
	pool(const pool&) = delete;
	pool& operator=(const pool&) = delete;

	// Runs body over tasks 0..tasks-1 in pieces, on the calling thread and the others. One caller at a time.
	void run(body b, void* context, uint32_t tasks);

	uint32_t threads() const { return n_threads_; }

private:
	struct job {
		body run;
		void* context;
		uint32_t tasks;
	};
	struct alignas(64) share {
		// High half: number of the job; low half: tasks not yet taken. Taking and publishing are one atomic
		// word, so a thread that slept through several jobs cannot take from the wrong one.
		std::atomic<uint64_t> open{0};
	};

	void stop();
	void work(uint32_t thread);
	bool take(uint32_t thread);
	bool take_from(uint32_t owner, uint32_t thread);
	bool anything() const;
	uint32_t first_task(uint32_t owner) const { return uint32_t(uint64_t(job_.tasks) * owner / threads()); }

	job job_{};
	uint32_t n_threads_ = 1, number_ = 0;
	std::unique_ptr<share[]> shares_;
	alignas(64) std::atomic<uint32_t> done_{0};
	alignas(64) std::atomic<uint32_t> sleeping_{0};
	std::atomic<bool> stop_{false};
	std::mutex mutex_;
	std::condition_variable wake_;
	std::vector<std::thread> workers_;
	std::vector<std::unique_ptr<void, void (*)(void*)>> scratch_;
};

// Processors that this process may use: its affinity mask and, on Linux, its cgroup's quota.
uint32_t usable_processors();

}  // namespace lw
