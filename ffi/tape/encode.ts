/** A planned tape as the bytes that native code loads, and its hash. */
import { axesOf, type Simt } from "../../kernels/define.ts";
import {
  ABI_VERSION,
  type DeviceKind,
  FLAG_WAIT,
  NO_SLOT,
  RECORD_BYTES,
  RECORD_HEAD_WORDS,
  SLOTS_MAX,
  TAPE_HEAD_BYTES,
  TAPE_MAGIC,
  THREADGROUP_KINDS,
} from "../abi/layout.ts";
import { kernelTable } from "./op_ids.ts";
import type { PlannedTape } from "./plan.ts";
import type { TapeRecord } from "./tape.ts";

const KERNEL_IDS = new Map(kernelTable().map((k, id) => [k.name, id]));

function kernelId(name: string): number {
  const id = KERNEL_IDS.get(name);
  if (id === undefined) {
    throw new Error(`Cannot encode ${name}: kernels/table.ts has no such kernel`);
  }
  return id;
}

/** How a player's device runs a record: as tasks of a thread pool, or as threadgroups of a .metal kernel. */
export type LaunchForm = "tasks" | "threadgroups";

export function launchForm(kind: DeviceKind): LaunchForm {
  return THREADGROUP_KINDS.includes(kind) ? "threadgroups" : "tasks";
}

/** Groups x, y, z and threads of each. */
export function launchOf(r: TapeRecord, form: LaunchForm): readonly number[] {
  if (form === "tasks") return [r.tasks, 1, 1, 1];
  const simt: Simt = r.op.simt;
  if ("none" in simt) {
    throw new RangeError(`Cannot launch ${r.op.name} as threadgroups: ${simt.none}`);
  }
  return [...simt.groups(r.sizes), simt.threads];
}

/** Encodes all records into one block for a single call. */
export function encodeTape(
  tape: PlannedTape,
  form: LaunchForm = "tasks",
): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(TAPE_HEAD_BYTES + tape.records.length * RECORD_BYTES);
  const view = new DataView(out.buffer);
  [TAPE_MAGIC, ABI_VERSION, tape.records.length, tape.slots.length].forEach((v, i) =>
    view.setUint32(4 * i, v, true)
  );
  tape.records.forEach((r, i) => {
    const at = TAPE_HEAD_BYTES + i * RECORD_BYTES;
    const put = (word: number, v: number) => view.setUint32(at + 4 * word, v, true);
    put(0, kernelId(r.kernel));
    put(1, tape.waits[i] ? FLAG_WAIT : 0);
    launchOf(r, form).forEach((v, k) => put(2 + k, v));
    for (let s = 0; s < SLOTS_MAX; s++) put(RECORD_HEAD_WORDS + s, NO_SLOT);
    let slot = RECORD_HEAD_WORDS;
    for (const [key, spec] of Object.entries(r.op.tensors)) {
      r.tensors[key]?.slots.forEach((s, part) => put(slot + part, s));
      slot += spec.weight ? 3 : 1;
    }
    let word = RECORD_HEAD_WORDS + SLOTS_MAX;
    for (const axis of axesOf(r.op)) put(word++, r.sizes[axis]);
    for (const [name, kind] of Object.entries(r.op.params)) {
      if (kind === "u32") put(word++, r.params[name]);
      else view.setFloat32(at + 4 * word++, r.params[name], true);
    }
  });
  return out;
}

/** sha256 over the encoded records and the slot table, as hex: what was played, on any machine. */
export async function hashTape(
  tape: PlannedTape,
  encoded: Uint8Array<ArrayBuffer>,
): Promise<string> {
  const table = tape.slots.map((
    s,
    i,
  ) => [s.kind, s.name, s.dtype, s.part, s.bytes, s.base, tape.offsets[i]]);
  const names = tape.records.map((r) => r.kernel);
  const text = new TextEncoder().encode(JSON.stringify([names, table]));
  const all = new Uint8Array(encoded.length + text.length);
  all.set(encoded);
  all.set(text, encoded.length);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  return [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
}
