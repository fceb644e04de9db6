// For block b of ATTN_BLOCK keys: stats[r,h,b] = (m, sum_j exp(s_j - m)) and partial[r,h,b] =
// sum_j exp(s_j - m) v[j], with s_j = scale * q[r,h] . k[j], m = max_j s_j and j the keys of the block up to
// pos + r. One task does the query heads of one key head for one row and block; task =
// (kv * blocks + b) * rows + r, so that tasks follow the cache. A block behind pos + r is left alone; a block
// that pos + r reaches but the cache does not gets the stats of no keys.
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

template <class V> static void split_block(const attn_split_args& a, void* const* slots, uint32_t r, uint32_t kv, uint32_t b, AttnBlockScratch<V::DIM>& w) {
	constexpr int D = V::DIM;
	typedef typename V::Row R;
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_split_slot::step])[LW_STEP_POS];
	const uint64_t first = uint64_t(b) * LW_ATTN_BLOCK;
	if (first > uint64_t(pos) + r) return;
	const auto* q = static_cast<const float*>(slots[attn_split_slot::q]) + size_t(r) * a.q_heads * D;
	const size_t cacheAt = R::bytes(D) * (size_t(kv) * a.ctx + first);
	const auto* k = static_cast<const uint8_t*>(slots[attn_split_slot::k_cache]) + cacheAt;
	const auto* v = static_cast<const uint8_t*>(slots[attn_split_slot::v_cache]) + cacheAt;
	auto* partial = static_cast<float*>(slots[attn_split_slot::partial]);
	auto* stats = static_cast<float*>(slots[attn_split_slot::stats]);
	const uint64_t keys = keys_seen(pos, r, a.ctx);
	const HeadGroup group(a.q_heads, a.kv_heads, kv);
	for (uint32_t h = group.first; h < group.last; h += ATTN_HEADS) {
		const int heads = int(group.last - h < ATTN_HEADS ? group.last - h : ATTN_HEADS);
		float stat[ATTN_HEADS][2];
		if (first < keys) {
			const int n = int(keys - first < LW_ATTN_BLOCK ? keys - first : LW_ATTN_BLOCK);
			attn_block<R, D>(q + size_t(h) * D, heads, k, v, n, a.scale, w, stat, BlockBias<NoBias>{{}, r, first, n});
		}
		for (int i = 0; i < heads; i++) {
			const size_t out = (size_t(r) * a.q_heads + h + i) * a.blocks + b;
			stats[out * 2] = first < keys ? stat[i][0] : -FLT_MAX;
			stats[out * 2 + 1] = first < keys ? stat[i][1] : 0;
			if (first < keys) memcpy(partial + out * D, w.part[i], sizeof w.part[i]);
		}
	}
}

template <class V> static void split(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const attn_split_args*>(args_);
	auto& w = *static_cast<AttnBlockScratch<V::DIM>*>(scratch);
	for (uint64_t t = begin; t < end; t++) {
		const uint64_t block = t / a.rows, kv = block / a.blocks;
		if (kv >= a.kv_heads) return;
		split_block<V>(a, slots, uint32_t(t % a.rows), uint32_t(kv), uint32_t(block % a.blocks), w);
	}
}

#define X(variant) \
	LW_CPU_KERNEL(attn_split__##variant) { split<attn::variant>(args_, slots, begin, end, scratch); }
LW_VARIANTS_attn_split(X)
#undef X

}  // namespace LW_CPU_NAMESPACE
