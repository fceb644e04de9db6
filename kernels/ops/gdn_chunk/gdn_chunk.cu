// gdn_step in blocks of GROUP rows. Per value head, with k, q, v, e = exp(g) and beta of rows i = 0 .. 3 and S ([v][k])
// before them, and E[i,j] = e[j+1] .. e[i], G[i] = e[0] .. e[i]:
//   d[i] = beta[i] (v[i] - G[i] S k[i] - sum_{j<i} E[i,j] (k[j] . k[i]) d[j])
//   o[i] = G[i] S q[i] + sum_{j<=i} E[i,j] (k[j] . q[i]) d[j];  S = G[3] S + sum_j E[3,j] d[j] k[j]^T
// All products with S are taken with the old S: so four rows cost one round of sums over lanes, and the rest of a row's
// way through the recurrence is a few products of numbers. E is a product of decays, as the recurrence has it: a
// difference of sums of g would lose its digits behind one strong decay.
//
// The v rows of S are independent: a block does 32 of one head, a warp 8, and half a warp 4, whose S stays in registers.
// Rows come to shared memory STAGE at a time while the stage before is at work; numbers that do not depend on S are made
// for a whole stage at once. Rows behind the last one have k = q = v = beta = 0 and e = 1.
#include <cstdint>

#include "native/gen/ops.h"
#include "native/shim/cuda/launch.h"
#include "native/shim/cuda/registry.h"

namespace lw_cuda {
namespace {

constexpr uint32_t DIM = 128;
constexpr uint32_t THREADS = 128;
constexpr uint32_t COLUMNS = 32;  // v rows of a block
constexpr uint32_t QUAD = 4;      // v rows of half a warp
constexpr uint32_t GROUP = 4;     // rows that go through S together
constexpr uint32_t STAGE = 32;
constexpr uint32_t PITCH = DIM + 4;  // rows side by side begin in different banks

// Of a group: what stands beside d[j] in d[i] and o[i], and the factors of S.
struct Group {
	float before[GROUP][GROUP];  // [i][j < i]: E[i,j] k[j] . k[i]
	float upto[GROUP][GROUP];    // [i][j <= i]: E[i,j] k[j] . q[i]
	float grown[GROUP], rest[GROUP], rate[GROUP];  // G[i], E[3,i], beta[i]
};
struct Stage {
	float k[STAGE][PITCH], q[STAGE][PITCH];
	float v[STAGE][COLUMNS];
	float g[STAGE], beta[STAGE];
};
struct Shared {
	Stage stages[2];
	Group groups[STAGE / GROUP];
};

// Zeros where `there` is false.
template <int BYTES> __device__ __forceinline__ void copy(float* to, const float* from, bool there) {
	const uint32_t at = uint32_t(__cvta_generic_to_shared(to)), bytes = there ? BYTES : 0;
	if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
	else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ float dot_onto(float4 a, float4 b, float sum) { return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum)))); }

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

// Sixteen threads a group: six products of keys, ten of keys with queries.
__device__ __forceinline__ void weigh(const Stage& s, Group* groups) {
	static_assert(STAGE / GROUP * 16 == THREADS, "16 threads do a group");
	const uint32_t r0 = threadIdx.x / 16 * GROUP, n = threadIdx.x % 16;
	Group& group = groups[threadIdx.x / 16];
	const bool keys = n < 6;
	// Pair n of the triangle with rows 1 .. 3 or, with its diagonal, 0 .. 3.
	const uint32_t m = keys ? n : n - 6;
	const uint32_t i = keys ? (m < 1 ? 1 : m < 3 ? 2 : 3) : (m < 1 ? 0 : m < 3 ? 1 : m < 6 ? 2 : 3);
	const uint32_t j = keys ? m - i * (i - 1) / 2 : m - i * (i + 1) / 2;
	const float* a = s.k[r0 + j];
	const float* b = keys ? s.k[r0 + i] : s.q[r0 + i];
	float sums[4] = {};
#pragma unroll 8
	for (uint32_t d = 0; d < DIM; d += 16)
#pragma unroll
		for (uint32_t c = 0; c < 4; c++) sums[c] = dot_onto(*reinterpret_cast<const float4*>(a + d + 4 * c), *reinterpret_cast<const float4*>(b + d + 4 * c), sums[c]);
	float product = (sums[0] + sums[1]) + (sums[2] + sums[3]);
	for (uint32_t l = j + 1; l <= i; l++) product *= expf(s.g[r0 + l]);
	(keys ? group.before : group.upto)[i][j] = product;
	if (n < GROUP) {
		float grown = 1, rest = 1;
		for (uint32_t l = 0; l <= n; l++) grown *= expf(s.g[r0 + l]);
		for (uint32_t l = n + 1; l < GROUP; l++) rest *= expf(s.g[r0 + l]);
		group.grown[n] = grown;
		group.rest[n] = rest;
		group.rate[n] = s.beta[r0 + n];
	}
}

// Sums over lanes that differ in bit WIDTH; a lane keeps the half of the values that its bit names.
template <int WIDTH, int COUNT> __device__ __forceinline__ void halve(float (*v)[2 * GROUP], uint32_t lane) {
	const bool upper = lane & WIDTH;
#pragma unroll
	for (int c = 0; c < COUNT; c++)
#pragma unroll
		for (uint32_t i = 0; i < 2 * GROUP; i++) {
			const float low = v[c][i], high = v[c + COUNT][i];
			v[c][i] = (upper ? high : low) + __shfl_xor_sync(~0u, upper ? low : high, WIDTH);
		}
}

__global__ void __launch_bounds__(THREADS, 1)
	gdn_chunk(const float* qk, const float* conv, const float* g, const float* beta, float* state, float* o, const __grid_constant__ gdn_chunk_args a, unsigned long long* stamp) {
	let_next_begin();
	extern __shared__ uint8_t memory[];
	Shared& m = *reinterpret_cast<Shared*>(memory);
	const uint32_t h = blockIdx.y, v0 = blockIdx.x * COLUMNS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	const uint32_t key_head = a.head_map == 1 ? h % a.k_heads : h / (a.v_heads / a.k_heads);
	const uint32_t part = lane % 16 * 4;           // keys part .. part + 3 of both halves are this lane's
	const uint32_t quad = warp * 8 + lane / 16 * QUAD;  // first v row of its quad
	const uint32_t own = quad + lane % 16 / 4;     // the v row whose sums it gets
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
	float* rows_of_state = state + (size_t(h) * DIM + v0 + quad) * DIM + part;
	float* out = o + size_t(h) * DIM + v0 + own;
	const size_t out_stride = size_t(a.v_heads) * DIM;
	wait_for_previous();

	fetch(in, 0, m.stages[0]);
	float4 s[QUAD][2];
#pragma unroll
	for (uint32_t c = 0; c < QUAD; c++)
#pragma unroll
		for (uint32_t p = 0; p < 2; p++) s[c][p] = *reinterpret_cast<const float4*>(rows_of_state + c * DIM + p * (DIM / 2));

	for (uint32_t r0 = 0, turn = 0; r0 < a.rows; r0 += STAGE, turn ^= 1) {
		const Stage& stage = m.stages[turn];
		fetch(in, r0 + STAGE, m.stages[turn ^ 1]);
		asm volatile("cp.async.wait_group 1;" ::: "memory");
		__syncthreads();
		weigh(stage, m.groups);
		__syncthreads();
		const uint32_t count = min(a.rows - r0, STAGE);
		for (uint32_t first = 0; first < count; first += GROUP) {
			const Group& group = m.groups[first / GROUP];
			float4 k[GROUP][2];
			float sums[QUAD][2 * GROUP];
#pragma unroll
			for (uint32_t i = 0; i < GROUP; i++) {
				float4 q[2];
#pragma unroll
				for (uint32_t p = 0; p < 2; p++) {
					k[i][p] = *reinterpret_cast<const float4*>(&stage.k[first + i][part + p * (DIM / 2)]);
					q[p] = *reinterpret_cast<const float4*>(&stage.q[first + i][part + p * (DIM / 2)]);
				}
#pragma unroll
				for (uint32_t c = 0; c < QUAD; c++) {
					sums[c][i] = dot_onto(s[c][1], k[i][1], dot_onto(s[c][0], k[i][0], 0));
					sums[c][GROUP + i] = dot_onto(s[c][1], q[1], dot_onto(s[c][0], q[0], 0));
				}
			}
			halve<8, 2>(sums, lane);
			halve<4, 1>(sums, lane);
#pragma unroll
			for (uint32_t i = 0; i < 2 * GROUP; i++) {
				sums[0][i] += __shfl_xor_sync(~0u, sums[0][i], 2);
				sums[0][i] += __shfl_xor_sync(~0u, sums[0][i], 1);
			}
			float d[GROUP], read = 0;
#pragma unroll
			for (uint32_t i = 0; i < GROUP; i++) {
				float predicted = group.grown[i] * sums[0][i];
#pragma unroll
				for (uint32_t j = 0; j < i; j++) predicted = fmaf(group.before[i][j], d[j], predicted);
				d[i] = group.rate[i] * (stage.v[first + i][own] - predicted);
				float y = group.grown[i] * sums[0][GROUP + i];
#pragma unroll
				for (uint32_t j = 0; j <= i; j++) y = fmaf(group.upto[i][j], d[j], y);
				if (lane % 4 == i) read = y;
			}
			if (first + lane % 4 < count) out[(r0 + first + lane % 4) * out_stride] = read;
			const float kept = group.grown[GROUP - 1];
#pragma unroll
			for (uint32_t i = 0; i < GROUP; i++) d[i] *= group.rest[i];
#pragma unroll
			for (uint32_t c = 0; c < QUAD; c++) {
				float4 next[2];
#pragma unroll
				for (uint32_t p = 0; p < 2; p++) next[p] = {s[c][p].x * kept, s[c][p].y * kept, s[c][p].z * kept, s[c][p].w * kept};
#pragma unroll
				for (uint32_t i = 0; i < GROUP; i++) {
					const float by = __shfl_sync(~0u, d[i], lane / 16 * 16 + 4 * c);
#pragma unroll
					for (uint32_t p = 0; p < 2; p++) {
						next[p].x = fmaf(by, k[i][p].x, next[p].x);
						next[p].y = fmaf(by, k[i][p].y, next[p].y);
						next[p].z = fmaf(by, k[i][p].z, next[p].z);
						next[p].w = fmaf(by, k[i][p].w, next[p].w);
					}
				}
				s[c][0] = next[0];
				s[c][1] = next[1];
			}
		}
		__syncthreads();
	}

#pragma unroll
	for (uint32_t c = 0; c < QUAD; c++)
#pragma unroll
		for (uint32_t p = 0; p < 2; p++) *reinterpret_cast<float4*>(rows_of_state + c * DIM + p * (DIM / 2)) = s[c][p];
	stamp_end(stamp);
}

bool shape(const void* words, const Chip&, Launch* out) {
	const auto& a = *static_cast<const gdn_chunk_args*>(words);
	*out = {{DIM / COLUMNS, a.v_heads, 1}, THREADS, sizeof(Shared)};
	return a.head_dim == DIM && a.rows && a.v_heads && a.v_heads < 65536;
}

const RegisterOverride gdn_chunk_override("gdn_chunk", reinterpret_cast<const void*>(&gdn_chunk), 6, sizeof(gdn_chunk_args), &shape);

}  // namespace
}  // namespace lw_cuda
