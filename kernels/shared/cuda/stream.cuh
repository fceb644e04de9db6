// gemv.cuh's product with one activation, for rows of whole chunks of four-bit codes: warps of their own, the suppliers,
// bring pieces of tiles into a ring in shared memory by bulk copies, and the other warps multiply. A bulk copy holds no
// warp up, so that all of the ring is under way from the block's start on, and reading activations does not queue behind it.
// Teams and parts are those of the walk in tiles.cuh, and so are the sums, bit by bit.
#pragma once
#include "kernels/shared/cuda/cluster.cuh"
#include "kernels/shared/cuda/gemv.cuh"
#include "native/gen/ops.h"

namespace lw_cuda {

#define LW_CUDA_STREAMED_FORMATS(X) X(q4g64_bf16) X(q4g64_f16)

// More threads than a block has, so that none has more than 80 registers: small blocks of the next record find room beside.
constexpr uint32_t STREAM_BOUND = 768;
constexpr uint32_t STREAM_PARTS_MIN = 5, STREAM_CHUNKS_MIN = 32;
// Bytes of a tile up to which a piece is all of it.
constexpr uint32_t WHOLE_TILE_BYTES = 56 << 10;
// Named barriers beside those of teams: the block's, and the suppliers'.
constexpr uint32_t ALL_BARRIER = 14, SUPPLIERS_BARRIER = 15;

// A piece of a tile: all chunks of its rows, or `parts` of them. Rows of codes are as far apart as keeps eight of them
// apart in the banks. Whole rows of scales lie as they do in memory, for one copy, unless all would begin in one bank.
template <class F> struct Pieces {
	uint32_t of_tile, chunks, stride, scales_stride, bytes;
	bool scales_apart;

	__host__ __device__ Pieces(uint32_t all, uint32_t parts) : of_tile(1), chunks(all), scales_apart(all * F::GROUPS * 2 % 128 == 0) {
		measure();
		if (bytes <= WHOLE_TILE_BYTES || all == parts) return;
		of_tile = (all + parts - 1) / parts;
		chunks = parts;
		scales_apart = true;
		measure();
	}
	// With its two barriers.
	__host__ __device__ uint32_t slot_bytes() const { return bytes + 16; }
	// Warps that bring it, as many rows each: measured.
	__host__ __device__ uint32_t suppliers() const { return of_tile > 1 ? 4 : 2; }

private:
	__host__ __device__ void measure() {
		stride = chunks * Chunk<F>::BYTES + 16;
		scales_stride = chunks * F::GROUPS * 2 + (scales_apart ? 16 : 0);
		bytes = TILE * (stride + 2 * scales_stride);
	}
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

// Pieces come in rounds of one tile for each team, a tile's first piece before its second one, and of a gated product the
// tiles of w0 before those of w1. A slot of the ring has a barrier that says it is full and one that says it is free; a team
// sees every use of the latter that it has to, as the ring holds a piece for each team.
template <class F> struct Stream {
	const Concatenation& w;
	uint32_t lane, in_dim, chunks, parts, teams, team, part, tiles, slots, barriers;
	// Null, or of a gated product: its tiles go in pairs, w0's and that of w1 with the same number, and silu of the outputs of
	// the first times those of the second goes here. Both are written to y all the same, as records after it may read that.
	float* gated;
	bool halves;
	uint8_t* ring;
	Pieces<F> pieces;

	// `all` tiles of the grid; the slots are what the block has of shared memory from `begin` on. Tiles that are too few for
	// half of the blocks come last, cut in two.
	__device__ __forceinline__ Stream(const Concatenation& w_, uint32_t in_dim_, uint32_t all, float* gated_, uint8_t* begin, uint32_t bytes)
	    : w(w_), lane(threadIdx.x % WARP), in_dim(in_dim_), chunks(F::chunks(in_dim_)), parts(parts_of(chunks)), gated(gated_), pieces(chunks, parts) {
		const uint32_t warp = threadIdx.x / WARP;
		teams = (blockDim.x / WARP - pieces.suppliers()) / parts;
		team = warp / parts;
		part = warp % parts;
		const uint32_t rest = all % gridDim.x;
		halves = blockIdx.x < 2 * rest && 2 * rest <= gridDim.x;
		tiles = all / gridDim.x + (halves || (2 * rest > gridDim.x && blockIdx.x < rest));
		slots = bytes / pieces.slot_bytes();
		barriers = shared_address(begin);
		ring = begin + slots * 16;
	}
	__device__ __forceinline__ bool supplies() const { return team >= teams; }
	__device__ __forceinline__ uint32_t sides() const { return gated ? 2 : 1; }
	__device__ __forceinline__ TileOf place(uint32_t tile, uint32_t side) const {
		const bool cut = halves && tile + 1 == tiles;
		TileOf at(w, tile * gridDim.x + (cut ? blockIdx.x / 2 : blockIdx.x) + side * tiles_of(w.out[0]));
		if (cut) {
			const uint32_t behind = blockIdx.x % 2 * (TILE / 2);
			at.row += behind;
			at.column += behind;
			at.out = min(at.out, at.row + TILE / 2);
		}
		return at;
	}
	__device__ __forceinline__ uint32_t full(uint32_t slot) const { return barriers + slot * 16; }
	__device__ __forceinline__ uint32_t free(uint32_t slot) const { return barriers + slot * 16 + 8; }

	// A supplier's rows of all pieces. `bulk`: all weights lie at multiples of 16.
	__device__ __forceinline__ void supply(bool bulk) {
		const uint32_t supplier = threadIdx.x / WARP - teams * parts;
		if (supplier == 0 && lane == 0) {
			for (uint32_t slot = 0; slot < slots; slot++) {
				begin_barrier(full(slot), bulk ? pieces.suppliers() : pieces.suppliers() * WARP);
				begin_barrier(free(slot), parts);
			}
			asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
			asm volatile("fence.proxy.async;" ::: "memory");
		}
		__syncwarp();
		asm volatile("bar.sync %0, %1;" ::"n"(SUPPLIERS_BARRIER), "r"(pieces.suppliers() * WARP) : "memory");
		asm volatile("bar.arrive %0, %1;" ::"n"(ALL_BARRIER), "r"(blockDim.x) : "memory");
		uint32_t slot = 0, use = 0;
		for (uint32_t first = 0; first < tiles; first += teams) {
			const uint32_t abreast = min(teams, tiles - first), of_side = pieces.of_tile * abreast;
			for (uint32_t i = 0; i < of_side * sides(); i++) {
				if (use == 1 && slot == 0) wait_for_previous();
				if (use > 0) wait_for_use(free(slot), use - 1);
				const uint32_t side = i >= of_side, piece = i - side * of_side;
				copy(slot, place(first + piece % abreast, side), piece / abreast * parts, supplier, bulk);
				if (++slot == slots) slot = 0, use++;
			}
		}
		if (use == 0 || (use == 1 && slot == 0)) wait_for_previous();
	}

	// All of the block's tiles.
	template <bool ADD> __device__ __forceinline__ void run(const Staged& staged, float2* partials, Outputs<1, ADD> outputs) {
		constexpr uint32_t PAIRS = LaneSums<1>::N / 2 * WARP;
		uint32_t slot = team, use = 0, turn = 0;
		float gate = 0.0f;
		for (uint32_t first = 0; first + team < tiles; first += teams)
			for (uint32_t side = 0; side < sides(); side++, turn++) {
				const uint32_t abreast = min(teams, tiles - first);
				const TileOf at = place(first + team, side);
				if (part == 0) outputs.read(at);
				LaneSums<1> sums{};
				for (uint32_t begin = 0; begin < chunks; begin += pieces.chunks) {
					if (use > 0) wait_for_use(free(slot), use - 1);
					wait_for_use(full(slot), use);
					const uint32_t end = min(pieces.chunks, chunks - begin);
					for (uint32_t c = part; c < end; c += parts) add_chunk<F, 1>(PieceChunk<F>(ring + slot * pieces.bytes, pieces, c), staged, begin + c, lane, sums);
					__syncwarp();
					if (lane == 0) arrive(free(slot));
					for (slot += abreast; slot >= slots; slot -= slots) use++;
				}
				add_parts<1>(sums, partials + (turn % 2 * teams + team) * parts * PAIRS, team, parts, part, lane);
				if (part > 0) continue;
				outputs.write(at, sums, staged, [&](float* to, float v) {
					*to = v;
					if (side == 1) gated[to - outputs.y - w.out[0]] = __fmul_rn(silu(gate), v);
					gate = v;
				});
			}
	}

private:
	// A supplier's rows of a piece that begins with chunk `begin`. Nobody reads the sums of rows that a tile does not have.
	__device__ __forceinline__ void copy(uint32_t slot, const TileOf& at, uint32_t begin, uint32_t supplier, bool bulk) {
		const uint32_t row_bytes = in_dim / 8 * F::BITS, scale_bytes = in_dim / F::GROUP * 2, rows = at.out > at.row ? min(TILE, at.out - at.row) : 0;
		const uint32_t n = min(pieces.chunks, chunks - begin), code_part = n * Chunk<F>::BYTES, scale_part = n * F::GROUPS * 2;
		const uint32_t to = shared_address(ring) + slot * pieces.bytes, scales_to = to + TILE * pieces.stride, biases_to = scales_to + TILE * pieces.scales_stride;
		const uint32_t each = TILE / pieces.suppliers(), first = supplier * each, own = first < rows ? min(each, rows - first) : 0;
		const auto codes = [&](uint32_t row) { return at.w.codes + size_t(at.row + row) * row_bytes + begin * Chunk<F>::BYTES; };
		const auto offset = [&](uint32_t row) { return size_t(at.row + row) * scale_bytes + begin * F::GROUPS * 2; };
		if (!bulk) {
			const auto copy_row = [&](uint32_t row_to, const uint8_t* from, uint32_t bytes) {
				for (uint32_t i = lane * 8; i < bytes; i += WARP * 8) copy8(row_to + i, from + i);
			};
			for (uint32_t row = first; row < first + own; row++) {
				copy_row(to + row * pieces.stride, codes(row), code_part);
				copy_row(scales_to + row * pieces.scales_stride, at.w.scales + offset(row), scale_part);
				copy_row(biases_to + row * pieces.scales_stride, at.w.biases + offset(row), scale_part);
			}
			arrive_behind_copies(full(slot));
			return;
		}
		const uint32_t own_scales = pieces.scales_apart ? own * 2 * scale_part : supplier < 2 ? rows * scale_part : 0;
		if (lane == 0) expect_more_bytes(full(slot), own * code_part + own_scales);
		__syncwarp();
		if (lane < own) {
			const uint32_t row = first + lane;
			bulk_copy(to + row * pieces.stride, codes(row), code_part, full(slot));
			if (pieces.scales_apart) {
				bulk_copy(scales_to + row * pieces.scales_stride, at.w.scales + offset(row), scale_part, full(slot));
				bulk_copy(biases_to + row * pieces.scales_stride, at.w.biases + offset(row), scale_part, full(slot));
			}
		}
		if (lane == 0 && own_scales && !pieces.scales_apart) bulk_copy(supplier ? biases_to : scales_to, (supplier ? at.w.biases : at.w.scales) + offset(0), own_scales, full(slot));
		__syncwarp();
	}
};
#endif

// `gated`: null, or where silu of w0's outputs times w1's goes, which are as many and whole tiles.
template <class F, bool ADD> __device__ __forceinline__ void streamed_gemv(const float* x, const float* w_norm, float eps, uint32_t in_dim, const Concatenation& w, float* y, float* gated) {
#if LW_CLUSTERS
	extern __shared__ __align__(16) uint8_t shared[];
	uint32_t tiles = 0;
	uintptr_t bits = 0;
#pragma unroll
	for (uint32_t i = 0; i < 4; i++) {
		tiles += tiles_of(w.out[i]);
		bits |= reinterpret_cast<uintptr_t>(w.w[i].codes) | reinterpret_cast<uintptr_t>(w.w[i].scales) | reinterpret_cast<uintptr_t>(w.w[i].biases);
	}
	const uint32_t suppliers = Pieces<F>(F::chunks(in_dim), parts_of(F::chunks(in_dim))).suppliers(), threads = blockDim.x - suppliers * WARP;
	const uint32_t partials = StagedLayout<F>(1, in_dim).bytes, begin = partials + partial_bytes<1>(threads);
	Stream<F> stream(w, in_dim, gated ? tiles_of(w.out[0]) : tiles, gated, shared + begin, dynamic_shared_bytes() - begin);
	if (stream.supplies()) {
		stream.supply(bits % 16 == 0);
		return;
	}
	if (w_norm)
		for (uint32_t i = threadIdx.x * 32; i < in_dim; i += threads * 32) prefetch(w_norm + i);
	wait_for_previous();
	const Staged staged = stage<F, 1, true>(shared, x, w_norm, eps, 1, in_dim, {threadIdx.x, threads, 0});
	asm volatile("bar.sync %0, %1;" ::"n"(ALL_BARRIER), "r"(blockDim.x) : "memory");

	stream.run(staged, reinterpret_cast<float2*>(shared + partials), Outputs<1, ADD>{y, 0, 1, threadIdx.x % WARP});
#endif
}

// One block on each multiprocessor, with the fewest teams that need no more rounds and as many slots as there is room for.
template <class F> inline bool streamed_shape(const void* kernel, uint32_t rows, uint32_t in_dim, uint32_t tiles, const Chip& chip, Launch* out) {
	if (rows != 1 || in_dim % F::CHUNK || tiles == 0 || !has_clusters(kernel)) return false;
	const uint32_t blocks = tiles < chip.multiprocessors ? tiles : chip.multiprocessors, of_block = (tiles + blocks - 1) / blocks;
	// With fewer chunks a block, or warps a team, gemv.cuh is as fast or faster: measured.
	const uint32_t parts = parts_of(F::chunks(in_dim));
	if (parts < STREAM_PARTS_MIN || tiles * F::chunks(in_dim) < STREAM_CHUNKS_MIN * blocks) return false;
	const uint32_t most = GEMV_THREADS / WARP / parts, rounds = (of_block + most - 1) / most, teams = (of_block + rounds - 1) / rounds;
	const Pieces<F> pieces(F::chunks(in_dim), parts);
	const uint32_t threads = teams * parts * WARP, other = StagedLayout<F>(1, in_dim).bytes + partial_bytes<1>(threads);
	if (other + teams * pieces.slot_bytes() > SHARED_BYTES_MAX) return false;
	const uint32_t room = (SHARED_BYTES_MAX - other) / pieces.slot_bytes(), all = of_block * pieces.of_tile, bytes = other + (room < all ? room : all) * pieces.slot_bytes();
	*out = {{blocks, 1, 1}, threads + pieces.suppliers() * WARP, bytes > EXCLUSIVE_BYTES ? bytes : EXCLUSIVE_BYTES};
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
