// Replays dumped parity cases through the C ABI, every tensor in memory of its own that ends with its last
// byte, so that a sanitizer sees each access outside. The bits must be those of the library that made the
// file. Usage: op_suite FILE THREADS
#include "tests/native/case_file.h"

namespace {

struct tally {
	uint32_t passed = 0, failed = 0, skipped = 0;
};

// The first difference, or an empty string.
std::string difference(const std::vector<uint8_t>& got, const std::vector<uint8_t>& want) {
	for (size_t i = 0; i < want.size(); i++)
		if (got[i] != want[i]) return "byte " + std::to_string(i) + " of " + std::to_string(want.size());
	return "";
}

std::string failure_of(const dumped_case& c, uint32_t device, uint32_t level) {
	lw_error error;
	std::vector<uint32_t> memories;
	std::vector<lw_binding> bindings;
	for (const case_binding& b : c.bindings) {
		memories.push_back(own_memory(device, b.skew, b.before));
		bindings.push_back({memories.back(), 0, b.skew, b.before.size()});
	}
	std::string failure;
	uint32_t tape = 0, played = 0;
	if (lw_tape_load(device, c.tape.data(), c.tape.size(), bindings.data(), uint32_t(bindings.size()), LW_NO_SLOT, &tape, &error)) {
		failure = error.text;
	} else {
		ok(lw_tape_play(tape, 1, &played, &error), "tape play", error);
		ok(lw_tape_free(tape, &error), "tape free", error);
	}
	for (size_t i = 0; i < c.bindings.size(); i++) {
		const case_binding& b = c.bindings[i];
		std::vector<uint8_t> after(b.before.size());
		ok(lw_memory_read(memories[i], b.skew, after.data(), after.size(), &error), "memory read", error);
		ok(lw_memory_free(memories[i], &error), "memory free", error);
		if (!failure.empty() || (b.flags & CASE_WRITTEN && !(b.flags & CASE_COMPARED))) continue;
		std::string where = difference(after, b.flags & CASE_WRITTEN ? b.after[level] : b.before);
		if (!where.empty()) failure = "binding " + std::to_string(i) + " has other bits at " + where;
	}
	return failure;
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 3) stop("usage", "op_suite FILE THREADS");
	const case_file file = read_cases(argv[1]);
	tally t;
	for (uint32_t level = 0; level < file.levels.size(); level++) {
		const std::string& name = file.levels[level];
		uint32_t device = open_level(name, uint32_t(atoi(argv[2])));
		if (!device) {
			fprintf(stderr, "skipped: %zu cases need the instruction set %s\n", file.cases.size(), name.c_str());
			t.skipped += uint32_t(file.cases.size());
			continue;
		}
		for (const dumped_case& c : file.cases) {
			std::string failure = failure_of(c, device, level);
			if (failure.empty()) t.passed++;
			else if (t.failed++ < 40) fprintf(stderr, "FAILED %s on %s: %s\n", c.label.c_str(), name.c_str(), failure.c_str());
		}
		lw_error error;
		ok(lw_device_close(device, &error), "device close", error);
	}
	printf("%u passed, %u failed, %u skipped\n", t.passed, t.failed, t.skipped);
	return t.failed || t.passed == 0;
}
