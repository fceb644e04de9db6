// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head.
// One task does the query heads of one key head for one row; task = kv * rows + r, so that rows given
// together share each block of the cache while it is near.
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

struct DecodeRows {
	uint32_t kv, from, to;  // rows [from, to) of key head kv
};

template <class V> static void decode_heads(const attn_decode_args& a, void* const* slots, DecodeRows rows, uint32_t head, int heads, AttnBlockScratch<V::DIM>& w) {
	constexpr int D = V::DIM;
	constexpr uint32_t ROWS = 16;
	typedef typename V::Row R;
	const auto* q = static_cast<const float*>(slots[attn_decode_slot::q]);
	const auto* k = static_cast<const uint8_t*>(slots[attn_decode_slot::k_cache]) + R::bytes(D) * a.ctx * rows.kv;
	const auto* v = static_cast<const uint8_t*>(slots[attn_decode_slot::v_cache]) + R::bytes(D) * a.ctx * rows.kv;
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_decode_slot::step])[LW_STEP_POS];
	auto* o = static_cast<float*>(slots[attn_decode_slot::o]);
	for (uint32_t base = rows.from; base < rows.to; base += ROWS) {
		const uint32_t end = rows.to - base < ROWS ? rows.to : base + ROWS;
		AttnRunning running[ROWS][ATTN_HEADS];
		for (uint32_t r = base; r < end; r++)
			memset(o + (size_t(r) * a.q_heads + head) * D, 0, size_t(heads) * D * sizeof(float));
		const uint64_t most = keys_seen(pos, end - 1, a.ctx);
		for (uint64_t first = 0; first < most; first += LW_ATTN_BLOCK) {
			for (uint32_t r = base; r < end; r++) {
				const uint64_t keys = keys_seen(pos, r, a.ctx);
				if (first >= keys) continue;
				const int n = int(keys - first < LW_ATTN_BLOCK ? keys - first : LW_ATTN_BLOCK);
				const size_t at = (size_t(r) * a.q_heads + head) * D;
				float stat[ATTN_HEADS][2];
				attn_block<R, D>(q + at, heads, k + first * R::bytes(D), v + first * R::bytes(D), n, a.scale, w, stat);
				for (int i = 0; i < heads; i++)
					attn_merge_block(o + at + size_t(i) * D, running[r - base][i], w.part[i], stat[i][0], stat[i][1], D);
			}
		}
		for (uint32_t r = base; r < end; r++)
			for (int i = 0; i < heads; i++)
				attn_finish(o + (size_t(r) * a.q_heads + head + i) * D, running[r - base][i], D);
	}
}

template <class V> static void decode(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const attn_decode_args*>(args_);
	auto& w = *static_cast<AttnBlockScratch<V::DIM>*>(scratch);
	const uint64_t tasks = uint64_t(a.rows) * a.kv_heads;
	for (uint64_t t = begin; t < end && t < tasks;) {
		const uint32_t kv = uint32_t(t / a.rows), from = uint32_t(t % a.rows);
		const uint32_t to = end - t < a.rows - from ? from + uint32_t(end - t) : a.rows;
		const HeadGroup group(a.q_heads, a.kv_heads, kv);
		for (uint32_t h = group.first; h < group.last; h += ATTN_HEADS)
			decode_heads<V>(a, slots, {kv, from, to}, h, int(group.last - h < ATTN_HEADS ? group.last - h : ATTN_HEADS), w);
		t += to - from;
	}
}

#define X(variant) \
	LW_CPU_KERNEL(attn_decode__##variant) { decode<attn::variant>(args_, slots, begin, end, scratch); }
LW_VARIANTS_attn_decode(X)
#undef X

}  // namespace LW_CPU_NAMESPACE
