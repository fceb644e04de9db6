/**
 * The weights that a Qwen3.5 or Qwen3.6 text model of given sizes needs, under this project's own names.
 * Knows no checkpoint layout and no format.
 */
import type { LayerKind, ModelConfig } from "./qwen35_config.ts";

export type WeightRole = "matmul" | "vector" | "conv" | "experts" | "embed";

export interface WeightSpec {
  readonly name: string;
  /** Row-major; experts lead, output rows before input columns. */
  readonly shape: readonly number[];
  readonly role: WeightRole;
}

/** Channels of the GDN convolution: q, k and v of all heads. */
export function convChannels(c: ModelConfig): number {
  return (2 * c.kHeads + c.vHeads) * c.gdnHeadDim;
}

/** Every weight of the decoder, in the order of the forward pass, and those of the MTP head if wanted. */
export function weightList(c: ModelConfig, draftHead = false): WeightSpec[] {
  const list: WeightSpec[] = [{ name: "embed", shape: [c.vocab, c.hidden], role: "embed" }];
  const named = (block: string, weights: WeightSpec[]) =>
    weights.map((w) => ({ ...w, name: `${block}.${w.name}` }));
  for (let l = 0; l < c.layers; l++) {
    list.push(...named(`layers.${l}`, blockWeights(c, c.layerKinds[l])));
  }
  list.push(vector("finalNorm", c.hidden));
  if (!c.tied) list.push(matmul("lmHead", c.vocab, c.hidden));
  if (draftHead) list.push(...named("mtp", draftHeadWeights(c)));
  return list;
}

function blockWeights(c: ModelConfig, kind: LayerKind): WeightSpec[] {
  return [
    vector("inputNorm", c.hidden),
    ...(kind === "gdn" ? gdnWeights(c) : attentionWeights(c)),
    vector("postNorm", c.hidden),
    ...(c.moe ? moeWeights(c) : denseWeights(c)),
  ];
}

/** The head takes embedding and output head from the trunk. */
function draftHeadWeights(c: ModelConfig): WeightSpec[] {
  return [
    vector("embedNorm", c.hidden),
    vector("hiddenNorm", c.hidden),
    matmul("fc", c.hidden, 2 * c.hidden),
    ...blockWeights(c, "attention"),
    vector("norm", c.hidden),
  ];
}

function vector(name: string, dim: number): WeightSpec {
  return { name, shape: [dim], role: "vector" };
}

function matmul(name: string, out: number, inner: number): WeightSpec {
  return { name, shape: [out, inner], role: "matmul" };
}

function attentionWeights(c: ModelConfig): WeightSpec[] {
  return [
    matmul("attn.q", 2 * c.qHeads * c.headDim, c.hidden),
    matmul("attn.k", c.kvHeads * c.headDim, c.hidden),
    matmul("attn.v", c.kvHeads * c.headDim, c.hidden),
    vector("attn.qNorm", c.headDim),
    vector("attn.kNorm", c.headDim),
    matmul("attn.o", c.hidden, c.qHeads * c.headDim),
  ];
}

function gdnWeights(c: ModelConfig): WeightSpec[] {
  const inner = c.vHeads * c.gdnHeadDim;
  return [
    matmul("gdn.qkv", convChannels(c), c.hidden),
    matmul("gdn.z", inner, c.hidden),
    matmul("gdn.b", c.vHeads, c.hidden),
    matmul("gdn.a", c.vHeads, c.hidden),
    { name: "gdn.conv", shape: [convChannels(c), c.convTaps], role: "conv" },
    vector("gdn.negA", c.vHeads),
    vector("gdn.dtBias", c.vHeads),
    vector("gdn.norm", c.gdnHeadDim),
    matmul("gdn.out", c.hidden, inner),
  ];
}

function denseWeights(c: ModelConfig): WeightSpec[] {
  return [
    matmul("mlp.gate", c.ffn, c.hidden),
    matmul("mlp.up", c.ffn, c.hidden),
    matmul("mlp.down", c.hidden, c.ffn),
  ];
}

function moeWeights(c: ModelConfig): WeightSpec[] {
  const { experts, expertFfn, sharedFfn, hidden } = c;
  return [
    matmul("moe.router", experts, hidden),
    matmul("moe.sharedGate", 1, hidden),
    { name: "moe.expertsGate", shape: [experts, expertFfn, hidden], role: "experts" },
    { name: "moe.expertsUp", shape: [experts, expertFfn, hidden], role: "experts" },
    { name: "moe.expertsDown", shape: [experts, hidden, expertFfn], role: "experts" },
    matmul("moe.sharedGateProj", sharedFfn, hidden),
    matmul("moe.sharedUpProj", sharedFfn, hidden),
    matmul("moe.sharedDownProj", hidden, sharedFfn),
  ];
}
