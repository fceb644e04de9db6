// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): random bits as a function
// of key and counter, so a draw depends on seed and position alone. kernels/shared/philox.ts is its twin.
#pragma once
#include <cstdint>

namespace LW_CPU_NAMESPACE {

struct philox_counter {
	uint32_t word[4];
};

static inline philox_counter philox4x32(uint32_t key0, uint32_t key1, philox_counter c) {
	for (int round = 0; round < 10; round++) {
		uint64_t a = uint64_t(0xd2511f53u) * c.word[0], b = uint64_t(0xcd9e8d57u) * c.word[2];
		c = {{uint32_t(b >> 32) ^ c.word[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ c.word[3] ^ key1, uint32_t(a)}};
		key0 += 0x9e3779b9u;
		key1 += 0xbb67ae85u;
	}
	return c;
}

}  // namespace LW_CPU_NAMESPACE
