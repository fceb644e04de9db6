// The CUDA player: a tape's first play launches record after record, so that an error has the number of its record;
// from the second on a call is one launch of a graph, which holds one play or repeats it. Records follow one another in
// programmatic dependent launch: each becomes resident while the one before it runs, and waits for it. Whether a run goes
// on is decided on the device, behind every play.
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

#include <unistd.h>

#include "native/cuda/control.h"
#include "native/cuda/memory.h"
#include "native/cuda/upload.h"
#include "native/shim/cuda/registry.h"

namespace lw {
namespace {

// What has not been given back at the end of a scope is.
template <class T, cudaError_t (*DESTROY)(T)> struct owned {
	T value{};
	owned() = default;
	owned(const owned&) = delete;
	owned& operator=(const owned&) = delete;
	~owned() {
		if (value) DESTROY(value);
	}
};
typedef owned<cudaGraph_t, cudaGraphDestroy> graph;
typedef owned<cudaGraphExec_t, cudaGraphExecDestroy> executable;

struct cuda_record {
	const void* function;
	dim3 grid;
	uint32_t threads, dynamic_bytes, carveout, n_slots;
	void* pointers[LW_SLOTS_MAX];
	uint32_t words[LW_WORDS_MAX];
	bool has_words;
	const lw_cuda::Override* override;  // null for a translated kernel
	void* tail;                         // null, or what the next record writes to, which this one does as well
	decltype(lw_cuda::Launch::plan) plan;
	uint32_t* counter;
};

// Of a graph: a record, or one and that which it does as well.
struct cuda_launch {
	cuda_record what;
	uint32_t first, records;
	// By programmatic dependent launch on the one before: neither that one nor, where it hands on, those before it write
	// anything that this one reads before it waits.
	bool overlaps;
};

struct cuda_tape : played_tape {
	std::shared_ptr<cuda_device> device;
	std::shared_ptr<const tape> checked;  // keeps the memories alive
	std::vector<cuda_record> records;
	std::vector<cuda_launch> launches;
	// Plays so far and plays to come, then a stamp a record and one before the first, then a counter a record.
	std::shared_ptr<cuda_memory> own;
	const uint32_t* step = nullptr;  // on the device
	cuda_memory* step_memory = nullptr;  // where the block is at the memory's begin
	// In the host's memory, written by the device after every play: the step block, which is that of the memory where
	// there is one, and how many plays there were since the tape was loaded.
	pinned_memory sight;
	volatile uint32_t* seen = nullptr;
	volatile uint32_t* plays = nullptr;
	uint32_t* asked = nullptr;  // plays of a run, on their way to the device
	bool begun = false;
	executable once, run;

	uint32_t* count() const { return reinterpret_cast<uint32_t*>(own->at); }
	uint32_t* left() const { return count() + 1; }
	bool halted() const { return step && seen[LW_STEP_HALT] != LW_HALT_RUNNING; }
	uint32_t* counters(size_t n_records) const { return reinterpret_cast<uint32_t*>(stamps() + n_records + 1); }
	unsigned long long* stamps() const { return reinterpret_cast<unsigned long long*>(own->at) + 1; }
	~cuda_tape() override {
		if (device) device->use();
	}
};

struct kernel_forms {
	const lw_cuda::Kernel* translated = nullptr;
	std::vector<const lw_cuda::Override*> overrides;
};

const std::vector<kernel_forms>& forms_by_kernel() {
	static const auto& all = *[] {
		std::unordered_map<std::string, kernel_forms> by_name;
		for (const lw_cuda::Kernel* k = lw_cuda::registry; k; k = k->next) by_name[k->name].translated = k;
		for (const lw_cuda::Override* o = lw_cuda::overrides; o; o = o->next) by_name[o->name].overrides.push_back(o);
		auto* forms = new std::vector<kernel_forms>;
		for (const kernel_info& k : kernel_table()) forms->push_back(by_name[k.name]);
		return forms;
	}();
	return all;
}

// In graphs and streams alike. `dependent`: on the launch before it, by programmatic dependent launch.
cudaError_t launch(const void* function, dim3 grid, uint32_t threads, uint32_t dynamic_bytes, void** parameters, bool dependent, cudaStream_t stream) {
	cudaLaunchAttribute attribute{};
	attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attribute.val.programmaticStreamSerializationAllowed = 1;
	cudaLaunchConfig_t config{};
	config.gridDim = grid;
	config.blockDim = dim3(threads);
	config.dynamicSmemBytes = dynamic_bytes;
	config.stream = stream;
	config.attrs = &attribute;
	config.numAttrs = dependent;
	return cudaLaunchKernelExC(&config, function, parameters);
}

cudaError_t launch(const cuda_record& r, unsigned long long* stamp, bool dependent, cudaStream_t stream) {
	void* parameters[LW_SLOTS_MAX + 5];
	uint32_t n = 0;
	for (; n < r.n_slots; n++) parameters[n] = const_cast<void**>(&r.pointers[n]);
	if (r.has_words) parameters[n++] = const_cast<uint32_t*>(r.words);
	parameters[n++] = &stamp;
	if (r.override && r.override->tail) parameters[n++] = const_cast<void**>(&r.tail);
	if (r.override && r.override->planned) {
		parameters[n++] = const_cast<uint32_t*>(r.plan);
		parameters[n++] = const_cast<uint32_t**>(&r.counter);
	}
	return launch(r.function, r.grid, r.threads, r.dynamic_bytes, parameters, dependent, stream);
}

// `repeat`: the condition of the loop that the play is the body of, or 0.
cudaError_t launch_played(const cuda_tape& t, cudaGraphConditionalHandle repeat, bool dependent, cudaStream_t stream) {
	const uint32_t* step = t.step;
	volatile uint32_t *seen = t.seen, *plays = t.plays;
	uint32_t *count = t.count(), *left = repeat ? t.left() : nullptr;
	void* parameters[] = {&step, &seen, &count, &plays, &repeat, &left};
	return launch(played_kernel(), dim3(1), LW_STEP_WORDS, 0, parameters, dependent, stream);
}

class cuda_player : public host_player {
	std::shared_ptr<cuda_device> device_;
	cuda_upload upload_;
	bool repeats_ = true;  // the driver knows loops in graphs
	bool overlaps_;        // kernels are compiled to wait for the record before themselves (native/shim/cuda/launch.h)

	cudaStream_t plays() const { return device_->plays; }
	cuda_memory& on_device(memory_block& m) const { return static_cast<cuda_memory&>(m); }

	std::string named(const cuda_tape& t, uint32_t record) const {
		return "record " + std::to_string(record) + " (" + op_table()[kernel_table()[t.checked->records[record].kernel].op].name + ")";
	}

	int32_t play_direct(const cuda_tape& t, lw_error* error) {
		for (uint32_t i = 0; i < t.records.size(); i++) {
			cudaError_t code = launch(t.records[i], nullptr, false, plays());
			if (!code) code = cudaStreamSynchronize(plays());
			if (code) return cuda_failure(code, i, named(t, i).c_str(), error);
		}
		LW_CUDA(launch_played(t, 0, false, plays()), "Cannot end a play");
		LW_CUDA(cudaStreamSynchronize(plays()), "Cannot end a play");
		return LW_STATUS_OK;
	}

	// The records into the stream, which is being captured.
	int32_t capture(const cuda_tape& t, unsigned long long* stamps, lw_error* error) {
		for (const cuda_launch& l : t.launches)
			if (const cudaError_t code = launch(l.what, stamps ? stamps + 1 + l.first : nullptr, overlaps_ && l.overlaps && (l.first > 0 || stamps), plays())) return cuda_failure(code, l.first, named(t, l.first).c_str(), error);
		return LW_STATUS_OK;
	}

	int32_t make_once(cuda_tape& t, lw_error* error) {
		graph g;
		LW_CUDA(cudaStreamBeginCapture(plays(), cudaStreamCaptureModeThreadLocal), "Cannot capture a graph");
		int32_t status = capture(t, nullptr, error);
		if (!status)
			if (const cudaError_t code = launch_played(t, 0, overlaps_, plays())) status = cuda_failure(code, LW_NO_RECORD, "Cannot capture a graph", error);
		const cudaError_t ended = cudaStreamEndCapture(plays(), &g.value);
		if (status) return status;
		LW_CUDA(ended, "Cannot capture a graph");
		LW_CUDA(cudaGraphInstantiate(&t.once.value, g.value, 0), "Cannot make a graph ready");
		return LW_STATUS_OK;
	}

	// The records as the body of a loop, which the last of its kernels goes on with or ends.
	cudaError_t make_run(cuda_tape& t) {
		graph g;
		cudaGraphConditionalHandle repeat;
		cudaError_t code = cudaGraphCreate(&g.value, 0);
		if (!code) code = cudaGraphConditionalHandleCreate(&repeat, g.value, 1, cudaGraphCondAssignDefault);
		if (code) return code;
		cudaGraphNodeParams loop{};
		loop.type = cudaGraphNodeTypeConditional;
		loop.conditional.handle = repeat;
		loop.conditional.type = cudaGraphCondTypeWhile;
		loop.conditional.size = 1;
		cudaGraphNode_t node;
		code = cudaGraphAddNode(&node, g.value, nullptr, nullptr, 0, &loop);
		if (!code) code = cudaStreamBeginCaptureToGraph(plays(), loop.conditional.phGraph_out[0], nullptr, nullptr, 0, cudaStreamCaptureModeThreadLocal);
		if (code) return code;
		const int32_t status = capture(t, nullptr, nullptr);
		if (!status) code = launch_played(t, repeat, overlaps_, plays());
		cudaGraph_t body;
		const cudaError_t ended = cudaStreamEndCapture(plays(), &body);
		if (status || code || ended) return code ? code : ended ? ended : cudaErrorUnknown;
		return cudaGraphInstantiate(&t.run.value, g.value, 0);
	}

	// Whether there is a graph that repeats the play.
	bool can_repeat(cuda_tape& t) {
		if (repeats_ && !t.run.value && make_run(t)) {
			repeats_ = false;
			cudaGetLastError();
			log_line("CUDA %d.%d: no loops in graphs, the host launches every play", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
		}
		return repeats_;
	}

	// Brings what other tapes or the host left in the step block into sight, where it is not kept there.
	int32_t look(const cuda_tape& t, lw_error* error) {
		if (!t.step || (t.step_memory && t.step_memory->seen_step())) return LW_STATUS_OK;
		LW_CUDA(cudaMemcpyAsync(const_cast<uint32_t*>(t.seen), t.step, STEP_BYTES, cudaMemcpyDeviceToHost, plays()), "Cannot read the step block");
		LW_CUDA(cudaStreamSynchronize(plays()), "Cannot read the step block");
		return LW_STATUS_OK;
	}

	// `times` plays, or those until the run ends; at least one.
	int32_t play_graph(cuda_tape& t, uint32_t times, lw_error* error) {
		if (times > 1 && can_repeat(t)) {
			*t.asked = times;
			LW_CUDA(cudaMemcpyAsync(t.left(), t.asked, sizeof *t.asked, cudaMemcpyHostToDevice, plays()), "Cannot play");
			LW_CUDA(cudaGraphLaunch(t.run.value, plays()), "Cannot play");
		} else {
			if (!t.once.value)
				if (int32_t bad = make_once(t, error)) return bad;
			LW_CUDA(cudaGraphLaunch(t.once.value, plays()), "Cannot play");
		}
		LW_CUDA(cudaStreamSynchronize(plays()), "Cannot play");
		return LW_STATUS_OK;
	}

	int32_t play_on(cuda_tape& t, uint32_t times, uint32_t* played, lw_error* error) {
		LW_CUDA(device_->let_plays_see(), "Cannot play");
		if (int32_t bad = look(t, error)) return bad;
		const uint32_t before = *t.plays;
		while (*played < times && !t.halted()) {
			const int32_t bad = t.begun ? play_graph(t, times - *played, error) : play_direct(t, error);
			*played = *t.plays - before;
			if (bad) return bad;
			t.begun = true;
		}
		return LW_STATUS_OK;
	}

	static bool overlap(const tape& t, uint32_t a, uint32_t b) {
		if (a == LW_NO_SLOT || b == LW_NO_SLOT) return false;
		const slot_range &x = t.slots[a], &y = t.slots[b];
		return x.memory == y.memory && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
	}

	// Whether a record, played by `by` or by a translated kernel, writes what another one reads before it waits.
	static bool writes_early(const tape& t, const record& writer, const lw_cuda::Override* by, const record& reader, const lw_cuda::Override& o) {
		uint32_t early = o.early | o.appended.slots;
		for (const tensor_info& x : op_table()[kernel_table()[reader.kernel].op].tensors)
			if (x.flags & TENSOR_WEIGHT) early |= 7u << x.slot;
		const bool one_position = by && by->appended.slots && o.appended.slots && writer.slots[by->appended.step] == reader.slots[o.appended.step];
		for (const tensor_info& x : op_table()[kernel_table()[writer.kernel].op].tensors)
			for (uint32_t w = x.slot; x.flags & TENSOR_OUT && w < x.slot + (x.flags & TENSOR_WEIGHT ? 3u : 1u); w++)
				for (uint32_t s = 0; s < LW_SLOTS_MAX; s++)
					if (early >> s & 1 && overlap(t, writer.slots[w], reader.slots[s]) && !(one_position && by->appended.slots >> w & 1 && o.appended.slots >> s & 1)) return true;
		return false;
	}

	// Whether a launch reads, before it waits, nothing that a launch which may still run then writes.
	static bool may_overlap(const tape& t, const cuda_launch& l, const std::vector<cuda_launch>& before) {
		const lw_cuda::Override* o = l.what.override;
		if (!o) return true;
		for (size_t j = before.size(); j-- > 0;) {
			const lw_cuda::Override* by = before[j].what.override;
			for (uint32_t w = 0; w < before[j].records; w++)
				if (writes_early(t, t.records[before[j].first + w], w == 0 ? by : nullptr, t.records[l.first], *o)) return false;
			if (!by || !by->hands_on) break;
		}
		return true;
	}

	// Where record `index` writes, if the one before it can do it as well: nothing that it writes is anything that the other
	// one reads or writes.
	static void* tail_of(const tape& t, uint32_t index, const std::vector<cuda_record>& bound) {
		const cuda_record& before = bound[index - 1];
		const lw_cuda::Tail* tail = before.override ? before.override->tail : nullptr;
		const record &a = t.records[index - 1], &b = t.records[index];
		if (!tail || strcmp(tail->name, kernel_table()[b.kernel].name) || before.pointers[tail->made] != bound[index].pointers[tail->from] || !tail->fits(a.words, b.words)) return nullptr;
		for (uint32_t slot : a.slots)
			if (overlap(t, slot, b.slots[tail->to])) return nullptr;
		return bound[index].pointers[tail->to];
	}

	static void arrange(const tape& t, cuda_tape* made) {
		for (uint32_t i = 0; i < t.records.size();) {
			cuda_launch l{made->records[i], i, 1, false};
			if (i + 1 < t.records.size()) l.what.tail = tail_of(t, i + 1, made->records);
			if (l.what.tail) l.records = 2;
			l.overlaps = may_overlap(t, l, made->launches);
			made->launches.push_back(l);
			i += l.records;
		}
	}

	bool bind(const tape& t, uint32_t index, cuda_record* out) const {
		const record& r = t.records[index];
		for (uint32_t s = 0; s < LW_SLOTS_MAX; s++) {
			if (r.slots[s] == LW_NO_SLOT) continue;
			const slot_range& range = t.slots[r.slots[s]];
			out->pointers[s] = on_device(*range.memory).at + range.offset;
		}
		memcpy(out->words, r.words, sizeof out->words);
		const kernel_forms& forms = forms_by_kernel()[r.kernel];
		const lw_cuda::Chip chip = {uint32_t(device_->properties.multiProcessorCount)};
		for (const lw_cuda::Override* o : forms.overrides) {
			lw_cuda::Launch l{};
			if (!o->shape(out->words, chip, &l) || l.dynamic_bytes > device_->properties.sharedMemPerBlockOptin) continue;
			out->override = o;
			out->function = o->function;
			out->grid = dim3(l.grid[0], l.grid[1], l.grid[2]);
			out->threads = l.threads;
			out->dynamic_bytes = l.dynamic_bytes;
			out->carveout = l.carveout;
			memcpy(out->plan, l.plan, sizeof out->plan);
			out->n_slots = o->slots;
			out->has_words = o->args_bytes;
			break;
		}
		if (!out->override) {
			out->function = forms.translated->function;
			out->grid = dim3(r.groups[0], r.groups[1], r.groups[2]);
			out->threads = r.threads;
			out->n_slots = forms.translated->slots;
			out->has_words = forms.translated->args_bytes;
		}
		return out->grid.y <= uint32_t(device_->properties.maxGridSize[1]) && out->grid.z <= uint32_t(device_->properties.maxGridSize[2]);
	}

	// A graph in which every launch leaves the time of its end: a record's time is that since the one before it, and none for
	// one that the record before it does as well.
	int32_t play_stamped(const cuda_tape& t, uint64_t* ns, lw_error* error) {
		LW_CUDA(device_->let_plays_see(), "Cannot play");
		const size_t n = t.records.size();
		graph g;
		executable run;
		unsigned long long* first = t.stamps();
		void* parameters[] = {&first};
		LW_CUDA(cudaStreamBeginCapture(plays(), cudaStreamCaptureModeThreadLocal), "Cannot capture a graph");
		cudaError_t code = cudaMemsetAsync(first, 0, (n + 1) * sizeof *first, plays());
		if (!code) code = launch(stamp_kernel(), dim3(1), 1, 0, parameters, false, plays());
		const int32_t status = code ? cuda_failure(code, LW_NO_RECORD, "Cannot capture a graph", error) : capture(t, first, error);
		code = cudaStreamEndCapture(plays(), &g.value);
		if (status) return status;
		LW_CUDA(code, "Cannot capture a graph");
		LW_CUDA(cudaGraphInstantiate(&run.value, g.value, 0), "Cannot make a graph ready");
		LW_CUDA(cudaGraphLaunch(run.value, plays()), "Cannot play");
		LW_CUDA(launch_played(t, 0, false, plays()), "Cannot play");
		LW_CUDA(cudaStreamSynchronize(plays()), "Cannot play");
		std::vector<unsigned long long> stamps(n + 1);
		LW_CUDA(cudaMemcpyAsync(stamps.data(), first, stamps.size() * sizeof *first, cudaMemcpyDeviceToHost, plays()), "Cannot read time stamps");
		LW_CUDA(cudaStreamSynchronize(plays()), "Cannot read time stamps");
		for (const cuda_launch& l : t.launches)
			for (uint32_t i = 1; i < l.records; i++) stamps[l.first + i + 1] = stamps[l.first + 1];
		for (size_t i = 0; i < n; i++) ns[i] = stamps[i + 1] > stamps[i] ? stamps[i + 1] - stamps[i] : 0;
		return LW_STATUS_OK;
	}

	// As much shared memory a block as the device has: the limit is the function's, and its records differ.
	int32_t allow_shared(const cuda_record& r, uint32_t index, lw_error* error) const {
		cudaFuncAttributes has;
		cudaError_t code = cudaFuncGetAttributes(&has, r.function);
		const int most = int(device_->properties.sharedMemPerBlockOptin) - (code ? 0 : int(has.sharedSizeBytes));
		if (!code && has.maxDynamicSharedSizeBytes < most) code = cudaFuncSetAttribute(r.function, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
		if (!code && r.carveout) code = cudaFuncSetAttribute(r.function, cudaFuncAttributePreferredSharedMemoryCarveout, int(r.carveout));
		return code ? cuda_failure(code, index, "Cannot load tape", error) : int32_t(LW_STATUS_OK);
	}

	// The step block is kept in the host's sight at the begin of a memory that tapes change through nothing else.
	int32_t see_steps(const tape& t, cuda_tape* made, lw_error* error) const {
		for (uint32_t i = 0; i < t.slots.size(); i++)
			if (i != t.step_slot && t.slots[i].memory) on_device(*t.slots[i].memory).hide_step();
		if (t.step_slot == LW_NO_SLOT) return LW_STATUS_OK;
		const slot_range& s = t.slots[t.step_slot];
		cuda_memory& memory = on_device(*s.memory);
		made->step = reinterpret_cast<const uint32_t*>(memory.at + s.offset);
		uint32_t* seen = reinterpret_cast<uint32_t*>(made->sight.at);
		if (s.offset == 0) {
			made->step_memory = &memory;
			if (int32_t bad = memory.show_step(&seen, error)) return bad;
		}
		made->seen = seen;
		return LW_STATUS_OK;
	}

public:
	cuda_player(std::shared_ptr<cuda_device> device, bool overlaps) : device_(std::move(device)), overlaps_(overlaps) {}
	~cuda_player() override { device_->use(); }

	void info(lw_device_info_block* out) override {
		memset(out, 0, sizeof *out);
		out->kind = LW_KIND_CUDA;
		out->index = uint32_t(device_->index);
		size_t free = 0, total = 0;
		if (!device_->use() && !cudaMemGetInfo(&free, &total)) {
			out->memory_bytes = total;
			out->memory_free_bytes = free;
		}
		snprintf(out->name, sizeof out->name, "%.127s", device_->properties.name);
		snprintf(out->isa, sizeof out->isa, "sm_%d%d", device_->properties.major, device_->properties.minor);
	}
	bool has_kernel(uint32_t kernel) override { return forms_by_kernel()[kernel].translated; }
	bool threadgroups() override { return true; }

	int32_t alloc(uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) override {
		std::shared_ptr<cuda_memory> made;
		const int32_t status = cuda_memory::alloc(device_, bytes, true, &made, error);
		*out = std::move(made);
		return status;
	}

	int32_t map(const std::string& path, uint64_t bytes, std::shared_ptr<memory_block>* out, lw_error* error) override {
		int file = -1;
		if (int32_t bad = open_weights(path, bytes, &file, error)) return bad;
		std::shared_ptr<cuda_memory> made;
		int32_t status = cuda_memory::alloc(device_, bytes, false, &made, error);
		if (!status) status = upload_.copy(*device_, made->at, file, path, bytes, error);
		close(file);
		if (status) return status;
		made->read_only = true;
		*out = std::move(made);
		return LW_STATUS_OK;
	}

	int32_t profile_upload(memory_block& m, uint64_t* ns, uint32_t times, lw_error* error) override {
		on_device(m).hide_step();  // it is not what the host saw last
		return lw::profile_upload(*device_, on_device(m).at, m.bytes, ns, times, error);
	}

	int32_t write(memory_block& m, uint64_t offset, const void* from, uint64_t bytes, lw_error* error) override { return on_device(m).write(offset, from, bytes, error); }
	int32_t read(memory_block& m, uint64_t offset, void* to, uint64_t bytes, lw_error* error) override { return on_device(m).read(offset, to, bytes, error); }
	int32_t copy(memory_block& to, uint64_t to_offset, memory_block& from, uint64_t from_offset, uint64_t bytes, lw_error* error) override {
		return on_device(to).copy(to_offset, on_device(from).at + from_offset, bytes, error);
	}

	// While plays run, what the last of them that ended told the host.
	uint32_t produced(memory_block& step) override {
		if (const uint32_t* seen = on_device(step).seen_step()) return __atomic_load_n(seen + LW_STEP_PRODUCED, __ATOMIC_ACQUIRE);
		uint32_t word = 0;
		read(step, LW_STEP_PRODUCED * sizeof word, &word, sizeof word, nullptr);
		return word;
	}

	int32_t load(std::shared_ptr<const tape> t, std::unique_ptr<played_tape>* out, lw_error* error) override {
		LW_CUDA(device_->use(), "Cannot use the CUDA device");
		upload_.release();
		auto made = std::make_unique<cuda_tape>();
		made->device = device_;
		const size_t n = t->records.size();
		if (int32_t bad = cuda_memory::alloc(device_, 8 * (n + 2) + 4 * n, true, &made->own, error)) return bad;
		for (uint32_t i = 0; i < n; i++) {
			cuda_record r{};
			r.counter = made->counters(n) + i;
			if (!bind(*t, i, &r)) return fail(error, LW_STATUS_REFUSED, i, 0, "Cannot load tape: record %u has a grid of %ux%ux%u, more than this device takes", i, r.grid.x, r.grid.y, r.grid.z);
			if (r.dynamic_bytes > 0)
				if (int32_t bad = allow_shared(r, i, error)) return bad;
			made->records.push_back(r);
		}
		arrange(*t, made.get());
		LW_CUDA(made->sight.alloc(STEP_BYTES + 2 * sizeof(uint32_t)), "Cannot load tape");
		memset(made->sight.at, 0, STEP_BYTES + 2 * sizeof(uint32_t));
		made->asked = reinterpret_cast<uint32_t*>(made->sight.at + STEP_BYTES);
		made->plays = made->asked + 1;
		if (int32_t bad = see_steps(*t, made.get(), error)) return bad;
		made->checked = std::move(t);
		*out = std::move(made);
		return LW_STATUS_OK;
	}

	int32_t play(played_tape& played_as, uint32_t times, uint32_t* played, lw_error* error) override {
		auto& t = static_cast<cuda_tape&>(played_as);
		LW_CUDA(device_->use(), "Cannot use the CUDA device");
		const int32_t status = play_on(t, times, played, error);
		if (status && t.step_memory) t.step_memory->hide_step();
		return status;
	}

	int32_t profile(played_tape& played_as, uint64_t* ns, lw_error* error) override {
		auto& t = static_cast<cuda_tape&>(played_as);
		LW_CUDA(device_->use(), "Cannot use the CUDA device");
		const int32_t status = play_stamped(t, ns, error);
		if (status && t.step_memory) t.step_memory->hide_step();
		return status;
	}
};

uint32_t count() {
	int n = 0;
	if (cudaGetDeviceCount(&n)) cudaGetLastError();
	return uint32_t(std::max(n, 0));
}

const char* why_none() {
	int n = 0, driver = 0;
	const cudaError_t code = cudaGetDeviceCount(&n);
	cudaGetLastError();
	cudaDriverGetVersion(&driver);
	static thread_local char text[160];
	if (driver == 0) return "there is no NVIDIA driver";
	if (code == cudaErrorInsufficientDriver) snprintf(text, sizeof text, "the NVIDIA driver knows CUDA %d.%d, this library needs %d", driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000);
	else snprintf(text, sizeof text, "%s", code ? cudaGetErrorString(code) : "the NVIDIA driver shows no device");
	return text;
}

int32_t open(uint32_t index, uint32_t, std::unique_ptr<player>* out, lw_error* error) {
	std::shared_ptr<cuda_device> device;
	if (int32_t bad = cuda_device::open(index, &device, error)) return bad;
	cudaFuncAttributes attributes;
	if (const cudaError_t code = cudaFuncGetAttributes(&attributes, played_kernel())) {
		char what[120];
		snprintf(what, sizeof what, "Cannot open %.60s: this library has no code for sm_%d%d", device->properties.name, device->properties.major, device->properties.minor);
		return cuda_failure(code, LW_NO_RECORD, what, error);
	}
	*out = std::make_unique<cuda_player>(std::move(device), attributes.ptxVersion >= 90);
	return LW_STATUS_OK;
}

}  // namespace

const backend cuda_backend = {count, open, why_none};

}  // namespace lw
