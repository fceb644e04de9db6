// An owned reference to an Objective-C object, for code without ARC. new..., copy... and MTLCopy... give what it takes
// over; anything else that must live longer is retained first.
#pragma once
#import <Foundation/Foundation.h>

#include <utility>

namespace lw {

template <class T> class ref {
	T object_ = nil;

public:
	ref() = default;
	explicit ref(T owned) : object_(owned) {}
	static ref retained(T object) { return ref([object retain]); }
	ref(ref&& other) noexcept : object_(other.object_) { other.object_ = nil; }
	ref& operator=(ref&& other) noexcept {
		std::swap(object_, other.object_);
		return *this;
	}
	~ref() { [object_ release]; }
	T get() const { return object_; }
	explicit operator bool() const { return object_ != nil; }
};

}  // namespace lw
