// The test library has no CPU player: its kernels would only take time to build.
#include "native/core/player.h"

namespace lw {
namespace {

uint32_t count() { return 0; }
int32_t open(uint32_t, uint32_t, std::unique_ptr<player>*, lw_error* error) { return LW_REFUSE(error, "This library has no CPU player"); }

}  // namespace

const backend cpu_backend = {count, open, nullptr};

}  // namespace lw
