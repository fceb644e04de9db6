// The part of Foundation that native/metal uses, for Linux: GCC's Objective-C runtime, no ARC. Names and types are
// Apple's; what is missing here does not compile there either.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define __MAC_OS_X_VERSION_MAX_ALLOWED 150000

typedef unsigned long NSUInteger;
typedef long NSInteger;
typedef unsigned char BOOL;
#define YES ((BOOL)1)
#define NO ((BOOL)0)
#define nil nullptr
typedef struct NSRange {
	NSUInteger location, length;
} NSRange;
static inline NSRange NSMakeRange(NSUInteger location, NSUInteger length) { return {location, length}; }

@protocol NSObject
- (instancetype)retain;
- (void)release;
- (instancetype)autorelease;
- (NSUInteger)retainCount;
@end

__attribute__((objc_root_class)) @interface NSObject <NSObject> {
	Class isa;
	int references_;
}
+ (instancetype)alloc;
+ (instancetype)new;
+ (Class)class;
- (instancetype)init;
- (void)dealloc;
@end

@interface NSString : NSObject {
	char* text_;
	NSUInteger length_;
}
+ (instancetype)stringWithUTF8String:(const char*)text;
- (BOOL)isEqualToString:(NSString*)other;
@property(readonly) const char* UTF8String;
@end
@interface NSConstantString : NSString
@end

@interface NSError : NSObject {
	NSString* text_;
	NSInteger code_;
}
+ (NSError*)errorWithText:(const char*)text code:(NSInteger)code;  // not Apple's
@property(readonly) NSString* localizedDescription;
@property(readonly) NSInteger code;
@end

@interface NSArray <ObjectType> : NSObject {
	NSUInteger count_;
	id* objects_;
}
+ (instancetype)arrayWithObject:(ObjectType)object;
+ (instancetype)arrayWithObjects:(const ObjectType*)objects count:(NSUInteger)count;
- (ObjectType)objectAtIndex:(NSUInteger)index;
@property(readonly) NSUInteger count;
@end

@interface NSData : NSObject {
	void* bytes_;
	NSUInteger length_;
}
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length;
@property(readonly) const void* bytes;
@property(readonly) NSUInteger length;
@end

@interface NSURL : NSObject {
	NSString* path_;
}
+ (instancetype)fileURLWithPath:(NSString*)path;
@property(readonly) NSString* path;
@end

@interface NSAutoreleasePool : NSObject {
	size_t begin_;
}
- (void)drain;
@end

enum { NSCachesDirectory = 13, NSUserDomainMask = 1 };
NSArray<NSString*>* NSSearchPathForDirectoriesInDomains(NSUInteger directory, NSUInteger domains, BOOL expand);
