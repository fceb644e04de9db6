/**
 * Writes parity cases with the bits that the library gave, for native programs that have no Deno around
 * them: every case whose tensors fit into SMALL_BYTES, and the smallest one of each other kernel. Layout in
 * case_file.h. A level is an instruction set of the CPU, or that or the kind of one other device, alone in
 * its file: its tapes have another form. A number behind the levels bounds the GPU threads of a case, which are
 * what costs a race detector time: with more it is taken only where its kernel has none with fewer. Usage:
 * dump_cases.ts FILE LEVEL... [THREADS]
 */
import { casesOf, type OpCase } from "../ops/op_case.ts";
import { KERNEL_DEVICES, type Level, LEVELS } from "../ops/devices.ts";
import { caseData, contentsOf, recordCase } from "../ops/record_case.ts";
import type { LaunchForm } from "../../ffi/tape/encode.ts";
import { OPS } from "../../kernels/table.ts";
import { Output } from "./output.ts";

const SMALL_BYTES = 1 << 18;
const MAGIC = 0x5343574c; // "LWCS"
const WRITTEN = 1, COMPARED = 2;

function gpuThreads({ op: { simt }, sizes }: OpCase): number {
  return "none" in simt ? 0 : simt.groups(sizes).reduce((a, b) => a * b, simt.threads);
}

function chosenCases(form: LaunchForm, threadsMax: number): OpCase[] {
  const chosen: OpCase[] = [];
  for (const op of OPS) {
    if (form === "threadgroups" && "none" in op.simt) continue;
    const sized = casesOf(op).map((c) => ({
      c,
      bytes: recordCase(c, form).arena.bytes,
      many: gpuThreads(c) > threadsMax,
    }));
    sized.sort((a, b) => Number(a.many) - Number(b.many) || a.bytes - b.bytes);
    const seen = new Set<string>();
    for (const { c, bytes, many } of sized) {
      if ((many || bytes > SMALL_BYTES) && seen.has(c.kernel)) continue;
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

const [path, ...others] = Deno.args;
const names = others.filter((a) => !/^\d+$/.test(a));
const threadsMax = Number(others.find((a) => /^\d+$/.test(a)) ?? Infinity);
const levels = [...LEVELS, ...KERNEL_DEVICES].filter(({ isa, one }) =>
  names.includes(isa) || names.includes(one.device.info.kind)
);
if (new Set(levels.map((l) => l.form)).size !== 1) throw new Error("tapes of one form in a file");
const cases = chosenCases(levels[0].form, threadsMax);
const out = new Output(path);
out.words(MAGIC, cases.length, levels.length);
levels.forEach((l) => out.text(l.isa));
for (const c of cases) dumpCase(out, c, levels);
out.close();
