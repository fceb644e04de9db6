/**
 * A key that a row does not see adds nothing to it, whatever its bits are: rows of a rejected draft stay in the caches, and
 * some of a round's rows see what others do not. Rows of a prompt are kept or lost together: attn_prefill may mix them.
 */
import { Buffer } from "node:buffer";
import { attnDecode } from "../../kernels/ops/attn_decode/op.ts";
import { attnDecodeGate } from "../../kernels/ops/attn_decode_gate/op.ts";
import { attnSplit } from "../../kernels/ops/attn_split/op.ts";
import { attnTree } from "../../kernels/ops/attn_tree/op.ts";
import type { DType } from "../../kernels/define.ts";
import { OPS } from "../../kernels/table.ts";
import { type Level, levelsOf } from "./devices.ts";
import { type OpCase, opCase, variantsOf } from "./op_case.ts";
import { type CaseData, caseData, partsByTensor, recordCase } from "./record_case.ts";
import { encodeValues, shapeOf } from "./tensor_data.ts";

const NO_NUMBERS = [Infinity, NaN, -Infinity];
/** The case of attn_tree whose masks are finite: every row sees every key. */
const BIASED = 3;

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

/** What a play writes of all rows but the last, or of the only row. */
function played({ three: player, form }: Level, c: OpCase, data: CaseData): Record<string, Buffer> {
  const recorded = recordCase(c, form);
  const contents = recorded.owners.map(({ key, part }) => data[key].parts[part]);
  const [after] = player.play(recorded.tape, recorded.arena, [recorded.arena.image(contents)]);
  const parts = partsByTensor(recorded, recorded.arena.contents(after));
  return Object.fromEntries(
    Object.keys(c.op.tensors).filter((key) => c.op.tensors[key].role === "out").map((key) => {
      const all = Buffer.from(parts[key][0]);
      return [key, all.subarray(0, all.length / c.sizes.rows * Math.max(c.sizes.rows - 1, 1))];
    }),
  );
}

for (const { name } of [attnDecode, attnDecodeGate, attnSplit, attnTree]) {
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
        const want = played(level, c, data), got = played(level, c, other);
        for (const key of Object.keys(want)) {
          compared++;
          if (!want[key].equals(got[key])) lines.push(`${c.label} on ${level.isa}: ${key}`);
        }
      }
    }
    if (lines.length || !compared) throw new Error(`of ${compared} differ:\n${lines.join("\n")}`);
  });
}
