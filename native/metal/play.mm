// The Metal player: one command buffer with one concurrent encoder a play, a memory barrier exactly where a record
// waits. Up to PLAYS_IN_FLIGHT plays are queued; a fence orders them, and from the second one on each is led by
// guard.metal, which lets it launch nothing once the step block says halt. Compiled without ARC.
#import <Metal/Metal.h>

#include <atomic>
#include <cstring>

#include "native/core/player.h"
#include "native/metal/library.h"
#include "native/metal/memory.h"

namespace lw {
namespace {

// One runs, one waits on the GPU, one is being encoded. More would only play longer past a halt.
constexpr uint32_t PLAYS_IN_FLIGHT = 3;
// Behind the slots, where kernels have their argument struct.
constexpr NSUInteger ARGS_BUFFER = LW_SLOTS_MAX;
// Records profiled at a time: what a counter sample buffer holds (32 KiB), two samples each, is more.
constexpr uint32_t PROFILED_AT_ONCE = 1024;
constexpr NSUInteger GUARD_THREADS = 256;

struct metal_record {
	id<MTLComputePipelineState> pipeline;
	MTLSize groups, threads;
	NSUInteger n_slots;
	bool waits;
	id<MTLBuffer> buffers[LW_SLOTS_MAX];
	NSUInteger offsets[LW_SLOTS_MAX];
	uint32_t words[LW_WORDS_MAX];
};

// Words of the guard's memory: every record's grid; the grids of the next play; for each play in flight whether it ran
// and how many tokens there were before it.
struct metal_tape : played_tape {
	std::shared_ptr<const tape> checked;  // keeps the memories alive
	std::vector<metal_record> records;
	// Only when there is a step block:
	std::shared_ptr<metal_memory> guard;
	id<MTLBuffer> guard_buffer = nil, step_buffer = nil;
	uint64_t step_offset = 0;
	const uint32_t* step = nullptr;

	NSUInteger words() const { return 3 * records.size(); }
	NSUInteger live_at(size_t record) const { return 4 * (words() + 3 * record); }
	NSUInteger ran_at(uint32_t play) const { return 4 * (2 * words() + 2 * (play % PLAYS_IN_FLIGHT)); }
	const uint32_t* ran(uint32_t play) const { return reinterpret_cast<const uint32_t*>(guard->host + ran_at(play)); }
};

class metal_player : public host_player {
	uint32_t index_;
	ref<id<MTLDevice>> device_;
	ref<id<MTLCommandQueue>> queue_;
	ref<id<MTLFence>> fence_;
	std::shared_ptr<working_set> set_;
	pipelines pipelines_;
	MTLTimestamp opened_cpu_ = 0, opened_gpu_ = 0;
	// The step block of the play that runs, and the tokens of it that the host may read.
	std::atomic<const uint32_t*> playing_{nullptr};
	std::atomic<uint32_t> published_{0};

	// The n-th play is known by its error only; profile() names records.
	int32_t failure(id<MTLCommandBuffer> buffer, uint32_t record, const char* what, lw_error* error) {
		NSError* e = [buffer error];
		const char* text = e ? [[e localizedDescription] UTF8String] : nullptr;
		const bool memory = e && [e code] == MTLCommandBufferErrorOutOfMemory;
		return fail(error, memory ? LW_STATUS_OUT_OF_MEMORY : LW_STATUS_DEVICE, record, e ? int32_t([e code]) : 0, "%s failed on the GPU: %.150s", what, text ? text : "Metal does not say why");
	}

	void encode_record(id<MTLComputeCommandEncoder> encoder, const metal_tape& t, size_t i, bool guarded) {
		const metal_record& r = t.records[i];
		[encoder setComputePipelineState:r.pipeline];
		[encoder setBuffers:r.buffers offsets:r.offsets withRange:NSMakeRange(0, r.n_slots)];
		[encoder setBytes:r.words length:sizeof r.words atIndex:ARGS_BUFFER];
		if (guarded) [encoder dispatchThreadgroupsWithIndirectBuffer:t.guard_buffer indirectBufferOffset:t.live_at(i) threadsPerThreadgroup:r.threads];
		else [encoder dispatchThreadgroups:r.groups threadsPerThreadgroup:r.threads];
	}

	int32_t encode_guard(id<MTLComputeCommandEncoder> encoder, const metal_tape& t, uint32_t play, lw_error* error) {
		id<MTLComputePipelineState> pipeline;
		if (int32_t bad = pipelines_.guard(&pipeline, error)) return bad;
		const uint32_t words[LW_WORDS_MAX] = {uint32_t(t.words())};
		[encoder setComputePipelineState:pipeline];
		[encoder setBuffer:t.step_buffer offset:t.step_offset atIndex:0];
		[encoder setBuffer:t.guard_buffer offset:0 atIndex:1];
		[encoder setBuffer:t.guard_buffer offset:t.live_at(0) atIndex:2];
		[encoder setBuffer:t.guard_buffer offset:t.ran_at(play) atIndex:3];
		[encoder setBytes:words length:sizeof words atIndex:ARGS_BUFFER];
		[encoder dispatchThreadgroups:MTLSizeMake((t.words() + GUARD_THREADS - 1) / GUARD_THREADS, 1, 1) threadsPerThreadgroup:MTLSizeMake(GUARD_THREADS, 1, 1)];
		[encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
		return LW_STATUS_OK;
	}

	int32_t send(const metal_tape& t, uint32_t play, ref<id<MTLCommandBuffer>>* out, lw_error* error) {
		@autoreleasepool {
			id<MTLCommandBuffer> buffer = [queue_.get() commandBufferWithUnretainedReferences];
			id<MTLComputeCommandEncoder> encoder = [buffer computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent];
			if (!encoder) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "Cannot play: Metal gives no command buffer");
			int32_t status = LW_STATUS_OK;
			const bool guarded = play > 0 && t.guard;
			if (play > 0) [encoder waitForFence:fence_.get()];
			if (guarded) status = encode_guard(encoder, t, play, error);
			for (size_t i = 0; i < t.records.size() && !status; i++) {
				if (i > 0 && t.records[i].waits) [encoder memoryBarrierWithScope:MTLBarrierScopeBuffers];
				encode_record(encoder, t, i, guarded);
			}
			[encoder updateFence:fence_.get()];
			[encoder endEncoding];
			if (status) return status;
			[buffer commit];
			*out = ref<id<MTLCommandBuffer>>::retained(buffer);
			return LW_STATUS_OK;
		}
	}

	int32_t bind(const tape& t, const record& r, metal_record* out, uint32_t* present, lw_error* error) {
		for (uint32_t s = 0; s < out->n_slots; s++) {
			if (r.slots[s] == LW_NO_SLOT) continue;
			const slot_range& range = t.slots[r.slots[s]];
			uint64_t at;
			if (int32_t bad = static_cast<metal_memory&>(*range.memory).place(range.offset, range.bytes, r.slots[s], &out->buffers[s], &at, error)) return bad;
			out->offsets[s] = at;
			*present |= 1u << s;
		}
		return LW_STATUS_OK;
	}

	int32_t load_record(const tape& t, uint32_t i, metal_record* out, lw_error* error) {
		const record& r = t.records[i];
		const op_info& op = op_table()[kernel_table()[r.kernel].op];
		uint32_t present = 0;
		out->n_slots = op.n_slots;
		out->waits = r.flags & LW_FLAG_WAIT;
		out->groups = MTLSizeMake(r.groups[0], r.groups[1], r.groups[2]);
		out->threads = MTLSizeMake(r.threads, 1, 1);
		memcpy(out->words, r.words, sizeof out->words);
		if (int32_t bad = bind(t, r, out, &present, error)) return bad;
		return pipelines_.of(r.kernel, present, i, &out->pipeline, error);
	}

	int32_t load_guard(const slot_range& step, uint32_t slot, metal_tape* t, lw_error* error) {
		if (int32_t bad = metal_memory::alloc(set_, 4 * (2 * t->words() + 2 * PLAYS_IN_FLIGHT), &t->guard, error)) return bad;
		auto* words = reinterpret_cast<uint32_t*>(t->guard->host);
		for (const metal_record& r : t->records) {
			*words++ = uint32_t(r.groups.width);
			*words++ = uint32_t(r.groups.height);
			*words++ = uint32_t(r.groups.depth);
		}
		uint64_t at;
		if (int32_t bad = t->guard->place(0, t->guard->bytes, slot, &t->guard_buffer, &at, error)) return bad;
		t->step = reinterpret_cast<const uint32_t*>(step.memory->host + step.offset);
		return static_cast<metal_memory&>(*step.memory).place(step.offset, step.bytes, slot, &t->step_buffer, &t->step_offset, error);
	}

public:
	metal_player(uint32_t index, id<MTLDevice> device, id<MTLCommandQueue> queue)
		: index_(index), device_(ref<id<MTLDevice>>::retained(device)), queue_(ref<id<MTLCommandQueue>>::retained(queue)), fence_([device newFence]), set_(std::make_shared<working_set>(device, queue)), pipelines_(device) {
		[device sampleTimestamps:&opened_cpu_ gpuTimestamp:&opened_gpu_];
	}

	void info(lw_device_info_block* out) override {
		@autoreleasepool {
			memset(out, 0, sizeof *out);
			out->kind = LW_KIND_METAL;
			out->index = index_;
			out->memory_bytes = set_->recommended();
			out->memory_free_bytes = set_->free();
			strncpy(out->name, [[device_.get() name] UTF8String], sizeof out->name - 1);
			NSInteger family = MTLGPUFamilyApple7;
			while ([device_.get() supportsFamily:MTLGPUFamily(family + 1)]) family++;
			snprintf(out->isa, sizeof out->isa, "apple%ld", long(family - MTLGPUFamilyApple7 + 7));
		}
	}
	bool has_kernel(uint32_t kernel) override { return pipelines::has(kernel); }
	bool threadgroups() override { return true; }

	int32_t alloc(uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) override {
		std::shared_ptr<metal_memory> made;
		int32_t status = metal_memory::alloc(set_, bytes, &made, error);
		*out = std::move(made);
		return status;
	}

	int32_t map(const std::string& path, uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) override {
		std::shared_ptr<memory_block> mapping;
		if (int32_t bad = host_player::map(path, bytes, &mapping, error)) return bad;
		std::shared_ptr<metal_memory> made;
		int32_t status = metal_memory::over(set_, std::move(mapping), &made, error);
		*out = std::move(made);
		return status;
	}

	// What a running command buffer writes is not in order for the host: while plays run it gets the tokens of those
	// that have completed, one play late.
	uint32_t produced(memory_block& step) override {
		const auto* words = reinterpret_cast<const uint32_t*>(step.host);
		if (playing_ == words) return published_;
		const uint32_t now = host_player::produced(step);
		return playing_ == words ? published_.load() : now;
	}

	int32_t load(std::shared_ptr<const tape> t, std::unique_ptr<played_tape>* out, lw_error* error) override {
		@autoreleasepool {
			auto made = std::make_unique<metal_tape>();
			made->records.resize(t->records.size());
			int32_t bad = LW_STATUS_OK;
			for (uint32_t i = 0; i < t->records.size() && !bad; i++) bad = load_record(*t, i, &made->records[i], error);
			if (!bad && t->step_slot != LW_NO_SLOT) bad = load_guard(t->slots[t->step_slot], t->step_slot, made.get(), error);
			id<MTLComputePipelineState> guard;
			if (!bad && made->guard) bad = pipelines_.guard(&guard, error);
			pipelines_.save();
			if (bad) return bad;
			made->checked = std::move(t);
			*out = std::move(made);
			return LW_STATUS_OK;
		}
	}

	int32_t play(played_tape& played_as, uint32_t times, uint32_t* played, lw_error* error) override {
		const auto& t = static_cast<const metal_tape&>(played_as);
		// Nothing is in flight here, so the host may look.
		if (t.step && t.step[LW_STEP_HALT] != LW_HALT_RUNNING) return LW_STATUS_OK;
		set_->commit();
		if (t.step) {
			published_ = t.step[LW_STEP_PRODUCED];
			playing_ = t.step;
		}
		int32_t status = play_all(t, times, played, error);
		playing_ = nullptr;
		return status;
	}

	int32_t play_all(const metal_tape& t, uint32_t times, uint32_t* played, lw_error* error) {
		ref<id<MTLCommandBuffer>> flight[PLAYS_IN_FLIGHT];
		uint32_t sent = 0, done = 0;
		int32_t status = LW_STATUS_OK;
		bool failed = false;
		for (bool more = true;;) {
			while (more && sent < times && sent - done < PLAYS_IN_FLIGHT) {
				status = send(t, sent, &flight[sent % PLAYS_IN_FLIGHT], error);
				if (status) more = false;
				else sent++;
			}
			if (done == sent) return status;
			@autoreleasepool {
				id<MTLCommandBuffer> oldest = flight[done % PLAYS_IN_FLIGHT].get();
				[oldest waitUntilCompleted];
				char what[64];
				snprintf(what, sizeof what, "Play %u of %u", done + 1, times);
				if ([oldest status] != MTLCommandBufferStatusCompleted && !failed) {
					failed = true;
					status = failure(oldest, LW_NO_RECORD, what, error);
				}
				// The first one runs because the host saw that nothing halts.
				const bool guarded = done > 0 && t.guard;
				if (failed || (guarded && !t.ran(done)[0])) more = false;
				else ++*played;
				if (!failed && guarded) published_ = t.ran(done)[1];
			}
			done++;
		}
	}

	int32_t profile(played_tape& played_as, uint64_t* ns, lw_error* error) override;
	int32_t profile_some(const metal_tape& t, size_t first, size_t n, id<MTLCounterSampleBuffer> samples, double* ticks, lw_error* error);
};

// Nanoseconds a tick, by two moments that both clocks know.
double tick_ns(MTLTimestamp cpu0, MTLTimestamp gpu0, MTLTimestamp cpu1, MTLTimestamp gpu1) {
	return cpu1 > cpu0 && gpu1 > gpu0 ? double(cpu1 - cpu0) / double(gpu1 - gpu0) : 1;
}

id<MTLCounterSet> timestamps(id<MTLDevice> device) {
	for (NSUInteger i = 0; i < [[device counterSets] count]; i++) {
		id<MTLCounterSet> set = [[device counterSets] objectAtIndex:i];
		if ([[set name] isEqualToString:MTLCommonCounterSetTimestamp]) return set;
	}
	return nil;
}

// A command buffer a record, all committed before the first is waited for: an error then names its record, and the
// GPU does not fall asleep in between.
int32_t metal_player::profile_some(const metal_tape& t, size_t first, size_t n, id<MTLCounterSampleBuffer> samples, double* ticks, lw_error* error) {
	@autoreleasepool {
		const bool at_dispatch = [device_.get() supportsCounterSampling:MTLCounterSamplingPointAtDispatchBoundary];
		std::vector<ref<id<MTLCommandBuffer>>> buffers;
		int32_t status = LW_STATUS_OK;
		for (size_t i = 0; i < n && !status; i++) {
			@autoreleasepool {
				MTLComputePassDescriptor* pass = [MTLComputePassDescriptor computePassDescriptor];
				[pass setDispatchType:MTLDispatchTypeConcurrent];
				if (!at_dispatch) {
					MTLComputePassSampleBufferAttachmentDescriptor* attachment = [[pass sampleBufferAttachments] objectAtIndexedSubscript:0];
					[attachment setSampleBuffer:samples];
					[attachment setStartOfEncoderSampleIndex:2 * i];
					[attachment setEndOfEncoderSampleIndex:2 * i + 1];
				}
				id<MTLCommandBuffer> buffer = [queue_.get() commandBufferWithUnretainedReferences];
				id<MTLComputeCommandEncoder> encoder = [buffer computeCommandEncoderWithDescriptor:pass];
				if (!encoder) {
					status = fail(error, LW_STATUS_DEVICE, uint32_t(first + i), 0, "Cannot profile: Metal gives no command buffer");
					break;
				}
				if (first + i > 0) [encoder waitForFence:fence_.get()];
				if (at_dispatch) [encoder sampleCountersInBuffer:samples atSampleIndex:2 * i withBarrier:YES];
				encode_record(encoder, t, first + i, false);
				if (at_dispatch) [encoder sampleCountersInBuffer:samples atSampleIndex:2 * i + 1 withBarrier:YES];
				[encoder updateFence:fence_.get()];
				[encoder endEncoding];
				[buffer commit];
				buffers.push_back(ref<id<MTLCommandBuffer>>::retained(buffer));
			}
		}
		for (size_t i = 0; i < buffers.size(); i++) {
			[buffers[i].get() waitUntilCompleted];
			if ([buffers[i].get() status] == MTLCommandBufferStatusCompleted || status) continue;
			const uint32_t record = uint32_t(first + i);
			const std::string what = "record " + std::to_string(record) + " (" + op_table()[kernel_table()[t.checked->records[record].kernel].op].name + ")";
			status = failure(buffers[i].get(), record, what.c_str(), error);
		}
		if (status) return status;
		NSData* data = [samples resolveCounterRange:NSMakeRange(0, 2 * n)];
		const auto* got = static_cast<const MTLCounterResultTimestamp*>([data bytes]);
		for (size_t i = 0; i < n; i++) {
			const uint64_t begin = got && [data length] >= 2 * n * sizeof *got ? got[2 * i].timestamp : MTLCounterErrorValue, end = begin == MTLCounterErrorValue ? begin : got[2 * i + 1].timestamp;
			if (begin == MTLCounterErrorValue || end == MTLCounterErrorValue || end < begin) return fail(error, LW_STATUS_DEVICE, uint32_t(first + i), 0, "Cannot profile: the GPU gave no timestamps of record %zu", first + i);
			ticks[i] = double(end - begin);
		}
		return LW_STATUS_OK;
	}
}

int32_t metal_player::profile(played_tape& played_as, uint64_t* ns, lw_error* error) {
	const auto& t = static_cast<const metal_tape&>(played_as);
	@autoreleasepool {
		id<MTLCounterSet> counters = timestamps(device_.get());
		const bool can = [device_.get() supportsCounterSampling:MTLCounterSamplingPointAtDispatchBoundary] || [device_.get() supportsCounterSampling:MTLCounterSamplingPointAtStageBoundary];
		if (!counters || !can) return LW_REFUSE(error, "Cannot profile: this GPU samples no timestamps");
		set_->commit();
		const size_t at_once = std::min(size_t(PROFILED_AT_ONCE), t.records.size());
		ref<MTLCounterSampleBufferDescriptor*> d([MTLCounterSampleBufferDescriptor new]);
		[d.get() setCounterSet:counters];
		[d.get() setStorageMode:MTLStorageModeShared];
		[d.get() setSampleCount:2 * at_once];
		NSError* why = nil;
		ref<id<MTLCounterSampleBuffer>> samples([device_.get() newCounterSampleBufferWithDescriptor:d.get() error:&why]);
		if (!samples) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, why ? int32_t([why code]) : 0, "Cannot profile: no buffer for %zu timestamps: %.150s", 2 * at_once, why ? [[why localizedDescription] UTF8String] : "Metal does not say why");
		std::vector<double> ticks(t.records.size());
		for (size_t first = 0; first < t.records.size(); first += at_once)
			if (int32_t bad = profile_some(t, first, std::min(at_once, t.records.size() - first), samples.get(), &ticks[first], error)) return bad;
		MTLTimestamp cpu, gpu;
		[device_.get() sampleTimestamps:&cpu gpuTimestamp:&gpu];
		const double scale = tick_ns(opened_cpu_, opened_gpu_, cpu, gpu);
		for (size_t i = 0; i < ticks.size(); i++) ns[i] = uint64_t(ticks[i] * scale + 0.5);
		return LW_STATUS_OK;
	}
}

uint32_t count() {
	@autoreleasepool {
		ref<NSArray<id<MTLDevice>>*> all(MTLCopyAllDevices());
		return uint32_t([all.get() count]);
	}
}

// What kernels rely on is asked for by family: a GPU that lacks it may compile them and compute zeros.
int32_t open(uint32_t index, uint32_t, std::unique_ptr<player>* out, lw_error* error) {
	@autoreleasepool {
		ref<NSArray<id<MTLDevice>>*> all(MTLCopyAllDevices());
		if (index >= [all.get() count]) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "Metal device %u is gone", index);
		id<MTLDevice> device = [all.get() objectAtIndex:index];
		const char* name = [[device name] UTF8String];
		if (@available(macOS 14.0, *)) {
		} else {
			return LW_REFUSE(error, "Cannot open %.100s: the kernels need Metal Shading Language 3.1, which came with macOS 14", name);
		}
		if (![device supportsFamily:MTLGPUFamilyApple7]) return LW_REFUSE(error, "Cannot open %.100s: the kernels need GPU family Apple7 (M1) or later, for simdgroup matrices and bfloat", name);
		ref<id<MTLCommandQueue>> queue([device newCommandQueue]);
		if (!queue) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "Cannot open %.100s: Metal gives no command queue", name);
		*out = std::make_unique<metal_player>(index, device, queue.get());
		return LW_STATUS_OK;
	}
}

}  // namespace

const backend metal_backend = {count, open, nullptr};

}  // namespace lw
