// Weight formats by the names that kernels carry: bits of a code (0: dense), group of a scale, type of scales or values.
#pragma once
#include "kernels/shared/metal/base.h"

template <uint BITS, uint GROUP, typename S>
struct WeightFormat {
	static constant constexpr uint bits = BITS;
	static constant constexpr uint group = GROUP;
	typedef S type;
};

namespace format {
#define X(name, bits, group, type) typedef WeightFormat<bits, group, type> name;
LW_WEIGHT_FORMATS(X)
#undef X
}  // namespace format
