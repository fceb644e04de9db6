// Checks a tape once, at load, so that players need not. Owns no device and no model.
#include "native/core/tape.h"

#include <cstring>

#include "native/core/player.h"

namespace lw {

namespace {

typedef unsigned __int128 u128;

struct checker {
	const tape& t;
	player& device;
	bool needs_memory;
	lw_error* error;
	uint32_t index;
	std::vector<uint32_t> read, written;  // slots that records since the last wait read and write

	const record& r() const { return t.records[index]; }
	const kernel_info& kernel() const { return kernel_table()[r().kernel]; }
	const op_info& op() const { return op_table()[kernel().op]; }

	uint32_t value(operand o) const { return o.word < 0 ? o.literal : r().words[o.word]; }

#define LW_REFUSE_RECORD(...) return fail(error, LW_STATUS_REFUSED, index, 0, __VA_ARGS__)

	u128 n_groups() const { return u128(r().groups[0]) * r().groups[1] * r().groups[2]; }

	int32_t head() {
		if (r().kernel >= kernel_table().size()) LW_REFUSE_RECORD("Cannot load tape: record %u has kernel %u of %zu", index, r().kernel, kernel_table().size());
		if (!device.has_kernel(r().kernel)) LW_REFUSE_RECORD("Cannot load tape: record %u needs kernel %s, which this device does not have", index, kernel().name);
		if (r().flags & ~LW_FLAG_WAIT) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has unknown flags 0x%x", index, op().name, r().flags);
		u128 groups = n_groups();
		if (groups == 0 || groups > 0x7fffffff) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has grid %ux%ux%u", index, op().name, r().groups[0], r().groups[1], r().groups[2]);
		if (r().spare[0] || r().spare[1]) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) uses a spare word", index, op().name);
		if (r().threads == 0 || r().threads > LW_THREADS_MAX) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has %u threads", index, op().name, r().threads);
		if (uint32_t threads = device.threadgroups() ? op().threads : 1; needs_memory && r().threads != threads) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has %u threads, this device plays it with %u", index, op().name, r().threads, threads);
		return LW_STATUS_OK;
	}

	int32_t words() {
		const op_info& o = op();
		for (uint32_t w = 0; w < LW_WORDS_MAX; w++) {
			uint32_t v = r().words[w];
			if (w >= o.n_axes + o.n_params ? v != 0 : w < o.n_axes && (v > LW_AXIS_MAX || (v == 0 && !(o.may_be_zero >> w & 1))))
				LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has size %u in word %u", index, o.name, v, w);
		}
		if (kernel().special_word >= 0 && r().words[kernel().special_word] != kernel().special_value)
			LW_REFUSE_RECORD("Cannot load tape: record %u: kernel %s is not for size %u", index, kernel().name, r().words[kernel().special_word]);
		return LW_STATUS_OK;
	}

	uint32_t group() const {
		for (size_t k = 0; k < op().tensors.size(); k++)
			if (format_of(kernel().dtypes[k]).bits) return format_of(kernel().dtypes[k]).group;
		return 1;
	}

	// Capped far above any size, so that many factors of 2^32 cannot wrap around.
	static u128 times(u128 a, uint32_t b) {
		const u128 cap = u128(1) << 96;
		return b && a > cap / b ? cap : a * b;
	}

	u128 sum_of_terms(const rule& x) const {
		u128 sum = 0, product = 1;
		for (uint32_t i = 0; i < x.n_left; i++) {
			product = times(product, value(x.left[i]));
			if (i + 1 < x.n_left && x.left[i + 1].term == x.left[i].term) continue;
			sum += product;
			product = 1;
		}
		return sum;
	}

	bool holds(const rule& x) const {
		u128 product = 1;
		bool among = false;
		for (uint32_t i = 0; i < x.n_left; i++) {
			product = times(product, value(x.left[i]));
			among = among || value(x.left[i]) == value(x.right);
		}
		uint32_t right = value(x.right), first = value(x.left[0]);
		switch (x.kind) {
		case LW_RULE_SUM_AT_MOST: return sum_of_terms(x) <= right;
		case LW_RULE_SUM_EQUALS: return sum_of_terms(x) == right;
		case LW_RULE_PRODUCT_EQUALS: return product == right;
		case LW_RULE_PRODUCT_AT_LEAST: return product >= right;
		case LW_RULE_MULTIPLE_OF: return right && first % right == 0;
		case LW_RULE_MULTIPLE_OF_GROUP: return first % group() == 0;
		case LW_RULE_ONE_OF: return among;
		case LW_RULE_AT_LEAST: return first >= right;
		}
		return false;
	}

	int32_t rules() {
		for (size_t i = 0; i < op().rules.size(); i++)
			if (!holds(op().rules[i])) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) breaks constraint %zu of its op", index, op().name, i);
		return LW_STATUS_OK;
	}

	// Bytes of part `part` (0 values or codes, 1 scales, 2 biases) of a tensor, or 0 when it has no such part.
	u128 bytes_of(const tensor_info& x, uint8_t dtype, uint32_t part) const {
		u128 n = 1;
		for (uint32_t a = 0; a < x.n_axes; a++) n *= r().words[x.axes[a]];
		uint32_t last = r().words[x.axes[x.n_axes - 1]];
		if (format_info f = format_of(dtype); f.bits) return part == 0 ? n * f.bits / 8 : n / f.group * 2;
		if (part) return 0;
		switch (dtype) {
		case LW_DTYPE_F32:
		case LW_DTYPE_U32: return n * 4;
		case LW_DTYPE_F16:
		case LW_DTYPE_BF16: return n * 2;
		case LW_DTYPE_I8: return n;
		case LW_DTYPE_Q8: return n / last * (u128(last) + last / 16);
		}
		return u128(1) << 100;
	}

	int32_t slot(const tensor_info& x, uint8_t dtype, uint32_t part) {
		uint32_t s = r().slots[x.slot + part];
		u128 need = bytes_of(x, dtype, part);
		if (need == 0) {
			if (s != LW_NO_SLOT) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) binds slot %u to a dense weight's scales", index, op().name, s);
			return LW_STATUS_OK;
		}
		if (s >= t.slots.size()) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) uses slot %u of %zu", index, op().name, s, t.slots.size());
		const slot_range& range = t.slots[s];
		if (need > range.bytes) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) needs %llu bytes of slot %u: it has %llu", index, op().name, (unsigned long long)need, s, (unsigned long long)range.bytes);
		if (!range.memory) {
			if (needs_memory) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) uses slot %u, which is not bound", index, op().name, s);
			return LW_STATUS_OK;
		}
		if (x.flags & TENSOR_OUT && range.memory->read_only) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) writes slot %u, which is read-only", index, op().name, s);
		// Weights that are only read lie where a file has them; kernels load those by bytes.
		uint32_t unit = dtype == LW_DTYPE_F32 || dtype == LW_DTYPE_U32 ? 4 : dtype == LW_DTYPE_I8 ? 1 : 2;
		bool anywhere = x.flags & TENSOR_WEIGHT && !(x.flags & TENSOR_OUT);
		// Kernels of threadgroups load vectors: weights where a file of 8-byte granularity has them, the rest wider.
		if (device.threadgroups() && dtype != LW_DTYPE_U32) unit = anywhere ? LW_WEIGHT_ALIGN : LW_SLOT_ALIGN;
		if (device.threadgroups()) anywhere = false;
		if (!anywhere && range.offset % unit) LW_REFUSE_RECORD("Cannot load tape: record %u (%s): slot %u is not aligned to %u bytes", index, op().name, s, unit);
		return LW_STATUS_OK;
	}

	// No launch has more groups than its tensors have elements: more would only be turned away, one by one.
	int32_t grid() {
		u128 elements = 1;
		for (const tensor_info& x : op().tensors) {
			u128 n = 1;
			for (uint32_t a = 0; a < x.n_axes; a++) n = times(n, r().words[x.axes[a]]);
			elements += n;
		}
		if (n_groups() > elements) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has grid %ux%ux%u, more groups than its tensors have elements", index, op().name, r().groups[0], r().groups[1], r().groups[2]);
		return LW_STATUS_OK;
	}

	int32_t tensors() {
		uint32_t used = 0;
		for (size_t k = 0; k < op().tensors.size(); k++) {
			const tensor_info& x = op().tensors[k];
			uint32_t parts = x.flags & TENSOR_WEIGHT ? 3 : 1;
			used = x.slot + parts;
			bool absent = x.flags & TENSOR_OPTIONAL && r().slots[x.slot] == LW_NO_SLOT;
			for (uint32_t a = 0; a < x.n_axes; a++) {
				uint32_t w = x.axes[a];
				if (op().may_be_zero >> w & 1 && (r().words[w] == 0) != absent) LW_REFUSE_RECORD("Cannot load tape: record %u (%s): word %u is %u, but slot %u is %s", index, op().name, w, r().words[w], x.slot, absent ? "absent" : "present");
			}
			for (uint32_t part = 0; part < parts; part++) {
				if (absent) {
					if (r().slots[x.slot + part] != LW_NO_SLOT) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has part of an absent tensor in slot %u", index, op().name, x.slot + part);
				} else if (int32_t bad = slot(x, kernel().dtypes[k], part)) {
					return bad;
				}
			}
		}
		for (uint32_t s = used; s < LW_SLOTS_MAX; s++)
			if (r().slots[s] != LW_NO_SLOT) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) has a slot beyond its %u", index, op().name, used);
		return LW_STATUS_OK;
	}

	// What a record writes may not overlap anything else that it touches.
	int32_t aliases() {
		for (size_t k = 0; k < op().tensors.size(); k++) {
			const tensor_info& x = op().tensors[k];
			if (!(x.flags & TENSOR_OUT)) continue;
			for (uint32_t p = 0; p < (x.flags & TENSOR_WEIGHT ? 3u : 1u); p++)
				for (uint32_t other = 0; other < op().n_slots; other++)
					if (other != x.slot + p && overlap(r().slots[x.slot + p], r().slots[other])) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) writes slot %u, which overlaps slot %u", index, op().name, r().slots[x.slot + p], r().slots[other]);
		}
		return LW_STATUS_OK;
	}

	// Without a wait a record may not touch what an earlier one writes, nor write what an earlier one touches:
	// kernels check an index that they read from memory and rely on it to stay as it was.
	int32_t waits() {
		if (r().flags & LW_FLAG_WAIT) {
			read.clear();
			written.clear();
		}
		for (int pass = 0; pass < 2; pass++)
			for (const tensor_info& x : op().tensors)
				for (uint32_t p = 0; p < (x.flags & TENSOR_WEIGHT ? 3u : 1u); p++) {
					uint32_t s = r().slots[x.slot + p];
					if (pass && x.flags & TENSOR_IN) read.push_back(s);
					if (pass && x.flags & TENSOR_OUT) written.push_back(s);
					if (!pass && (meets(s, written) || (x.flags & TENSOR_OUT && meets(s, read)))) LW_REFUSE_RECORD("Cannot load tape: record %u (%s) shares slot %u with an earlier record that it does not wait for", index, op().name, s);
				}
		return LW_STATUS_OK;
	}

	bool meets(uint32_t slot, const std::vector<uint32_t>& others) const {
		for (uint32_t other : others)
			if (overlap(slot, other)) return true;
		return false;
	}

	bool overlap(uint32_t a, uint32_t b) const {
		if (a == LW_NO_SLOT || b == LW_NO_SLOT) return false;
		const slot_range &x = t.slots[a], &y = t.slots[b];
		return x.memory && x.memory == y.memory && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
	}

	int32_t all() {
		for (index = 0; index < t.records.size(); index++) {
			int32_t bad = head();
			if (!bad) bad = words();
			if (!bad) bad = rules();
			if (!bad) bad = grid();
			if (!bad) bad = tensors();
			if (!bad) bad = aliases();
			if (!bad) bad = waits();
			if (bad) return bad;
		}
		return LW_STATUS_OK;
	}
};

}  // namespace

int32_t check_tape(const void* bytes, uint64_t n_bytes, std::vector<slot_range> slots, uint32_t step_slot, player& device, bool needs_memory, std::shared_ptr<const tape>* out, lw_error* error) {
	uint32_t head[4];
	if (n_bytes < LW_TAPE_HEAD_BYTES) return LW_REFUSE(error, "Cannot load tape: %llu bytes are no tape", (unsigned long long)n_bytes);
	memcpy(head, bytes, sizeof head);
	if (head[0] != LW_TAPE_MAGIC || head[1] != LW_ABI_VERSION) return LW_REFUSE(error, "Cannot load tape: it is not a tape of version %u", LW_ABI_VERSION);
	if (head[2] == 0 || head[2] > LW_RECORDS_MAX) return LW_REFUSE(error, "Cannot load tape: %u records", head[2]);
	if (head[3] == 0 || head[3] > LW_TAPE_SLOTS_MAX || head[3] != slots.size()) return LW_REFUSE(error, "Cannot load tape: %u slots, %zu bindings", head[3], slots.size());
	if (n_bytes != LW_TAPE_HEAD_BYTES + uint64_t(head[2]) * LW_RECORD_BYTES) return LW_REFUSE(error, "Cannot load tape: %llu bytes for %u records", (unsigned long long)n_bytes, head[2]);
	auto t = std::make_shared<tape>();
	t->records.resize(head[2]);
	memcpy(t->records.data(), static_cast<const uint8_t*>(bytes) + LW_TAPE_HEAD_BYTES, size_t(head[2]) * sizeof(record));
	t->slots = std::move(slots);
	t->step_slot = step_slot;
	if (step_slot != LW_NO_SLOT && (step_slot >= t->slots.size() || t->slots[step_slot].bytes < LW_STEP_WORDS * 4 || t->slots[step_slot].offset % 4 || (needs_memory && !t->slots[step_slot].memory)))
		return LW_REFUSE(error, "Cannot load tape: slot %u is no step block", step_slot);
	checker c{*t, device, needs_memory, error, 0, {}, {}};
	if (int32_t bad = c.all()) return bad;
	*out = std::move(t);
	return LW_STATUS_OK;
}

}  // namespace lw
