// A device that is lost while the library uses it: a kernel of this program traps, which ends the context that both
// share. Every call of the library must then fail with one line, and nothing may crash. Usage: cuda_lost
#include <cstdio>
#include <cstring>

#include "native/include/lapwing.h"

__global__ void end_of_the_device() { __trap(); }

static int passed, failed;

static void expect(bool good, const char* what, const lw_error& error) {
	if (good) passed++;
	else failed++;
	printf("%s %s: %s\n", good ? "ok  " : "FAIL", what, error.text);
}

static bool told(int32_t status, const lw_error& error) {
	return status == LW_STATUS_DEVICE && error.code != 0 && strlen(error.text) > 10 && !strchr(error.text, '\n');
}

int main() {
	lw_error error = {};
	uint32_t device = 0, memory = 0, n = 0;
	if (lw_device_count(LW_KIND_CUDA, &n, &error) || n == 0) {
		printf("skipped: a lost device needs an NVIDIA device\n0 passed, 0 failed, 1 skipped\n");
		return 0;
	}
	char bytes[16] = {};
	expect(!lw_device_open(LW_KIND_CUDA, 0, 0, &device, &error), "open", error);
	expect(!lw_memory_alloc(device, 1 << 20, &memory, &error), "alloc", error);
	expect(!lw_memory_write(memory, 0, bytes, sizeof bytes, &error), "write", error);
	end_of_the_device<<<1, 1>>>();
	cudaDeviceSynchronize();
	expect(told(lw_memory_read(memory, 0, bytes, sizeof bytes, &error), error), "read after the loss", error);
	expect(told(lw_memory_write(memory, 0, bytes, sizeof bytes, &error), error), "write after the loss", error);
	uint32_t other = 0;
	const int32_t status = lw_memory_alloc(device, 1 << 20, &other, &error);
	expect(told(status, error) && other == 0, "alloc after the loss", error);
	error = {};
	expect(!lw_memory_free(memory, &error), "free after the loss", error);
	expect(!lw_device_close(device, &error), "close after the loss", error);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
