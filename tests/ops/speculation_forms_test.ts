/**
 * Verifying rows gives the very bits of the op that steps through them and leaves its state alone; committing the
 * first n of them leaves the state of a step through these n alone. Else speculative and serial decode would part ways.
 */
import { Buffer } from "node:buffer";
import type { Op, Sizes } from "../../kernels/define.ts";
import { convCommit } from "../../kernels/ops/conv_commit/op.ts";
import { convSilu } from "../../kernels/ops/conv_silu/op.ts";
import { convVerify } from "../../kernels/ops/conv_verify/op.ts";
import { gdnCommit } from "../../kernels/ops/gdn_commit/op.ts";
import { gdnStep } from "../../kernels/ops/gdn_step/op.ts";
import { gdnVerify } from "../../kernels/ops/gdn_verify/op.ts";
import { STEP, STEP_WORDS } from "../../kernels/step.ts";
import { type Level, levelsOf } from "./devices.ts";
import { opCase } from "./op_case.ts";
import { caseData, recordCase } from "./record_case.ts";

const ROWS = 16;

interface Family {
  readonly step: Op;
  readonly verify: Op;
  readonly commit: Op;
  readonly state: string;
  readonly out: string;
  readonly shapes: readonly Sizes[];
}

const GDN: Family = {
  step: gdnStep as unknown as Op,
  verify: gdnVerify as unknown as Op,
  commit: gdnCommit as unknown as Op,
  state: "gdnState",
  out: "o",
  shapes: [
    { kHeads: 1, headDim: 16, channels: 48, vHeads: 1, headMap: 0 },
    { kHeads: 2, headDim: 48, channels: 400, vHeads: 4, headMap: 1 },
    { kHeads: 1, headDim: 128, channels: 384, vHeads: 1, headMap: 0 },
    { kHeads: 1, headDim: 144, channels: 440, vHeads: 1, headMap: 0 },
    { kHeads: 1, headDim: 256, channels: 768, vHeads: 1, headMap: 0 },
  ].map((s) => ({ ...s, two: 2 })),
};

const CONV: Family = {
  step: convSilu as unknown as Op,
  verify: convVerify as unknown as Op,
  commit: convCommit as unknown as Op,
  state: "convState",
  out: "y",
  shapes: [
    { projStride: 1, channels: 1 },
    { projStride: 40, channels: 37 },
    { projStride: 700, channels: 516 },
  ].map((s) => ({ ...s, taps: 4, past: 3 })),
};

type Bytes = Readonly<Record<string, Uint8Array<ArrayBuffer>>>;

/** Inputs of ROWS rows with poisoned outputs, by tensor. */
function inputsOf(op: Op, shape: Sizes): Bytes {
  const data = caseData(opCase(op, {}, { ...shape, rows: ROWS })!);
  return Object.fromEntries(Object.entries(data).map(([key, { parts }]) => [key, parts[0]]));
}

/** The first rows through one op; returns every tensor as it is behind the play. */
function play({ three: player, form }: Level, op: Op, shape: Sizes, rows: number, inputs: Bytes) {
  const c = opCase(op, {}, { ...shape, rows, stepWords: STEP_WORDS })!;
  const recorded = recordCase(c, form);
  const contents = recorded.owners.map(({ key }) =>
    op.tensors[key].axes[0] === "rows"
      ? inputs[key].slice(0, inputs[key].length / ROWS * rows)
      : inputs[key]
  );
  const [after] = player.play(recorded.tape, recorded.arena, [recorded.arena.image(contents)]);
  const all = recorded.arena.contents(after);
  return Object.fromEntries(recorded.owners.map(({ key }, i) => [key, all[i]]));
}

function stepBlock(committed: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(STEP_WORDS);
  words[STEP.committed] = committed;
  return new Uint8Array(words.buffer);
}

function failuresOf(level: Level, { step, verify, commit, state, out }: Family, shape: Sizes) {
  const inputs = inputsOf(step, shape);
  // states[n]: the state behind n rows.
  const states = [inputs[state]];
  const lines: string[] = [];
  const hold = (what: string, got: Uint8Array, want: Uint8Array) => {
    if (!Buffer.from(want).equals(got)) lines.push(`${what}, ${JSON.stringify(shape)}`);
  };
  for (let rows = 1; rows <= ROWS; rows++) {
    const stepped = play(level, step, shape, rows, inputs);
    states.push(stepped[state]);
    const verified = play(level, verify, shape, rows, inputs);
    hold(`${verify.name} of ${rows} rows: ${out}`, verified[out], stepped[out]);
    hold(`${verify.name} of ${rows} rows: ${state}`, verified[state], inputs[state]);
    for (let n = 0; n <= rows; n++) {
      const committed = play(level, commit, shape, rows, { ...inputs, step: stepBlock(n) });
      hold(`${commit.name} of ${n} among ${rows} rows`, committed[state], states[n]);
    }
  }
  return lines;
}

for (const family of [GDN, CONV]) {
  for (const level of levelsOf(family.step)) {
    Deno.test(`speculation: ${family.step.name} verified and committed on ${level.isa}`, () => {
      const lines = family.shapes.flatMap((shape) => failuresOf(level, family, shape));
      if (lines.length) {
        throw new Error(`${lines.length} differences\n${lines.slice(0, 20).join("\n")}`);
      }
    });
  }
}
