// What a task of the ops of gemv's kind computes: ROWS_PER_TASK rows of a weight, or of the concatenation of up to four,
// which may begin in one and end in another, against up to 16 activations.
#pragma once
#include "kernels/shared/weight_rows.h"

namespace LW_CPU_NAMESPACE {

struct ConcatenatedWeights {
	WeightRow first[4];
	uint32_t out[4];

	ConcatenatedWeights(void* const* slots, uint32_t out0, uint32_t out1, uint32_t out2, uint32_t out3)
	    : first{first_row(slots), first_row(slots + 3), first_row(slots + 6), first_row(slots + 9)},
	      out{out0, out1, out2, out3} {}
	uint64_t rows() const { return uint64_t(out[0]) + out[1] + out[2] + out[3]; }
	template <class D> WeightRow row(const D& d, uint32_t o) const {
		int m = 0;
		while (o >= out[m]) o -= out[m++];
		return first[m].at(d, o);
	}
};

struct SingleWeight {
	WeightRow first;
	uint32_t out;

	uint64_t rows() const { return out; }
	template <class D> WeightRow row(const D& d, uint32_t o) const { return first.at(d, o); }
};

// Where most ops put results: y[r * stride + o].
struct StoreResults {
	float* y;
	size_t stride;

	void operator()(uint32_t o, uint32_t r, float v) const { y[r * stride + o] = v; }
};

// put(o, r, w[o] . x[r]); activation(r) is what d.prepare takes.
template <class D, class Weights, class Activation, class Put>
static void gemv_tasks(const D& d, const Weights& w, uint32_t rows, Activation activation, Put put, uint32_t begin,
                       uint32_t end, void* scratch) {
	const uint64_t total = w.rows(), first = uint64_t(begin) * ROWS_PER_TASK, behind = uint64_t(end) * ROWS_PER_TASK;
	if (first >= total || begin >= end) return;
	const uint32_t o1 = uint32_t(behind < total ? behind : total);
	char* x = static_cast<char*>(scratch);
	for (uint32_t r = 0; r < rows; r++) d.prepare(activation(r), x + r * d.prepared_bytes());
	multiply_rows<16>(
	    d, x, rows, uint32_t(first), o1, [&](uint32_t o) { return w.row(d, o); }, w.row(d, o1 < total ? o1 : o1 - 1), put);
}

}  // namespace LW_CPU_NAMESPACE
