#include "tests/metal/fake/state.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace fake {
namespace {

auto& mutex = *new std::mutex;
auto& counts = *new std::map<std::string, int64_t>;
auto& settings = *new std::map<std::string, uint64_t>;
auto& texts = *new std::map<std::string, std::string>;
auto& misuses = *new std::string;

}  // namespace

void count(const char* name, int64_t by) {
	std::lock_guard<std::mutex> lock(mutex);
	counts[name] += by;
}
int64_t counted(const char* name) {
	std::lock_guard<std::mutex> lock(mutex);
	auto at = counts.find(name);
	return at == counts.end() ? 0 : at->second;
}
uint64_t setting(const char* name, uint64_t otherwise) {
	std::lock_guard<std::mutex> lock(mutex);
	auto at = settings.find(name);
	return at == settings.end() ? otherwise : at->second;
}
bool due(const char* name) {
	std::lock_guard<std::mutex> lock(mutex);
	auto at = settings.find(name);
	return at != settings.end() && at->second && --at->second == 0;
}
std::string text_setting(const char* name) {
	std::lock_guard<std::mutex> lock(mutex);
	return texts[name];
}
void misuse(const char* format, ...) {
	char line[300];
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	std::lock_guard<std::mutex> lock(mutex);
	misuses = misuses + line + "\n";
}

}  // namespace fake

extern "C" {

int64_t lw_fake_count(const char* name) { return fake::counted(name); }
void lw_fake_set(const char* name, uint64_t value) {
	std::lock_guard<std::mutex> lock(fake::mutex);
	fake::settings[name] = value;
}
void lw_fake_reset() {
	std::lock_guard<std::mutex> lock(fake::mutex);
	fake::settings.clear();
	fake::texts.clear();
	fake::counts["most in flight"] = 0;
}
void lw_fake_set_text(const char* name, const char* value) {
	std::lock_guard<std::mutex> lock(fake::mutex);
	fake::texts[name] = value;
}
void lw_fake_misuse(char* out, uint64_t capacity) {
	std::lock_guard<std::mutex> lock(fake::mutex);
	strncpy(out, fake::misuses.c_str(), capacity - 1);
	out[capacity - 1] = 0;
	fake::misuses.clear();
}

}  // extern "C"
