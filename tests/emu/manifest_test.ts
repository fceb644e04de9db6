/**
 * The arguments of every .metal kernel against op.ts: a slot's name, index, role and presence, the argument
 * struct, the threads, and an instance for every kernel that the op promises.
 */
import assert from "node:assert/strict";
import { manifest } from "../../native/msl/emit.ts";
import { read } from "../../native/msl/main.ts";
import { bundle } from "../../native/msl/source.ts";
import { SLOTS_MAX } from "../../ffi/abi/layout.ts";
import { slotNames, snake } from "../../ffi/tape/op_ids.ts";
import { kernelNames, type Op } from "../../kernels/define.ts";
import { isAffine } from "../../kernels/formats/affine.ts";
import { OPS } from "../../kernels/table.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** Behind the slots, as native/emu/play.cc binds it. */
const ARGS_BUFFER = SLOTS_MAX;

type Manifest = ReturnType<typeof manifest>;
type Argument = Manifest["kernels"][number]["arguments"][number];

/** Slots in order: name, whether kernels write it, whether a record may leave it unbound. */
function slotsOf(op: Op): { name: string; written: boolean; absent: boolean }[] {
  const names = slotNames(op).map(snake);
  const slots = Object.values(op.tensors).flatMap((t) => {
    const written = t.role !== "in", absent = !!t.optional;
    // A dense weight has neither scales nor biases.
    const part = { written, absent: absent || !t.dtypes.every((d) => isAffine(d)) };
    return t.weight ? [{ written, absent }, part, part] : [{ written, absent }];
  });
  return slots.map((s, i) => ({ name: names[i], ...s }));
}

function slotComplaints(op: Op, m: Manifest, args: readonly Argument[]): string[] {
  const complaints: string[] = [];
  const say = (a: Argument, what: string) => complaints.push(`${a.name}: ${what}`);
  slotsOf(op).forEach(({ name, written, absent }, index) => {
    const a = args.find((a) => a.attributes.buffer === String(index));
    if (!a) return complaints.push(`no argument at buffer(${index}) for ${name}`);
    if (a.name !== name) say(a, `buffer(${index}) is the slot ${name}`);
    if (a.space !== "device" || a.by !== "pointer") say(a, "is no pointer to device memory");
    if (a.type.startsWith("const ") === written) {
      say(a, written ? "is const, but kernels write it" : "is not const, but kernels only read it");
    }
    const constant = m.constants.find((c) => c.index === index);
    if (absent && constant?.name !== `has_${name}`) {
      say(a, `may be unbound: constant bool has_${name} [[function_constant(${index})]]`);
    }
    if (!absent && constant) say(a, `is always bound, but ${constant.name} asks`);
    if (a.attributes.function_constant !== constant?.name) {
      say(a, `has function_constant(${a.attributes.function_constant}), not ${constant?.name}`);
    }
  });
  return complaints;
}

function complaintsOf(op: Op, m: Manifest): string[] {
  if (m.kernels.length !== 1) return [`${m.kernels.length} kernel functions instead of one`];
  const [kernel] = m.kernels;
  const args = kernel.arguments.filter((a) => "buffer" in a.attributes);
  const complaints = slotComplaints(op, m, args);
  const struct = args.find((a) => a.attributes.buffer === String(ARGS_BUFFER));
  if (
    struct?.type !== `const ${op.name}_args` || struct.space !== "constant" ||
    struct.by !== "reference"
  ) {
    complaints.push(`no constant ${op.name}_args& at buffer(${ARGS_BUFFER})`);
  }
  const more = args.length - slotsOf(op).length - 1;
  if (more > 0) complaints.push(`${more} buffers that are no slot`);
  const threads = kernel.attributes.max_total_threads_per_threadgroup;
  if (threads !== `LW_THREADS_${op.name}`) complaints.push(`threads are ${threads}`);
  const instances = m.instances.map((i) => i.hostName).sort(), names = [...kernelNames(op)].sort();
  const missing = names.filter((n) => !instances.includes(n));
  const extra = instances.filter((n) => !names.includes(n));
  if (missing.length) complaints.push(`no instance ${missing.join(", ")}`);
  if (extra.length) complaints.push(`no op promises ${extra.join(", ")}`);
  return complaints;
}

for (const op of OPS.filter((op) => !("none" in op.simt))) {
  Deno.test(`manifest: ${op.name}.metal is what op.ts says`, async () => {
    const path = `kernels/ops/${op.name}/${op.name}.metal`;
    const m = manifest(await read(bundle(ROOT, path), path, "emu"));
    assert.deepEqual(complaintsOf(op, m), []);
  });
}

Deno.test("manifest: every .metal file is that of an op with a launch", () => {
  const launched = OPS.filter((op) => !("none" in op.simt)).map((op) => op.name);
  const files = [...Deno.readDirSync(ROOT + "kernels/ops")].map((e) => e.name).filter((name) => {
    try {
      return Deno.statSync(`${ROOT}kernels/ops/${name}/${name}.metal`).isFile;
    } catch {
      return false;
    }
  });
  assert.deepEqual(files.filter((name) => !launched.includes(name)), []);
});
