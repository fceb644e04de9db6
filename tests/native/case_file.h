// Reads the file that dump_cases.ts writes: magic, cases, levels, level names; per case a label, the tape,
// and its bindings (bytes, offset from a 64-byte line, flags, contents), then for each level the contents of
// the written bindings after one play. All numbers are u32, texts and tapes have their length in front.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "native/include/lapwing.h"

constexpr uint32_t CASE_MAGIC = 0x5343574c, CASE_WRITTEN = 1, CASE_COMPARED = 2;

struct case_binding {
	uint32_t skew, flags;
	std::vector<uint8_t> before;
	std::vector<std::vector<uint8_t>> after;  // by level; empty when not written
};

struct dumped_case {
	std::string label;
	std::vector<uint8_t> tape;
	std::vector<case_binding> bindings;
	uint64_t bytes() const {
		uint64_t n = 0;
		for (const case_binding& b : bindings) n += b.before.size();
		return n;
	}
};

struct case_file {
	std::vector<std::string> levels;
	std::vector<dumped_case> cases;
};

[[noreturn]] inline void stop(const char* what, const char* why) {
	fprintf(stderr, "%s: %s\n", what, why);
	exit(2);
}

inline void ok(int32_t status, const char* what, const lw_error& error) {
	if (status != LW_STATUS_OK) stop(what, error.text);
}

class case_reader {
	FILE* file_;

public:
	explicit case_reader(const char* path) : file_(fopen(path, "rb")) {
		if (!file_) stop(path, "cannot open it");
	}
	~case_reader() { fclose(file_); }
	case_reader(const case_reader&) = delete;
	case_reader& operator=(const case_reader&) = delete;

	std::vector<uint8_t> bytes(uint32_t n) {
		std::vector<uint8_t> out(n);
		if (n && fread(out.data(), 1, n, file_) != n) stop("case file", "it ends too early");
		return out;
	}
	uint32_t word() {
		uint32_t v;
		memcpy(&v, bytes(4).data(), 4);
		return v;
	}
	std::string text() {
		std::vector<uint8_t> b = bytes(word());
		return std::string(b.begin(), b.end());
	}
};

inline case_file read_cases(const char* path) {
	case_reader in(path);
	case_file out;
	if (in.word() != CASE_MAGIC) stop(path, "not a case file");
	uint32_t n_cases = in.word(), n_levels = in.word();
	for (uint32_t l = 0; l < n_levels; l++) out.levels.push_back(in.text());
	for (uint32_t i = 0; i < n_cases; i++) {
		dumped_case c;
		c.label = in.text();
		c.tape = in.bytes(in.word());
		uint32_t n = in.word();
		for (uint32_t b = 0; b < n; b++) {
			case_binding x;
			uint32_t size = in.word();
			x.skew = in.word();
			x.flags = in.word();
			x.before = in.bytes(size);
			c.bindings.push_back(std::move(x));
		}
		for (uint32_t l = 0; l < n_levels; l++)
			for (case_binding& b : c.bindings)
				if (b.flags & CASE_WRITTEN) b.after.push_back(in.bytes(uint32_t(b.before.size())));
		out.cases.push_back(std::move(c));
	}
	return out;
}

// The device whose instruction set has this name, or 0 where this build or machine lacks it.
inline uint32_t open_level(const std::string& name, uint32_t threads) {
	lw_error error;
	for (uint32_t kind : {LW_KIND_CPU, LW_KIND_EMU, LW_KIND_CUDA}) {
		uint32_t n = 0, device = 0;
		ok(lw_device_count(kind, &n, &error), "device count", error);
		for (uint32_t i = 0; i < n; i++) {
			lw_device_info_block info;
			ok(lw_device_open(kind, i, threads, &device, &error), "device open", error);
			ok(lw_device_info(device, &info, &error), "device info", error);
			if (name == info.isa) return device;
			ok(lw_device_close(device, &error), "device close", error);
		}
	}
	return 0;
}

// Memory that begins `skew` bytes behind a 64-byte line and ends with its last byte.
inline uint32_t own_memory(uint32_t device, uint32_t skew, const std::vector<uint8_t>& contents) {
	lw_error error;
	uint32_t memory = 0;
	ok(lw_memory_alloc(device, skew + contents.size(), &memory, &error), "memory alloc", error);
	ok(lw_memory_write(memory, skew, contents.data(), contents.size(), &error), "memory write", error);
	return memory;
}
