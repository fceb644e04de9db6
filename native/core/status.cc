#include "native/core/status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

namespace lw {

int32_t fail(lw_error* error, lw_status status, uint32_t record, int32_t code, const char* format, ...) {
	if (!error) return status;
	memset(error, 0, sizeof *error);
	error->status = status;
	error->record = record;
	error->code = code;
	va_list args;
	va_start(args, format);
	vsnprintf(error->text, sizeof error->text, format, args);
	va_end(args);
	return status;
}

namespace {
constexpr size_t LOG_BYTES_MAX = 1 << 16;
// Not destroyed: a play may fail while the process ends.
auto& log_mutex = *new std::mutex;
auto& log_text = *new std::string;
}  // namespace

void log_line(const char* format, ...) {
	char line[512];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	std::lock_guard<std::mutex> lock(log_mutex);
	log_text += line;
	log_text += '\n';
	if (log_text.size() > LOG_BYTES_MAX) log_text.erase(0, log_text.size() - LOG_BYTES_MAX);
}

}  // namespace lw

extern "C" int32_t lw_log_read(char* out, uint64_t capacity, uint64_t* needed) {
	std::lock_guard<std::mutex> lock(lw::log_mutex);
	*needed = lw::log_text.size() + 1;
	if (capacity < *needed) return LW_STATUS_OK;
	memcpy(out, lw::log_text.c_str(), *needed);
	lw::log_text.clear();
	return LW_STATUS_OK;
}
