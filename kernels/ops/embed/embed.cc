// y[r,d] = table[history[pos + ahead + r], d]; zeros for a position or an id outside. One task reads one row.
#include "kernels/shared/weight_rows.h"
#include "native/cpu/kernel.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class T> static void read_row(const DenseFormat<T>&, void* const* slots, size_t id, uint32_t dim, float* y) {
	typedef typename T::storage E;
	const uint8_t* p = static_cast<const uint8_t*>(slots[0]) + id * dim * sizeof(E);
	for (uint32_t d = 0; d < dim; d++) y[d] = T::get(reinterpret_cast<const E*>(p) + d);
}

// value = scale * code + bias; the product is exact, so a fused multiply-add would give the same bits.
template <uint32_t BITS, uint32_t GROUP, class S>
static void read_row(const AffineFormat<BITS, GROUP, S>&, void* const* slots, size_t id, uint32_t dim, float* y) {
	const size_t groups = dim / GROUP;
	const uint8_t* codes = static_cast<const uint8_t*>(slots[0]) + id * dim * BITS / 8;
	const uint8_t* scales = static_cast<const uint8_t*>(slots[1]) + id * groups * 2;
	const uint8_t* biases = static_cast<const uint8_t*>(slots[2]) + id * groups * 2;
	for (size_t g = 0; g < groups; g++, y += GROUP) {
		const float scale = S::get(reinterpret_cast<const uint16_t*>(scales + 2 * g));
		const float bias = S::get(reinterpret_cast<const uint16_t*>(biases + 2 * g));
		for (uint32_t i = 0; i < GROUP * BITS / 8; i++) {
			const uint8_t c = *codes++;
			if (BITS == 8) {
				y[i] = float(c) * scale + bias;
			} else {
				y[2 * i] = float(c & 15) * scale + bias;
				y[2 * i + 1] = float(c >> 4) * scale + bias;
			}
		}
	}
}

template <class F> static void embed(const embed_args& a, void* const* slots, uint32_t begin, uint32_t end) {
	const auto* history = static_cast<const uint32_t*>(slots[embed_slot::history]);
	const auto* step = static_cast<const uint32_t*>(slots[embed_slot::step]);
	auto* y = static_cast<float*>(slots[embed_slot::y]);
	for (uint32_t r = begin; r < end && r < a.rows; r++) {
		const uint64_t pos = uint64_t(step[LW_STEP_POS]) + a.ahead + r;
		const uint32_t id = pos < a.ctx ? history[pos] : a.vocab;
		float* to = y + size_t(r) * a.dim;
		if (id < a.vocab) read_row(F(), slots + embed_slot::table, id, a.dim, to);
		else memset(to, 0, a.dim * sizeof(float));
	}
}

#define LW_VARIANT(v) \
	LW_CPU_KERNEL(embed__##v) { embed<format::v>(*static_cast<const embed_args*>(args_), slots, begin, end); }
LW_VARIANTS_embed(LW_VARIANT)

}  // namespace LW_CPU_NAMESPACE
