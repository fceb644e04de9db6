// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): random bits as a function of key and
// counter, so a draw depends on seed and position alone. Twin of kernels/shared/philox.ts.
#pragma once
#include "kernels/shared/metal/base.h"

// The first word of the four; the counter is (counter, 0, 0, 0).
inline uint philox4x32(uint key0, uint key1, uint counter) {
	uint c0 = counter, c1 = 0, c2 = 0, c3 = 0;
	for (uint round = 0; round < 10; round++) {
		const ulong a = ulong(0xd2511f53u) * c0, b = ulong(0xcd9e8d57u) * c2;
		c0 = uint(b >> 32) ^ c1 ^ key0;
		c1 = uint(b);
		c2 = uint(a >> 32) ^ c3 ^ key1;
		c3 = uint(a);
		key0 += 0x9e3779b9u;
		key1 += 0xbb67ae85u;
	}
	return c0;
}
