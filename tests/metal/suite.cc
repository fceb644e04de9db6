// Plays dumped tapes on the Metal player over the fake Metal, for builds with a sanitizer: every tensor in memory of
// its own, and the bits must be the emulator's. Usage: suite FILE [n]: the n-th barrier of each run is left out, which
// a race detector has to see.
#include "tests/native/case_file.h"

#include "tests/metal/fake/state.h"

namespace {

uint32_t number_after(const std::string& label, const char* key) {
	size_t at = label.rfind(key);
	return at == std::string::npos ? 1 : uint32_t(atoi(label.c_str() + at + strlen(key)));
}

std::string failure_of(const dumped_case& c, uint32_t device) {
	lw_error error;
	std::vector<uint32_t> memories;
	std::vector<lw_binding> bindings;
	for (const case_binding& b : c.bindings) {
		memories.push_back(own_memory(device, 0, b.before));
		bindings.push_back({memories.back(), 0, 0, b.before.size()});
	}
	std::string failure;
	uint32_t tape = 0, played = 0;
	if (lw_tape_load(device, c.tape.data(), c.tape.size(), bindings.data(), uint32_t(bindings.size()), number_after(c.label, "step="), &tape, &error)) {
		failure = error.text;
	} else {
		if (lw_tape_play(tape, number_after(c.label, "times="), &played, &error)) failure = error.text;
		ok(lw_tape_free(tape, &error), "tape free", error);
	}
	for (size_t i = 0; i < c.bindings.size(); i++) {
		const case_binding& b = c.bindings[i];
		std::vector<uint8_t> after(b.before.size());
		ok(lw_memory_read(memories[i], 0, after.data(), after.size(), &error), "memory read", error);
		ok(lw_memory_free(memories[i], &error), "memory free", error);
		if (!failure.empty() || (b.flags & CASE_WRITTEN && !(b.flags & CASE_COMPARED))) continue;
		if (after != (b.flags & CASE_WRITTEN ? b.after[0] : b.before)) failure = "binding " + std::to_string(i) + " has other bits";
	}
	char misuse[1000];
	lw_fake_misuse(misuse, sizeof misuse);
	return failure.empty() ? misuse : failure;
}

}  // namespace

int main(int argc, char** argv) {
	if (argc < 2) stop("usage", "suite FILE [barrier to leave out]");
	const case_file file = read_cases(argv[1]);
	lw_error error;
	uint32_t device = 0, passed = 0, failed = 0;
	ok(lw_device_open(LW_KIND_METAL, 0, 0, &device, &error), "device open", error);
	for (uint64_t seed = 1; seed <= 3; seed++) {
		lw_fake_set("seed", seed);
		for (const dumped_case& c : file.cases) {
			if (argc > 2) lw_fake_set("dropBarrier", uint64_t(atoi(argv[2])));
			const std::string failure = failure_of(c, device);
			if (failure.empty()) passed++;
			else if (failed++ < 40) fprintf(stderr, "FAILED %s: %s\n", c.label.c_str(), failure.c_str());
		}
	}
	ok(lw_device_close(device, &error), "device close", error);
	printf("%u passed, %u failed\n", passed, failed);
	fflush(stdout);
	return failed || passed == 0;
}
