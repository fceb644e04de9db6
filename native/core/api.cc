// The C ABI: handles, the checks of every argument, and one play at a time per device. Owns no backend.
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "native/core/player.h"

namespace lw {
namespace {

struct device_entry {
	std::unique_ptr<player> p;
	std::mutex playing;
};
struct memory_entry {
	std::shared_ptr<device_entry> device;
	std::shared_ptr<memory_block> block;
	bool mapped;
};
struct tape_entry {
	std::shared_ptr<device_entry> device;
	std::shared_ptr<const tape> checked;
	std::unique_ptr<played_tape> played;
};

template <class T> class registry {
	std::mutex mutex_;
	std::map<uint32_t, std::shared_ptr<T>> entries_;
	uint32_t next_ = 1;

public:
	uint32_t add(std::shared_ptr<T> entry) {
		std::lock_guard<std::mutex> lock(mutex_);
		entries_[next_] = std::move(entry);
		return next_++;
	}
	std::shared_ptr<T> find(uint32_t id) {
		std::lock_guard<std::mutex> lock(mutex_);
		auto at = entries_.find(id);
		return at == entries_.end() ? nullptr : at->second;
	}
	bool remove(uint32_t id) {
		std::shared_ptr<T> last;  // destroyed after the lock is gone
		std::lock_guard<std::mutex> lock(mutex_);
		auto at = entries_.find(id);
		if (at == entries_.end()) return false;
		last = std::move(at->second);
		entries_.erase(at);
		return true;
	}
};

// Never destroyed: a play may still run on another thread while the process exits.
auto& devices = *new registry<device_entry>;
auto& memories = *new registry<memory_entry>;
auto& tapes = *new registry<tape_entry>;

const backend* backend_of(uint32_t kind) {
	switch (kind) {
	case LW_KIND_CPU: return &cpu_backend;
	case LW_KIND_NULL: return &null_backend;
	case LW_KIND_EMU: return &emu_backend;
#if defined(LW_METAL)
	case LW_KIND_METAL: return &metal_backend;
#endif
#if defined(LW_CUDA_PLAYER)
	case LW_KIND_CUDA: return &cuda_backend;
#endif
	}
	return nullptr;
}

bool inside(uint64_t offset, uint64_t bytes, uint64_t all) { return offset <= all && bytes <= all - offset; }

// No exception crosses the boundary: what the standard library throws here is lack of memory.
template <class F> int32_t guarded(lw_error* error, F&& body) {
	try {
		return body();
	} catch (const std::bad_alloc&) {
		return fail(error, LW_STATUS_OUT_OF_MEMORY, LW_NO_RECORD, 0, "Out of memory");
	} catch (...) {
		return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "Unexpected failure inside the library");
	}
}

#define LW_FIND(entry, registry, id, what) \
	auto entry = registry.find(id);        \
	if (!entry) return LW_REFUSE(error, "No " what " with handle %u (closed?)", id)

int32_t range(const memory_entry& m, uint32_t id, uint64_t offset, uint64_t bytes, lw_error* error) {
	if (inside(offset, bytes, m.block->bytes)) return LW_STATUS_OK;
	return LW_REFUSE(error, "Range %llu + %llu is outside memory %u of %llu bytes", (unsigned long long)offset, (unsigned long long)bytes, id, (unsigned long long)m.block->bytes);
}

int32_t add_memory(std::shared_ptr<device_entry> d, std::shared_ptr<memory_block> block, bool mapped, uint32_t* out) {
	auto entry = std::make_shared<memory_entry>();
	entry->device = std::move(d);
	entry->block = std::move(block);
	entry->mapped = mapped;
	*out = memories.add(std::move(entry));
	return LW_STATUS_OK;
}

int32_t step_words(uint32_t memory, uint32_t word, uint32_t n, std::shared_ptr<memory_entry>* out, lw_error* error) {
	LW_FIND(m, memories, memory, "memory");
	if (word > LW_STEP_WORDS || n > LW_STEP_WORDS - word) return LW_REFUSE(error, "Words %u + %u are outside a step block", word, n);
	if (int32_t bad = range(*m, memory, 0, LW_STEP_WORDS * 4, error)) return bad;
	if (m->block->read_only) return LW_REFUSE(error, "Memory %u is read-only", memory);
	*out = m;
	return LW_STATUS_OK;
}

}  // namespace
}  // namespace lw

using namespace lw;

extern "C" {

int32_t lw_abi(uint64_t out[2]) {
	out[0] = LW_ABI_VERSION;
	out[1] = LW_LAYOUT_HASH;
	return LW_STATUS_OK;
}

int32_t lw_device_count(uint32_t kind, uint32_t* out, lw_error* error) {
	*out = 0;
	if (kind >= LW_KINDS) return LW_REFUSE(error, "Unknown device kind %u", kind);
	if (const backend* b = backend_of(kind)) *out = b->count();
	return LW_STATUS_OK;
}

int32_t lw_device_open(uint32_t kind, uint32_t index, uint32_t threads, uint32_t* out, lw_error* error) {
	return guarded(error, [&] {
		*out = 0;
		const backend* b = backend_of(kind);
		if (!b && kind < LW_KINDS) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "this library was built without a player for such devices");
		if (!b) return LW_REFUSE(error, "Unknown device kind %u", kind);
		uint32_t n = b->count();
		if (n == 0 && b->why_none) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "%.200s", b->why_none());
		if (index >= n) return fail(error, LW_STATUS_DEVICE, LW_NO_RECORD, 0, "No device %u of this kind: there are %u", index, n);
		if (threads > LW_THREADS_MAX) return LW_REFUSE(error, "%u threads are more than %u", threads, LW_THREADS_MAX);
		auto d = std::make_shared<device_entry>();
		if (int32_t bad = b->open(index, threads, &d->p, error)) return bad;
		*out = devices.add(std::move(d));
		return int32_t(LW_STATUS_OK);
	});
}

int32_t lw_device_info(uint32_t device, lw_device_info_block* out, lw_error* error) {
	LW_FIND(d, devices, device, "device");
	memset(out, 0, sizeof *out);
	d->p->info(out);
	return LW_STATUS_OK;
}

int32_t lw_device_close(uint32_t device, lw_error* error) {
	return devices.remove(device) ? int32_t(LW_STATUS_OK) : LW_REFUSE(error, "No device with handle %u (closed?)", device);
}

int32_t lw_kernel_list(uint32_t device, char* out, uint64_t capacity, uint64_t* needed, lw_error* error) {
	return guarded(error, [&] {
		LW_FIND(d, devices, device, "device");
		std::string text;
		for (uint32_t k = 0; k < kernel_table().size(); k++) {
			if (d->p->has_kernel(k)) text += kernel_table()[k].name;
			text += '\n';
		}
		*needed = text.size() + 1;
		if (capacity >= *needed) memcpy(out, text.c_str(), *needed);
		return int32_t(LW_STATUS_OK);
	});
}

int32_t lw_memory_alloc(uint32_t device, uint64_t bytes, uint32_t* out, lw_error* error) {
	return guarded(error, [&] {
		*out = 0;
		LW_FIND(d, devices, device, "device");
		if (bytes == 0) return LW_REFUSE(error, "Cannot allocate 0 bytes");
		std::shared_ptr<memory_block> block;
		if (int32_t bad = d->p->alloc(bytes, &block, error)) return bad;
		return add_memory(d, block, false, out);
	});
}

int32_t lw_memory_write(uint32_t memory, uint64_t offset, const void* from, uint64_t bytes, lw_error* error) {
	LW_FIND(m, memories, memory, "memory");
	if (int32_t bad = range(*m, memory, offset, bytes, error)) return bad;
	if (m->block->read_only) return LW_REFUSE(error, "Memory %u is read-only", memory);
	return m->device->p->write(*m->block, offset, from, bytes, error);
}

int32_t lw_memory_read(uint32_t memory, uint64_t offset, void* to, uint64_t bytes, lw_error* error) {
	LW_FIND(m, memories, memory, "memory");
	if (int32_t bad = range(*m, memory, offset, bytes, error)) return bad;
	return m->device->p->read(*m->block, offset, to, bytes, error);
}

int32_t lw_memory_copy(uint32_t to, uint64_t to_offset, uint32_t from, uint64_t from_offset, uint64_t bytes, lw_error* error) {
	LW_FIND(a, memories, to, "memory");
	LW_FIND(b, memories, from, "memory");
	if (a->device != b->device) return LW_REFUSE(error, "Memories %u and %u are of different devices", to, from);
	if (int32_t bad = range(*a, to, to_offset, bytes, error)) return bad;
	if (int32_t bad = range(*b, from, from_offset, bytes, error)) return bad;
	if (a->block->read_only) return LW_REFUSE(error, "Memory %u is read-only", to);
	if (a->block == b->block && to_offset < from_offset + bytes && from_offset < to_offset + bytes) return LW_REFUSE(error, "Cannot copy inside memory %u: the ranges overlap", to);
	return a->device->p->copy(*a->block, to_offset, *b->block, from_offset, bytes, error);
}

int32_t lw_memory_free(uint32_t memory, lw_error* error) {
	return memories.remove(memory) ? int32_t(LW_STATUS_OK) : LW_REFUSE(error, "No memory with handle %u (freed?)", memory);
}

int32_t lw_weights_map(uint32_t device, const char* path, uint32_t path_bytes, uint64_t bytes, uint32_t* out, lw_error* error) {
	return guarded(error, [&] {
		*out = 0;
		LW_FIND(d, devices, device, "device");
		std::shared_ptr<memory_block> block;
		if (int32_t bad = d->p->map(std::string(path, path_bytes), bytes, &block, error)) return bad;
		return add_memory(d, block, true, out);
	});
}

int32_t lw_weights_unmap(uint32_t memory, lw_error* error) {
	LW_FIND(m, memories, memory, "mapped file");
	if (!m->mapped) return LW_REFUSE(error, "Memory %u is not a mapped file", memory);
	return lw_memory_free(memory, error);
}

int32_t lw_upload_profile(uint32_t memory, uint64_t* ns, uint32_t times, lw_error* error) {
	return guarded(error, [&] {
		LW_FIND(m, memories, memory, "memory");
		if (m->block->read_only) return LW_REFUSE(error, "Memory %u is read-only", memory);
		std::lock_guard<std::mutex> lock(m->device->playing);
		return m->device->p->profile_upload(*m->block, ns, times, error);
	});
}

int32_t lw_tape_load(uint32_t device, const void* bytes, uint64_t n_bytes, const lw_binding* bindings, uint32_t n_bindings, uint32_t step_slot, uint32_t* out, lw_error* error) {
	return guarded(error, [&] {
		*out = 0;
		LW_FIND(d, devices, device, "device");
		if (n_bindings > LW_TAPE_SLOTS_MAX) return LW_REFUSE(error, "Cannot load tape: %u bindings", n_bindings);
		lw_device_info_block info;
		d->p->info(&info);
		std::vector<slot_range> slots(n_bindings);
		for (uint32_t i = 0; i < n_bindings; i++) {
			slots[i] = {nullptr, bindings[i].offset, bindings[i].bytes};
			if (bindings[i].memory == 0) continue;
			LW_FIND(m, memories, bindings[i].memory, "memory");
			if (m->device != d) return LW_REFUSE(error, "Cannot load tape: slot %u is bound to memory of another device", i);
			if (int32_t bad = range(*m, bindings[i].memory, bindings[i].offset, bindings[i].bytes, error)) return bad;
			slots[i].memory = m->block;
		}
		auto entry = std::make_shared<tape_entry>();
		bool needs_memory = info.kind != LW_KIND_NULL;
		if (int32_t bad = check_tape(bytes, n_bytes, std::move(slots), step_slot, *d->p, needs_memory, &entry->checked, error)) return bad;
		if (int32_t bad = d->p->load(entry->checked, &entry->played, error)) return bad;
		entry->device = d;
		*out = tapes.add(std::move(entry));
		return int32_t(LW_STATUS_OK);
	});
}

int32_t lw_tape_play(uint32_t tape, uint32_t times, uint32_t* played, lw_error* error) {
	return guarded(error, [&] {
		*played = 0;
		LW_FIND(t, tapes, tape, "tape");
		std::lock_guard<std::mutex> lock(t->device->playing);
		return t->device->p->play(*t->played, times, played, error);
	});
}

int32_t lw_tape_profile(uint32_t tape, uint64_t* ns, uint32_t n_records, lw_error* error) {
	return guarded(error, [&] {
		LW_FIND(t, tapes, tape, "tape");
		if (n_records != t->checked->records.size()) return LW_REFUSE(error, "Tape %u has %zu records, not %u", tape, t->checked->records.size(), n_records);
		std::lock_guard<std::mutex> lock(t->device->playing);
		return t->device->p->profile(*t->played, ns, error);
	});
}

int32_t lw_tape_free(uint32_t tape, lw_error* error) {
	return tapes.remove(tape) ? int32_t(LW_STATUS_OK) : LW_REFUSE(error, "No tape with handle %u (freed?)", tape);
}

int32_t lw_step_write(uint32_t memory, uint32_t word, const uint32_t* from, uint32_t n, lw_error* error) {
	std::shared_ptr<memory_entry> m;
	if (int32_t bad = step_words(memory, word, n, &m, error)) return bad;
	return m->device->p->write(*m->block, word * 4, from, n * 4, error);
}

int32_t lw_step_read(uint32_t memory, uint32_t word, uint32_t* to, uint32_t n, lw_error* error) {
	std::shared_ptr<memory_entry> m;
	if (int32_t bad = step_words(memory, word, n, &m, error)) return bad;
	return m->device->p->read(*m->block, word * 4, to, n * 4, error);
}

int32_t lw_ring_read(uint32_t step_memory, uint32_t history_memory, uint32_t first, uint32_t from, uint32_t* to, uint32_t capacity, uint32_t* n, lw_error* error) {
	*n = 0;
	std::shared_ptr<memory_entry> s;
	if (int32_t bad = step_words(step_memory, 0, 1, &s, error)) return bad;
	LW_FIND(h, memories, history_memory, "memory");
	const uint32_t produced = s->device->p->produced(*s->block);
	if (produced <= from) return LW_STATUS_OK;
	uint32_t count = produced - from < capacity ? produced - from : capacity;
	// The newest token may be one that no longer fits into the history.
	uint64_t begin = uint64_t(first) + from, all = h->block->bytes / 4;
	if (begin >= all) return LW_STATUS_OK;
	if (count > all - begin) count = uint32_t(all - begin);
	if (int32_t bad = h->device->p->read(*h->block, begin * 4, to, uint64_t(count) * 4, error)) return bad;
	*n = count;
	return LW_STATUS_OK;
}

}  // extern "C"
