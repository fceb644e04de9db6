// Devices, memory, libraries and pipelines of the fake Metal.
#include "tests/metal/fake/objects.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

using fake::misuse;
using fake::setting;

NSString* const MTLCommonCounterSetTimestamp = @"timestamp";

static void fail(NSError** error, const std::string& text, NSInteger code = 1) {
	if (error) *error = [NSError errorWithText:text.c_str() code:code];
}

@implementation MTLResidencySetDescriptor
@end
@implementation MTLCompileOptions
@synthesize languageVersion = languageVersion_, fastMathEnabled = fastMathEnabled_, mathMode = mathMode_, mathFloatingPointFunctions = mathFloatingPointFunctions_;
- (instancetype)init {
	fastMathEnabled_ = YES;
	mathMode_ = MTLMathModeFast;
	return self;
}
@end
@implementation MTLFunctionConstantValues
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index {
	if (type != MTLDataTypeBool || index > 62) return misuse("function constant %lu is not a bool below 63", index);
	set_ |= 1ull << index;
	values_ |= uint64_t(*static_cast<const bool*>(value)) << index;
}
@end
@implementation MTLBinaryArchiveDescriptor
@synthesize url = url_;
- (void)dealloc {
	[url_ release];
	[super dealloc];
}
@end
@implementation MTLComputePipelineDescriptor
@synthesize computeFunction = function_, binaryArchives = archives_, threadGroupSizeIsMultipleOfThreadExecutionWidth = multiple_;
- (void)dealloc {
	[function_ release];
	[archives_ release];
	[super dealloc];
}
@end
@implementation MTLCounterSampleBufferDescriptor
@synthesize counterSet = counterSet_, storageMode = storageMode_, sampleCount = sampleCount_;
@end

@implementation FakeBuffer
- (NSUInteger)length {
	return length_;
}
- (NSUInteger)allocatedSize {
	return length_;
}
- (void*)contents {
	return bytes_;
}
- (void)dealloc {
	// Left alone then, since the GPU thread goes on with it.
	if (*in_flight_) return misuse("a buffer was released while a command buffer in flight uses it");
	if (owned_) free(bytes_);
	fake::count("bytes", -int64_t(length_));
	delete in_flight_;
	[super dealloc];
}
@end

@implementation FakeFence
- (instancetype)init {
	before_ = new std::set<uint64_t>;
	return self;
}
- (void)dealloc {
	delete before_;
	[super dealloc];
}
@end

@implementation FakeResidencySet
- (instancetype)init {
	pending_ = new std::set<const void*>;
	committed_ = new std::set<const void*>;
	return self;
}
- (void)addAllocation:(id<MTLAllocation>)allocation {
	pending_->insert(allocation);
	fake::count("residency adds");
}
- (void)removeAllocation:(id<MTLAllocation>)allocation {
	if (!pending_->erase(allocation)) misuse("an allocation was removed from a residency set that does not have it");
	fake::count("residency removes");
}
- (void)commit {
	*committed_ = *pending_;
	fake::count("residency commits");
}
- (void)requestResidency {
	fake::count("residency requests");
}
- (void)dealloc {
	delete pending_;
	delete committed_;
	[super dealloc];
}
@end

@implementation FakeFunction
- (void)dealloc {
	delete text_;
	[super dealloc];
}
@end

@implementation FakeLibrary
- (id<MTLFunction>)newFunctionWithName:(NSString*)name constantValues:(MTLFunctionConstantValues*)values error:(NSError**)error {
	const std::string function = [name UTF8String];
	const std::string mark = "#define LW_ONLY_VARIANT ";
	const size_t cut = function.find("__"), only = source_->find(mark);
	const simt::Kernel* kernel = simt::registry;
	while (kernel && function != kernel->name) kernel = kernel->next;
	bool here = kernel;
	if (here && cut == std::string::npos) here = source_->find("void " + function + "(") != std::string::npos;
	if (here && cut != std::string::npos) {
		here = source_->find("LW_VARIANTS_" + function.substr(0, cut) + "(X)\n") != std::string::npos;
		if (only != std::string::npos) here = here && source_->substr(only + mark.size(), source_->find('\n', only) - only - mark.size()) == function.substr(cut + 2);
	}
	if (!here) return fail(error, "Function " + function + " was not found in the library"), nil;
	if (text_->constants & ~values->set_) return fail(error, "Function " + function + " has function constants that were not set"), nil;
	FakeFunction* f = [FakeFunction new];
	f->kernel_ = kernel;
	f->text_ = new fake::kernel_text(*text_);
	f->present_ = uint32_t(values->values_);
	return f;
}
- (void)dealloc {
	delete source_;
	delete text_;
	[super dealloc];
}
@end

@implementation FakePipeline
- (NSUInteger)threadExecutionWidth {
	return setting("threadExecutionWidth", 32);
}
- (NSUInteger)maxTotalThreadsPerThreadgroup {
	return setting("maxTotalThreadsPerThreadgroup", function_->text_->threads_max);
}
- (void)dealloc {
	[function_ release];
	[super dealloc];
}
@end

static std::string key(FakeFunction* f) { return std::string(f->kernel_->name) + " " + std::to_string(f->present_ & f->text_->constants); }

@implementation FakeArchive
- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor*)descriptor error:(NSError**)error {
	if (from_file_ && setting("archivesRefuseToGrow", 0)) return fail(error, "This archive cannot grow"), NO;
	functions_->insert(key((FakeFunction*)[descriptor computeFunction]));
	return YES;
}
- (BOOL)serializeToURL:(NSURL*)url error:(NSError**)error {
	std::ofstream out([[url path] UTF8String]);
	out << "fake archive of " << setting("gpu", 1) << "\n";
	for (const std::string& f : *functions_) out << f << "\n";
	out << "end\n";
	out.close();
	fake::count("archives written");
	return out.good() ? YES : (fail(error, "cannot write"), NO);
}
- (void)dealloc {
	delete functions_;
	[super dealloc];
}
@end

@interface FakeCounterSet : NSObject <MTLCounterSet>
@end
@implementation FakeCounterSet
- (NSString*)name {
	return @"timestamp";
}
@end
@implementation FakeSamples
- (NSData*)resolveCounterRange:(NSRange)range {
	if (range.location + range.length > values_->size()) return misuse("samples %lu + %lu of %zu", range.location, range.length, values_->size()), nil;
	return [NSData dataWithBytes:values_->data() + range.location length:range.length * sizeof(uint64_t)];
}
- (void)dealloc {
	delete values_;
	[super dealloc];
}
@end

@interface FakeQueue : NSObject <MTLCommandQueue> {
	FakeResidencySet* residency_;
}
@end
@implementation FakeQueue
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
	if (fake::due("noCommandBuffer")) return nil;
	FakeCommandBuffer* c = [[FakeCommandBuffer new] autorelease];
	c->residency_ = residency_;
	fake::count("command buffers");
	return c;
}
- (void)addResidencySet:(id<MTLResidencySet>)set {
	residency_ = [(FakeResidencySet*)set retain];
}
- (void)dealloc {
	[residency_ release];
	[super dealloc];
}
@end

@interface FakeDevice : NSObject <MTLDevice>
@end
@implementation FakeDevice
- (NSString*)name {
	return @"fake GPU";
}
- (uint64_t)recommendedMaxWorkingSetSize {
	return setting("recommendedMaxWorkingSetSize", 8ull << 30);
}
- (NSUInteger)maxBufferLength {
	return setting("maxBufferLength", 4ull << 30);
}
- (BOOL)supportsFamily:(MTLGPUFamily)family {
	return NSUInteger(family) <= setting("family", MTLGPUFamilyApple9);
}
- (NSArray<id<MTLCounterSet>>*)counterSets {
	return [NSArray arrayWithObject:[[FakeCounterSet new] autorelease]];
}
- (BOOL)supportsCounterSampling:(MTLCounterSamplingPoint)point {
	return setting(point == MTLCounterSamplingPointAtDispatchBoundary ? "dispatchSampling" : "stageSampling", point == MTLCounterSamplingPointAtStageBoundary);
}
// The GPU's clock runs at half the host's.
- (void)sampleTimestamps:(MTLTimestamp*)cpu gpuTimestamp:(MTLTimestamp*)gpu {
	*cpu = fake::now();
	*gpu = *cpu / 2;
}
- (id<MTLCommandQueue>)newCommandQueue {
	return [FakeQueue new];
}
- (id<MTLFence>)newFence {
	return [FakeFence new];
}
- (FakeBuffer*)buffer:(uint8_t*)bytes length:(NSUInteger)length options:(MTLResourceOptions)options {
	FakeBuffer* b = [FakeBuffer new];
	b->bytes_ = bytes;
	b->length_ = length;
	b->tracked_ = !(options & MTLResourceHazardTrackingModeUntracked);
	b->in_flight_ = new std::atomic<int>(0);
	fake::count("bytes", int64_t(length));
	return b;
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
	if (length == 0 || length > [self maxBufferLength]) return misuse("a buffer of %lu bytes", length), nil;
	if (fake::due("noBuffer")) return nil;
	void* bytes = nullptr;
	if (posix_memalign(&bytes, 64, length)) return nil;
	memset(bytes, 0, length);
	FakeBuffer* b = [self buffer:static_cast<uint8_t*>(bytes) length:length options:options];
	b->owned_ = true;
	return b;
}
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void*, NSUInteger))deallocator {
	const NSUInteger page = NSUInteger(sysconf(_SC_PAGESIZE));
	if (deallocator || NSUInteger(bytes) % page || length % page || length == 0 || length > [self maxBufferLength]) return misuse("a buffer without a copy of %lu bytes at %p: not whole pages or too long", length, bytes), nil;
	if (fake::due("noBuffer")) return nil;
	return [self buffer:static_cast<uint8_t*>(bytes) length:length options:options];
}
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor error:(NSError**)error {
	if (!descriptor || !setting("residencySets", 1)) return fail(error, "no residency sets"), nil;
	return [FakeResidencySet new];
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error {
	if ([options languageVersion] != MTLLanguageVersion3_1) misuse("a library for language version 0x%lx", NSUInteger([options languageVersion]));
	if ([options mathMode] != MTLMathModeSafe) misuse("a library with unsafe mathematics");
	fake::count("libraries");
	if (fake::due("badSource")) return fail(error, "program_source:7:1: warning: unused\nprogram_source:12:3: error: use of undeclared identifier 'planted'\n  planted;\n"), nil;
	FakeLibrary* l = [FakeLibrary new];
	l->source_ = new std::string([source UTF8String]);
	l->text_ = new fake::kernel_text(fake::read_source(*l->source_));
	return l;
}
- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor*)descriptor error:(NSError**)error {
	FakeArchive* a = [FakeArchive new];
	a->functions_ = new std::set<std::string>;
	if (![descriptor url]) return a;
	std::ifstream in([[[descriptor url] path] UTF8String]);
	std::string line, last;
	std::getline(in, line);
	a->from_file_ = true;
	const bool ours = line == "fake archive of " + std::to_string(setting("gpu", 1));
	while (std::getline(in, line)) a->functions_->insert(last = line);
	if (ours && last == "end") return a;
	[a release];
	return fail(error, "not an archive for this GPU"), nil;
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor options:(MTLPipelineOption)options reflection:(id*)reflection error:(NSError**)error {
	if (reflection) misuse("reflection was asked for");
	FakeFunction* f = (FakeFunction*)[descriptor computeFunction];
	if (!f) return misuse("a pipeline without a function"), nil;
	bool hit = false;
	for (NSUInteger i = 0; i < [[descriptor binaryArchives] count]; i++) hit = hit || ((FakeArchive*)[[descriptor binaryArchives] objectAtIndex:i])->functions_->count(key(f));
	if (!hit && options & MTLPipelineOptionFailOnBinaryArchiveMiss) return fail(error, "not in the archive"), nil;
	if (fake::due("badPipeline")) return fail(error, "Compiler encountered an internal error"), nil;
	fake::count(hit ? "pipelines from the archive" : "pipelines compiled");
	FakePipeline* p = [FakePipeline new];
	p->function_ = [f retain];
	return p;
}
- (id<MTLCounterSampleBuffer>)newCounterSampleBufferWithDescriptor:(MTLCounterSampleBufferDescriptor*)descriptor error:(NSError**)error {
	if ([descriptor sampleCount] == 0 || [descriptor sampleCount] > 4096) return fail(error, "the sample buffer is too large"), nil;
	FakeSamples* s = [FakeSamples new];
	s->values_ = new std::vector<uint64_t>([descriptor sampleCount], MTLCounterErrorValue);
	return s;
}
@end

NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
	std::vector<id> devices;
	for (uint64_t i = 0; i < setting("devices", 1); i++) devices.push_back([FakeDevice new]);
	NSArray* all = [[NSArray arrayWithObjects:devices.data() count:devices.size()] retain];
	for (id d : devices) [d release];
	return all;
}
