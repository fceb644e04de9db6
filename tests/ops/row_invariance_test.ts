/**
 * A row's bits do not depend on the rows beside it: for 1..16 rows a play gives what as many plays of one
 * row give, state included. Without this, speculative and serial decode would part ways.
 */
import { Buffer } from "node:buffer";
import { axesOf, type Op, type Sizes } from "../../kernels/define.ts";
import { STEP } from "../../kernels/step.ts";
import { OPS } from "../../kernels/table.ts";
import { type Level, levelsOf } from "./devices.ts";
import { type Dtypes, flopsOf, type OpCase, opCase, variantsOf } from "./op_case.ts";
import { type CaseData, caseData, partsByTensor, recordCase } from "./record_case.ts";
import { type Parts, shapeOf } from "./tensor_data.ts";

const ROWS = 16;
const FLOPS_MAX = 4e6, BYTES_MAX = 1 << 20;

/** Forms for more than 16 rows, which trade this promise for matrix units; moe_sort has no rows of results. */
const MATRIX_FORMS =
  /^(attn_prefill|gdn_chunk|gemm|gemm_act8|moe_sort|moe_\w+_gemm|moe_\w+_gemm_act8)$/;

/**
 * Ops of a speculative round, whose rows are not as many plays of one row: drafts are verified over a state that
 * stays as it is, and step.committed says which rows count. speculation_forms_test.ts holds the first three to
 * gdn_step and conv_silu, which are tested here; the others pick among rows.
 */
const ROUND_FORMS = /^(gdn_verify|conv_verify|gdn_commit|spec_accept|select_row)$/;

type Bytes = Record<string, Parts>;

/** How many outermost entries of a tensor belong to one row; 0 where rows share it. */
function perRow(c: OpCase, key: string): number {
  const outer = c.op.tensors[key].axes[0];
  return outer === "rows" ? 1 : outer === "pairs" ? c.sizes.topK : 0;
}

function withRows(sizes: Sizes, rows: number): Sizes {
  const changed: Record<string, number> = { ...sizes, rows };
  if (sizes.topK) changed.pairs = rows * sizes.topK;
  return changed;
}

function rowsOf(c: OpCase, key: string, bytes: Uint8Array<ArrayBuffer>, first: number, n: number) {
  const size = bytes.length / shapeOf(c, key)[0] * perRow(c, key);
  return bytes.slice(first * size, (first + n) * size);
}

/** Plays rows first..first+n-1 of the 16 over the given state; returns what it wrote. */
function playRows(
  { three: player, form }: Level,
  c: OpCase,
  part: OpCase,
  data: CaseData,
  state: Bytes,
  first: number,
) {
  const recorded = recordCase(part, form);
  const contents = recorded.owners.map(({ key, part: p }) => {
    if (perRow(c, key)) return rowsOf(c, key, data[key].parts[p], first, part.sizes.rows);
    const bytes = (state[key] ?? data[key].parts)[p];
    if (key !== "step") return bytes;
    const words = new Uint32Array(bytes.slice().buffer);
    words[STEP.pos] += first;
    return new Uint8Array(words.buffer);
  });
  const [after] = player.play(recorded.tape, recorded.arena, [recorded.arena.image(contents)]);
  const all = partsByTensor(recorded, recorded.arena.contents(after));
  return Object.fromEntries(
    Object.entries(all).filter(([key]) => c.op.tensors[key].role !== "in"),
  );
}

function failuresOf(level: Level, c: OpCase, variant: Dtypes): string[] {
  const data = caseData(c), part = (n: number) => opCase(c.op, variant, withRows(c.sizes, n))!;
  const singles: Bytes[] = [];
  let state: Bytes = {};
  for (let r = 0; r < ROWS; r++) {
    singles.push(playRows(level, c, part(1), data, state, r));
    state = Object.fromEntries(Object.entries(singles[r]).filter(([key]) => !perRow(c, key)));
  }
  const lines: string[] = [];
  for (let n = 2; n <= ROWS; n++) {
    const many = playRows(level, c, part(n), data, {}, 0);
    for (const [key, parts] of Object.entries(many)) {
      const want = perRow(c, key)
        ? Buffer.concat(singles.slice(0, n).map((s) => s[key][0]))
        : Buffer.from(singles[n - 1][key][0]);
      if (want.equals(parts[0])) continue;
      const at = want.findIndex((b, i) => b !== parts[0][i]);
      const row = perRow(c, key) ? `row ${Math.floor(at / (want.length / n))}` : "the state";
      lines.push(
        `${c.label} on ${level.three.name}: with ${n} rows ${row} of ${key} has other bits`,
      );
    }
  }
  return lines;
}

/** Two sizes a variant: the largest that is quick to play, and the first that is not trivial. */
function rowCases(op: Op, variant: Dtypes): OpCase[] {
  const fitting = op.cases.flatMap((sizes) => {
    const c = opCase(op, variant, withRows(sizes, ROWS));
    // A position that wraps around means another position for a later row played alone; a row of a tree that
    // is no chain does not see the rows before it.
    if (!c || c.sizes.pos + ROWS > 2 ** 32 || c.sizes.tree > 0 || flopsOf(c) > FLOPS_MAX) return [];
    return recordCase(c).arena.bytes <= BYTES_MAX ? [c] : [];
  }).sort((a, b) => flopsOf(a) - flopsOf(b));
  return [...new Set([fitting[Math.min(1, fitting.length - 1)], fitting[fitting.length - 1]])];
}

const PROMISING = OPS.filter((o) =>
  axesOf(o).includes("rows") && !MATRIX_FORMS.test(o.name) && !ROUND_FORMS.test(o.name)
);
for (const op of PROMISING) {
  for (const level of levelsOf(op)) {
    Deno.test(`rows: ${op.name} on ${level.isa}`, () => {
      const lines = variantsOf(op).flatMap((variant) => {
        const cases = rowCases(op, variant);
        if (!cases.length) throw new Error(`${op.name}: no case is small enough for 16 rows`);
        return cases.flatMap((c) => failuresOf(level, c, variant));
      });
      if (lines.length) {
        throw new Error(`${lines.length} differences\n${lines.slice(0, 20).join("\n")}`);
      }
    });
  }
}
