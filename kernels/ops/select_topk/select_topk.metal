// ids[r,p,:], values[r,p,:] = the top_k greatest of part p of logits[r], value descending, then position ascending; what
// is not above -inf (NaN neither) is passed over, and places that stay empty get 0xffffffff and -inf. The id of position
// i is from[r,i] for i < given, else i. A threadgroup does one part of one row, tg = (part, row); top_k <= 16.
// Every simdgroup selects from its share: each lane offers the best of its own positions, and in each of top_k rounds the
// best offer is taken, whereupon all lanes together look for the next one of the lane that made it. The first simdgroup
// then merges the sorted lists, a lane each.
// Threadgroup memory: 2 * 8 * 16 * 4 bytes.
#include "kernels/shared/metal/float_order.h"

constant constexpr uint TOP_K = 16;
constant constexpr uint LISTS = LW_THREADS_select_topk / SIMD;

constant bool has_from [[function_constant(1)]];

// Position i counts if its value is above -inf.
inline void offer(thread Best& best, uint order, uint i) {
	if (order > LOWEST_ORDER) best.see(order, i);
}

[[kernel, max_total_threads_per_threadgroup(LW_THREADS_select_topk)]]
void select_topk(device const float* logits [[buffer(0)]],
                 device const uint* from [[buffer(1), function_constant(has_from)]],
                 device uint* ids [[buffer(2)]],
                 device float* values [[buffer(3)]],
                 constant select_topk_args& a [[buffer(24)]],
                 uint3 tg [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]],
                 uint lane [[thread_index_in_simdgroup]],
                 uint sg [[simdgroup_index_in_threadgroup]]) {
	threadgroup uint orders[LISTS * TOP_K];
	threadgroup uint places[LISTS * TOP_K];
	const uint p = tg.x, r = tg.y;
	if (p >= a.parts || r >= a.rows) return;
	const ulong piece = (ulong(a.vocab) + a.parts - 1) / a.parts, first = p * piece;
	device const float* x = logits + size_t(r) * a.vocab;
	const uint last = uint(min(first + piece, ulong(a.vocab))), start = uint(min(first, ulong(last)));

	Best best = no_best();
	for (uint i = start + tid; i < last; i += LW_THREADS_select_topk) offer(best, order_of(x[i]), i);
	uint order = NAN_ORDER, place = NO_INDEX;
	for (uint k = 0; k < a.top_k; k++) {
		const Best chosen = simd_best(best);
		if (lane == k) {
			order = chosen.order;
			place = chosen.at;
		}
		if (chosen.at == NO_INDEX) break;
		const uint owner = (chosen.at - start) % SIMD;
		// Taken already are those above, and equal ones before.
		Best next = no_best();
		for (uint i = start + sg * SIMD + owner + lane * LW_THREADS_select_topk; i < last; i += SIMD * LW_THREADS_select_topk) {
			const uint o = order_of(x[i]);
			if (o < chosen.order || (o == chosen.order && i > chosen.at)) offer(next, o, i);
		}
		next = simd_best(next);
		if (lane == owner) best = next;
	}
	if (lane < TOP_K) {
		orders[sg * TOP_K + lane] = order;
		places[sg * TOP_K + lane] = place;
	}
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (sg > 0) return;

	uint taken = 0;
	place = NO_INDEX;
	for (uint k = 0; k < a.top_k; k++) {
		best = no_best();
		if (lane < LISTS && taken < TOP_K) offer(best, orders[lane * TOP_K + taken], places[lane * TOP_K + taken]);
		const Best chosen = simd_best(best);
		if (best.at == chosen.at) taken++;
		if (lane == k) place = chosen.at;
	}
	if (lane >= a.top_k) return;
	const size_t to = (size_t(r) * a.parts + p) * a.top_k + lane;
	uint id = place;
	if (has_from) {
		if (place < a.given) id = from[size_t(r) * a.given + place];
	}
	ids[to] = id;
	values[to] = place == NO_INDEX ? of_order(LOWEST_ORDER) : x[place];
}
