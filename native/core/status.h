// Filling the caller's error block. Owns the wording rules: "Cannot <do>: <what> <why>".
#pragma once
#include "native/include/lapwing.h"

static_assert(sizeof(lw_error) == LW_ERROR_BYTES, "lw_error");
static_assert(sizeof(lw_device_info_block) == LW_DEVICE_INFO_BYTES, "lw_device_info_block");
static_assert(sizeof(lw_binding) == LW_BINDING_BYTES, "lw_binding");

namespace lw {

// Fills the block (if there is one) and returns the status.
int32_t fail(lw_error* error, lw_status status, uint32_t record, int32_t code, const char* format, ...)
	__attribute__((format(printf, 5, 6)));

#define LW_REFUSE(error, ...) ::lw::fail(error, LW_STATUS_REFUSED, LW_NO_RECORD, 0, __VA_ARGS__)

// Adds a line to the log that lw_log_read takes.
void log_line(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace lw
