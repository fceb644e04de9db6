/** Tapes of real ops that a CPU device can play: a chain like a layer's, and seeded random ones. */
import type { Tensor } from "../../kernels/define.ts";
import { addRmsNorm } from "../../kernels/ops/add_rms_norm/op.ts";
import { gemv } from "../../kernels/ops/gemv/op.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { swiglu } from "../../kernels/ops/swiglu/op.ts";
import { Tape } from "../../ffi/tape/tape.ts";

const ROWS = 3, DIM = 64, FFN = 96, EPS = 1e-6;

/** x += down(swiglu(gate_up(norm(x)))), normed again into `normed`; one weight of each kind. */
export function chainTape(): Tape {
  const t = new Tape();
  const x = t.state("x", "f32", [ROWS, DIM]);
  const w = t.weight("norm", "f32", [DIM]);
  const h = t.scratch("h", "f32", [ROWS, DIM]);
  t.emit(rmsNorm, { x, w, y: h }, { eps: EPS });
  const gateUp = t.weight("gate_up", "q4g32_bf16", [2 * FFN, DIM]);
  const gu = t.scratch("gu", "f32", [ROWS, 2 * FFN]);
  t.emit(gemv, { x: h, w0: gateUp, y: gu }, { yCol: 0 });
  const act = t.scratch("act", "f32", [ROWS, FFN]);
  t.emit(swiglu, { gu, h: act }, {});
  const delta = t.scratch("delta", "f32", [ROWS, DIM]);
  t.emit(gemv, { x: act, w0: t.weight("down", "bf16", [DIM, FFN]), y: delta }, { yCol: 0 });
  t.emit(addRmsNorm, { x, delta, w, y: t.state("normed", "f32", [ROWS, DIM]) }, { eps: EPS });
  return t;
}

/** Random records over a few states and ever more scratch. */
export function randomRealTape(random: () => number, records: number): Tape {
  const t = new Tape();
  const below = (n: number) => Math.floor(random() * n);
  const states = [0, 1, 2, 3].map((i) => t.state(`state${i}`, "f32", [ROWS, DIM]));
  const wide = [t.state("wide", "f32", [ROWS, 2 * DIM])];
  const w = t.weight("norm", "f32", [DIM]);
  const written: Tensor[] = [...states];
  const any = () => written[below(written.length)];
  for (let i = 0; i < records; i++) {
    const y = t.scratch(`s${i}`, "f32", [ROWS, DIM]);
    const kind = random();
    if (kind < 0.4) t.emit(rmsNorm, { x: any(), w, y }, { eps: EPS });
    else if (kind < 0.7) {
      const x = any(), delta = any();
      if (x === delta) continue;
      t.emit(addRmsNorm, { x, delta, w, y }, { eps: EPS });
    } else t.emit(swiglu, { gu: wide[0], h: y }, {});
    written.push(y);
  }
  return t;
}
