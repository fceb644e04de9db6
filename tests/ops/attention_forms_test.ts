/** Split attention with its merge gives the very bits of attn_decode, whatever the bucket of blocks. */
import { Buffer } from "node:buffer";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import type { DType } from "../../kernels/define.ts";
import { attnDecode } from "../../kernels/ops/attn_decode/op.ts";
import { attnMerge } from "../../kernels/ops/attn_merge/op.ts";
import { attnSplit } from "../../kernels/ops/attn_split/op.ts";
import { ATTN_BLOCK } from "../../kernels/step.ts";
import { OPS } from "../../kernels/table.ts";
import { Arena } from "./arena.ts";
import { type Level, levelsOf } from "./devices.ts";
import { type OpCase, opCase, variantsOf } from "./op_case.ts";
import { type CaseData, caseData, recordCase } from "./record_case.ts";
import { shapeOf } from "./tensor_data.ts";

const decode = OPS.find((o) => o.name === attnDecode.name)!;
/** So many key heads that a GPU's thread block goes through several blocks of keys. */
const WALKED = { rows: 1, qHeads: 140, kvHeads: 140, headDim: 64, ctx: 600, pos: 577 };

/** The output of one attn_decode record. */
function playDecode({ three: player, form }: Level, c: OpCase, data: CaseData): Uint8Array {
  const recorded = recordCase(c, form);
  const contents = recorded.owners.map(({ key, part }) => data[key].parts[part]);
  const [after] = player.play(recorded.tape, recorded.arena, [recorded.arena.image(contents)]);
  return recorded.arena.contents(after)[recorded.owners.findIndex((o) => o.key === "o")];
}

/** The output of attn_split and attn_merge over the same inputs. */
function playSplit(level: Level, c: OpCase, data: CaseData, blocks: number): Uint8Array {
  const { rows, qHeads, headDim } = c.sizes;
  const tape = new Tape(), arena = new Arena(level.form);
  const given = Object.fromEntries(
    ["q", "kCache", "vCache", "step", "o"].map((key) => [
      key,
      tape.state(key, c.dtypes[key] as DType, shapeOf(c, key)),
    ]),
  );
  const partial = tape.state("partial", "f32", [rows, qHeads, blocks, headDim]);
  const stats = tape.state("stats", "f32", [rows, qHeads, blocks, 2]);
  const { q, kCache, vCache, step, o } = given;
  tape.emit(attnSplit, { q, kCache, vCache, step, partial, stats }, { scale: c.sizes.scale });
  tape.emit(attnMerge, { partial, stats, step, o }, {});
  const contents = tape.slots.map((slot) => {
    arena.place(slot.name, slot.dtype, 0, slot.bytes, false, true);
    // Partials of blocks beyond a row's keys must not count, whatever they hold.
    return data[slot.name]?.parts[0] ?? new Uint8Array(slot.bytes).fill(0x7f);
  });
  const encoded = encodeTape(planTape(tape), level.form);
  const [after] = level.three.play(encoded, arena, [arena.image(contents)]);
  return arena.contents(after)[tape.slots.findIndex((s) => s.name === "o")];
}

Deno.test("attention: split and merged = decoded on every level", () => {
  const lines: string[] = [];
  let compared = 0;
  for (const variant of variantsOf(decode)) {
    const { stepWords } = decode.cases[0];
    const walked = variant.kCache === "f16" ? [{ ...WALKED, stepWords, scale: 0.125 }] : [];
    for (const sizes of [...decode.cases, ...walked]) {
      const c = opCase(decode, variant, sizes)!;
      if (c.sizes.pos + c.sizes.rows > 2 ** 32) continue;
      const data = caseData(c), needed = Math.ceil(c.sizes.ctx / ATTN_BLOCK);
      for (const level of levelsOf(decode)) {
        const want = Buffer.from(playDecode(level, c, data));
        for (const blocks of [needed, needed + 2]) {
          compared++;
          const same = want.equals(playSplit(level, c, data, blocks));
          if (!same) lines.push(`${c.label} on ${level.isa}, ${blocks} blocks`);
        }
      }
    }
  }
  if (lines.length || !compared) throw new Error(`of ${compared} differ:\n${lines.join("\n")}`);
});
