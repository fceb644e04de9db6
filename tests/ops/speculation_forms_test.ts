/**
 * Verifying rows gives the very bits of the op that steps through them and leaves its state alone; committing the
 * first n of them leaves the state of a step through these n alone. Else speculative and serial decode would part ways.
 */
import { Buffer } from "node:buffer";
import type { Op, Sizes } from "../../kernels/define.ts";
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
  readonly state: string;
  readonly out: string;
  readonly shapes: readonly Sizes[];
}

const GDN: Family = {
  step: gdnStep as unknown as Op,
  verify: gdnVerify as unknown as Op,
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
  state: "convState",
  out: "y",
  shapes: [
    { projStride: 1, channels: 1 },
    { projStride: 40, channels: 37 },
    { projStride: 700, channels: 516 },
  ].map((s) => ({ ...s, taps: 4, past: 3 })),
};

type Bytes = Readonly<Record<string, Uint8Array<ArrayBuffer>>>;

/** Inputs of ROWS rows with poisoned outputs, by tensor; each `layer` has others. */
function inputsOf(op: Op, shape: Sizes, layer: number): Bytes {
  const rows = ROWS + layer, data = caseData(opCase(op, {}, { ...shape, rows })!);
  return Object.fromEntries(
    Object.entries(data).map(([key, { parts }]) => [
      key,
      op.tensors[key].axes[0] === "rows" ? firstRows(parts[0], rows, ROWS) : parts[0],
    ]),
  );
}

function firstRows(bytes: Uint8Array<ArrayBuffer>, of: number, rows: number) {
  return bytes.slice(0, bytes.length / of * rows);
}

/** The first rows of every layer through one op; returns every tensor as it is behind the play. */
function play(
  { three: player, form }: Level,
  op: Op,
  shape: Sizes,
  rows: number,
  layers: readonly Bytes[],
) {
  const sizes = { ...shape, rows, layers: layers.length, stepWords: STEP_WORDS };
  const recorded = recordCase(opCase(op, {}, sizes)!, form);
  const contents = recorded.owners.map(({ key }) => {
    const { axes } = op.tensors[key], ofLayers = axes[0] === "layers";
    const ofRows = axes[ofLayers ? 1 : 0] === "rows";
    const parts = layers.slice(0, ofLayers ? layers.length : 1)
      .map((inputs) => ofRows ? firstRows(inputs[key], ROWS, rows) : inputs[key]);
    return new Uint8Array(Buffer.concat(parts));
  });
  const [after] = player.play(recorded.tape, recorded.arena, [recorded.arena.image(contents)]);
  const all = recorded.arena.contents(after);
  return Object.fromEntries(recorded.owners.map(({ key }, i) => [key, all[i]]));
}

function stepBlock(committed: number): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(STEP_WORDS);
  words[STEP.committed] = committed;
  return new Uint8Array(words.buffer);
}

class Differences {
  readonly lines: string[] = [];
  constructor(readonly shape: Sizes) {}

  hold(what: string, got: Uint8Array, want: Uint8Array): void {
    if (!Buffer.from(want).equals(got)) this.lines.push(`${what}, ${JSON.stringify(this.shape)}`);
  }
}

/** With room for gdn_verify's d, which is as large as o. */
const withD = (inputs: Bytes): Bytes => inputs.o ? { ...inputs, d: inputs.o } : inputs;

function verified(level: Level, { step, verify, state, out }: Family, shape: Sizes): string[] {
  const inputs = inputsOf(step, shape, 0), found = new Differences(shape);
  for (let rows = 1; rows <= ROWS; rows++) {
    const stepped = play(level, step, shape, rows, [inputs]);
    const { [out]: got, [state]: kept } = play(level, verify, shape, rows, [withD(inputs)]);
    found.hold(`${verify.name} of ${rows} rows: ${out}`, got, stepped[out]);
    found.hold(`${verify.name} of ${rows} rows: ${state}`, kept, inputs[state]);
  }
  return found.lines;
}

/** Two layers with rows of their own; each has both states. */
function committed(level: Level, shape: Sizes): string[] {
  const commit = gdnCommit as unknown as Op, found = new Differences(shape);
  const layers = [0, 1].map((layer) => {
    const inputs = Object.assign(
      {},
      ...[GDN, CONV].map(({ step }) => inputsOf(step, shape, layer)),
    );
    const { d } = play(level, GDN.verify, shape, ROWS, [withD(inputs)]);
    return { ...inputs, d } as Bytes;
  });
  // Behind n rows.
  const statesBehind = (n: number, { step, state }: Family) =>
    layers.map((inputs) => n === 0 ? inputs[state] : play(level, step, shape, n, [inputs])[state]);
  const states = Array.from(
    { length: ROWS + 1 },
    (_, n) => [GDN, CONV].map((family) => Buffer.concat(statesBehind(n, family))),
  );
  for (let rows = 1; rows <= ROWS; rows++) {
    for (let n = 0; n <= rows; n++) {
      const given = layers.map((inputs) => ({ ...inputs, step: stepBlock(n) }));
      const after = play(level, commit, shape, rows, given);
      [GDN, CONV].forEach(({ state }, i) =>
        found.hold(
          `${commit.name} of ${n} among ${rows} rows: ${state}`,
          after[state],
          states[n][i],
        )
      );
    }
  }
  return found.lines;
}

function refuse(lines: readonly string[]): void {
  if (lines.length) {
    throw new Error(`${lines.length} differences\n${lines.slice(0, 20).join("\n")}`);
  }
}

for (const family of [GDN, CONV]) {
  for (const level of levelsOf(family.step)) {
    Deno.test(`speculation: ${family.step.name} verified on ${level.isa}`, () => {
      refuse(family.shapes.flatMap((shape) => verified(level, family, shape)));
    });
  }
}

for (const level of levelsOf(gdnCommit as unknown as Op)) {
  Deno.test(`speculation: rows committed on ${level.isa}`, () => {
    const shapes = GDN.shapes.map((s) => ({ ...s, taps: 4, past: 3, projStride: s.channels + 9 }));
    refuse(shapes.flatMap((shape) => committed(level, shape)));
  });
}
