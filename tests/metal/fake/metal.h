// The part of Metal that native/metal uses, with Apple's names, types and values.
#pragma once
#import <Foundation/Foundation.h>

typedef struct {
	NSUInteger width, height, depth;
} MTLSize;
static inline MTLSize MTLSizeMake(NSUInteger w, NSUInteger h, NSUInteger d) { return {w, h, d}; }
typedef uint64_t MTLTimestamp;
typedef struct {
	uint64_t timestamp;
} MTLCounterResultTimestamp;
#define MTLCounterErrorValue ((uint64_t)~0ULL)
#define MTLCounterDontSample ((NSUInteger)-1)

typedef NSUInteger MTLResourceOptions;
enum : NSUInteger { MTLResourceStorageModeShared = 0, MTLResourceHazardTrackingModeUntracked = 0x100 };
typedef enum : NSUInteger { MTLStorageModeShared = 0 } MTLStorageMode;
typedef enum : NSUInteger { MTLDispatchTypeSerial, MTLDispatchTypeConcurrent } MTLDispatchType;
typedef enum : NSUInteger { MTLBarrierScopeBuffers = 1 } MTLBarrierScope;
typedef enum : NSUInteger { MTLDataTypeUInt = 33, MTLDataTypeBool = 53 } MTLDataType;
typedef enum : NSUInteger { MTLCommandBufferStatusNotEnqueued, MTLCommandBufferStatusEnqueued, MTLCommandBufferStatusCommitted, MTLCommandBufferStatusScheduled, MTLCommandBufferStatusCompleted, MTLCommandBufferStatusError } MTLCommandBufferStatus;
typedef enum : NSUInteger { MTLCommandBufferErrorNone = 0, MTLCommandBufferErrorTimeout = 2, MTLCommandBufferErrorPageFault = 3, MTLCommandBufferErrorOutOfMemory = 8 } MTLCommandBufferError;
typedef enum : NSUInteger { MTLLanguageVersion2_4 = (2 << 16) + 4, MTLLanguageVersion3_1 = (3 << 16) + 1 } MTLLanguageVersion;
typedef enum : NSInteger { MTLMathModeSafe, MTLMathModeRelaxed, MTLMathModeFast } MTLMathMode;
typedef enum : NSInteger { MTLMathFloatingPointFunctionsFast, MTLMathFloatingPointFunctionsPrecise } MTLMathFloatingPointFunctions;
typedef enum : NSInteger { MTLGPUFamilyApple6 = 1006, MTLGPUFamilyApple7 = 1007, MTLGPUFamilyApple9 = 1009 } MTLGPUFamily;
typedef enum : NSUInteger { MTLPipelineOptionNone = 0, MTLPipelineOptionFailOnBinaryArchiveMiss = 4 } MTLPipelineOption;
typedef enum : NSUInteger { MTLCounterSamplingPointAtStageBoundary = 0, MTLCounterSamplingPointAtDispatchBoundary = 2 } MTLCounterSamplingPoint;
extern NSString* const MTLCommonCounterSetTimestamp;

@protocol MTLDevice, MTLCommandQueue, MTLCommandBuffer;

@protocol MTLAllocation <NSObject>
@property(readonly) NSUInteger allocatedSize;
@end
@protocol MTLResource <MTLAllocation>
@end
@protocol MTLBuffer <MTLResource>
@property(readonly) NSUInteger length;
- (void*)contents;
@end
@protocol MTLFence <NSObject>
@end
@protocol MTLResidencySet <NSObject>
- (void)addAllocation:(id<MTLAllocation>)allocation;
- (void)removeAllocation:(id<MTLAllocation>)allocation;
- (void)commit;
- (void)requestResidency;
@end
@interface MTLResidencySetDescriptor : NSObject
@end

@interface MTLCompileOptions : NSObject {
	MTLLanguageVersion languageVersion_;
	BOOL fastMathEnabled_;
	MTLMathMode mathMode_;
	MTLMathFloatingPointFunctions mathFloatingPointFunctions_;
}
@property(nonatomic) MTLLanguageVersion languageVersion;
@property(nonatomic) BOOL fastMathEnabled;
@property(nonatomic) MTLMathMode mathMode;
@property(nonatomic) MTLMathFloatingPointFunctions mathFloatingPointFunctions;
@end
@interface MTLFunctionConstantValues : NSObject {
@public
	uint64_t values_, set_;
}
- (void)setConstantValue:(const void*)value type:(MTLDataType)type atIndex:(NSUInteger)index;
@end
@protocol MTLFunction <NSObject>
@end
@protocol MTLLibrary <NSObject>
- (id<MTLFunction>)newFunctionWithName:(NSString*)name constantValues:(MTLFunctionConstantValues*)values error:(NSError**)error;
@end
@protocol MTLBinaryArchive;
@interface MTLBinaryArchiveDescriptor : NSObject {
	NSURL* url_;
}
@property(nonatomic, retain) NSURL* url;
@end
@interface MTLComputePipelineDescriptor : NSObject {
	id<MTLFunction> function_;
	NSArray* archives_;
	BOOL multiple_;
}
@property(nonatomic, retain) id<MTLFunction> computeFunction;
@property(nonatomic) BOOL threadGroupSizeIsMultipleOfThreadExecutionWidth;
@property(nonatomic, retain) NSArray<id<MTLBinaryArchive>>* binaryArchives;
@end
@protocol MTLBinaryArchive <NSObject>
- (BOOL)addComputePipelineFunctionsWithDescriptor:(MTLComputePipelineDescriptor*)descriptor error:(NSError**)error;
- (BOOL)serializeToURL:(NSURL*)url error:(NSError**)error;
@end
@protocol MTLComputePipelineState <NSObject>
@property(readonly) NSUInteger threadExecutionWidth;
@property(readonly) NSUInteger maxTotalThreadsPerThreadgroup;
@end

@protocol MTLCounterSet <NSObject>
@property(readonly) NSString* name;
@end
@interface MTLCounterSampleBufferDescriptor : NSObject {
	id<MTLCounterSet> counterSet_;
	MTLStorageMode storageMode_;
	NSUInteger sampleCount_;
}
@property(nonatomic, assign) id<MTLCounterSet> counterSet;
@property(nonatomic) MTLStorageMode storageMode;
@property(nonatomic) NSUInteger sampleCount;
@end
@protocol MTLCounterSampleBuffer <NSObject>
- (NSData*)resolveCounterRange:(NSRange)range;
@end
@interface MTLComputePassSampleBufferAttachmentDescriptor : NSObject {
	id<MTLCounterSampleBuffer> sampleBuffer_;
	NSUInteger start_, end_;
}
@property(nonatomic, assign) id<MTLCounterSampleBuffer> sampleBuffer;
@property(nonatomic) NSUInteger startOfEncoderSampleIndex;
@property(nonatomic) NSUInteger endOfEncoderSampleIndex;
@end
@interface MTLComputePassSampleBufferAttachmentDescriptorArray : NSObject {
	MTLComputePassSampleBufferAttachmentDescriptor* first_;
}
- (MTLComputePassSampleBufferAttachmentDescriptor*)objectAtIndexedSubscript:(NSUInteger)index;
@end
@interface MTLComputePassDescriptor : NSObject {
	MTLComputePassSampleBufferAttachmentDescriptorArray* attachments_;
	MTLDispatchType dispatchType_;
}
+ (MTLComputePassDescriptor*)computePassDescriptor;
@property(nonatomic) MTLDispatchType dispatchType;
@property(readonly) MTLComputePassSampleBufferAttachmentDescriptorArray* sampleBufferAttachments;
@end

@protocol MTLComputeCommandEncoder <NSObject>
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state;
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index;
- (void)setBuffers:(const id<MTLBuffer>[])buffers offsets:(const NSUInteger[])offsets withRange:(NSRange)range;
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index;
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)threads;
- (void)dispatchThreadgroupsWithIndirectBuffer:(id<MTLBuffer>)buffer indirectBufferOffset:(NSUInteger)offset threadsPerThreadgroup:(MTLSize)threads;
- (void)memoryBarrierWithScope:(MTLBarrierScope)scope;
- (void)waitForFence:(id<MTLFence>)fence;
- (void)updateFence:(id<MTLFence>)fence;
- (void)sampleCountersInBuffer:(id<MTLCounterSampleBuffer>)buffer atSampleIndex:(NSUInteger)index withBarrier:(BOOL)barrier;
- (void)endEncoding;
@end
@protocol MTLCommandBuffer <NSObject>
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDispatchType:(MTLDispatchType)type;
- (id<MTLComputeCommandEncoder>)computeCommandEncoderWithDescriptor:(MTLComputePassDescriptor*)descriptor;
- (void)commit;
- (void)waitUntilCompleted;
@property(readonly) MTLCommandBufferStatus status;
@property(readonly) NSError* error;
@end
@protocol MTLCommandQueue <NSObject>
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences;
- (void)addResidencySet:(id<MTLResidencySet>)set;
@end

@protocol MTLDevice <NSObject>
@property(readonly) NSString* name;
@property(readonly) uint64_t recommendedMaxWorkingSetSize;
@property(readonly) NSUInteger maxBufferLength;
@property(readonly) NSArray<id<MTLCounterSet>>* counterSets;
- (BOOL)supportsFamily:(MTLGPUFamily)family;
- (BOOL)supportsCounterSampling:(MTLCounterSamplingPoint)point;
- (void)sampleTimestamps:(MTLTimestamp*)cpu gpuTimestamp:(MTLTimestamp*)gpu;
- (id<MTLCommandQueue>)newCommandQueue;
- (id<MTLFence>)newFence;
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options;
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)bytes length:(NSUInteger)length options:(MTLResourceOptions)options deallocator:(void (^)(void*, NSUInteger))deallocator;
- (id<MTLResidencySet>)newResidencySetWithDescriptor:(MTLResidencySetDescriptor*)descriptor error:(NSError**)error;
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source options:(MTLCompileOptions*)options error:(NSError**)error;
- (id<MTLBinaryArchive>)newBinaryArchiveWithDescriptor:(MTLBinaryArchiveDescriptor*)descriptor error:(NSError**)error;
- (id<MTLComputePipelineState>)newComputePipelineStateWithDescriptor:(MTLComputePipelineDescriptor*)descriptor options:(MTLPipelineOption)options reflection:(id*)reflection error:(NSError**)error;
- (id<MTLCounterSampleBuffer>)newCounterSampleBufferWithDescriptor:(MTLCounterSampleBufferDescriptor*)descriptor error:(NSError**)error;
@end
extern "C" NSArray<id<MTLDevice>>* MTLCopyAllDevices(void);
