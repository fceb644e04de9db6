// o[r,h] = sum_j softmax_j(scale * q[r,h] . k[j]) v[j] over keys j = 0 .. pos + r of h's key head, for any
// number of rows. One task does QUERIES rows of one head; task = rowTile * qHeads + h. Consecutive tasks of
// one key head walk the cache together, so that each tile of keys is widened to f32 once for all of them.
// Rows are the lanes of every vector: queries, scores and sums are kept transposed ([d][row], [key][row]),
// keys and values enter as broadcast scalars, and the running maximum, its correction and the sum of a row
// need no reduction over lanes. A row's bits depend on its own keys alone, for tiles lie at absolute positions.
#include "kernels/shared/attention.h"
#include "native/gen/ops.h"

namespace LW_CPU_NAMESPACE {

constexpr int QUERIES = 48;
constexpr int KEYS = 64;
constexpr int HEADS = 8;     // heads of one key head that share a walk
// Register tile: TILE x VECTORS accumulators.
#if defined(__AVX512F__) || defined(__ARM_NEON)
constexpr int TILE = 8, VECTORS = 3;
#else
constexpr int TILE = 4, VECTORS = 2;
#endif
constexpr int DEPTH = 64;    // dims of the queries that stay in the first cache while keys pass

template <int D> struct PrefillHead {
	alignas(64) float q[D][QUERIES];
	alignas(64) float o[D][QUERIES];
	alignas(64) float max[QUERIES];
	alignas(64) float sum[QUERIES];
};
template <int D> struct PrefillScratch {
	static constexpr int STRIDE = D + 16;  // rows a power of two apart would share a few cache sets
	alignas(64) float keys[KEYS][STRIDE];
	alignas(64) float values[KEYS][STRIDE];
	alignas(64) float score[KEYS][QUERIES];
	alignas(64) float rescale[QUERIES];
	alignas(64) int32_t seen[QUERIES];
	PrefillHead<D> head[HEADS];
};
static_assert(sizeof(PrefillScratch<512>) <= LW_THREAD_SCRATCH_BYTES);

// score[j] (+)= keys[j] . q over DEPTH dims, for TILE keys and V vectors of rows. Every DEPTH dims, and below
// every tile of keys, are summed apart first: long chains of f32 additions lose bits.
template <int V, int STRIDE> static inline void prefill_scores(const float* keys, const float* q, bool fresh, float* score) {
	vf acc[TILE][V] = {};
	for (int d = 0; d < DEPTH; d++) {
		vf x[V];
		for (int u = 0; u < V; u++) x[u] = load(q + d * QUERIES + u * LANES);
		for (int j = 0; j < TILE; j++) {
			vf k = splat(keys[j * STRIDE + d]);
			for (int u = 0; u < V; u++) acc[j][u] = fma(k, x[u], acc[j][u]);
		}
	}
	for (int j = 0; j < TILE; j++)
		for (int u = 0; u < V; u++) {
			float* s = score + j * QUERIES + u * LANES;
			store(s, fresh ? acc[j][u] : load(s) + acc[j][u]);
		}
}

// o[d] = o[d] * rescale + sum over n keys of values[key][d] * score[key], for TILE dims and V vectors of rows. Keys from
// `all` on are not seen by every row: they enter the sums of those that see them, as no weight makes an infinity 0.
template <int V, int STRIDE> static inline void prefill_values(const float* values, const float* score, const float* rescale, int all, int n, int first, const int32_t* seen, float* o) {
	vf acc[TILE][V] = {};
	auto add = [&](int j, auto masked) {
		vf p[V];
		vi sees[V] = {};
		for (int u = 0; u < V; u++) p[u] = load(score + j * QUERIES + u * LANES);
		if (masked)
			for (int u = 0; u < V; u++) sees[u] = load_as<vi>(seen + u * LANES) > first + j;
		for (int d = 0; d < TILE; d++) {
			vf v = splat(values[j * STRIDE + d]);
			for (int u = 0; u < V; u++) {
				vf sum = fma(v, p[u], acc[d][u]);
				acc[d][u] = masked ? (sees[u] ? sum : acc[d][u]) : sum;
			}
		}
	};
	for (int j = 0; j < all; j++) add(j, std::false_type());
	for (int j = all; j < n; j++) add(j, std::true_type());
	for (int d = 0; d < TILE; d++)
		for (int u = 0; u < V; u++) {
			float* y = o + d * QUERIES + u * LANES;
			store(y, fma(load(y), load(rescale + u * LANES), acc[d][u]));
		}
}

// Scores of n keys from position `first` on become weights; one vector of rows.
static inline void prefill_weights(float* score, int n, int first, bool masked, const int32_t* seen, float* max_, float* sum_, float* rescale) {
	const vi limit = load_as<vi>(seen);
	vf old = load(max_), m = old;
	for (int j = 0; j < n; j++) {
		vf s = load(score + j * QUERIES);
		if (masked) {
			s = limit > first + j ? s : splat(-INFINITY);
			store(score + j * QUERIES, s);
		}
		m = max(s, m);
	}
	vf total = zero();
	for (int j = 0; j < n; j++) {
		vf p = exp(load(score + j * QUERIES) - m);
		total = total + p;
		store(score + j * QUERIES, p);
	}
	vf c = exp(old - m);
	store(rescale, c);
	store(sum_, fma(load(sum_), c, total));
	store(max_, m);
}

// One head over one tile of n keys, the first `all` of which every row sees. Meanwhile `bytes` from nextK and from nextV
// on are prefetched.
template <int D> static void prefill_tile(PrefillScratch<D>& w, PrefillHead<D>& head, int vectors, int n, int first, int all, const uint8_t* nextK, const uint8_t* nextV, size_t bytes) {
	constexpr int STRIDE = PrefillScratch<D>::STRIDE;
	in_tiles<VECTORS>(0, vectors, [&](auto v, int at) {
		const int c = at * LANES;
		for (int d = 0; d < D; d += DEPTH)
			for (int j = 0; j < n; j += TILE) {
				const size_t share = bytes / (D / DEPTH * (KEYS / TILE)), i = d / DEPTH * (KEYS / TILE) + j / TILE;
				if (at == 0) prefetch(nextK + i * share, share);
				if (at == 0) prefetch(nextV + i * share, share);
				prefill_scores<v, STRIDE>(&w.keys[j][d], &head.q[d][c], d == 0, &w.score[j][c]);
			}
		for (int u = 0; u < v; u++) {
			const int cu = c + u * LANES;
			prefill_weights(&w.score[0][cu], n, first, all < n, w.seen + cu, head.max + cu, head.sum + cu, w.rescale + cu);
		}
		for (int d = 0; d < D; d += TILE)
			prefill_values<v, STRIDE>(&w.values[0][d], &w.score[0][c], w.rescale + c, all, n, first, w.seen + c, &head.o[d][c]);
	});
}

// Heads [head, head + heads) of key head kv for the rows of one tile.
template <class V> static void prefill_heads(const attn_prefill_args& a, void* const* slots, uint32_t rowTile, uint32_t kv, uint32_t head, int heads, PrefillScratch<V::DIM>& w) {
	constexpr int D = V::DIM;
	typedef typename V::Row R;
	const uint32_t row = rowTile * QUERIES;
	const int rows = a.rows - row < QUERIES ? int(a.rows - row) : QUERIES;
	const int vectors = (rows + LANES - 1) / LANES;
	const uint32_t pos = static_cast<const uint32_t*>(slots[attn_prefill_slot::step])[LW_STEP_POS];
	const auto* q = static_cast<const float*>(slots[attn_prefill_slot::q]) + (size_t(row) * a.q_heads + head) * D;
	const auto* k = static_cast<const uint8_t*>(slots[attn_prefill_slot::k_cache]) + R::bytes(D) * a.ctx * kv;
	const auto* v = static_cast<const uint8_t*>(slots[attn_prefill_slot::v_cache]) + R::bytes(D) * a.ctx * kv;
	auto* o = static_cast<float*>(slots[attn_prefill_slot::o]) + (size_t(row) * a.q_heads + head) * D;
	const size_t rowStride = size_t(a.q_heads) * D;
	for (int i = 0; i < heads; i++) {
		PrefillHead<D>& h = w.head[i];
		for (int c = 0; c < vectors * LANES; c++) {
			const float* x = q + c * rowStride + size_t(i) * D;
			for (int d = 0; d < D; d++) h.q[d][c] = c < rows ? x[d] * a.scale : 0.f;
			h.max[c] = -FLT_MAX;
			h.sum[c] = 0;
		}
		memset(h.o, 0, sizeof h.o);
	}
	for (int c = 0; c < QUERIES; c++)
		w.seen[c] = int32_t(keys_seen(pos, row + (c < rows ? c : rows - 1), a.ctx));
	for (int first = 0; first < w.seen[rows - 1]; first += KEYS) {
		const int n = w.seen[rows - 1] - first < KEYS ? w.seen[rows - 1] - first : KEYS;
		for (int j = 0; j < n; j++) {
			const size_t at = R::bytes(D) * (size_t(first) + j);
			R::widen(k + at, D, w.keys[j]);
			R::widen(v + at, D, w.values[j]);
		}
		for (int j = n; j % TILE; j++) memset(w.keys[j], 0, sizeof w.keys[j]);
		const int all = w.seen[0] < first ? 0 : w.seen[0] - first < n ? w.seen[0] - first : n;
		const size_t next = R::bytes(D) * (size_t(first) + KEYS), share = R::bytes(D) * KEYS / heads;
		for (int i = 0; i < heads; i++)
			prefill_tile<D>(w, w.head[i], vectors, n, first, all, k + next + i * share, v + next + i * share, share);
	}
	for (int i = 0; i < heads; i++) {
		const PrefillHead<D>& h = w.head[i];
		for (int c = 0; c < rows; c++) {
			const float inverse = h.sum[c] == 0 ? 0.f : 1.f / h.sum[c];
			float* y = o + c * rowStride + size_t(i) * D;
			for (int d = 0; d < D; d++) y[d] = h.o[d][c] * inverse;
		}
	}
}

template <class V> static void prefill(const void* args_, void* const* slots, uint32_t begin, uint32_t end, void* scratch) {
	const auto& a = *static_cast<const attn_prefill_args*>(args_);
	auto& w = *static_cast<PrefillScratch<V::DIM>*>(scratch);
	const uint64_t tasks = (uint64_t(a.rows) + QUERIES - 1) / QUERIES * a.q_heads;
	for (uint64_t t = begin; t < end && t < tasks;) {
		const uint32_t rowTile = uint32_t(t / a.q_heads), head = uint32_t(t % a.q_heads);
		const uint32_t kv = HeadGroup::of(a.q_heads, a.kv_heads, head);
		uint64_t heads = HeadGroup(a.q_heads, a.kv_heads, kv).last - head;
		if (heads > HEADS) heads = HEADS;
		if (heads > end - t) heads = end - t;
		prefill_heads<V>(a, slots, rowTile, kv, head, int(heads), w);
		t += heads;
	}
}

#define X(variant) \
	LW_CPU_KERNEL(attn_prefill__##variant) { prefill<attn::variant>(args_, slots, begin, end, scratch); }
LW_VARIANTS_attn_prefill(X)
#undef X

}  // namespace LW_CPU_NAMESPACE
