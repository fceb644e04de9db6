// The native library with a play that prints to descriptor 1: once through C's buffer and once past it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int32_t lw_tape_play(uint32_t tape, uint32_t times, uint32_t* played, void* error) {
	static int32_t (*real)(uint32_t, uint32_t, uint32_t*, void*);
	if (!real) {
		void* library = dlopen(REAL_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
		real = (int32_t (*)(uint32_t, uint32_t, uint32_t*, void*))dlsym(library, "lw_tape_play");
	}
	printf("NOISE from printf\n");
	if (write(1, "NOISE from write\n", 17) < 0) return -4;
	return real(tape, times, played, error);
}
