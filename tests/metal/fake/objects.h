// Classes behind the protocols of the fake Metal.
#pragma once
#import <Metal/Metal.h>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "native/emu/simt.h"
#include "tests/metal/fake/kernel_text.h"
#include "tests/metal/fake/state.h"

namespace fake {

constexpr uint32_t BUFFERS_MAX = 31;

}  // namespace fake

@interface FakeBuffer : NSObject <MTLBuffer> {
@public
	uint8_t* bytes_;
	NSUInteger length_;
	bool owned_, tracked_;
	std::atomic<int>* in_flight_;
}
@end

@interface FakeFence : NSObject <MTLFence> {
@public
	std::set<uint64_t>* before_;  // encoders that whoever waits for it comes after
}
@end

@interface FakeResidencySet : NSObject <MTLResidencySet> {
@public
	std::set<const void*>*pending_, *committed_;
}
@end

@interface FakeLibrary : NSObject <MTLLibrary> {
@public
	std::string* source_;
	fake::kernel_text* text_;
}
@end
@interface FakeFunction : NSObject <MTLFunction> {
@public
	const simt::Kernel* kernel_;
	fake::kernel_text* text_;
	uint32_t present_;
}
@end
@interface FakePipeline : NSObject <MTLComputePipelineState> {
@public
	FakeFunction* function_;
}
@end
@interface FakeArchive : NSObject <MTLBinaryArchive> {
@public
	std::set<std::string>* functions_;
	bool from_file_;
}
@end
@interface FakeSamples : NSObject <MTLCounterSampleBuffer> {
@public
	std::vector<uint64_t>* values_;
}
@end

namespace fake {

struct binding {
	FakeBuffer* buffer = nil;
	NSUInteger offset = 0;
	std::vector<uint8_t> bytes;
	bool set = false;
};

struct command {
	enum { dispatch, barrier, sample } what = dispatch;
	FakePipeline* pipeline = nil;
	std::vector<binding> bindings;
	simt::U3 groups{}, threads{};
	const uint8_t* indirect = nullptr;
	FakeSamples* samples = nil;
	NSUInteger sample_index = 0;
};

inline command barrier() {
	command c{};
	c.what = command::barrier;
	return c;
}

struct encoder_record {
	uint64_t id;
	bool serial;
	std::set<uint64_t> before;
	std::set<FakeBuffer*> read, written;
	std::vector<command> commands;
};

}  // namespace fake

@interface FakeCommandBuffer : NSObject <MTLCommandBuffer> {
@public
	std::vector<std::unique_ptr<fake::encoder_record>>* encoders_;
	id encoder_;
	FakeResidencySet* residency_;
	bool committed_, done_, seen_;
	NSError* error_;
}
@end
@interface FakeEncoder : NSObject <MTLComputeCommandEncoder> {
@public
	fake::encoder_record* record_;
	FakePipeline* pipeline_;
	fake::binding* bindings_;
	bool ended_;
	FakeSamples* end_samples_;
	NSUInteger end_index_;
}
@end

namespace fake {

// Hands a command buffer to the GPU thread; waits for one.
void submit(FakeCommandBuffer* buffer);
void wait(FakeCommandBuffer* buffer);
uint64_t now();

}  // namespace fake
