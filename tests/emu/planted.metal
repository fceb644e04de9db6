// Kernels with one planted bug each, and beside each the twin without it: what the emulator and the sanitizers over
// it must find, and must not. Two threadgroups of 64 threads; x and y have 128 values, and n is 1.
#include <metal_stdlib>
using namespace metal;

struct planted_args {
	uint n;
};

#define ARGUMENTS \
	device const float *x [[buffer(0)]], device float *y [[buffer(1)]], constant planted_args &a [[buffer(24)]], \
		uint3 tg [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]
#define PLANTED(NAME) [[kernel, max_total_threads_per_threadgroup(64)]] void NAME(ARGUMENTS)

// What a thread reads was written by another.
PLANTED(barrier_missing) {
	threadgroup float slots[64];
	slots[tid] = x[tg.x * 64 + tid];
	y[tg.x * 64 + tid] = slots[63 - tid];
}
PLANTED(barrier_there) {
	threadgroup float slots[64];
	slots[tid] = x[tg.x * 64 + tid];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = slots[63 - tid];
}

// The second round overwrites what others may still be reading.
PLANTED(second_barrier_missing) {
	threadgroup float slots[64];
	float sum = 0.0f;
	for (uint round = 0; round < 2; round++) {
		slots[tid] = x[tg.x * 64 + tid];
		threadgroup_barrier(mem_flags::mem_threadgroup);
		sum += slots[63 - tid];
	}
	y[tg.x * 64 + tid] = sum;
}
PLANTED(second_barrier_there) {
	threadgroup float slots[64];
	float sum = 0.0f;
	for (uint round = 0; round < 2; round++) {
		slots[tid] = x[tg.x * 64 + tid];
		threadgroup_barrier(mem_flags::mem_threadgroup);
		sum += slots[63 - tid];
		threadgroup_barrier(mem_flags::mem_threadgroup);
	}
	y[tg.x * 64 + tid] = sum;
}

// Both threadgroups write one word.
PLANTED(word_shared) {
	if (tid == 0) y[0] = x[tg.x];
}
PLANTED(word_owned) {
	if (tid == 0) y[tg.x] = x[tg.x];
}

// A threadgroup reads what another wrote before a barrier, which orders nothing between the two.
PLANTED(barrier_of_others) {
	if (tid == 0 && tg.x == 0) y[0] = x[0];
	threadgroup_barrier(mem_flags::mem_device);
	if (tid == 0 && tg.x == 1) y[1] = y[0];
}
PLANTED(barrier_of_own) {
	if (tid == 0) y[tg.x * 64] = x[0];
	threadgroup_barrier(mem_flags::mem_device);
	if (tid == 1) y[tg.x * 64 + 1] = y[tg.x * 64];
}

// Lanes of one simdgroup hand a value over through memory.
PLANTED(simd_barrier_missing) {
	threadgroup float slots[64];
	slots[tid] = x[tid];
	y[tg.x * 64 + tid] = slots[tid ^ 1] + simd_sum(x[tid]);
}
PLANTED(simd_barrier_there) {
	threadgroup float slots[64];
	slots[tid] = x[tid];
	simdgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = slots[tid ^ 1] + simd_sum(x[tid]);
}

// Counting by atomics needs no order; by plain sums it does.
PLANTED(count_plain) {
	threadgroup uint count[1];
	if (tid == 0) count[0] = 0;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	count[0] += 1;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = float(count[0]);
}
PLANTED(count_atomic) {
	threadgroup atomic_uint count[1];
	if (tid == 0) atomic_store_explicit(&count[0], 0u, memory_order_relaxed);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	atomic_fetch_add_explicit(&count[0], 1u, memory_order_relaxed);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = float(atomic_load_explicit(&count[0], memory_order_relaxed));
}

// One element behind the end.
PLANTED(device_write_outside) {
	y[tg.x * 64 + tid + a.n] = 1.0f;
}
PLANTED(device_read_outside) {
	y[tg.x * 64 + tid] = x[tg.x * 64 + tid + a.n];
}
PLANTED(device_inside) {
	y[tg.x * 64 + tid] = x[tg.x * 64 + tid];
}
PLANTED(threadgroup_outside) {
	threadgroup float slots[64];
	threadgroup float other[64];
	other[tid] = 1.0f;
	slots[tid + a.n] = x[tid];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = slots[63 - tid] + other[63 - tid];
}
PLANTED(threadgroup_inside) {
	threadgroup float slots[64 + 1];
	threadgroup float other[64];
	other[tid] = 1.0f;
	slots[tid] = x[tid];
	if (tid == 0) slots[64] = 0.0f;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = slots[63 - tid + a.n] + other[63 - tid];
}

// Not all threads come.
PLANTED(barrier_divergent) {
	if (tid < 40) threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = simd_sum(x[tid]);
}
PLANTED(barrier_left_out) {
	if (tid >= 40) return;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = x[tid];
}
PLANTED(simd_divergent) {
	float v = x[tid];
	if (lane < 16) v = simd_sum(v);
	else v = simd_max(v);
	y[tg.x * 64 + tid] = v;
}
PLANTED(simd_loop_divergent) {
	float v = x[tid];
	for (uint i = 0; i <= lane / 16; i++) v = simd_sum(v);
	y[tg.x * 64 + tid] = v;
}
PLANTED(uniform) {
	if (tg.x >= 1) return;
	float v = x[tid];
	if (tid < 32) v = simd_sum(v);
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tid] = v;
}

// Nobody wrote what is read.
PLANTED(slot_unwritten) {
	threadgroup float slots[64];
	if (tid < 63) slots[tid] = x[tid];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = slots[tid] + 1.0f;
}
PLANTED(slot_unwritten_sum) {
	threadgroup float slots[64];
	if (tid < 63) slots[tid] = x[tid];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	y[tg.x * 64 + tid] = simd_sum(slots[tid]);
}
PLANTED(slot_unwritten_branch) {
	threadgroup uint flags[64];
	if (tid < 63) flags[tid] = tid;
	threadgroup_barrier(mem_flags::mem_threadgroup);
	if (flags[tid] > 3) y[tg.x * 64 + tid] = 1.0f;
}
PLANTED(slot_unwritten_matrix) {
	threadgroup float tile[64];
	if (tid < 63) tile[tid] = x[tid];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	simdgroup_matrix<float, 8, 8> m, sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
	simdgroup_load(m, tile, 8);
	simdgroup_multiply_accumulate(sum, m, m, sum);
	if (tid < 32) simdgroup_store(sum, y + tg.x * 64, 8);
}
PLANTED(slot_written) {
	threadgroup float tile[64];
	tile[tid] = x[tid];
	threadgroup_barrier(mem_flags::mem_threadgroup);
	simdgroup_matrix<float, 8, 8> m, sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
	simdgroup_load(m, tile, 8);
	simdgroup_multiply_accumulate(sum, m, m, sum);
	if (tid < 32) simdgroup_store(sum, y + tg.x * 64, 8);
	threadgroup_barrier(mem_flags::mem_device);
	y[tg.x * 64 + tid] += simd_shuffle_down(simd_sum(tile[63 - tid]), 1);
}
