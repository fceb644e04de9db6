// What the fake knows about itself: counts, settings, and the misuses of Metal that it saw. Tests reach all of it
// through the C functions below, which only the test library exports.
#pragma once
#include <cstdint>
#include <string>

namespace fake {

// Counted by name: what tests ask for.
void count(const char* name, int64_t by = 1);
int64_t counted(const char* name);
// Set by tests; `otherwise` until then.
uint64_t setting(const char* name, uint64_t otherwise);
// Decreases a setting and says whether it became 0 by that: "the n-th of these fails".
bool due(const char* name);
std::string text_setting(const char* name);
// One line; the call that did it is left out.
void misuse(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace fake

extern "C" {
#pragma GCC visibility push(default)
int64_t lw_fake_count(const char* name);
void lw_fake_set(const char* name, uint64_t value);
// Settings as they were at first, and the highest counts anew.
void lw_fake_reset();
void lw_fake_set_text(const char* name, const char* value);
// Misuses since the last call, one a line.
void lw_fake_misuse(char* out, uint64_t capacity);
// tries.mm: does something that Metal forbids.
void lw_fake_try(const char* name);
#pragma GCC visibility pop
}
