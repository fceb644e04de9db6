// Command buffers and encoders of the fake Metal: what is wrong about a call is seen when it is made.
#include "tests/metal/fake/objects.h"

#include <map>
#include <mutex>

using fake::misuse;

@implementation MTLComputePassSampleBufferAttachmentDescriptor
@synthesize sampleBuffer = sampleBuffer_, startOfEncoderSampleIndex = start_, endOfEncoderSampleIndex = end_;
@end
@implementation MTLComputePassSampleBufferAttachmentDescriptorArray
- (instancetype)init {
	first_ = [MTLComputePassSampleBufferAttachmentDescriptor new];
	return self;
}
- (MTLComputePassSampleBufferAttachmentDescriptor*)objectAtIndexedSubscript:(NSUInteger)index {
	if (index) misuse("sample buffer attachment %lu", index);
	return first_;
}
- (void)dealloc {
	[first_ release];
	[super dealloc];
}
@end
@implementation MTLComputePassDescriptor
@synthesize dispatchType = dispatchType_, sampleBufferAttachments = attachments_;
+ (MTLComputePassDescriptor*)computePassDescriptor {
	return [[self new] autorelease];
}
- (instancetype)init {
	attachments_ = [MTLComputePassSampleBufferAttachmentDescriptorArray new];
	return self;
}
- (void)dealloc {
	[attachments_ release];
	[super dealloc];
}
@end

namespace {

// Encoders committed but not yet seen complete by the host, by id.
auto& open_mutex = *new std::mutex;
auto& open_encoders = *new std::map<uint64_t, fake::encoder_record*>;
uint64_t last_id;

bool meets(const std::set<FakeBuffer*>& a, const std::set<FakeBuffer*>& b) {
	for (FakeBuffer* x : a)
		if (!x->tracked_ && b.count(x)) return true;
	return false;
}

// Buffers are untracked, so only fences order encoders whose completion the host has not waited for.
void check_order(fake::encoder_record& e) {
	std::lock_guard<std::mutex> lock(open_mutex);
	for (auto& [id, other] : open_encoders)
		if (!e.before.count(id) && (meets(e.written, other->written) || meets(e.written, other->read) || meets(e.read, other->written))) {
			misuse("an encoder uses what one in flight writes, and no fence is between them");
			break;
		}
	open_encoders[e.id] = &e;
}

void check_residency(const FakeCommandBuffer* c, const fake::encoder_record& e) {
	if (!c->residency_) return;
	for (const std::set<FakeBuffer*>& all : {e.read, e.written})
		for (FakeBuffer* b : all)
			if (!c->residency_->committed_->count(static_cast<id<MTLAllocation>>(b))) return misuse("a buffer of %lu bytes is used but not resident", b->length_);
}

}  // namespace

@implementation FakeCommandBuffer
- (instancetype)init {
	encoders_ = new std::vector<std::unique_ptr<fake::encoder_record>>;
	return self;
}
- (FakeEncoder*)encoder:(MTLDispatchType)type {
	if (committed_) return misuse("an encoder of a committed command buffer"), nil;
	if (encoder_ && !((FakeEncoder*)encoder_)->ended_) misuse("a second encoder while one is open");
	[encoder_ release];
	FakeEncoder* e = [FakeEncoder new];
	encoder_ = [e retain];
	encoders_->push_back(std::make_unique<fake::encoder_record>());
	e->record_ = encoders_->back().get();
	e->record_->serial = type == MTLDispatchTypeSerial;
	{
		std::lock_guard<std::mutex> lock(open_mutex);
		e->record_->id = ++last_id;
	}
	fake::count("encoders");
	return [e autorelease];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type {
	return [self encoder:type];
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDescriptor:(MTLComputePassDescriptor*)descriptor {
	FakeEncoder* e = [self encoder:[descriptor dispatchType]];
	MTLComputePassSampleBufferAttachmentDescriptor* a = [[descriptor sampleBufferAttachments] objectAtIndexedSubscript:0];
	if (!e || ![a sampleBuffer]) return e;
	if (!fake::setting("stageSampling", 1)) misuse("samples at stage boundaries, which this GPU does not take");
	fake::command begin{};
	begin.what = fake::command::sample;
	begin.samples = (FakeSamples*)[a sampleBuffer];
	begin.sample_index = [a startOfEncoderSampleIndex];
	e->record_->commands.push_back(begin);
	e->end_samples_ = begin.samples;
	e->end_index_ = [a endOfEncoderSampleIndex];
	return e;
}
- (void)commit {
	if (committed_) return misuse("a command buffer was committed twice");
	committed_ = true;
	if (encoder_ && !((FakeEncoder*)encoder_)->ended_) misuse("commit with an open encoder");
	fake::count("commits");
	for (auto& e : *encoders_) {
		check_order(*e);
		check_residency(self, *e);
		for (fake::command& c : e->commands)
			for (fake::binding& b : c.bindings)
				if (b.buffer) ++*b.buffer->in_flight_;
	}
	fake::submit(self);
}
- (void)waitUntilCompleted {
	if (!committed_) return misuse("wait for a command buffer that was not committed");
	fake::count("waits");
	fake::wait(self);
	if (seen_) return;
	seen_ = true;
	std::lock_guard<std::mutex> lock(open_mutex);
	for (auto& e : *encoders_) open_encoders.erase(e->id);
}
- (MTLCommandBufferStatus)status {
	if (!committed_) return MTLCommandBufferStatusNotEnqueued;
	if (!seen_) return MTLCommandBufferStatusCommitted;
	return error_ ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
}
- (NSError*)error {
	return seen_ ? error_ : nil;
}
- (void)dealloc {
	if (committed_ && !seen_) {
		std::lock_guard<std::mutex> lock(open_mutex);
		for (auto& e : *encoders_) open_encoders.erase(e->id);
	}
	delete encoders_;
	[encoder_ release];
	[error_ release];
	[super dealloc];
}
@end

@implementation FakeEncoder
- (instancetype)init {
	bindings_ = new fake::binding[fake::BUFFERS_MAX];
	return self;
}
- (BOOL)open {
	if (ended_) misuse("a call on an encoder that has ended");
	return !ended_;
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
	if (!state) return misuse("a nil pipeline");
	if ([self open]) pipeline_ = (FakePipeline*)state;
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
	if (![self open]) return;
	if (index >= fake::BUFFERS_MAX) return misuse("buffer index %lu", index);
	if (buffer && offset >= [buffer length]) return misuse("offset %lu of a buffer of %lu bytes", offset, [buffer length]);
	if (offset % 4) return misuse("offset %lu is not a multiple of 4", offset);
	bindings_[index] = fake::binding{(FakeBuffer*)buffer, offset, {}, buffer != nil};
}
- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range {
	for (NSUInteger i = 0; i < range.length; i++) [self setBuffer:buffers[i] offset:offsets[i] atIndex:range.location + i];
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
	if (![self open]) return;
	if (length > 4096) return misuse("setBytes of %lu bytes: 4096 at most", length);
	if (index >= fake::BUFFERS_MAX) return misuse("buffer index %lu", index);
	const auto* from = static_cast<const uint8_t*>(bytes);
	bindings_[index] = fake::binding{nil, 0, std::vector<uint8_t>(from, from + length), true};
}
// What a dispatch binds counts for this dispatch only, so that none lives on what an earlier one left.
- (void)dispatch:(fake::command&)c threads:(MTLSize)t {
	if (![self open]) return;
	if (!pipeline_) return misuse("a dispatch without a pipeline");
	const NSUInteger threads = t.width * t.height * t.depth;
	const char* name = pipeline_->function_->kernel_->name;
	if (threads == 0 || threads > [pipeline_ maxTotalThreadsPerThreadgroup]) return misuse("%s with %lu threads: %lu at most", name, threads, [pipeline_ maxTotalThreadsPerThreadgroup]);
	for (const fake::argument& a : pipeline_->function_->text_->arguments) {
		if (a.constant >= 0 && !(uint64_t(pipeline_->function_->present_) >> a.constant & 1)) continue;
		const fake::binding& b = bindings_[a.buffer];
		if (!b.set) return misuse("%s needs buffer %u, which is not set", name, a.buffer);
		if (b.buffer) (a.written ? record_->written : record_->read).insert(b.buffer);
	}
	c.what = fake::command::dispatch;
	c.pipeline = pipeline_;
	c.threads = {uint32_t(t.width), uint32_t(t.height), uint32_t(t.depth)};
	c.bindings.assign(bindings_, bindings_ + fake::BUFFERS_MAX);
	record_->commands.push_back(c);
	if (record_->serial) record_->commands.push_back(fake::barrier());
	for (uint32_t i = 0; i < fake::BUFFERS_MAX; i++) bindings_[i] = {};
	fake::count("dispatches");
}
- (void)dispatchThreadgroups:(MTLSize)g threadsPerThreadgroup:(MTLSize)t {
	if (g.width == 0 || g.height == 0 || g.depth == 0) return misuse("an empty grid");
	fake::command c{};
	c.groups = {uint32_t(g.width), uint32_t(g.height), uint32_t(g.depth)};
	[self dispatch:c threads:t];
}
- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)buffer indirectBufferOffset:(NSUInteger)offset threadsPerThreadgroup:(MTLSize)t {
	if (!buffer || offset % 4 || offset + 12 > [buffer length]) return misuse("an indirect grid at %lu of %lu bytes", offset, [buffer length]);
	fake::command c{};
	c.indirect = static_cast<const uint8_t*>([buffer contents]) + offset;
	record_->read.insert((FakeBuffer*)buffer);
	[self dispatch:c threads:t];
}
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope {
	if (![self open]) return;
	if (scope != MTLBarrierScopeBuffers) misuse("a barrier of scope %lu", NSUInteger(scope));
	if (fake::due("dropBarrier")) return;
	record_->commands.push_back(fake::barrier());
	fake::count("barriers");
}
- (void)waitForFence:(id<MTLFence>)fence {
	if (![self open]) return;
	const auto& before = *((FakeFence*)fence)->before_;
	record_->before.insert(before.begin(), before.end());
}
- (void)updateFence:(id<MTLFence>)fence {
	if (![self open]) return;
	auto& before = *((FakeFence*)fence)->before_;
	before = record_->before;
	before.insert(record_->id);
	while (before.size() > 4096) before.erase(before.begin());
}
- (void)sampleCountersInBuffer:(id<MTLCounterSampleBuffer>)buffer atSampleIndex:(NSUInteger)index withBarrier:(BOOL)barrier {
	if (!fake::setting("dispatchSampling", 0)) misuse("samples at dispatch boundaries, which this GPU does not take");
	fake::command c{};
	c.what = fake::command::sample;
	c.samples = (FakeSamples*)buffer;
	c.sample_index = index;
	if (barrier) record_->commands.push_back(fake::barrier());
	record_->commands.push_back(c);
}
- (void)endEncoding {
	if (![self open]) return;
	ended_ = true;
	if (!end_samples_) return;
	fake::command c{};
	c.what = fake::command::sample;
	c.samples = end_samples_;
	c.sample_index = end_index_;
	record_->commands.push_back(fake::barrier());
	record_->commands.push_back(c);
}
- (void)dealloc {
	if (!ended_) misuse("an encoder was released without endEncoding");
	delete[] bindings_;
	[super dealloc];
}
@end
