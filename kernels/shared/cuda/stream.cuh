// gemv.cuh's product with one activation, for rows of whole chunks of four-bit codes: warps of their own, the suppliers,
// bring pieces of tiles into a ring in shared memory by bulk copies, and the other warps multiply. A bulk copy holds no
// warp up, so that all of the ring is under way from the block's start on, and reading activations does not queue behind it.
// Teams and parts are those of the walk in tiles.cuh, and so are the sums, bit by bit.
// Multiprocessors get unequal shares of the memory's rate, so the last tiles are not dealt out: a block claims one where it
// has room for it.
#pragma once
#include <algorithm>
#include <cstring>

#include "kernels/shared/cuda/cluster.cuh"
#include "kernels/shared/cuda/gemv.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {

#define LW_CUDA_STREAMED_FORMATS(X) X(q4g64_bf16) X(q4g64_f16)

// More threads than a block has, so that none has more than 72 registers: small blocks of the next record find room beside.
constexpr uint32_t STREAM_BOUND = 896;
constexpr uint32_t STREAM_PARTS_MIN = 5, STREAM_CHUNKS_MIN = 28;
// Bytes of a tile up to which a piece is all of it.
constexpr uint32_t WHOLE_TILE_BYTES = 56 << 10;
// Named barriers beside those of teams: the block's, and the suppliers'.
constexpr uint32_t ALL_BARRIER = 14, SUPPLIERS_BARRIER = 15;
constexpr uint32_t HALF = TILE / 2;
// Tiles of a block, at least, that are claimed.
constexpr uint32_t CLAIMED_MIN = 4;
// Of all teams and of their parts, where a block's tiles are all under way at once.
constexpr uint32_t STREAM_WARPS = 21;
constexpr uint32_t NO_MORE = 0xffffffff;
// Of a slot: two barriers and a word that says which tile it is; and, before the slots', of what suppliers share.
constexpr uint32_t HEADER_BYTES = 32;

// What the host works out of a launch: divisions on the device would come before the first copy.
struct StreamPlan {
	uint32_t parts, teams, suppliers;
	uint32_t pieces, chunks;  // of a tile, and chunks of a piece
	uint32_t slots;
	// Tiles of each block, rounded down, and how many of them are dealt out where the others are claimed; 0 where none is.
	uint32_t whole, dealt;
	uint32_t flight;  // slots that are being filled at a time, at most
};
static_assert(sizeof(StreamPlan) == sizeof(Launch::plan), "the player hands it on as words");

// A piece of a tile: all chunks of its rows, or `parts` of them. Rows of codes are as far apart as keeps eight of them
// apart in the banks; parts of rows of scales are kept apart too, and whole ones lie as they do in memory, for one copy.
template <class F> struct Pieces {
	uint32_t of_tile, chunks, stride, scales_stride, bytes;

	__host__ __device__ Pieces(uint32_t of_tile_, uint32_t chunks_) : of_tile(of_tile_), chunks(chunks_), stride(chunks * Chunk<F>::BYTES + 16), scales_stride(chunks * F::GROUPS * 2) {
		if (of_tile > 1 && scales_stride % 32 == 0) scales_stride += 16;
		bytes = TILE * (stride + 2 * scales_stride);
	}
	__host__ __device__ uint32_t slot_bytes() const { return bytes + HEADER_BYTES; }
};

// A chunk of a piece.
template <class F> struct PieceChunk {
	const uint8_t *codes, *scales, *biases;
	uint32_t stride, scales_stride;

	__device__ __forceinline__ PieceChunk(const uint8_t* piece, const Pieces<F>& of, uint32_t chunk)
	    : codes(piece + chunk * Chunk<F>::BYTES), scales(piece + TILE * of.stride + chunk * F::GROUPS * 2), biases(scales + TILE * of.scales_stride), stride(of.stride), scales_stride(of.scales_stride) {}
	__device__ __forceinline__ const uint8_t* codes_of(uint32_t row) const { return codes + row * stride; }
	__device__ __forceinline__ const uint16_t* scales_of(uint32_t row) const { return reinterpret_cast<const uint16_t*>(scales + row * scales_stride); }
	__device__ __forceinline__ const uint16_t* biases_of(uint32_t row) const { return reinterpret_cast<const uint16_t*>(biases + row * scales_stride); }
};

#if LW_CLUSTERS
// Barriers in shared memory, by address.
__device__ __forceinline__ void arrive(uint32_t barrier) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory"); }
// When this thread's cp.async copies are there.
__device__ __forceinline__ void arrive_behind_copies(uint32_t barrier) { asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory"); }
// For the end of use number `use` of the barrier. No more than one use may have gone by unseen.
__device__ __forceinline__ void wait_for_use(uint32_t barrier, uint32_t use) {
	asm volatile("{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(barrier), "r"(use % 2) : "memory");
}
// Both at multiples of 16, as the bytes are. Weights are read once.
__device__ __forceinline__ void bulk_copy(uint32_t to, const uint8_t* from, uint32_t bytes, uint32_t barrier) {
	uint64_t once;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;"
	             ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(once) : "memory");
}

// The 16 rows of a tile, in halves of 8.
struct Halves {
	Weight w[2];
	uint32_t row[2], rows[2], column[2];
};

// Piece by piece, a tile's first piece before its second one, in rounds of one tile for each team; tile number k of a block
// is team k % teams's. A slot of the ring has a barrier that says it is full and one that says it is free; a team sees every
// use of the latter that it has to, as the ring holds a piece for each team.
template <class F> struct Stream {
	const Concatenation& w;
	const StreamPlan& plan;
	uint32_t lane, in_dim, chunks, team, part, all, dealt, own;
	// Null, or of a gated product: its tiles have 8 rows of w0 and the same of w1, and silu of the outputs of the first times
	// those of the second goes here. Both are written to y all the same, as records after it may read that.
	float* gated;
	uint32_t* claims;
	bool halves;
	uint32_t control;
	uint8_t* ring;
	uint32_t* orders;
	Pieces<F> pieces;

	// Of the grid's tiles those that are too few for half of the blocks come last, cut in two, where none is claimed.
	__device__ __forceinline__ Stream(const Concatenation& w_, uint32_t in_dim_, const StreamPlan& plan_, float* gated_, uint32_t* claims_, uint8_t* begin)
	    : w(w_), plan(plan_), lane(threadIdx.x % WARP), in_dim(in_dim_), chunks(F::chunks(in_dim)), gated(gated_), claims(claims_), pieces(plan.pieces, plan.chunks) {
		const uint32_t warp = threadIdx.x / WARP;
		team = warp / plan.parts;
		part = warp - team * plan.parts;
		if (gated) {
			all = w.out[0] / HALF;
		} else {
			all = 0;
#pragma unroll
			for (uint32_t i = 0; i < 4; i++) all += tiles_of(w.out[i]);
		}
		const uint32_t whole = plan.whole, rest = all - whole * gridDim.x;
		dealt = plan.dealt;
		halves = !gated && !dealt && blockIdx.x < 2 * rest && 2 * rest <= gridDim.x;
		own = dealt ? dealt : whole + (halves || ((gated || 2 * rest > gridDim.x) && blockIdx.x < rest));
		control = shared_address(begin);
		orders = reinterpret_cast<uint32_t*>(begin);
		ring = begin + (plan.slots + 1) * HEADER_BYTES;
	}
	__device__ __forceinline__ bool supplies() const { return team >= plan.teams; }
	// Number `k` of the block's own.
	__device__ __forceinline__ uint32_t tile_of(uint32_t k) const { return k * gridDim.x + (is_cut(k) ? blockIdx.x / 2 : blockIdx.x); }
	__device__ __forceinline__ bool is_cut(uint32_t k) const { return halves && k + 1 == own; }
	__device__ __forceinline__ Halves place(uint32_t tile, bool cut) const {
		Halves at;
		if (gated) {
#pragma unroll
			for (uint32_t h = 0; h < 2; h++) at.w[h] = w.w[h], at.row[h] = tile * HALF, at.rows[h] = HALF, at.column[h] = tile * HALF + h * w.out[0];
			return at;
		}
		const TileOf of(w, tile);
		const uint32_t behind = cut ? blockIdx.x % 2 * HALF : 0, rows = min(cut ? HALF : TILE, of.out - min(of.out, of.row + behind));
#pragma unroll
		for (uint32_t h = 0; h < 2; h++) {
			at.w[h] = of.w;
			at.row[h] = of.row + behind + h * HALF;
			at.column[h] = of.column + behind + h * HALF;
		}
		at.rows[0] = min(rows, HALF);
		at.rows[1] = rows - at.rows[0];
		return at;
	}
	// Behind the words that suppliers share.
	__device__ __forceinline__ uint32_t full(uint32_t slot) const { return control + (slot + 1) * HEADER_BYTES; }
	__device__ __forceinline__ uint32_t free(uint32_t slot) const { return full(slot) + 8; }
	__device__ __forceinline__ uint32_t& order(uint32_t slot) const { return orders[(slot + 1) * (HEADER_BYTES / 4) + 4]; }

	// A supplier's rows of all pieces. `bulk`: all weights lie at multiples of 16.
	__device__ __forceinline__ void supply(bool bulk) {
		const uint32_t supplier = threadIdx.x / WARP - plan.teams * plan.parts;
		const bool claims_own = supplier == 0 && lane == 0;
		if (supplier == 0) {
			for (uint32_t i = lane; i < 2 * plan.slots; i += WARP) {
				const uint32_t of_full = (bulk ? 1 : 0) + (bulk && pieces.of_tile == 1 ? 0 : WARP);
				begin_barrier(full(i / 2) + i % 2 * 8, i % 2 ? plan.parts : plan.suppliers * of_full);
			}
			asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		}
		meet();
		asm volatile("bar.arrive %0, %1;" ::"n"(ALL_BARRIER), "r"(blockDim.x) : "memory");
		uint32_t slot = 0, use = 0;
		const auto claim_slot = [&] {
			if (use == 1 && slot == 0) wait_for_previous();
			if (use > 0) wait_for_use(free(slot), use - 1);
		};
		const auto advance = [&] {
			if (++slot == plan.slots) slot = 0, use++;
		};
		// Claims are as many as tiles are left and one more a block: behind the last of them the counter is zero again.
		const uint32_t left = all - dealt * gridDim.x, last = left + gridDim.x - 1;
		uint32_t first = 0, k = 0, piece = 0, claimed = 0;
#pragma unroll 1
		for (uint32_t turn = 0;; turn++) {
			uint32_t tile = tile_of(k);
			const bool cut = is_cut(k);
			if (first < own) {
				turn = 0;
			} else if (dealt) {
				if (claims_own) {
					if (turn == 1) claimed = atomicInc(claims, last);
					const bool more = claimed < left;
					orders[turn % 2] = more ? dealt * gridDim.x + claimed : NO_MORE;
					if (more) claimed = atomicInc(claims, last);
				}
				meet();
				tile = orders[turn % 2];
				if (tile == NO_MORE) break;
			} else {
				break;
			}
			claim_slot();
			if (use > 0 || slot >= plan.flight) {
				const bool wraps = slot < plan.flight;
				wait_for_use(full(wraps ? slot + plan.slots - plan.flight : slot - plan.flight), wraps ? use - 1 : use);
			}
			if (claims_own) order(slot) = tile;
			copy(slot, place(tile, cut), piece * pieces.chunks, supplier, bulk);
			advance();
			if (first < own && ++k == min(first + plan.teams, own)) {
				if (++piece == pieces.of_tile) piece = 0, first = k;
				k = first;
			}
		}
		for (uint32_t i = 0; dealt && i < plan.teams; i++) {
			claim_slot();
			if (claims_own) order(slot) = NO_MORE;
			if (lane == 0 || !bulk) arrive(full(slot));
			advance();
		}
		if (use == 0 || (use == 1 && slot == 0)) wait_for_previous();
	}

	// All of the block's tiles.
	template <bool ADD> __device__ __forceinline__ void run(const Staged& staged, float2* partials, float* y) {
		constexpr uint32_t PAIRS = LaneSums<1>::N / 2 * WARP;
		uint32_t slot = team, use = 0;
		// The lane's row: half of the lanes have one.
		const uint32_t half = lane % 2, row = lane / 4;
		for (uint32_t k = team, turn = 0;; k += plan.teams, turn++) {
			if (k >= own && !dealt) return;
			const uint32_t abreast = dealt ? plan.teams : min(plan.teams, own - (k - team));
			uint32_t tile = tile_of(k);
			const auto wait = [&] {
				if (use > 0) wait_for_use(free(slot), use - 1);
				wait_for_use(full(slot), use);
			};
			if (k >= own) {
				wait();
				tile = order(slot);
				if (tile == NO_MORE) return;
			}
			const Halves at = place(tile, is_cut(k));
			const bool mine = part == 0 && lane % 4 < 2 && row < (half ? at.rows[1] : at.rows[0]);
			float* to = y + (half ? at.column[1] : at.column[0]) + row;
			const float old = ADD && mine ? *to : 0.0f;
			LaneSums<1> sums{};
			for (uint32_t begin = 0; begin < chunks; begin += pieces.chunks) {
				wait();
				const uint32_t end = min(pieces.chunks, chunks - begin);
				for (uint32_t c = part; c < end; c += plan.parts) add_chunk<F, 1>(PieceChunk<F>(ring + slot * pieces.bytes, pieces, c), staged, begin + c, lane, sums);
				__syncwarp();
				if (lane == 0) arrive(free(slot));
				for (slot += abreast; slot >= plan.slots; slot -= plan.slots) use++;
			}
			add_parts<1>(sums, partials + (turn % 2 * plan.teams + team) * plan.parts * PAIRS, team, plan.parts, part, lane);
			if (part > 0) continue;
			float out[2];
			finish<1>(sums, 0, staged.inverses[0], lane, out);
			const float v = ADD ? __fadd_rn(old, (half ? out[1] : out[0])) : (half ? out[1] : out[0]);
			if (mine) *to = v;
			if (gated && lane % 4 == 0) gated[at.row[0] + row] = __fmul_rn(silu(out[0]), out[1]);
		}
	}

private:
	__device__ __forceinline__ void meet() const {
		__syncwarp();
		asm volatile("bar.sync %0, %1;" ::"n"(SUPPLIERS_BARRIER), "r"(plan.suppliers * WARP) : "memory");
	}
	// A supplier's rows, all of one half, of a piece that begins with chunk `begin`. Nobody reads the sums of rows that a tile
	// does not have.
	__device__ __forceinline__ void copy(uint32_t slot, const Halves& at, uint32_t begin, uint32_t supplier, bool bulk) {
		const uint32_t row_bytes = in_dim / 8 * F::BITS, scale_bytes = in_dim / F::GROUP * 2;
		const uint32_t n = min(pieces.chunks, chunks - begin), code_part = n * Chunk<F>::BYTES, scale_part = n * F::GROUPS * 2;
		const uint32_t of_half = plan.suppliers / 2, each = HALF / of_half, half = supplier / of_half, first = supplier % of_half * each;
		const Weight from = half ? at.w[1] : at.w[0];
		const uint32_t rows = half ? at.rows[1] : at.rows[0], row = half ? at.row[1] : at.row[0], own_rows = first < rows ? min(each, rows - first) : 0;
		const uint32_t to = shared_address(ring) + slot * pieces.bytes + (half * HALF + first) * pieces.stride;
		const uint32_t scales_to = shared_address(ring) + slot * pieces.bytes + TILE * pieces.stride + (half * HALF + first) * pieces.scales_stride, biases_to = scales_to + TILE * pieces.scales_stride;
		const uint8_t* codes = from.codes + size_t(row + first) * row_bytes + begin * Chunk<F>::BYTES;
		const size_t offset = size_t(row + first) * scale_bytes + begin * F::GROUPS * 2;
		if (!bulk) {
			const auto copy_row = [&](uint32_t row_to, const uint8_t* row_from, uint32_t bytes) {
				for (uint32_t i = lane * 8; i < bytes; i += WARP * 8) copy8(row_to + i, row_from + i);
			};
			for (uint32_t i = 0; i < own_rows; i++) {
				copy_row(to + i * pieces.stride, codes + size_t(i) * row_bytes, code_part);
				copy_row(scales_to + i * pieces.scales_stride, from.scales + offset + i * scale_bytes, scale_part);
				copy_row(biases_to + i * pieces.scales_stride, from.biases + offset + i * scale_bytes, scale_part);
			}
			// Which tile it is has been written too, and this arrival is documented to publish copies alone.
			__threadfence_block();
			arrive_behind_copies(full(slot));
			return;
		}
		if (lane == 0) expect_more_bytes(full(slot), own_rows * (code_part + (pieces.of_tile > 1 ? 0 : 2 * scale_part)));
		__syncwarp();
		if (lane < own_rows) bulk_copy(to + lane * pieces.stride, codes + size_t(lane) * row_bytes, code_part, full(slot));
		if (pieces.of_tile > 1) {
			// Parts of rows are so short that a bulk copy of each would take longer than its bytes.
			const uint32_t chunk = lane % 8, bytes = F::GROUPS * 2;
			static_assert(F::GROUPS * 2 == 16);
			for (uint32_t i = lane / 8; i < own_rows && chunk < n; i += WARP / 8) {
				copy16(scales_to + i * pieces.scales_stride + chunk * bytes, from.scales + offset + i * scale_bytes + chunk * bytes);
				copy16(biases_to + i * pieces.scales_stride + chunk * bytes, from.biases + offset + i * scale_bytes + chunk * bytes);
			}
			arrive_behind_copies(full(slot));
		} else if (lane < 2 && own_rows) {
			bulk_copy(lane ? biases_to : scales_to, (lane ? from.biases : from.scales) + offset, own_rows * scale_part, full(slot));
		}
		__syncwarp();
	}
};
#endif

// `gated`: null, or where silu of w0's outputs times w1's goes, which are as many and whole tiles. `claims`: a counter that is
// zero before and behind the record.
template <class F, bool NORM, bool ADD>
__device__ __forceinline__ void streamed_gemv(const float* x, const float* w_norm, float eps, uint32_t in_dim, const Concatenation& w, float* y, float* gated, const StreamPlan& plan, uint32_t* claims) {
#if LW_CLUSTERS
	extern __shared__ __align__(16) uint8_t shared[];
	uintptr_t bits = 0;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) bits |= reinterpret_cast<uintptr_t>(w.w[i].codes) | reinterpret_cast<uintptr_t>(w.w[i].scales) | reinterpret_cast<uintptr_t>(w.w[i].biases);
	const uint32_t threads = plan.teams * plan.parts * WARP, partials = StagedLayout<F>(1, in_dim).bytes;
	Stream<F> stream(w, in_dim, plan, gated, claims, shared + partials + partial_bytes<1>(threads));
	if (stream.supplies()) {
		stream.supply(bits % 16 == 0);
		return;
	}
	const Team all = {threadIdx.x, threads, 0};
	const HeldNorm norm(w_norm, NORM ? in_dim : 0, all);
	wait_for_previous();
	const Staged staged = stage<F, 1, !NORM>(shared, x, NORM ? w_norm : nullptr, eps, 1, in_dim, all, NORM ? &norm : nullptr);
	asm volatile("bar.sync %0, %1;" ::"n"(ALL_BARRIER), "r"(blockDim.x) : "memory");

	stream.template run<ADD>(staged, reinterpret_cast<float2*>(shared + partials), y);
#endif
}

// One block on each multiprocessor, with the fewest teams that need no more rounds and as many slots as there is room for.
template <class F> inline bool streamed_shape(const void* kernel, uint32_t rows, uint32_t in_dim, uint32_t tiles, const Chip& chip, Launch* out) {
	if (rows != 1 || in_dim % F::CHUNK || tiles == 0 || !has_clusters(kernel)) return false;
	const uint32_t blocks = tiles < chip.multiprocessors ? tiles : chip.multiprocessors, of_block = (tiles + blocks - 1) / blocks;
	// With fewer chunks a block, or warps a team, gemv.cuh is as fast or faster: measured.
	const uint32_t chunks = F::chunks(in_dim);
	StreamPlan plan{};
	plan.parts = parts_of(chunks);
	if (plan.parts < STREAM_PARTS_MIN || tiles * chunks < STREAM_CHUNKS_MIN * blocks) return false;
	const uint32_t most = of_block <= STREAM_WARPS / plan.parts ? of_block : GEMV_THREADS / WARP / plan.parts, rounds = (of_block + most - 1) / most;
	plan.teams = (of_block + rounds - 1) / rounds;
	const bool is_whole = Pieces<F>(1, chunks).bytes <= WHOLE_TILE_BYTES || chunks == plan.parts;
	plan.pieces = is_whole ? 1 : (chunks + plan.parts - 1) / plan.parts;
	plan.chunks = is_whole ? chunks : plan.parts;
	plan.suppliers = is_whole ? 2 : 4;  // measured
	const Pieces<F> pieces(plan.pieces, plan.chunks);
	const uint32_t threads = plan.teams * plan.parts * WARP, other = StagedLayout<F>(1, in_dim).bytes + partial_bytes<1>(threads) + HEADER_BYTES;
	if (other + plan.teams * pieces.slot_bytes() > SHARED_BYTES_MAX) return false;
	const uint32_t room = (SHARED_BYTES_MAX - other) / pieces.slot_bytes(), all = of_block * plan.pieces;
	plan.slots = room < all ? room : all;
	plan.whole = tiles / blocks;
	plan.dealt = is_whole && plan.whole >= CLAIMED_MIN + plan.teams ? (plan.whole - CLAIMED_MIN) / plan.teams * plan.teams : 0;
	// Measured: what is under way beyond that holds up the activations.
	plan.flight = std::min(plan.slots, is_whole ? of_block == plan.teams ? 1u : 2u : 4u);
	const uint32_t bytes = other + plan.slots * pieces.slot_bytes();
	*out = {{blocks, 1, 1}, threads + plan.suppliers * WARP, bytes > EXCLUSIVE_BYTES ? bytes : EXCLUSIVE_BYTES};
	memcpy(out->plan, &plan, sizeof plan);
	return true;
}

// Whether swiglu of what a product makes can join it.
template <class ARGS> bool gate_fits(const void* words, const void* tail_words) {
	const auto& a = *static_cast<const ARGS*>(words);
	const auto& gate = *static_cast<const swiglu_args*>(tail_words);
	return a.rows == 1 && gate.rows == 1 && a.y_col == 0 && a.out0 == gate.ffn && a.out1 == gate.ffn && a.out2 + a.out3 == 0 && gate.ffn % TILE == 0;
}

// streamed_shape of the arguments of an op over w0 | w1 | w2 | w3.
template <class ARGS, class F> bool concatenated_streamed_shape(const void* kernel, const void* words, const Chip& chip, Launch* out) {
	const auto& a = *static_cast<const ARGS*>(words);
	return streamed_shape<F>(kernel, a.rows, a.in_dim, tiles_of(a.out0) + tiles_of(a.out1) + tiles_of(a.out2) + tiles_of(a.out3), chip, out);
}

}  // namespace lw_cuda
