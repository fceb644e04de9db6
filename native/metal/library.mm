// Compiling: source to library, function to pipeline, pipelines to and from the archive (library.h).
#include "native/metal/library.h"

#include <cstring>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "native/metal/sources.h"

namespace lw {

namespace {

const char* text_of(uint32_t op) {
	static const auto& texts = *[] {
		auto* all = new std::vector<const char*>;
		for (const op_info& info : op_table()) {
			const metal_source* s = metal_sources;
			while (s->op && strcmp(s->op, info.name)) s++;
			all->push_back(s->text);
		}
		return all;
	}();
	return texts[op];
}

std::string words(NSError* error) {
	const char* text = error ? [[error localizedDescription] UTF8String] : nullptr;
	return text ? text : "Metal does not say why";
}

// A compiler's log in one line: its first error.
std::string first_error(const std::string& log) {
	size_t at = log.find("error: ");
	std::string line = at == std::string::npos ? log : log.substr(at + 7);
	return line.substr(0, line.find('\n'));
}

NSString* string(const std::string& text) { return [NSString stringWithUTF8String:text.c_str()]; }

// <caches>/lapwing, made if need be; empty when there is no such place.
std::string cache_folder() {
	NSArray<NSString*>* folders = NSSearchPathForDirectoriesInDomains(NSCachesDirectory, NSUserDomainMask, YES);
	if (![folders count]) return "";
	std::string path = std::string([[folders objectAtIndex:0] UTF8String]) + "/lapwing";
	mkdir(path.c_str(), 0700);
	return access(path.c_str(), W_OK) ? "" : path;
}

}  // namespace

bool pipelines::has(uint32_t kernel) { return text_of(kernel_table()[kernel].op); }

// One variant a library: instantiating all of an op's costs seconds.
id<MTLLibrary> pipelines::library(const std::string& function, const char* op, const char* text, std::string* why) {
	auto at = libraries_.find(function);
	if (at != libraries_.end()) return at->second.get();
	std::string source;
	if (function.size() > strlen(op)) source = "#define LW_ONLY_VARIANT " + function.substr(strlen(op) + 2) + "\n";
	source = source + metal_base + "\n" + text;
	ref<MTLCompileOptions*> options([MTLCompileOptions new]);
	if (@available(macOS 14.0, *)) [options.get() setLanguageVersion:MTLLanguageVersion3_1];
#if __MAC_OS_X_VERSION_MAX_ALLOWED >= 150000
	if (@available(macOS 15.0, *)) {
		[options.get() setMathMode:MTLMathModeSafe];
		[options.get() setMathFloatingPointFunctions:MTLMathFloatingPointFunctionsPrecise];
	} else
#endif
	{
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wdeprecated-declarations"
		[options.get() setFastMathEnabled:NO];
#pragma clang diagnostic pop
	}
	NSError* error = nil;
	ref<id<MTLLibrary>> made([device_.get() newLibraryWithSource:string(source) options:options.get() error:&error]);
	if (!made) {
		log_line("metal: %s: %s", function.c_str(), words(error).c_str());
		*why = first_error(words(error));
		return nil;
	}
	return (libraries_[function] = std::move(made)).get();
}

bool pipelines::new_archive() {
	ref<MTLBinaryArchiveDescriptor*> d([MTLBinaryArchiveDescriptor new]);
	archive_ = ref<id<MTLBinaryArchive>>([device_.get() newBinaryArchiveWithDescriptor:d.get() error:nil]);
	return bool(archive_);
}

// A file that Metal does not take (cut off, of another system or GPU) is as good as none: save() writes a new one.
void pipelines::open_archive() {
	if (archive_opened_) return;
	archive_opened_ = true;
	std::string folder = cache_folder();
	if (folder.empty()) return;
	archive_path_ = folder + "/kernels-" + metal_digest + ".metalarchive";
	if (access(archive_path_.c_str(), R_OK) == 0) {
		ref<MTLBinaryArchiveDescriptor*> d([MTLBinaryArchiveDescriptor new]);
		[d.get() setUrl:[NSURL fileURLWithPath:string(archive_path_)]];
		archive_ = ref<id<MTLBinaryArchive>>([device_.get() newBinaryArchiveWithDescriptor:d.get() error:nil]);
	}
	if (!archive_) new_archive();
}

id<MTLComputePipelineState> pipelines::build(const variant& v, id<MTLLibrary> library, uint32_t n_slots, std::string* why) {
	ref<MTLFunctionConstantValues*> constants([MTLFunctionConstantValues new]);
	for (uint32_t s = 0; s < n_slots; s++) {
		const bool bound = v.present >> s & 1;
		[constants.get() setConstantValue:&bound type:MTLDataTypeBool atIndex:s];
	}
	NSError* error = nil;
	ref<id<MTLFunction>> function([library newFunctionWithName:string(v.function) constantValues:constants.get() error:&error]);
	if (!function) {
		*why = first_error(words(error));
		return nil;
	}
	ref<MTLComputePipelineDescriptor*> d([MTLComputePipelineDescriptor new]);
	[d.get() setComputeFunction:function.get()];
	[d.get() setThreadGroupSizeIsMultipleOfThreadExecutionWidth:YES];
	open_archive();
	ref<id<MTLComputePipelineState>> made;
	if (archive_) {
		[d.get() setBinaryArchives:[NSArray arrayWithObject:archive_.get()]];
		made = ref<id<MTLComputePipelineState>>([device_.get() newComputePipelineStateWithDescriptor:d.get() options:MTLPipelineOptionFailOnBinaryArchiveMiss reflection:nil error:nil]);
	}
	if (!made) {
		made = ref<id<MTLComputePipelineState>>([device_.get() newComputePipelineStateWithDescriptor:d.get() options:MTLPipelineOptionNone reflection:nil error:&error]);
		if (!made) {
			*why = first_error(words(error));
			return nil;
		}
		// An archive from a file may refuse to grow.
		if (archive_) archive_changed_ = [archive_.get() addComputePipelineFunctionsWithDescriptor:d.get() error:nil] || (new_archive() && [archive_.get() addComputePipelineFunctionsWithDescriptor:d.get() error:nil]) || archive_changed_;
	}
	return (made_[v] = std::move(made)).get();
}

id<MTLComputePipelineState> pipelines::get(const std::string& function, const char* op, const char* text, uint32_t present, uint32_t n_slots, std::string* why) {
	@autoreleasepool {
		std::lock_guard<std::mutex> lock(mutex_);
		const variant v{function, present};
		auto at = made_.find(v);
		if (at != made_.end()) return at->second.get();
		id<MTLLibrary> from = library(function, op, text, why);
		return from ? build(v, from, n_slots, why) : nil;
	}
}

int32_t pipelines::of(uint32_t kernel, uint32_t present, uint32_t record, id<MTLComputePipelineState>* out, lw_error* error) {
	const kernel_info& k = kernel_table()[kernel];
	const op_info& op = op_table()[k.op];
	std::string why;
	*out = get(k.name, op.name, text_of(k.op), present, op.n_slots, &why);
	if (!*out) return fail(error, LW_STATUS_DEVICE, record, 0, "Cannot load tape: record %u: Metal cannot build %s: %.120s", record, k.name, why.c_str());
	if ([*out maxTotalThreadsPerThreadgroup] < op.threads || [*out threadExecutionWidth] != 32)
		return fail(error, LW_STATUS_DEVICE, record, 0, "Cannot load tape: record %u: %s needs %u threads in simdgroups of 32, this GPU gives it %lu in simdgroups of %lu", record, k.name, op.threads, (unsigned long)[*out maxTotalThreadsPerThreadgroup], (unsigned long)[*out threadExecutionWidth]);
	return LW_STATUS_OK;
}

int32_t pipelines::guard(id<MTLComputePipelineState>* out, lw_error* error) {
	std::string why;
	*out = get("play_guard", "play_guard", metal_guard_source, 0, 0, &why);
	return *out ? int32_t(LW_STATUS_OK) : fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "Cannot load tape: Metal cannot build play_guard: %.150s", why.c_str());
}

void pipelines::save() {
	@autoreleasepool {
		std::lock_guard<std::mutex> lock(mutex_);
		if (!archive_changed_) return;
		archive_changed_ = false;
		// Another process may read or write the file now: it sees the old one or the new one.
		const std::string part = archive_path_ + "." + std::to_string(getpid());
		if (![archive_.get() serializeToURL:[NSURL fileURLWithPath:string(part)] error:nil] || rename(part.c_str(), archive_path_.c_str())) unlink(part.c_str());
	}
}

}  // namespace lw
