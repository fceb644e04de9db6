// Memory of the machine for players that compute on the host: anonymous and mapped files.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "native/core/player.h"

namespace lw {

namespace {

// From the heap under a sanitizer, which then sees both ends of every block.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LW_SANITIZED
#endif
#endif
#if defined(LW_SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool from_heap = true;
#else
constexpr bool from_heap = false;
#endif

struct anonymous : memory_block {
	~anonymous() override {
		if (!host) return;
		if (from_heap) free(host);
		else munmap(host, bytes);
	}
};

struct mapped_file : memory_block {
	~mapped_file() override {
		if (host) munmap(host, bytes);
	}
};

}  // namespace

int32_t host_player::alloc(uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) {
	auto block = std::make_shared<anonymous>();
	void* p = nullptr;
	if (from_heap) {
		if (posix_memalign(&p, 64, bytes)) p = nullptr;
		else memset(p, 0, bytes);
	} else {
		p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED) p = nullptr;
	}
	if (!p) return fail(error, LW_STATUS_OUT_OF_MEMORY, LW_NO_RECORD, errno, "Cannot allocate %llu bytes of memory: %s", (unsigned long long)bytes, strerror(errno));
#if defined(MADV_HUGEPAGE)
	if (!from_heap && bytes >= (4u << 20)) madvise(p, bytes, MADV_HUGEPAGE);
#endif
	block->host = static_cast<uint8_t*>(p);
	block->bytes = bytes;
	*out = std::move(block);
	return LW_STATUS_OK;
}

int32_t open_weights(const std::string& path, uint64_t bytes, int* file, lw_error* error) {
	const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
	if (fd < 0) return fail(error, LW_STATUS_IO, LW_NO_RECORD, errno, "Cannot open %.150s: %s", path.c_str(), strerror(errno));
	struct stat st;
	if (fstat(fd, &st) || uint64_t(st.st_size) != bytes || bytes == 0) {
		close(fd);
		return fail(error, LW_STATUS_IO, LW_NO_RECORD, errno, "Cannot map %.150s: it is not %llu bytes long (any more)", path.c_str(), (unsigned long long)bytes);
	}
	*file = fd;
	return LW_STATUS_OK;
}

int32_t host_player::map(const std::string& path, uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) {
	int fd = -1;
	if (int32_t bad = open_weights(path, bytes, &fd, error)) return bad;
	void* p = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	int code = errno;
	close(fd);
	if (p == MAP_FAILED) return fail(error, LW_STATUS_OUT_OF_MEMORY, LW_NO_RECORD, code, "Cannot map %.150s: %s", path.c_str(), strerror(code));
	auto block = std::make_shared<mapped_file>();
	block->host = static_cast<uint8_t*>(p);
	block->bytes = bytes;
	block->read_only = true;
	*out = std::move(block);
	return LW_STATUS_OK;
}

int32_t host_player::write(memory_block& m, uint64_t offset, const void* from, uint64_t bytes, lw_error*) {
	if (bytes) memcpy(m.host + offset, from, bytes);
	return LW_STATUS_OK;
}

int32_t host_player::read(memory_block& m, uint64_t offset, void* to, uint64_t bytes, lw_error*) {
	if (bytes) memcpy(to, m.host + offset, bytes);
	return LW_STATUS_OK;
}

int32_t host_player::copy(memory_block& to, uint64_t to_offset, memory_block& from, uint64_t from_offset, uint64_t bytes, lw_error*) {
	if (bytes) memcpy(to.host + to_offset, from.host + from_offset, bytes);
	return LW_STATUS_OK;
}

uint32_t host_player::produced(memory_block& step) {
	return __atomic_load_n(reinterpret_cast<uint32_t*>(step.host) + LW_STEP_PRODUCED, __ATOMIC_ACQUIRE);
}

void host_memory_bytes(uint64_t* total, uint64_t* available) {
	*total = *available = 0;
#if defined(__APPLE__)
	size_t n = sizeof *total;
	if (sysctlbyname("hw.memsize", total, &n, nullptr, 0)) *total = 0;
#else
	FILE* f = fopen("/proc/meminfo", "r");
	if (!f) return;
	char line[256];
	unsigned long long kib;
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "MemTotal: %llu kB", &kib) == 1) *total = kib * 1024;
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) *available = kib * 1024;
	}
	fclose(f);
#endif
}

}  // namespace lw
