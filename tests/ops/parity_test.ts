/**
 * Every kernel against its op's reference, on every instruction set of this machine. A case is played with
 * one thread and twice with three; all three give the same bits and change nothing but the outputs.
 */
import { OPS } from "../../kernels/table.ts";
import { Buffer } from "node:buffer";
import { type Level, levelsOf } from "./devices.ts";
import { casesOf, type OpCase } from "./op_case.ts";
import {
  type CaseData,
  caseData,
  contentsOf,
  expectedValues,
  partsByTensor,
  recordCase,
} from "./record_case.ts";
import type { RefArray } from "../../kernels/define.ts";
import { differences } from "./tolerance.ts";

interface Prepared {
  readonly c: OpCase;
  readonly data: CaseData;
  readonly want: Record<string, RefArray>;
}

// References are slow and do not depend on the level: worked out once, when the first level asks.
const prepared = new Map<string, Prepared[]>();

function prepare(op: string): Prepared[] {
  let known = prepared.get(op);
  if (!known) {
    known = casesOf(OPS.find((o) => o.name === op)!).map((c) => {
      const data = caseData(c);
      return { c, data, want: expectedValues(c, data) };
    });
    prepared.set(op, known);
  }
  return known;
}

function unspecifiedOf(c: OpCase): string[] {
  return Object.keys(c.dtypes).filter((key) => c.op.tensors[key].unspecified);
}

function failuresOf({ c, data, want }: Prepared, level: Level): string[] {
  const recorded = recordCase(c, level.form);
  const image = recorded.arena.image(contentsOf(recorded, data));
  const [first] = level.one.play(recorded.tape, recorded.arena, [image]);
  const [second, third] = level.three.play(recorded.tape, recorded.arena, [image, image]);
  const lines: string[] = [];
  for (const played of [first, second, third]) recorded.arena.blank(played, unspecifiedOf(c));
  const stray = recorded.arena.strayWrite(image, first);
  if (stray) lines.push(stray);
  if (!Buffer.from(first).equals(second)) lines.push("3 threads give other bits than 1");
  if (!Buffer.from(second).equals(third)) lines.push("two plays give different bits");
  const after = partsByTensor(recorded, recorded.arena.contents(first));
  for (const [key, values] of Object.entries(want)) {
    lines.push(...differences(c, key, data[key], after[key], values));
  }
  return lines.map((line) => `${c.label} on ${level.isa}: ${line}`);
}

for (const op of OPS) {
  const levels = levelsOf(op);
  for (const level of levels) {
    Deno.test(`parity: ${op.name} on ${level.isa}`, () => {
      const lines = prepare(op.name).flatMap((p) => failuresOf(p, level));
      if (level === levels[levels.length - 1]) prepared.delete(op.name);
      if (lines.length) {
        throw new Error(`${lines.length} differences\n${lines.slice(0, 40).join("\n")}`);
      }
    });
  }
}
