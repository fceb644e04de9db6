// The emu player: the .metal kernels on the CPU, for tests and for debugging. Slow by design.
#include <atomic>
#include <cstring>
#include <string>
#include <system_error>
#include <unordered_map>

#include "native/core/player.h"
#include "native/cpu/pool.h"
#include "native/emu/simt.h"

namespace lw {
namespace {

// Behind the slots, where kernels have their argument struct.
constexpr uint32_t ARGS_BUFFER = LW_SLOTS_MAX;

struct emu_record {
	const simt::Kernel* kernel;
	simt::U3 grid, threads;
	bool waits;
	uint32_t words[LW_WORDS_MAX];
	void* buffers[LW_SLOTS_MAX + 1];
};

struct emu_tape : played_tape {
	std::shared_ptr<const tape> checked;  // keeps the memories alive
	std::vector<emu_record> records;
	uint32_t* halt = nullptr;
};

struct dispatch {
	const emu_record& r;
	std::atomic<bool> failed{false};
	simt::Failure failure{};
};

void run_groups(void* context, uint32_t begin, uint32_t end, void*) {
	auto& d = *static_cast<dispatch*>(context);
	simt::Failure failure{};
	if (d.failed.load() || simt::run(*d.r.kernel, d.r.grid, d.r.threads, d.r.buffers, begin, end, &failure)) return;
	if (!d.failed.exchange(true)) d.failure = failure;
}

const std::unordered_map<std::string, const simt::Kernel*>& kernels_by_name() {
	static const auto& map = *[] {
		auto* m = new std::unordered_map<std::string, const simt::Kernel*>;
		for (const simt::Kernel* k = simt::registry; k; k = k->next) (*m)[k->name] = k;
		return m;
	}();
	return map;
}

class emu_player : public host_player {
	pool pool_;
	std::vector<const simt::Kernel*> kernels_;  // by kernel id

	int32_t play_record(const emu_record& r, uint32_t index, lw_error* error) {
		dispatch d{r};
		if (r.waits) simt::fence();
		pool_.run(run_groups, &d, r.grid.x * r.grid.y * r.grid.z);
		if (!d.failed) return LW_STATUS_OK;
		return fail(error, LW_STATUS_DEVICE, index, 0, "record %u: %.200s", index, d.failure.text);
	}

public:
	explicit emu_player(uint32_t threads) : pool_(threads) {
		for (const kernel_info& k : kernel_table()) {
			auto at = kernels_by_name().find(k.name);
			kernels_.push_back(at == kernels_by_name().end() ? nullptr : at->second);
		}
	}

	void info(lw_device_info_block* out) override {
		memset(out, 0, sizeof *out);
		out->kind = LW_KIND_EMU;
		out->threads = pool_.threads();
		host_memory_bytes(&out->memory_bytes, &out->memory_free_bytes);
		strncpy(out->name, "emulator of Metal kernels on the CPU", sizeof out->name - 1);
		strncpy(out->isa, "msl", sizeof out->isa - 1);
	}
	bool has_kernel(uint32_t kernel) override { return kernels_[kernel]; }
	bool threadgroups() override { return true; }

	int32_t load(std::shared_ptr<const tape> t, std::unique_ptr<played_tape>* out, lw_error*) override {
		auto made = std::make_unique<emu_tape>();
		for (const record& r : t->records) {
			emu_record b{};
			b.kernel = kernels_[r.kernel];
			b.grid = {r.groups[0], r.groups[1], r.groups[2]};
			b.threads = {r.threads, 1, 1};
			b.waits = r.flags & LW_FLAG_WAIT;
			memcpy(b.words, r.words, sizeof b.words);
			for (uint32_t s = 0; s < LW_SLOTS_MAX; s++)
				if (r.slots[s] != LW_NO_SLOT) b.buffers[s] = host_address(t->slots[r.slots[s]]);
			made->records.push_back(b);
		}
		for (emu_record& r : made->records) r.buffers[ARGS_BUFFER] = r.words;
		made->halt = halt_word(*t);
		made->checked = std::move(t);
		*out = std::move(made);
		return LW_STATUS_OK;
	}

	int32_t play(played_tape& played_as, uint32_t times, uint32_t* played, lw_error* error) override {
		const auto& t = static_cast<const emu_tape&>(played_as);
		for (; *played < times; ++*played) {
			if (t.halt && __atomic_load_n(t.halt, __ATOMIC_ACQUIRE) != LW_HALT_RUNNING) break;
			for (uint32_t i = 0; i < t.records.size(); i++)
				if (int32_t bad = play_record(t.records[i], i, error)) return bad;
			simt::fence();
		}
		return LW_STATUS_OK;
	}

	int32_t profile(played_tape& t, uint64_t* ns, lw_error* error) override {
		// The emulator's own time says nothing about a GPU's.
		memset(ns, 0, static_cast<emu_tape&>(t).records.size() * sizeof *ns);
		uint32_t played = 0;
		return play(t, 1, &played, error);
	}
};

// Kernels are compiled for this (EMU_FLAGS of the Makefile).
uint32_t count() {
#if defined(__x86_64__)
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#else
	return 1;
#endif
}

int32_t open(uint32_t, uint32_t threads, std::unique_ptr<player>* out, lw_error* error) {
	try {
		*out = std::make_unique<emu_player>(threads ? threads : usable_processors());
	} catch (const std::system_error& e) {
		return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, e.code().value(), "Cannot start %u threads: %.150s", threads, e.what());
	}
	return LW_STATUS_OK;
}

}  // namespace

const backend emu_backend = {count, open, nullptr};

}  // namespace lw
