// The GPU of the fake: a thread that executes committed command buffers on the emulator. Dispatches between two
// barriers run in a shuffled order.
#include "tests/metal/fake/objects.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "native/cpu/pool.h"

#if __has_feature(thread_sanitizer)
#define FAKE_TSAN true
#else
#define FAKE_TSAN false
#endif

namespace fake {

namespace {

auto& mutex = *new std::mutex;
auto& changed = *new std::condition_variable;  // its destructor would wait for the GPU thread at exit
auto& queue = *new std::deque<FakeCommandBuffer*>;
int64_t in_flight;

struct piece {
	const simt::Kernel& kernel;
	simt::U3 groups, threads;
	void* const* buffers;
	std::atomic<bool> failed{false};
	simt::Failure failure{};
};

void run_groups(void* context, uint32_t begin, uint32_t end, void*) {
	auto& p = *static_cast<piece*>(context);
	simt::Failure failure{};
	if (p.failed.load() || simt::run(p.kernel, p.groups, p.threads, p.buffers, begin, end, &failure)) return;
	if (!p.failed.exchange(true)) p.failure = failure;
}

// Empty, or what went wrong.
std::string execute(lw::pool& pool, command& c) {
	void* buffers[BUFFERS_MAX];
	for (uint32_t i = 0; i < BUFFERS_MAX; i++) {
		binding& b = c.bindings[i];
		buffers[i] = b.buffer ? b.buffer->bytes_ + b.offset : b.bytes.empty() ? nullptr : b.bytes.data();
	}
	if (c.indirect) memcpy(&c.groups, c.indirect, sizeof c.groups);
	const uint64_t groups = uint64_t(c.groups.x) * c.groups.y * c.groups.z;
	if (groups == 0) {
		count("empty dispatches");
		return "";
	}
	FakeFunction* f = c.pipeline->function_;
	// What a function constant leaves out is not there, whatever is bound.
	for (const argument& a : f->text_->arguments)
		if (a.constant >= 0 && !(f->present_ >> a.constant & 1)) buffers[a.buffer] = nullptr;
	simt::Kernel kernel = *f->kernel_;
	// Under a race detector every thread is a fiber: one that ran on this OS thread would be ordered by it.
	if (FAKE_TSAN) kernel.meets = true;
	piece p{kernel, c.groups, c.threads, buffers};
	pool.run(run_groups, &p, uint32_t(groups));
	return p.failed ? p.failure.text : "";
}

std::string run_batch(lw::pool& pool, std::vector<command*>& batch, std::mt19937& random) {
	std::shuffle(batch.begin(), batch.end(), random);
	std::string failure;
	for (command* c : batch)
		if (failure.empty()) failure = execute(pool, *c);
	batch.clear();
	return failure;
}

std::string run_encoder(lw::pool& pool, encoder_record& e, std::mt19937& random) {
	std::vector<command*> batch;
	std::string failure;
	for (command& c : e.commands) {
		if (c.what == command::dispatch) {
			batch.push_back(&c);
			continue;
		}
		if (failure.empty()) failure = run_batch(pool, batch, random);
		if (c.what == command::sample) {
			if (c.sample_index < c.samples->values_->size() && !setting("noSamples", 0)) (*c.samples->values_)[c.sample_index] = now() / 2;
			else if (c.sample_index != MTLCounterDontSample && !setting("noSamples", 0)) misuse("sample %lu of %zu", c.sample_index, c.samples->values_->size());
		} else simt::fence();
	}
	if (failure.empty()) failure = run_batch(pool, batch, random);
	return failure;
}

void work() {
	lw::pool pool(FAKE_TSAN ? 1 : uint32_t(setting("threads", 2)));
	std::mt19937 random(uint32_t(setting("seed", 1)));
	uint64_t seed = setting("seed", 1);
	for (;;) {
		FakeCommandBuffer* next;
		{
			std::unique_lock<std::mutex> lock(mutex);
			changed.wait(lock, [] { return !queue.empty(); });
			next = queue.front();
			queue.pop_front();
		}
		if (setting("seed", 1) != seed) random.seed(uint32_t(seed = setting("seed", 1)));
		while (counted("hold")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
		NSAutoreleasePool* objects = [NSAutoreleasePool new];
		std::string failure = due("failCommandBuffer") ? "Caused GPU Hang Error (planted)" : "";
		for (auto& e : *next->encoders_)
			if (failure.empty()) failure = run_encoder(pool, *e, random);
		simt::fence();
		for (auto& e : *next->encoders_)
			for (command& c : e->commands)
				for (binding& b : c.bindings)
					if (b.buffer) --*b.buffer->in_flight_;
		if (!failure.empty()) next->error_ = [[NSError errorWithText:failure.c_str() code:NSInteger(setting("failCode", MTLCommandBufferErrorTimeout))] retain];
		[objects drain];
		{
			std::lock_guard<std::mutex> lock(mutex);
			next->done_ = true;
			in_flight--;
			[next release];  // before the host goes on, which may count what is left
			changed.notify_all();
		}
	}
}

}  // namespace

void submit(FakeCommandBuffer* buffer) {
	static std::once_flag once;
	std::call_once(once, [] { std::thread(work).detach(); });
	[buffer retain];
	std::lock_guard<std::mutex> lock(mutex);
	queue.push_back(buffer);
	in_flight++;
	if (in_flight > counted("most in flight")) count("most in flight", in_flight - counted("most in flight"));
	changed.notify_all();
}

void wait(FakeCommandBuffer* buffer) {
	std::unique_lock<std::mutex> lock(mutex);
	changed.wait(lock, [&] { return buffer->done_; });
}

uint64_t now() { return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()); }

}  // namespace fake
