/**
 * The classic mistakes of Qwen3.5 implementations, each as a change of weights, of parameters or of one
 * op's reference: what the fixtures must be able to catch.
 */
import type { ModelConfig } from "../../kernels/models/qwen35_config.ts";
import type { TapeRecord } from "../../ffi/tape/tape.ts";
import { STEP } from "../../kernels/step.ts";
import type { Weights } from "./reference_model.ts";

export interface Mutation {
  readonly name: string;
  /** Changes the weights (already canonical: norms plain, negA = -exp(A_log)). */
  readonly weights?: (w: Weights, c: ModelConfig) => void;
  /** Changes records as they are played. */
  readonly record?: (r: TapeRecord, c: ModelConfig) => TapeRecord;
  readonly only?: "dense" | "moe";
}

type Arrays = Record<string, Float64Array>;
type Numbers = Readonly<Record<string, number>>;
type Reference = (t: Arrays, p: Numbers, s: Numbers) => void;

/** Replaces the reference of one op; the wrapper gets the original one. */
function replaced(op: string, make: (original: Reference) => Reference): Mutation["record"] {
  return (r) => {
    if (r.op.name !== op) return r;
    const original = r.op.reference as unknown as Reference;
    return { ...r, op: { ...r.op, reference: make(original) as never } };
  };
}

function matching(w: Weights, name: RegExp, change: (values: Float64Array) => Float64Array | void) {
  for (const [key, values] of w) {
    if (!name.test(key)) continue;
    const copy = values.slice();
    w.set(key, change(copy) ?? copy);
  }
}

const minusOne = (name: RegExp) => (w: Weights) => matching(w, name, (v) => v.map((x) => x - 1));
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const silu = (x: number) => x * sigmoid(x);

/** qk_norm_rope_append with choices; the defaults are the right ones. */
export function qkNormRope(
  choice: { interleaved?: boolean; full?: number; before?: boolean } = {},
): Reference {
  return (t, { eps }, s) => {
    const { headDim: D, qHeads, kvHeads } = s;
    const half = choice.full ? D / 2 : s.rotHalf;
    const inv = (j: number) => choice.full ? choice.full ** (-2 * j / D) : t.invFreq[j];
    const norm = (x: number[], w: Float64Array) => {
      const r = 1 / Math.sqrt(x.reduce((a, v) => a + v * v, 0) / D + eps);
      return x.map((v, d) => v * r * w[d]);
    };
    const rope = (x: number[], pos: number) => {
      const y = [...x];
      for (let j = 0; j < half; j++) {
        const [a, b] = choice.interleaved ? [2 * j, 2 * j + 1] : [j, j + half];
        const angle = Math.fround(Math.fround(pos) * Math.fround(inv(j)));
        y[a] = x[a] * Math.cos(angle) - x[b] * Math.sin(angle);
        y[b] = x[b] * Math.cos(angle) + x[a] * Math.sin(angle);
      }
      return y;
    };
    const both = (from: number, w: Float64Array, pos: number) => {
      const x = [...t.qkv.subarray(from, from + D)];
      return choice.before ? norm(rope(x, pos), w) : rope(norm(x, w), pos);
    };
    for (let r = 0; r < s.rows; r++) {
      const pos = t.step[STEP.pos] + r, row = r * s.qkvWidth;
      for (let h = 0; h < qHeads; h++) {
        t.q.set(both(row + 2 * h * D, t.qNorm, pos), (r * qHeads + h) * D);
      }
      for (let g = 0; g < kvHeads; g++) {
        const key = row + (2 * qHeads + g) * D, at = (g * s.ctx + pos) * D;
        t.kCache.set(both(key, t.kNorm, pos), at);
        t.vCache.set(t.qkv.subarray(key + kvHeads * D, key + kvHeads * D + D), at);
      }
    }
  };
}

/** Rows of q_proj read as all queries, then all gates. */
function splitInHalves(w: Weights, c: ModelConfig): void {
  matching(w, /attn\.q$/, (v) => {
    const D = c.headDim, H = c.qHeads, n = c.hidden, out = new Float64Array(v.length);
    for (let h = 0; h < H; h++) {
      for (let d = 0; d < D; d++) {
        out.set(v.subarray((h * D + d) * n, (h * D + d + 1) * n), (2 * h * D + d) * n);
        const gate = H * D + h * D + d;
        out.set(v.subarray(gate * n, (gate + 1) * n), (2 * h * D + D + d) * n);
      }
    }
    return out;
  });
}

/** Runs gdn_chunk 64 rows at a time, with something wrong between the chunks. */
function chunkwise(
  before: (t: Arrays) => void,
  after: (t: Arrays, old: Float64Array, decay: (h: number) => number, s: Numbers) => void,
): Mutation["record"] {
  return replaced("gdn_chunk", (original) => (t, p, s) => {
    for (let r0 = 0; r0 < s.rows; r0 += 64) {
      const rows = Math.min(64, s.rows - r0);
      const part = (name: string) => {
        const perRow = t[name].length / s.rows;
        return t[name].subarray(r0 * perRow, (r0 + rows) * perRow);
      };
      const piece: Arrays = { gdnState: t.gdnState };
      for (const name of ["qk", "conv", "g", "beta", "o"]) piece[name] = part(name);
      if (r0 > 0) before(piece);
      const old = t.gdnState.slice();
      original(piece, p, { ...s, rows });
      const decay = (h: number) => {
        let sum = 0;
        for (let r = 0; r < rows; r++) sum += piece.g[r * s.vHeads + h];
        return Math.exp(sum);
      };
      after(piece, old, decay, { ...s, rows });
    }
  });
}

/** The chunked form of spec section 4.7 for one chunk; `betaInW` false leaves beta out of W. */
export function wyChunk(betaInW: boolean): Reference {
  return (t, _p, s) => {
    const { rows, vHeads, kHeads, headDim: n } = s;
    for (let h = 0; h < vHeads; h++) {
      const kh = Math.floor(h / (vHeads / kHeads));
      const row = (which: number, i: number) =>
        t.qk.subarray(((i * 2 + which) * kHeads + kh) * n, ((i * 2 + which) * kHeads + kh + 1) * n);
      const v = (i: number) => {
        const at = i * s.channels + (2 * kHeads + h) * n;
        return t.conv.subarray(at, at + n);
      };
      const dot = (a: ArrayLike<number>, b: ArrayLike<number>) => {
        let sum = 0;
        for (let d = 0; d < n; d++) sum += a[d] * b[d];
        return sum;
      };
      const G: number[] = [], X: Float64Array[] = [];
      const S0 = t.gdnState.slice(h * n * n, (h + 1) * n * n);
      const fromState = (x: ArrayLike<number>, j: number) =>
        dot(S0.subarray(j * n, (j + 1) * n), x);
      for (let i = 0; i < rows; i++) {
        G.push((G[i - 1] ?? 0) + t.g[i * vHeads + h]);
        const beta = t.beta[i * vHeads + h], k = row(1, i), q = row(0, i);
        const x = new Float64Array(n), o = new Float64Array(n);
        for (let j = 0; j < n; j++) {
          x[j] = beta * v(i)[j] - (betaInW ? beta : 1) * Math.exp(G[i]) * fromState(k, j);
          o[j] = Math.exp(G[i]) * fromState(q, j);
        }
        for (let l = 0; l < i; l++) {
          const a = beta * dot(k, row(1, l)) * Math.exp(G[i] - G[l]);
          for (let j = 0; j < n; j++) x[j] -= a * X[l][j];
        }
        X.push(x);
        for (let l = 0; l <= i; l++) {
          const a = dot(q, row(1, l)) * Math.exp(G[i] - G[l]);
          for (let j = 0; j < n; j++) o[j] += a * X[l][j];
        }
        t.o.set(o, (i * vHeads + h) * n);
      }
      const last = G[rows - 1];
      for (let j = 0; j < n; j++) {
        for (let d = 0; d < n; d++) {
          let sum = Math.exp(last) * S0[j * n + d];
          for (let i = 0; i < rows; i++) sum += Math.exp(last - G[i]) * row(1, i)[d] * X[i][j];
          t.gdnState[(h * n + j) * n + d] = sum;
        }
      }
    }
  };
}

/** gdn_chunk by the chunked form, 64 rows at a time. */
export function chunkedForm(betaInW: boolean): Mutation["record"] {
  const chunks = chunkwise(() => {}, () => {});
  const wy = replaced("gdn_chunk", () => wyChunk(betaInW));
  return (r, c) => chunks!(wy!(r, c), c);
}

const nothing = () => {};

export const MUTATIONS: readonly Mutation[] = [
  { name: "input norm as w instead of 1+w", weights: minusOne(/inputNorm$/) },
  { name: "post norm as w instead of 1+w", weights: minusOne(/postNorm$/) },
  { name: "final norm as w instead of 1+w", weights: minusOne(/finalNorm$/) },
  { name: "q and k norms as w instead of 1+w", weights: minusOne(/[qk]Norm$/) },
  {
    name: "gated norm as 1+w",
    weights: (w) => matching(w, /gdn\.norm$/, (v) => v.map((x) => x + 1)),
  },
  { name: "q_proj split in halves", weights: splitInHalves },
  {
    name: "attention gate with SiLU",
    record: replaced("attn_gate", (original) => (t, p, s) => {
      const before = t.o.slice();
      original(t, p, s);
      for (let i = 0; i < t.o.length; i++) {
        const r = Math.floor(i / (s.qHeads * s.headDim)), h = Math.floor(i / s.headDim) % s.qHeads;
        t.o[i] = before[i] * silu(t.qkv[r * s.qkvWidth + (2 * h + 1) * s.headDim + i % s.headDim]);
      }
    }),
  },
  {
    name: "RoPE on interleaved pairs",
    record: replaced("qk_norm_rope_append", () => qkNormRope({ interleaved: true })),
  },
  {
    name: "RoPE over the whole head",
    record: (r, c) =>
      replaced("qk_norm_rope_append", () => qkNormRope({ full: c.ropeTheta }))!(r, c),
  },
  {
    name: "RoPE frequencies over head_dim",
    weights: (w, c) =>
      matching(w, /^invFreq$/, (v) => v.map((_, j) => c.ropeTheta ** (-2 * j / c.headDim))),
  },
  {
    name: "RoPE before the norm",
    record: replaced("qk_norm_rope_append", () => qkNormRope({ before: true })),
  },
  {
    name: "value heads tiled over key heads",
    record: (r) => r.op.name === "gdn_chunk" ? { ...r, params: { ...r.params, headMap: 1 } } : r,
  },
  {
    name: "query scale missing",
    record: replaced("gdn_qk_norm", (original) => (t, p, s) => {
      original(t, p, s);
      const perRow = 2 * s.kHeads * s.headDim;
      for (let i = 0; i < t.qk.length; i++) {
        if (i % perRow < perRow / 2) t.qk[i] *= Math.sqrt(s.headDim);
      }
    }),
  },
  { name: "dt_bias left out", weights: (w) => matching(w, /dtBias$/, (v) => v.fill(0)) },
  {
    name: "A_log without exp",
    weights: (w) => matching(w, /negA$/, (v) => v.map((x) => -Math.abs(Math.log(-x)))),
  },
  {
    name: "convolution taps reversed",
    weights: (w, c) =>
      matching(
        w,
        /gdn\.conv$/,
        (v) => v.map((_, i) => v[i - i % c.convTaps + c.convTaps - 1 - i % c.convTaps]),
      ),
  },
  {
    name: "SiLU missing after the convolution",
    record: replaced("conv_silu", (original) => (t, p, s) => {
      const before = t.convState.slice();
      original(t, p, s);
      for (let i = 0; i < t.y.length; i++) {
        const row = Math.floor(i / s.channels), ch = i % s.channels;
        let sum = 0;
        for (let j = 0; j < 4; j++) {
          const at = row + j - 3;
          const u = at < 0 ? before[(3 + at) * s.channels + ch] : t.proj[at * s.projStride + ch];
          sum += t.w[ch * 4 + j] * u;
        }
        t.y[i] = sum;
      }
    }),
  },
  {
    name: "a and b swapped",
    record: (r) =>
      r.op.name === "gdn_gates"
        ? { ...r, params: { aCol: r.params.bCol, bCol: r.params.aCol } }
        : r,
  },
  {
    name: "gate applied before the gated norm",
    record: replaced("gated_rms_norm", (original) => (t, p, s) => {
      const n = s.headDim, gated = t.o.slice(), open = t.proj.slice();
      for (let i = 0; i < gated.length; i++) {
        const r = Math.floor(i / (s.vHeads * n)),
          at = r * s.projStride + p.zCol + i % (s.vHeads * n);
        gated[i] *= silu(t.proj[at]);
        open[at] = 1;
      }
      original({ ...t, o: gated, proj: open }, p, s);
      for (let i = 0; i < t.y.length; i++) t.y[i] /= silu(1);
    }),
  },
  {
    name: "state not carried over a chunk boundary",
    record: chunkwise((t) => t.gdnState.fill(0), nothing),
  },
  {
    name: "old state not decayed at the end of a chunk",
    record: chunkwise(nothing, (t, old, decay, s) => {
      const perHead = s.headDim ** 2;
      for (let i = 0; i < old.length; i++) {
        t.gdnState[i] += (1 - decay(Math.floor(i / perHead))) * old[i];
      }
    }),
  },
  { name: "beta missing on the key side of the chunked form", record: chunkedForm(false) },
  {
    name: "top-k weights not renormalised",
    only: "moe",
    record: replaced("router_topk", (original) => (t, p, s) => {
      original(t, p, s);
      for (let r = 0; r < s.rows; r++) {
        const all = t.logits.subarray(r * s.logitStride, r * s.logitStride + p.experts);
        const sum = all.reduce((a, x) => a + Math.exp(x), 0);
        for (let k = 0; k < s.topK; k++) {
          t.weights[r * s.topK + k] = Math.exp(all[t.ids[r * s.topK + k]]) / sum;
        }
      }
    }),
  },
  {
    name: "gate of the shared expert missing",
    only: "moe",
    record: replaced("moe_shared_add", () => (t) => {
      for (let i = 0; i < t.moe.length; i++) t.moe[i] += t.shared[i];
    }),
  },
  {
    name: "gate and up halves swapped",
    only: "moe",
    record: (r) =>
      r.op.name.startsWith("moe_gate_up")
        ? { ...r, params: { ...r.params, gateRow: r.params.upRow, upRow: r.params.gateRow } }
        : r,
  },
];
