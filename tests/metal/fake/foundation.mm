// Foundation of the fake, over GCC's Objective-C runtime: references, pools, strings, arrays.
#import <Foundation/Foundation.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/metal/fake/state.h"

// GCC's runtime; its own header directory does not go together with clang's.
extern "C" {
#if __has_feature(address_sanitizer)
// It keeps its tables to the end.
const char* __lsan_default_suppressions() { return "leak:libobjc.so\n"; }
#endif
id class_createInstance(Class, size_t extra);
id object_dispose(id);
const char* object_getClassName(id);
Class object_getClass(id);
}

namespace {

thread_local struct pools {
	std::vector<id> waiting;
	size_t depth = 0;
} pools_of_thread;

void counted(id object, int64_t by) {
	fake::count(("live " + std::string(object_getClassName(object))).c_str(), by);
	if (by > 0) fake::count(("made " + std::string(object_getClassName(object))).c_str());
}

}  // namespace

@implementation NSObject
+ (instancetype)alloc {
	NSObject* o = class_createInstance(self, 0);
	o->references_ = 1;
	counted(o, 1);
	return o;
}
+ (instancetype)new {
	return [[self alloc] init];
}
+ (Class)class {
	return self;
}
- (instancetype)init {
	return self;
}
- (instancetype)retain {
	__atomic_add_fetch(&references_, 1, __ATOMIC_RELAXED);
	return self;
}
- (void)release {
	if (__atomic_sub_fetch(&references_, 1, __ATOMIC_ACQ_REL) == 0) [self dealloc];
}
- (instancetype)autorelease {
	if (!pools_of_thread.depth) fake::misuse("%s autoreleased with no pool in place", object_getClassName(self));
	pools_of_thread.waiting.push_back(self);
	return self;
}
- (NSUInteger)retainCount {
	return NSUInteger(__atomic_load_n(&references_, __ATOMIC_RELAXED));
}
- (void)dealloc {
	counted(self, -1);
	object_dispose(self);
}
@end

@implementation NSAutoreleasePool
- (instancetype)init {
	begin_ = pools_of_thread.waiting.size();
	pools_of_thread.depth++;
	return self;
}
- (void)drain {
	while (pools_of_thread.waiting.size() > begin_) {
		id last = pools_of_thread.waiting.back();
		pools_of_thread.waiting.pop_back();
		[last release];
	}
	pools_of_thread.depth--;
	[self release];
}
@end

@implementation NSString
+ (instancetype)stringWithUTF8String:(const char*)text {
	NSString* s = [[self new] autorelease];
	s->text_ = strdup(text);
	s->length_ = strlen(text);
	return s;
}
- (const char*)UTF8String {
	return text_;
}
- (BOOL)isEqualToString:(NSString*)other {
	return !strcmp([self UTF8String], [other UTF8String]);
}
- (void)dealloc {
	free(text_);
	[super dealloc];
}
@end

// The compiler lays out @"..." as a class pointer, a char pointer and a length.
@implementation NSConstantString
- (const char*)UTF8String {
	return *reinterpret_cast<const char* const*>(reinterpret_cast<const char*>(self) + sizeof(Class));
}
- (instancetype)retain {
	return self;
}
- (void)release {
}
@end

@implementation NSError
+ (NSError*)errorWithText:(const char*)text code:(NSInteger)code {
	NSError* e = [[self new] autorelease];
	e->text_ = [[NSString stringWithUTF8String:text] retain];
	e->code_ = code;
	return e;
}
- (NSString*)localizedDescription {
	return text_;
}
- (NSInteger)code {
	return code_;
}
- (void)dealloc {
	[text_ release];
	[super dealloc];
}
@end

@implementation NSArray
+ (instancetype)arrayWithObject:(id)object {
	return [self arrayWithObjects:&object count:1];
}
+ (instancetype)arrayWithObjects:(const id*)objects count:(NSUInteger)count {
	NSArray* a = [[self new] autorelease];
	a->count_ = count;
	a->objects_ = static_cast<id*>(calloc(count + 1, sizeof(id)));
	for (NSUInteger i = 0; i < count; i++) a->objects_[i] = [objects[i] retain];
	return a;
}
- (id)objectAtIndex:(NSUInteger)index {
	if (index < count_) return objects_[index];
	fake::misuse("object %lu of an array of %lu", index, count_);
	return nil;
}
- (NSUInteger)count {
	return count_;
}
- (void)dealloc {
	for (NSUInteger i = 0; i < count_; i++) [objects_[i] release];
	free(objects_);
	[super dealloc];
}
@end

@implementation NSData
+ (instancetype)dataWithBytes:(const void*)bytes length:(NSUInteger)length {
	NSData* d = [[self new] autorelease];
	d->bytes_ = malloc(length + 1);
	memcpy(d->bytes_, bytes, length);
	d->length_ = length;
	return d;
}
- (const void*)bytes {
	return bytes_;
}
- (NSUInteger)length {
	return length_;
}
- (void)dealloc {
	free(bytes_);
	[super dealloc];
}
@end

@implementation NSURL
+ (instancetype)fileURLWithPath:(NSString*)path {
	NSURL* u = [[self new] autorelease];
	u->path_ = [path retain];
	return u;
}
- (NSString*)path {
	return path_;
}
- (void)dealloc {
	[path_ release];
	[super dealloc];
}
@end

NSArray<NSString*>* NSSearchPathForDirectoriesInDomains(NSUInteger directory, NSUInteger, BOOL) {
	const std::string caches = fake::text_setting("caches");
	if (directory != NSCachesDirectory || caches.empty()) return [NSArray arrayWithObjects:nil count:0];
	return [NSArray arrayWithObject:[NSString stringWithUTF8String:caches.c_str()]];
}
