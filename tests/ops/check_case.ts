/**
 * One case on one device against its reference: played with one thread and twice with three; all three give the
 * same bits and change nothing but the outputs.
 */
import { Buffer } from "node:buffer";
import type { RefArray } from "../../kernels/define.ts";
import type { Level } from "./devices.ts";
import type { OpCase } from "./op_case.ts";
import {
  type CaseData,
  caseData,
  contentsOf,
  expectedValues,
  partsByTensor,
  recordCase,
} from "./record_case.ts";
import { differences } from "./tolerance.ts";

/** A case with its inputs and what the reference makes of them. */
export interface Prepared {
  readonly c: OpCase;
  readonly data: CaseData;
  readonly want: Record<string, RefArray>;
}

export function prepareCase(c: OpCase): Prepared {
  const data = caseData(c);
  return { c, data, want: expectedValues(c, data) };
}

function unspecifiedOf(c: OpCase): string[] {
  return Object.keys(c.dtypes).filter((key) => c.op.tensors[key].unspecified);
}

/** What is wrong, one line each. */
export function failuresOf({ c, data, want }: Prepared, level: Level): string[] {
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
