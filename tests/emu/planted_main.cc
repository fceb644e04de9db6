// Runs kernels of planted.metal: `planted KERNEL...` one after the other without a wait between them, or with one
// where `+wait` stands. Prints what the emulator refuses, else whether the output has a NaN.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "native/emu/simt.h"

static const simt::Kernel* find(const char* name) {
	for (const simt::Kernel* k = simt::registry; k; k = k->next)
		if (!strcmp(k->name, name)) return k;
	fprintf(stderr, "no kernel %s\n", name);
	exit(2);
}

int main(int argc, char** argv) {
	constexpr uint32_t GROUPS = 2, THREADS = 64, N = GROUPS * THREADS;
	// To the byte, so that what lies behind is not theirs.
	float* x = static_cast<float*>(malloc(N * sizeof(float)));
	float* y = static_cast<float*>(malloc(N * sizeof(float)));
	for (uint32_t i = 0; i < N; i++) x[i] = y[i] = float(i % 7);
	uint32_t args[1] = {1};
	void* buffers[25] = {x, y};
	buffers[24] = args;
	simt::Failure failure{};
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "+wait")) {
			simt::fence();
			continue;
		}
		if (!simt::run(*find(argv[i]), {GROUPS, 1, 1}, {THREADS, 1, 1}, buffers, 0, GROUPS, &failure)) {
			printf("refused: %s\n", failure.text);
			free(x);
			free(y);
			return 3;
		}
	}
	simt::fence();
	simt::must_be_written(y, N * sizeof(float));
	bool nan = false;
	for (uint32_t i = 0; i < N; i++) nan = nan || std::isnan(y[i]);
	puts(nan ? "nan" : "fine");
	free(x);
	free(y);
	return 0;
}
