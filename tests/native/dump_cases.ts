/**
 * Writes parity cases with the bits that the library gave, for native programs that have no Deno around
 * them: every case whose tensors fit into SMALL_BYTES, and the smallest one of each other kernel. Layout in
 * case_file.h. A level is an instruction set of the CPU, or that or the kind of one other device, alone in
 * its file: its tapes have another form. Usage: dump_cases.ts FILE LEVEL...
 */
import { casesOf, type OpCase } from "../ops/op_case.ts";
import { KERNEL_DEVICES, type Level, LEVELS } from "../ops/devices.ts";
import { caseData, contentsOf, recordCase } from "../ops/record_case.ts";
import type { LaunchForm } from "../../ffi/tape/encode.ts";
import { OPS } from "../../kernels/table.ts";

const SMALL_BYTES = 1 << 18;
const MAGIC = 0x5343574c; // "LWCS"
const WRITTEN = 1, COMPARED = 2;

/** Appends to a file through one buffer. */
class Output {
  readonly #file: Deno.FsFile;
  readonly #parts: Uint8Array<ArrayBuffer>[] = [];
  #bytes = 0;
  constructor(path: string) {
    this.#file = Deno.openSync(path, { write: true, create: true, truncate: true });
  }
  words(...values: number[]): void {
    this.bytes(new Uint8Array(Uint32Array.from(values).buffer));
  }
  text(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.words(bytes.length);
    this.bytes(bytes);
  }
  bytes(bytes: Uint8Array<ArrayBuffer>): void {
    this.#parts.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes > 1 << 22) this.flush();
  }
  flush(): void {
    for (const part of this.#parts) {
      for (let at = 0; at < part.length;) at += this.#file.writeSync(part.subarray(at));
    }
    this.#parts.length = this.#bytes = 0;
  }
  close(): void {
    this.flush();
    this.#file.close();
  }
}

function chosenCases(form: LaunchForm): OpCase[] {
  const chosen: OpCase[] = [];
  for (const op of OPS) {
    if (form === "threadgroups" && "none" in op.simt) continue;
    const sized = casesOf(op).map((c) => ({ c, bytes: recordCase(c, form).arena.bytes }));
    sized.sort((a, b) => a.bytes - b.bytes);
    const seen = new Set<string>();
    for (const { c, bytes } of sized) {
      if (bytes > SMALL_BYTES && seen.has(c.kernel)) continue;
      seen.add(c.kernel);
      chosen.push(c);
    }
  }
  return chosen;
}

function dumpCase(out: Output, c: OpCase, levels: readonly Level[]): void {
  const recorded = recordCase(c, levels[0].form), { arena, owners, tape } = recorded;
  const contents = contentsOf(recorded, caseData(c));
  out.text(c.label);
  out.words(tape.length);
  out.bytes(tape);
  out.words(arena.places.length);
  arena.places.forEach((p, i) => {
    const compared = p.written && !c.op.tensors[owners[i].key].unspecified;
    const flags = (p.written ? WRITTEN : 0) | (compared ? COMPARED : 0);
    out.words(p.bytes, p.begin % 64, flags);
    out.bytes(contents[i]);
  });
  for (const { one } of levels) {
    const [after] = one.play(tape, arena, [arena.image(contents)]);
    arena.contents(after).forEach((bytes, i) => arena.places[i].written && out.bytes(bytes));
  }
}

const [path, ...names] = Deno.args;
const levels = [...LEVELS, ...KERNEL_DEVICES].filter(({ isa, one }) =>
  names.includes(isa) || names.includes(one.device.info.kind)
);
if (new Set(levels.map((l) => l.form)).size !== 1) throw new Error("tapes of one form in a file");
const cases = chosenCases(levels[0].form);
const out = new Output(path);
out.words(MAGIC, cases.length, levels.length);
levels.forEach((l) => out.text(l.isa));
for (const c of cases) dumpCase(out, c, levels);
out.close();
