/** Every kernel against its op's reference, on every instruction set of this machine and on the emulator. */
import { OPS } from "../../kernels/table.ts";
import { failuresOf, prepareCase, type Prepared } from "./check_case.ts";
import { levelsOf } from "./devices.ts";
import { casesOf } from "./op_case.ts";

// References are slow and do not depend on the level: worked out once, when the first level asks.
const prepared = new Map<string, Prepared[]>();

function prepare(op: string): Prepared[] {
  let known = prepared.get(op);
  if (!known) {
    known = casesOf(OPS.find((o) => o.name === op)!).map(prepareCase);
    prepared.set(op, known);
  }
  return known;
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
