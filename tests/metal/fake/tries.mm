// Misuses of Metal, one a name: the fake must see each of them.
#include "tests/metal/fake/objects.h"

#include <cstring>

namespace {

struct rig {
	NSAutoreleasePool* objects = [NSAutoreleasePool new];
	NSArray<id<MTLDevice>>* devices = MTLCopyAllDevices();
	id<MTLDevice> device = [devices objectAtIndex:0];
	id<MTLCommandQueue> queue = [device newCommandQueue];
	id<MTLBuffer> x = [device newBufferWithLength:4096 options:MTLResourceHazardTrackingModeUntracked];
	id<MTLBuffer> y = [device newBufferWithLength:4096 options:MTLResourceHazardTrackingModeUntracked];
	id<MTLFence> fence = [device newFence];
	id<MTLComputePipelineState> pipeline = build(true);

	id<MTLLibrary> library(bool optional) {
		MTLCompileOptions* options = [[MTLCompileOptions new] autorelease];
		[options setLanguageVersion:MTLLanguageVersion3_1];
		[options setMathMode:MTLMathModeSafe];
		// What the fake reads of a text; the code is the emulator's, of the same name.
		const std::string source = std::string(optional ? "constant bool has_w [[function_constant(1)]];\n" : "") + "constant constexpr uint LW_THREADS_rms_norm = 256;\n[[kernel, max_total_threads_per_threadgroup(LW_THREADS_rms_norm)]]\nvoid rms_norm(device const float* x [[buffer(0)]], device const float* w [[buffer(1)" + (optional ? ", function_constant(has_w)" : "") + "]], device float* y [[buffer(2)]], constant rms_norm_args& a [[buffer(24)]])";
		return [[device newLibraryWithSource:[NSString stringWithUTF8String:source.c_str()] options:options error:nil] autorelease];
	}
	id<MTLComputePipelineState> build(bool sets) {
		MTLFunctionConstantValues* values = [[MTLFunctionConstantValues new] autorelease];
		bool yes = true;
		if (sets) [values setConstantValue:&yes type:MTLDataTypeBool atIndex:1];
		NSError* error = nil;
		id<MTLFunction> function = [[library(true) newFunctionWithName:@"rms_norm" constantValues:values error:&error] autorelease];
		if (!function) fake::misuse("%s", [[error localizedDescription] UTF8String]);
		MTLComputePipelineDescriptor* d = [[MTLComputePipelineDescriptor new] autorelease];
		[d setComputeFunction:function];
		return function ? [device newComputePipelineStateWithDescriptor:d options:MTLPipelineOptionNone reflection:nil error:&error] : nil;
	}
	id<MTLCommandBuffer> commands() { return [queue commandBufferWithUnretainedReferences]; }
	id<MTLComputeCommandEncoder> encoder(id<MTLCommandBuffer> c) { return [c computeCommandEncoderWithDispatchType:MTLDispatchTypeConcurrent]; }
	void bind(id<MTLComputeCommandEncoder> e, bool all = true) {
		const uint32_t words[16] = {1, 64, 0};
		[e setComputePipelineState:pipeline];
		[e setBuffer:x offset:0 atIndex:0];
		[e setBuffer:x offset:256 atIndex:1];
		if (all) [e setBuffer:y offset:0 atIndex:2];
		[e setBytes:words length:sizeof words atIndex:24];
	}
	void dispatch(id<MTLComputeCommandEncoder> e, NSUInteger threads = 256) { [e dispatchThreadgroups:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(threads, 1, 1)]; }
	void finish(id<MTLCommandBuffer> c) {
		[c commit];
		[c waitUntilCompleted];
	}
	~rig() {
		[pipeline release];
		[fence release];
		[y release];
		[x release];
		[queue release];
		[devices release];
		[objects drain];
	}
};

void on_encoder(rig& r, const std::string& what) {
	id<MTLCommandBuffer> c = r.commands();
	id<MTLComputeCommandEncoder> e = r.encoder(c);
	const std::vector<char> large(4097);
	if (what != "no pipeline") r.bind(e, what != "unset buffer");
	if (what == "offset past the end") [e setBuffer:r.x offset:4096 atIndex:0];
	if (what == "odd offset") [e setBuffer:r.x offset:2 atIndex:0];
	if (what == "buffer index") [e setBuffer:r.x offset:0 atIndex:31];
	if (what == "large bytes") [e setBytes:large.data() length:large.size() atIndex:24];
	if (what == "nil pipeline") [e setComputePipelineState:nil];
	if (what == "empty grid") [e dispatchThreadgroups:MTLSizeMake(0, 1, 1) threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
	if (what == "indirect past the end") [e dispatchThreadgroupsWithIndirectBuffer:r.y indirectBufferOffset:4088 threadsPerThreadgroup:MTLSizeMake(32, 1, 1)];
	if (what == "too many threads") r.dispatch(e, 288);
	if (what == "no pipeline" || what == "unset buffer") r.dispatch(e);
	if (what == "rebinding") {
		r.dispatch(e);
		r.dispatch(e);
	}
	if (what == "second encoder") [r.encoder(c) endEncoding];
	[e endEncoding];
	if (what == "ended encoder") r.dispatch(e);
	r.finish(c);
}

void on_buffers(rig& r, const std::string& what) {
	id<MTLCommandBuffer> c = r.commands();
	if (what == "wait before commit") [c waitUntilCompleted];
	id<MTLComputeCommandEncoder> e = r.encoder(c);
	r.bind(e);
	r.dispatch(e);
	if (what == "open encoder") {
		[c commit];
		[e endEncoding];
		return [c waitUntilCompleted];
	}
	if (what == "no endEncoding") return;
	if (what == "fence" || what == "no fence") [e updateFence:r.fence];
	[e endEncoding];
	if (what == "released") {
		fake::count("hold");
		[c commit];
		[r.y release];
		r.y = nil;
		fake::count("hold", -1);
		return [c waitUntilCompleted];
	}
	[c commit];
	if (what == "double commit") [c commit];
	if (what == "fence" || what == "no fence") {
		id<MTLCommandBuffer> later = r.commands();
		id<MTLComputeCommandEncoder> other = r.encoder(later);
		if (what == "fence") [other waitForFence:r.fence];
		r.bind(other);
		r.dispatch(other);
		[other endEncoding];
		r.finish(later);
	}
	[c waitUntilCompleted];
}

void on_device(rig& r, const std::string& what) {
	if (what == "unset constant") [r.build(false) release];
	if (what == "not whole pages") [[r.device newBufferWithBytesNoCopy:static_cast<char*>([r.x contents]) + 8 length:4096 options:0 deallocator:nil] release];
	if (what == "fast mathematics") {
		MTLCompileOptions* options = [[MTLCompileOptions new] autorelease];
		[[r.device newLibraryWithSource:@"" options:options error:nil] release];
	}
	if (what == "not resident") {
		id<MTLResidencySet> set = [r.device newResidencySetWithDescriptor:[[MTLResidencySetDescriptor new] autorelease] error:nil];
		[r.queue addResidencySet:set];
		[set addAllocation:r.x];
		[set commit];
		[set addAllocation:r.y];  // never committed
		on_buffers(r, "");
		[set removeAllocation:r.y];
		[set removeAllocation:r.y];
		[set release];
	}
	if (what == "no pool") {
		[r.objects drain];
		NSString* s = [NSString stringWithUTF8String:"x"];
		(void)s;
		r.objects = [NSAutoreleasePool new];
	}
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void lw_fake_try(const char* name) {
	rig r;
	const std::string what = name;
	on_device(r, what);
	on_buffers(r, what);
	if (r.y) on_encoder(r, what);
}
