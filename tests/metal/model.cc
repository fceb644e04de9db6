// Plays the built-in model on the Metal player over the fake Metal, for builds with a sanitizer: its prompt, one token
// in a call of its own, the rest in one call, and the tokens must be the golden ones. Every weight lies in memory of
// its own. Usage: model FILE TOKENS, or model FILE drop N: one token alone without its N-th barrier, which a race detector
// has to see.
//
// FILE, written by dump_model.ts, all numbers u32: magic; pieces of memory, each with its bytes in front; the tapes of
// the prompt and of one token: bytes, tape, bindings, slot of the step block, and piece, offset and bytes of each
// binding; the piece that is the history; rows of the prompt; tokens, with their number in front.
#include "tests/native/case_file.h"

#include "tests/metal/fake/state.h"

namespace {

constexpr uint32_t MODEL_MAGIC = 0x4c444d57;

struct model {
	std::vector<uint32_t> memories;
	uint32_t prompt = 0, token = 0;  // tapes
	uint32_t step = 0, history = 0;  // memories
	uint32_t rows = 0;
	std::vector<uint32_t> golden;
};

uint32_t load_tape(case_reader& in, uint32_t device, model& m) {
	lw_error error;
	const std::vector<uint8_t> bytes = in.bytes(in.word());
	std::vector<lw_binding> bindings(in.word());
	const uint32_t step_slot = in.word();
	for (lw_binding& b : bindings) {
		b.memory = m.memories[in.word()];
		b.spare = 0;
		b.offset = in.word();
		b.bytes = in.word();
	}
	m.step = bindings[step_slot].memory;
	uint32_t tape = 0;
	ok(lw_tape_load(device, bytes.data(), bytes.size(), bindings.data(), uint32_t(bindings.size()), step_slot, &tape, &error), "tape load", error);
	return tape;
}

model load_model(const char* path, uint32_t device) {
	case_reader in(path);
	model m;
	if (in.word() != MODEL_MAGIC) stop(path, "not a model file");
	m.memories.resize(in.word());
	for (uint32_t& memory : m.memories) memory = own_memory(device, 0, in.bytes(in.word()));
	m.prompt = load_tape(in, device, m);
	m.token = load_tape(in, device, m);
	m.history = m.memories[in.word()];
	m.rows = in.word();
	m.golden.resize(in.word());
	for (uint32_t& token : m.golden) token = in.word();
	return m;
}

void free_model(const model& m) {
	lw_error error;
	for (uint32_t tape : {m.prompt, m.token}) ok(lw_tape_free(tape, &error), "tape free", error);
	for (uint32_t memory : m.memories) ok(lw_memory_free(memory, &error), "memory free", error);
}

// Plays `times` times; the tokens so far, `want` of them, must be golden. Empty, or what went wrong.
std::string play(const model& m, uint32_t tape, uint32_t times, uint32_t want) {
	lw_error error;
	uint32_t played = 0, n = 0;
	std::vector<uint32_t> got(m.golden.size());
	if (lw_tape_play(tape, times, &played, &error)) return error.text;
	if (played != times) return "played " + std::to_string(played) + " of " + std::to_string(times);
	ok(lw_ring_read(m.step, m.history, m.rows, 0, got.data(), uint32_t(got.size()), &n, &error), "ring read", error);
	if (n != want) return std::to_string(n) + " tokens, not " + std::to_string(want);
	for (uint32_t i = 0; i < n; i++)
		if (got[i] != m.golden[i]) return "token " + std::to_string(i) + " is " + std::to_string(got[i]) + ", the golden one " + std::to_string(m.golden[i]);
	char misuse[1000];
	lw_fake_misuse(misuse, sizeof misuse);
	return misuse;
}

}  // namespace

int main(int argc, char** argv) {
	if (argc < 3) stop("usage", "model FILE (TOKENS | drop BARRIER)");
	lw_error error;
	uint32_t device = 0, passed = 0, failed = 0, played = 0;
	ok(lw_device_open(LW_KIND_METAL, 0, 0, &device, &error), "device open", error);
	const model m = load_model(argv[1], device);
	auto count = [&](const char* what, const std::string& failure) {
		if (failure.empty()) passed++;
		else failed++, fprintf(stderr, "FAILED the built-in model, %s: %s\n", what, failure.c_str());
	};
	if (argc > 3) {
		lw_fake_set("dropBarrier", uint64_t(atoi(argv[3])));
		ok(lw_tape_play(m.token, 1, &played, &error), "tape play", error);
	} else {
		const uint32_t tokens = uint32_t(atoi(argv[2]));
		if (tokens < 3 || tokens > m.golden.size()) stop(argv[2], "not a number of tokens that the file has");
		count("its prompt", play(m, m.prompt, 1, 1));
		count("one token", play(m, m.token, 1, 2));
		count("a run of tokens", play(m, m.token, tokens - 2, tokens));
	}
	free_model(m);
	ok(lw_device_close(device, &error), "device close", error);
	if (argc > 3) return 0;
	printf("%u passed, %u failed\n", passed, failed);
	fflush(stdout);
	return failed || passed == 0;
}
