/**
 * A key that a row does not see adds nothing to it, whatever its bits are: rows of a rejected draft stay in the caches, and
 * some of a round's rows see what others do not. Rows of a prompt are kept or lost together: where matrices are multiplied,
 * attn_prefill may mix those that it does at a time, and no others.
 */
import { Buffer } from "node:buffer";
import { attnDecode } from "../../kernels/ops/attn_decode/op.ts";
import { attnDecodeGate } from "../../kernels/ops/attn_decode_gate/op.ts";
import { attnPrefill } from "../../kernels/ops/attn_prefill/op.ts";
import { attnSplit } from "../../kernels/ops/attn_split/op.ts";
import { attnTree } from "../../kernels/ops/attn_tree/op.ts";
import type { LaunchForm } from "../../ffi/tape/encode.ts";
import type { DType } from "../../kernels/define.ts";
import { OPS } from "../../kernels/table.ts";
import { type Level, levelsOf } from "./devices.ts";
import { type OpCase, opCase, variantsOf } from "./op_case.ts";
import { type CaseData, caseData, partsByTensor, recordCase } from "./record_case.ts";
import { encodeValues, shapeOf } from "./tensor_data.ts";

const NO_NUMBERS = [Infinity, NaN, -Infinity];
/** The case of attn_tree whose masks are finite: every row sees every key. */
const BIASED = 3;
/** Rows times heads of a key head that attn_prefill does at a time, at most, where matrices are multiplied. */
const QUERIES = 128;

/** The data with other keys and values from the position of the last row on, or behind that of the only row. */
function spoiled(c: OpCase, data: CaseData): CaseData {
  const { ctx, headDim, pos, rows } = c.sizes;
  const cache = (key: string) => {
    const values = Float64Array.from(
      data[key].values,
      (x, i) =>
        Math.floor(i / headDim) % ctx >= pos + Math.max(rows - 1, 1)
          ? NO_NUMBERS[i % NO_NUMBERS.length]
          : x,
    );
    return { values, parts: [encodeValues(c.dtypes[key] as DType, shapeOf(c, key), values)] };
  };
  return { ...data, kCache: cache("kCache"), vCache: cache("vCache") };
}

/** Rows that must not change: all but the last, or the only one. */
function apartRows({ op, sizes }: OpCase, form: LaunchForm): number {
  const { rows, qHeads, kvHeads } = sizes, each = Math.ceil(qHeads / kvHeads);
  if (op.name !== attnPrefill.name || form === "tasks" || rows === 1) return Math.max(rows - 1, 1);
  const heads = Array.from({ length: kvHeads }, (_, kv) => Math.min(each, qHeads - each * kv));
  const apart = (n: number) => Math.floor((rows - 1) * n / QUERIES) * QUERIES / n;
  return Math.floor(Math.min(...heads.filter((n) => n > 0).map(apart)));
}

/** What a play writes of its first rows. */
function played(
  { three: player, form }: Level,
  c: OpCase,
  data: CaseData,
  rows: number,
): Record<string, Buffer> {
  const recorded = recordCase(c, form);
  const contents = recorded.owners.map(({ key, part }) => data[key].parts[part]);
  const [after] = player.play(recorded.tape, recorded.arena, [recorded.arena.image(contents)]);
  const parts = partsByTensor(recorded, recorded.arena.contents(after));
  return Object.fromEntries(
    Object.keys(c.op.tensors).filter((key) => c.op.tensors[key].role === "out").map((key) => {
      const all = Buffer.from(parts[key][0]);
      return [key, all.subarray(0, all.length / c.sizes.rows * rows)];
    }),
  );
}

for (const { name } of [attnDecode, attnDecodeGate, attnPrefill, attnSplit, attnTree]) {
  const op = OPS.find((o) => o.name === name)!;
  Deno.test(`masked keys: ${name}`, () => {
    const lines: string[] = [];
    let compared = 0;
    // Of several rows, and of one alone.
    const sizes = op.cases.flatMap((s) => s.rows > 1 ? [s, { ...s, rows: 1 }] : [s]);
    for (const c of variantsOf(op).flatMap((v) => sizes.flatMap((s) => opCase(op, v, s) ?? []))) {
      const { rows, pos, ctx, tree } = c.sizes;
      if (pos + Math.max(rows, 2) > ctx || tree === BIASED) continue;
      const data = caseData(c), other = spoiled(c, data);
      for (const level of levelsOf(op)) {
        const apart = apartRows(c, level.form);
        if (apart === 0) continue;
        const want = played(level, c, data, apart), got = played(level, c, other, apart);
        for (const key of Object.keys(want)) {
          compared++;
          if (!want[key].equals(got[key])) lines.push(`${c.label} on ${level.isa}: ${key}`);
        }
      }
    }
    if (lines.length || !compared) throw new Error(`of ${compared} differ:\n${lines.join("\n")}`);
  });
}
