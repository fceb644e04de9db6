// Mutates valid tapes of several ops and plays what the loader takes, over memory of any contents: a tape is
// refused or playable, never a fault. One tensor, one allocation, so that a sanitizer sees the ends of each.
// Not for ThreadSanitizer: lists of garbage may name one row twice, and two tasks then write it.
// Usage: fuzz_tape FILE MUTATIONS SEED THREADS
#include <chrono>
#include <utility>

#include "tests/native/case_file.h"

namespace {

constexpr uint64_t SMALL_BYTES = 24 << 10;
constexpr uint32_t RECORDS_OF_BASE = 4;
constexpr uint32_t RECORD_WORDS = LW_RECORD_BYTES / 4;
constexpr uint32_t WORDS_AT = LW_RECORD_HEAD_WORDS + LW_SLOTS_MAX;

uint64_t random_state;

// splitmix64
uint32_t random_u32() {
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return uint32_t((z ^ z >> 31) >> 16);
}
uint32_t below(uint32_t n) { return random_u32() % n; }

struct base {
	uint32_t device;
	std::vector<uint32_t> tape;  // header and records
	std::vector<lw_binding> bindings;
	std::vector<const case_binding*> origins;
};

struct tally {
	uint32_t refused = 0, played = 0, halted = 0;
	double slowest_ms = 0;
};

// Joins single-record cases to one tape; slots are numbered one case behind the other.
base join(const std::vector<const dumped_case*>& cases, uint32_t device) {
	base b;
	b.device = device;
	b.tape.assign(LW_TAPE_HEAD_BYTES / 4, 0);
	for (const dumped_case* c : cases) {
		uint32_t first = uint32_t(b.bindings.size());
		std::vector<uint32_t> record(RECORD_WORDS);
		memcpy(record.data(), c->tape.data() + LW_TAPE_HEAD_BYTES, LW_RECORD_BYTES);
		record[1] = below(2) ? LW_FLAG_WAIT : 0;
		for (uint32_t s = LW_RECORD_HEAD_WORDS; s < WORDS_AT; s++)
			if (record[s] != LW_NO_SLOT) record[s] += first;
		b.tape.insert(b.tape.end(), record.begin(), record.end());
		for (const case_binding& x : c->bindings) {
			b.bindings.push_back({own_memory(device, x.skew, x.before), 0, x.skew, x.before.size()});
			b.origins.push_back(&x);
		}
	}
	const uint32_t head[4] = {LW_TAPE_MAGIC, LW_ABI_VERSION, uint32_t(cases.size()), uint32_t(b.bindings.size())};
	memcpy(b.tape.data(), head, sizeof head);
	return b;
}

uint32_t odd_value(uint32_t old) {
	static const uint32_t edges[] = {0, 1, 2, 3, 15, 16, 17, 64, 128, 1u << 16, LW_AXIS_MAX, LW_AXIS_MAX + 1, 0x7fffffff, 0x80000000, 0xffffffff};
	switch (below(7)) {
	case 0: return random_u32();
	case 1: return below(80);
	case 2: return old + 1;
	case 3: return old - 1;
	case 4: return old * 2;
	case 5: return old ? below(old) : 0;
	default: return edges[below(sizeof edges / sizeof edges[0])];
	}
}

void mutate_record(uint32_t* r, uint32_t n_slots) {
	switch (below(8)) {
	case 0: r[0] += below(2) ? 1 : uint32_t(-1); return;  // a neighbour: mostly the same op at another dtype
	case 1: r[0] = random_u32() % 400; return;
	case 2: r[1 + below(LW_RECORD_HEAD_WORDS - 1)] = odd_value(r[2]); return;
	case 3: r[LW_RECORD_HEAD_WORDS + below(LW_SLOTS_MAX)] = below(8) ? below(n_slots) : LW_NO_SLOT; return;
	case 4: {  // one size wherever it stands, so that equal axes stay equal
		uint32_t old = r[WORDS_AT + below(LW_WORDS_MAX)], changed = odd_value(old);
		for (uint32_t w = WORDS_AT; w < RECORD_WORDS; w++)
			if (r[w] == old) r[w] = changed;
		return;
	}
	case 5: {  // two words change places
		uint32_t &a = r[WORDS_AT + below(LW_WORDS_MAX)], &b = r[WORDS_AT + below(LW_WORDS_MAX)], old = a;
		a = b;
		b = old;
		return;
	}
	default: {
		uint32_t& w = r[WORDS_AT + below(LW_WORDS_MAX)];
		w = odd_value(w);
	}
	}
}

void mutate_binding(lw_binding& b) {
	switch (below(4)) {
	case 0: b.offset = b.offset + below(9) - 4; return;
	case 1: b.bytes -= below(9); return;
	case 2: b.offset = uint64_t(random_u32()) << below(33); return;
	default: b.memory = below(4) ? b.memory + below(3) - 1 : random_u32();
	}
}

// What a tensor may hold: its own values, any bytes, small indices, or ones.
void refill(const base& b, uint32_t slot) {
	const case_binding& origin = *b.origins[slot];
	std::vector<uint8_t> bytes = origin.before;
	uint32_t kind = below(4);
	if (kind)
		for (size_t i = 0; i < bytes.size(); i++) bytes[i] = kind == 1 ? uint8_t(random_u32()) : kind == 2 ? uint8_t(i % 4 ? 0 : below(20)) : 0xff;
	lw_error error;
	ok(lw_memory_write(b.bindings[slot].memory, origin.skew, bytes.data(), bytes.size(), &error), "memory write", error);
}

void load_and_play(const base& b, const std::vector<uint32_t>& tape, size_t bytes, const std::vector<lw_binding>& bindings, tally& t) {
	lw_error error;
	uint32_t loaded = 0, played = 0, times = 1 + below(2);
	// Any slot may be called a step block; most are too small for one.
	uint32_t step = below(4) ? LW_NO_SLOT : below(uint32_t(bindings.size()));
	if (lw_tape_load(b.device, tape.data(), bytes, bindings.data(), uint32_t(bindings.size()), step, &loaded, &error)) {
		t.refused++;
		return;
	}
	auto begin = std::chrono::steady_clock::now();
	ok(lw_tape_play(loaded, times, &played, &error), "tape play", error);
	double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
	if (ms > t.slowest_ms) t.slowest_ms = ms;
	if (played < times && step == LW_NO_SLOT) stop("tape play", "it ended early without a step block");
	t.played++;
	t.halted += played < times;
	ok(lw_tape_free(loaded, &error), "tape free", error);
}

void mutate_and_play(const base& b, tally& t) {
	std::vector<uint32_t> tape = b.tape;
	std::vector<lw_binding> bindings = b.bindings;
	size_t bytes = tape.size() * 4;
	for (uint32_t n = 1 + below(3); n; n--) {
		uint32_t kind = below(100);
		if (kind < 88) mutate_record(&tape[LW_TAPE_HEAD_BYTES / 4 + below(RECORDS_OF_BASE) * RECORD_WORDS], uint32_t(bindings.size()));
		else if (kind < 97) mutate_binding(bindings[below(uint32_t(bindings.size()))]);
		else if (kind < 98) bytes -= below(uint32_t(bytes) + 1);
		else tape[below(4)] = odd_value(tape[below(4)]);
	}
	for (uint32_t n = below(4); n; n--) refill(b, below(uint32_t(bindings.size())));
	load_and_play(b, tape, bytes, bindings, t);
}

// The joined tape itself plays, and a size that its memory cannot hold is refused: else nothing is tested.
void check_canaries(const base& b) {
	lw_error error;
	uint32_t loaded = 0, played = 0;
	ok(lw_tape_load(b.device, b.tape.data(), b.tape.size() * 4, b.bindings.data(), uint32_t(b.bindings.size()), LW_NO_SLOT, &loaded, &error), "unchanged tape", error);
	ok(lw_tape_play(loaded, 1, &played, &error), "tape play", error);
	ok(lw_tape_free(loaded, &error), "tape free", error);
	for (uint32_t r = 0; r < RECORDS_OF_BASE; r++) {
		std::vector<uint32_t> tape = b.tape;
		tape[LW_TAPE_HEAD_BYTES / 4 + r * RECORD_WORDS + WORDS_AT] = LW_AXIS_MAX;
		if (!lw_tape_load(b.device, tape.data(), tape.size() * 4, b.bindings.data(), uint32_t(b.bindings.size()), LW_NO_SLOT, &loaded, &error))
			stop("canary", "a tape that needs more memory than there is was not refused");
	}
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 5) stop("usage", "fuzz_tape FILE MUTATIONS SEED THREADS");
	const case_file file = read_cases(argv[1]);
	const uint32_t mutations = uint32_t(atoi(argv[2])), threads = uint32_t(atoi(argv[4]));
	random_state = strtoull(argv[3], nullptr, 0);
	printf("fuzz_tape: seed %s, %u mutations, %u threads\n", argv[3], mutations, threads);
	std::vector<const dumped_case*> small;
	for (const dumped_case& c : file.cases)
		if (c.bytes() <= SMALL_BYTES) small.push_back(&c);
	std::vector<uint32_t> devices;
	for (const std::string& level : file.levels)
		for (uint32_t n : {1u, threads})
			if (uint32_t d = open_level(level, n)) devices.push_back(d);
	if (small.empty() || devices.empty()) stop("fuzz_tape", "no small cases or no instruction set to play them on");
	// Every small case is part of some tape.
	for (uint32_t i = uint32_t(small.size()); i > 1; i--) std::swap(small[i - 1], small[below(i)]);
	const uint32_t bases = uint32_t(small.size() + RECORDS_OF_BASE - 1) / RECORDS_OF_BASE;
	tally t;
	for (uint32_t i = 0; i < bases; i++) {
		std::vector<const dumped_case*> chosen;
		for (uint32_t r = 0; r < RECORDS_OF_BASE; r++) chosen.push_back(small[(i * RECORDS_OF_BASE + r) % small.size()]);
		base b = join(chosen, devices[i % devices.size()]);
		check_canaries(b);
		for (uint32_t n = i; n < mutations; n += bases) mutate_and_play(b, t);
		lw_error error;
		for (const lw_binding& m : b.bindings) ok(lw_memory_free(m.memory, &error), "memory free", error);
	}
	printf("%zu cases in %u tapes: %u refused, %u played, %u of them halted, slowest %.1f ms\n", small.size(), bases, t.refused, t.played, t.halted, t.slowest_ms);
	if (t.played < mutations / 50) stop("fuzz_tape", "hardly any mutation is playable: it shows nothing");
	printf("1 passed, 0 failed, 0 skipped\n");
	return 0;
}
