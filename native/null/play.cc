// The null player: checks and counts, and computes nothing. Memory is real, so that reads and writes work.
#include <cstring>

#include "native/core/player.h"

namespace lw {
namespace {

struct null_tape : played_tape {
	std::shared_ptr<const tape> checked;
};

class null_player : public host_player {
public:
	void info(lw_device_info_block* out) override {
		memset(out, 0, sizeof *out);
		out->kind = LW_KIND_NULL;
		out->threads = 1;
		host_memory_bytes(&out->memory_bytes, &out->memory_free_bytes);
		strncpy(out->name, "null (computes nothing)", sizeof out->name - 1);
	}
	bool has_kernel(uint32_t) override { return true; }
	int32_t load(std::shared_ptr<const tape> t, std::unique_ptr<played_tape>* out, lw_error*) override {
		auto made = std::make_unique<null_tape>();
		made->checked = std::move(t);
		*out = std::move(made);
		return LW_STATUS_OK;
	}
	int32_t play(played_tape&, uint32_t times, uint32_t* played, lw_error*) override {
		*played = times;
		return LW_STATUS_OK;
	}
	int32_t profile(played_tape& t, uint64_t* ns, lw_error*) override {
		memset(ns, 0, static_cast<null_tape&>(t).checked->records.size() * sizeof *ns);
		return LW_STATUS_OK;
	}
};

uint32_t count() { return 1; }

int32_t open(uint32_t, uint32_t, std::unique_ptr<player>* out, lw_error*) {
	*out = std::make_unique<null_player>();
	return LW_STATUS_OK;
}

}  // namespace

const backend null_backend = {count, open, nullptr};

}  // namespace lw
