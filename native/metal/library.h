// Compute pipelines from the embedded kernels: compiled when a tape first needs one, kept for the process and, as
// GPU code, in a binary archive in the user's cache folder. Knows no tape.
#pragma once
#import <Metal/Metal.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "native/core/player.h"
#include "native/metal/ref.h"

namespace lw {

class pipelines {
	struct variant {
		std::string function;
		uint32_t present;
		bool operator<(const variant& o) const { return std::tie(function, present) < std::tie(o.function, o.present); }
	};
	ref<id<MTLDevice>> device_;
	std::mutex mutex_;
	std::map<std::string, ref<id<MTLLibrary>>> libraries_;  // by function: each has one
	std::map<variant, ref<id<MTLComputePipelineState>>> made_;
	std::string archive_path_;
	ref<id<MTLBinaryArchive>> archive_;
	bool archive_opened_ = false, archive_changed_ = false;

	id<MTLLibrary> library(const std::string& function, const char* op, const char* text, std::string* why);
	id<MTLComputePipelineState> build(const variant& v, id<MTLLibrary> library, uint32_t n_slots, std::string* why);
	id<MTLComputePipelineState> get(const std::string& function, const char* op, const char* text, uint32_t present, uint32_t n_slots, std::string* why);
	void open_archive();
	bool new_archive();

public:
	explicit pipelines(id<MTLDevice> device) : device_(ref<id<MTLDevice>>::retained(device)) {}
	static bool has(uint32_t kernel);
	// The pipeline of a kernel whose slots in `present` are bound. It stays valid as long as this object.
	int32_t of(uint32_t kernel, uint32_t present, uint32_t record, id<MTLComputePipelineState>* out, lw_error* error);
	int32_t guard(id<MTLComputePipelineState>* out, lw_error* error);
	// Writes the archive when something was added to it; a failure costs compile time later and nothing else.
	void save();
};

}  // namespace lw
