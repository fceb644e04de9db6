// The CPU player: records between two waits run as one job of the pool.
#include <chrono>
#include <cstring>
#include <system_error>
#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "native/core/player.h"
#include "native/cpu/level.h"
#include "native/cpu/pool.h"

namespace lw {
namespace {

struct bound_record {
	lw_cpu_kernel kernel;
	uint32_t tasks;
	uint32_t words[LW_WORDS_MAX];
	void* slots[LW_SLOTS_MAX];
};

// Records first..first+count-1, none of which waits for another.
struct phase {
	uint32_t first, count, tasks;
};

struct cpu_tape : played_tape {
	std::shared_ptr<const tape> checked;  // keeps the memories alive
	std::vector<bound_record> records;
	std::vector<phase> phases;
	uint32_t* halt = nullptr;
};

struct piece_of_phase {
	const cpu_tape* t;
	const phase* p;
};

// Task numbers of a phase run through its records one after another.
void run_tasks(void* context, uint32_t begin, uint32_t end, void* scratch) {
	const auto& c = *static_cast<const piece_of_phase*>(context);
	uint32_t base = 0;
	for (uint32_t i = c.p->first; i < c.p->first + c.p->count && base < end; i++) {
		const bound_record& r = c.t->records[i];
		if (begin < base + r.tasks) {
			uint32_t from = begin > base ? begin - base : 0;
			uint32_t to = end - base < r.tasks ? end - base : r.tasks;
			r.kernel(r.words, r.slots, from, to, scratch);
		}
		base += r.tasks;
	}
}

void processor_name(char* out, size_t n) {
	out[0] = 0;
#if defined(__APPLE__)
	sysctlbyname("machdep.cpu.brand_string", out, &n, nullptr, 0);
#elif defined(__x86_64__)
	unsigned brand[12];
	for (unsigned i = 0; i < 3; i++)
		if (!__get_cpuid(0x80000002 + i, &brand[4 * i], &brand[4 * i + 1], &brand[4 * i + 2], &brand[4 * i + 3])) return;
	memcpy(out, brand, sizeof brand < n ? sizeof brand : n - 1);
	out[n - 1] = 0;
#else
	(void)n;
#endif
}

class cpu_player : public host_player {
	const level& level_;
	uint32_t index_;
	pool pool_;

public:
	cpu_player(const level& l, uint32_t index, uint32_t threads) : level_(l), index_(index), pool_(threads) {}

	void info(lw_device_info_block* out) override {
		memset(out, 0, sizeof *out);
		out->kind = LW_KIND_CPU;
		out->index = index_;
		out->threads = pool_.threads();
		host_memory_bytes(&out->memory_bytes, &out->memory_free_bytes);
		processor_name(out->name, sizeof out->name);
		strncpy(out->isa, level_.name, sizeof out->isa - 1);
	}
	bool has_kernel(uint32_t kernel) override { return level_.kernels[kernel] != nullptr; }
	int32_t load(std::shared_ptr<const tape> t, std::unique_ptr<played_tape>* out, lw_error* error) override {
		auto made = std::make_unique<cpu_tape>();
		for (uint32_t i = 0; i < t->records.size(); i++) {
			const record& r = t->records[i];
			bound_record b{};
			b.kernel = level_.kernels[r.kernel];
			b.tasks = r.groups[0] * r.groups[1] * r.groups[2];
			memcpy(b.words, r.words, sizeof b.words);
			for (uint32_t s = 0; s < LW_SLOTS_MAX; s++)
				if (r.slots[s] != LW_NO_SLOT) b.slots[s] = host_address(t->slots[r.slots[s]]);
			made->records.push_back(b);
			if (made->phases.empty() || r.flags & LW_FLAG_WAIT) made->phases.push_back({i, 0, 0});
			phase& p = made->phases.back();
			if (uint64_t(p.tasks) + b.tasks > 0x7fffffff) return fail(error, LW_STATUS_REFUSED, i, 0, "Cannot load tape: too many tasks between two waits, at record %u", i);
			p.count++;
			p.tasks += b.tasks;
		}
		made->halt = halt_word(*t);
		made->checked = std::move(t);
		*out = std::move(made);
		return LW_STATUS_OK;
	}

	int32_t play(played_tape& played_as, uint32_t times, uint32_t* played, lw_error*) override {
		const auto& t = static_cast<const cpu_tape&>(played_as);
		for (; *played < times; ++*played) {
			if (t.halt && __atomic_load_n(t.halt, __ATOMIC_ACQUIRE) != LW_HALT_RUNNING) break;
			for (const phase& p : t.phases) {
				piece_of_phase piece{&t, &p};
				pool_.run(run_tasks, &piece, p.tasks);
			}
		}
		return LW_STATUS_OK;
	}

	int32_t profile(played_tape& played_as, uint64_t* ns, lw_error*) override {
		const auto& t = static_cast<const cpu_tape&>(played_as);
		for (uint32_t i = 0; i < t.records.size(); i++) {
			phase one{i, 1, t.records[i].tasks};
			piece_of_phase piece{&t, &one};
			auto begin = std::chrono::steady_clock::now();
			pool_.run(run_tasks, &piece, one.tasks);
			ns[i] = uint64_t(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
		}
		return LW_STATUS_OK;
	}
};

// The usable level with this index among the usable ones, best first.
const level* usable_level(uint32_t index) {
	uint32_t n;
	const level* all = all_levels(&n);
	for (uint32_t i = 0; i < n; i++)
		if (all[i].usable() && index-- == 0) return &all[i];
	return nullptr;
}

uint32_t count() {
	uint32_t n = 0;
	while (usable_level(n)) n++;
	return n;
}

int32_t open(uint32_t index, uint32_t threads, std::unique_ptr<player>* out, lw_error* error) {
	if (threads == 0) threads = usable_processors();
	try {
		*out = std::make_unique<cpu_player>(*usable_level(index), index, threads);
	} catch (const std::system_error& e) {
		return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, e.code().value(), "Cannot start %u threads: %.150s", threads, e.what());
	}
	return LW_STATUS_OK;
}

}  // namespace

const backend cpu_backend = {count, open, nullptr};

}  // namespace lw
