// gdn_step in groups of 8 rows (WY form), on products of 16x8x8 matrices. Per value head, with k, q, v, e = exp(g) and beta
// of rows i = 0 .. 7, S ([v][k]) before them, E[i,j] = e[j+1] .. e[i] and G[i] = e[0] .. e[i]:
//   L = diag(beta) strictly_lower(E . K K^T);  T = (I + L)^-1 diag(beta);  B = lower(E . Q K^T)
//   D = (V - S K^T diag(G)) T^T                              [v][row], what a row adds to S along its key
//   O = S Q^T diag(G) + D B^T;  S = G[7] S + D diag(E[7,:]) K
// E is a product of decays, as the recurrence has it: a difference of sums of g would lose its digits behind one strong
// decay.
//
// Numbers enter products as hi + lo, both of 11 bits, and of the four partial products the three that count are taken.
// Matrix units cut off what does not fit a sum: so S is never summed there, but takes up what they made in f32 arithmetic.
//
// The v rows of S are independent: a block does 32 of one head, SPLIT warps together 16, and each of them its part of
// the keys; S stays in registers. Of sums over keys each warp has a part, and they exchange them. As the sum of a
// product lies in registers, it can be the left operand of the next: element (row lane / 4, column 2 (lane % 4) + c) then
// stands for column lane % 4 + 4 c, and so the right operand's rows are taken in that order.
// Rows come to shared memory STAGE at a time while the stage before is at work, and T and B are made for a whole stage at
// once, a warp a group. Rows behind the last one have k = q = v = beta = 0 and e = 1.
#include <cuda_runtime.h>

#include <cstdint>

#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t DIM = 128;
constexpr uint32_t COLUMNS = 32;  // v rows of a block
constexpr uint32_t SPLIT = 4;     // warps that share the keys
constexpr uint32_t WARPS = COLUMNS / 16 * SPLIT;
constexpr uint32_t THREADS = 32 * WARPS;
constexpr uint32_t GROUP = 8;
constexpr uint32_t STAGE = GROUP * WARPS;
static_assert(SPLIT == 4, "a warp stores one of four elements");
constexpr uint32_t TILES = DIM / SPLIT / 8;  // of 8 keys that a warp has
// Floats from row to row: what a warp reads at once lies in different banks.
constexpr uint32_t KEY_PITCH = DIM + 8, VALUE_PITCH = COLUMNS + 4;

struct Group {
	float t[GROUP][GROUP], b[GROUP][GROUP];
	float grown[GROUP], rest[GROUP];  // G, E[7,:]
};
struct Stage {
	float k[STAGE][KEY_PITCH], q[STAGE][KEY_PITCH];
	float v[STAGE][VALUE_PITCH];
	float g[STAGE], beta[STAGE];
};
struct Shared {
	Stage stages[2];
	Group groups[WARPS];
	float4 parts[2][2][WARPS][32];  // group % 2; with keys, with queries; what a warp has of the sums
};

// A number in two parts of which matrix units take all that counts: hi rounded to 11 bits, and the rest.
struct Split {
	uint32_t hi, lo;
};
__device__ __forceinline__ Split split(float x) {
	const uint32_t hi = (__float_as_uint(x) + 0x1000) & 0xffffe000;
	return {hi, __float_as_uint(x - __uint_as_float(hi))};
}
struct Left {
	Split at[4];
};
struct Right {
	Split at[2];
};
// A sum of products as left operand.
__device__ __forceinline__ Left left_of(const float (&d)[4]) { return {{split(d[0]), split(d[2]), split(d[1]), split(d[3])}}; }
__device__ __forceinline__ Right right_of(float first, float second) { return {{split(first), split(second)}}; }
__device__ __forceinline__ Right right_of(const float* pair) {
	const float2 v = *reinterpret_cast<const float2*>(pair);
	return right_of(v.x, v.y);
}

// d += a b, rows lane / 4 and 8 more, columns 2 (lane % 4) and the next.
__device__ __forceinline__ void multiply(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
	asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	             : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The partial products, each in a sum of its own.
struct Product {
	float high[4], low[2][4];

	__device__ __forceinline__ Product() {
#pragma unroll
		for (int i = 0; i < 4; i++) high[i] = low[0][i] = low[1][i] = 0;
	}
	__device__ __forceinline__ void add(const Left& a, const Right& b) {
		multiply(high, a.at[0].hi, a.at[1].hi, a.at[2].hi, a.at[3].hi, b.at[0].hi, b.at[1].hi);
		multiply(low[0], a.at[0].hi, a.at[1].hi, a.at[2].hi, a.at[3].hi, b.at[0].lo, b.at[1].lo);
		multiply(low[1], a.at[0].lo, a.at[1].lo, a.at[2].lo, a.at[3].lo, b.at[0].hi, b.at[1].hi);
	}
	__device__ __forceinline__ float sum(int i) const { return high[i] + (low[0][i] + low[1][i]); }
};

// Zeros where `there` is false.
template <int BYTES> __device__ __forceinline__ void copy(float* to, const float* from, bool there) {
	const uint32_t at = uint32_t(__cvta_generic_to_shared(to)), bytes = there ? BYTES : 0;
	if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
	else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

struct Inputs {
	const float *q, *k, *v, *g, *beta;  // of the block's head and columns, row 0
	size_t qk_stride, v_stride, gate_stride;
	uint32_t rows;
};

// Asks for the rows from r0 on.
__device__ __forceinline__ void fetch(const Inputs& in, uint32_t r0, Stage& s) {
	for (uint32_t i = threadIdx.x; i < STAGE * DIM / 4; i += THREADS) {
		const uint32_t r = i / (DIM / 4), d = i % (DIM / 4) * 4;
		const bool there = r0 + r < in.rows;
		const size_t at = there ? (r0 + r) * in.qk_stride + d : 0;
		copy<16>(&s.k[r][d], in.k + at, there);
		copy<16>(&s.q[r][d], in.q + at, there);
	}
	for (uint32_t i = threadIdx.x; i < STAGE * COLUMNS; i += THREADS) {
		const uint32_t r = i / COLUMNS, c = i % COLUMNS;
		const bool there = r0 + r < in.rows;
		copy<4>(&s.v[r][c], in.v + (there ? (r0 + r) * in.v_stride + c : 0), there);
	}
	if (threadIdx.x < 2 * STAGE) {
		const uint32_t r = threadIdx.x % STAGE;
		const bool there = r0 + r < in.rows, first = threadIdx.x < STAGE;
		const size_t at = there ? (r0 + r) * in.gate_stride : 0;
		copy<4>(first ? &s.g[r] : &s.beta[r], (first ? in.g : in.beta) + at, there);
	}
	asm volatile("cp.async.commit_group;" ::: "memory");
}

// T, B and the decays of the group that begins at row r0, by one warp.
__device__ __forceinline__ void weigh(const Stage& s, uint32_t r0, Group& group) {
	const uint32_t lane = threadIdx.x % 32, i = lane / 4, j = lane % 4 * 2;
	Product pairs;  // rows 0 .. 7 are K K^T, rows 8 .. 15 Q K^T
#pragma unroll 4
	for (uint32_t d = 0; d < DIM; d += 8) {
		const Right key = right_of(&s.k[r0 + i][d + j]), query = right_of(&s.q[r0 + i][d + j]);
		pairs.add({{key.at[0], query.at[0], key.at[1], query.at[1]}}, key);
	}
	const float own = expf(s.g[r0 + lane % GROUP]);
	float between[2] = {1, 1}, grown = 1, rest = 1;  // E[i,j], E[i,j + 1]; of row lane % 8
#pragma unroll
	for (uint32_t l = 0; l < GROUP; l++) {
		const float e = __shfl_sync(~0u, own, l);
		if (l > j && l <= i) between[0] *= e;
		if (l > j + 1 && l <= i) between[1] *= e;
		if (l <= lane % GROUP) grown *= e;
		else rest *= e;
	}
	if (lane < GROUP) {
		group.grown[lane] = grown;
		group.rest[lane] = rest;
	}
	const float rate = s.beta[r0 + i];
#pragma unroll
	for (uint32_t c = 0; c < 2; c++) {
		group.t[i][j + c] = j + c < i ? rate * between[c] * pairs.sum(c) : 0;
		group.b[i][j + c] = j + c <= i ? between[c] * pairs.sum(2 + c) : 0;
	}
	__syncwarp();
	// L lies where T shall be; a lane does one column of the inverse.
	const uint32_t column = lane % GROUP;
	float y[GROUP];
#pragma unroll
	for (uint32_t row = 0; row < GROUP; row++) {
		y[row] = row == column ? 1 : 0;
#pragma unroll
		for (uint32_t m = 0; m < row; m++) y[row] = fmaf(-group.t[row][m], y[m], y[row]);
	}
	__syncwarp();
	if (lane < GROUP)
#pragma unroll
		for (uint32_t row = 0; row < GROUP; row++) group.t[row][column] = y[row] * s.beta[r0 + column];
}

__global__ void __launch_bounds__(THREADS, 1)
	gdn_chunk(const float* qk, const float* conv, const float* g, const float* beta, float* state, float* o, const __grid_constant__ gdn_chunk_args a, unsigned long long* stamp) {
	extern __shared__ uint8_t memory[];
	Shared& m = *reinterpret_cast<Shared*>(memory);
	const uint32_t h = blockIdx.y, v0 = blockIdx.x * COLUMNS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const uint32_t key_head = a.head_map == 1 ? h % a.k_heads : h / (a.v_heads / a.k_heads);
	// This warp's 16 v rows and its keys; this thread's v rows are `own` and own + 8.
	const uint32_t part = warp % SPLIT, keys = part * (DIM / SPLIT), own = warp / SPLIT * 16 + lane / 4, pair = lane % 4 * 2;
	Inputs in;
	in.q = qk + size_t(key_head) * DIM;
	in.k = in.q + size_t(a.k_heads) * DIM;
	in.v = conv + (2 * size_t(a.k_heads) + h) * DIM + v0;
	in.g = g + h;
	in.beta = beta + h;
	in.qk_stride = 2 * size_t(a.k_heads) * DIM;
	in.v_stride = a.channels;
	in.gate_stride = a.v_heads;
	in.rows = a.rows;
	float* state_rows = state + (size_t(h) * DIM + v0 + own) * DIM + keys + pair;
	float* out = o + size_t(h) * DIM + v0 + own + part / 2 * 8;
	const size_t out_stride = size_t(a.v_heads) * DIM;
	wait_for_previous();

	fetch(in, 0, m.stages[0]);
	float s[TILES][4];
#pragma unroll
	for (uint32_t t = 0; t < TILES; t++)
#pragma unroll
		for (uint32_t r = 0; r < 2; r++) {
			const float2 v = *reinterpret_cast<const float2*>(state_rows + r * 8 * DIM + t * 8);
			s[t][2 * r] = v.x;
			s[t][2 * r + 1] = v.y;
		}

	for (uint32_t r0 = 0, turn = 0; r0 < a.rows; r0 += STAGE, turn ^= 1) {
		const Stage& stage = m.stages[turn];
		fetch(in, r0 + STAGE, m.stages[turn ^ 1]);
		asm volatile("cp.async.wait_group 1;" ::: "memory");
		__syncthreads();
		weigh(stage, warp * GROUP, m.groups[warp]);
		__syncthreads();
		const uint32_t count = min(a.rows - r0, STAGE);
		for (uint32_t first = 0; first < count; first += GROUP) {
			const Group& group = m.groups[first / GROUP];
			Product with_keys, with_queries;
#pragma unroll
			for (uint32_t t = 0; t < TILES; t++) {
				const Left left = left_of(s[t]);
				with_keys.add(left, right_of(&stage.k[first + lane / 4][keys + t * 8 + pair]));
				with_queries.add(left, right_of(&stage.q[first + lane / 4][keys + t * 8 + pair]));
			}
			float4(*parts)[WARPS][32] = m.parts[first / GROUP % 2];
			parts[0][warp][lane] = {with_keys.sum(0), with_keys.sum(1), with_keys.sum(2), with_keys.sum(3)};
			parts[1][warp][lane] = {with_queries.sum(0), with_queries.sum(1), with_queries.sum(2), with_queries.sum(3)};
			static_assert(WARPS == 2 * SPLIT, "two barriers");
			if (warp < SPLIT) asm volatile("bar.sync 1, %0;" ::"n"(32 * SPLIT) : "memory");
			else asm volatile("bar.sync 2, %0;" ::"n"(32 * SPLIT) : "memory");
			float predicted[4] = {}, read = 0;
#pragma unroll
			for (uint32_t w = 0; w < SPLIT; w++) {
				const float4 p = parts[0][warp / SPLIT * SPLIT + w][lane];
				predicted[0] += p.x, predicted[1] += p.y, predicted[2] += p.z, predicted[3] += p.w;
				read += reinterpret_cast<const float*>(&parts[1][warp / SPLIT * SPLIT + w][lane])[part];
			}

			// Element i: v row own + 8 (i / 2), row first + pair + i % 2.
			const float2 grown = *reinterpret_cast<const float2*>(&group.grown[pair]), rest = *reinterpret_cast<const float2*>(&group.rest[pair]);
			float missing[4], d[4];
#pragma unroll
			for (int i = 0; i < 4; i++) missing[i] = stage.v[first + pair + i % 2][own + i / 2 * 8] - (i % 2 ? grown.y : grown.x) * predicted[i];
			Product change, answer;
			change.add(left_of(missing), right_of(&group.t[lane / 4][pair]));
#pragma unroll
			for (int i = 0; i < 4; i++) d[i] = change.sum(i);
			answer.add(left_of(d), right_of(&group.b[lane / 4][pair]));
			// Of O each warp has one element to store.
			const float added = part < 2 ? (part % 2 ? answer.sum(1) : answer.sum(0)) : (part % 2 ? answer.sum(3) : answer.sum(2));
			const uint32_t row = first + pair + part % 2;
			if (row < count) out[(r0 + row) * out_stride] = fmaf(part % 2 ? grown.y : grown.x, read, added);
#pragma unroll
			for (int i = 0; i < 4; i++) d[i] *= i % 2 ? rest.y : rest.x;
			const Left left = left_of(d);
			const float kept = group.grown[GROUP - 1];
#pragma unroll
			for (uint32_t t = 0; t < TILES; t++) {
				const float* key = &stage.k[first + pair][keys + t * 8 + lane / 4];
				Product added;
				added.add(left, right_of(key[0], key[KEY_PITCH]));
#pragma unroll
				for (int i = 0; i < 4; i++) s[t][i] = fmaf(s[t][i], kept, added.sum(i));
			}
		}
		__syncthreads();
	}

#pragma unroll
	for (uint32_t t = 0; t < TILES; t++)
#pragma unroll
		for (uint32_t r = 0; r < 2; r++) *reinterpret_cast<float2*>(state_rows + r * 8 * DIM + t * 8) = {s[t][2 * r], s[t][2 * r + 1]};
	stamp_end(stamp);
}

bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const gdn_chunk_args*>(words);
	*out = {{DIM / COLUMNS, a.v_heads, 1}, THREADS, sizeof(Shared)};
	int device = 0, memory = 0;
	const bool fits = !cudaGetDevice(&device) && !cudaDeviceGetAttribute(&memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) && size_t(memory) >= sizeof(Shared);
	return fits && a.head_dim == DIM && a.rows && a.v_heads && a.v_heads < 65536;
}

const RegisterOverride gdn_chunk_override("gdn_chunk", reinterpret_cast<const void*>(&gdn_chunk), 6, sizeof(gdn_chunk_args), &shape);

}  // namespace
}  // namespace lw_cuda
