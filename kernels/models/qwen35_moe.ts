/** The mixture-of-experts block of Qwen3.5: routed experts by index up to 16 rows, by sorted runs beyond. */
import type { Tensor } from "../define.ts";
import { expertWeights } from "../ops/expert_weights/op.ts";
import { moeCombine } from "../ops/moe_combine/op.ts";
import { moeDown } from "../ops/moe_down/op.ts";
import { moeDownAdd } from "../ops/moe_down_add/op.ts";
import { moeDownAct8 } from "../ops/moe_down_act8/op.ts";
import { moeDownGemm } from "../ops/moe_down_gemm/op.ts";
import { moeDownGemmAct8 } from "../ops/moe_down_gemm_act8/op.ts";
import { moeGateUp } from "../ops/moe_gate_up/op.ts";
import { moeGateUpAct8 } from "../ops/moe_gate_up_act8/op.ts";
import { moeGateUpGemm } from "../ops/moe_gate_up_gemm/op.ts";
import { moeGateUpGemmAct8 } from "../ops/moe_gate_up_gemm_act8/op.ts";
import { moeRouteGateUp } from "../ops/moe_route_gate_up/op.ts";
import { moeSharedAdd } from "../ops/moe_shared_add/op.ts";
import { moeSort } from "../ops/moe_sort/op.ts";
import { routerTopk } from "../ops/router_topk/op.ts";
import {
  Activations,
  type Forward,
  project,
  recordSwiglu,
  ROWS_MAX,
  type Stream,
} from "./forward.ts";

/** Adds the sum of the chosen experts and the gated shared expert; `block` names the layer. */
export function recordMoe(f: Forward, block: string, a: Activations, stream: Stream): void {
  const { c, s, tape } = f;
  const p = `${block}.moe.`, layer = block.replace("layers.", "");
  // Exact in every plan: rounding here would change which experts run, not just their sum.
  const logits = project(a, [p + "router", p + "sharedGate"], true);
  if (canFuse(f, p)) return fusedExperts(f, layer, p, a, logits, stream);
  const { ids, weights } = chooseExperts(f, layer, logits);
  const moe = s.rows > ROWS_MAX
    ? sortedExperts(f, p, a, ids, weights)
    : indexedExperts(f, p, a, ids, weights);
  const h = recordSwiglu(a, p + "sharedGateProj", p + "sharedUpProj", c.sharedFfn);
  const shared = project(h, [p + "sharedDownProj"]);
  tape.emit(moeSharedAdd, { moe, shared, logits }, { gateCol: c.experts });
  stream.add(moe);
}

/** Whether the shared expert is like those that are routed, and nothing needs what lies between the records. */
function canFuse(f: Forward, p: string): boolean {
  const { c, s } = f, format = (name: string) => f.form(p + name).format;
  const gate = format("expertsGate"), down = format("expertsDown");
  return f.fused && !s.givenRouting && c.sharedFfn === c.expertFfn &&
    ["expertsUp", "sharedGateProj", "sharedUpProj"].every((name) => format(name) === gate) &&
    format("sharedDownProj") === down &&
    !f.takesAct8(gate, c.hidden) && !f.takesAct8(down, c.expertFfn);
}

function fusedExperts(
  f: Forward,
  layer: string,
  p: string,
  { norm }: Activations,
  logits: Tensor,
  { x }: Stream,
): void {
  const { c, s, tape } = f, eps = c.normEps, gateCol = c.experts;
  const ids = chosenIds(f, layer), weights = f.scratch("weights", [s.rows, c.topK]);
  const h = f.scratch("h", [s.rows, c.topK + 1, c.expertFfn]);
  const { gate, up, rows } = gateAndUp(f, p);
  const sharedGate = f.weight(p + "sharedGateProj"), sharedUp = f.weight(p + "sharedUpProj");
  tape.emit(
    moeRouteGateUp,
    { x: norm!.x, wNorm: norm!.w, logits, gate, up, sharedGate, sharedUp, ids, weights, h },
    { ...rows, eps },
  );
  const down = f.weight(p + "expertsDown"), sharedDown = f.weight(p + "sharedDownProj");
  tape.emit(moeDownAdd, { h, ids, weights, logits, down, sharedDown, x }, { gateCol });
}

/** Where the experts go that the rows of a layer choose. */
function chosenIds(f: Forward, layer: string): Tensor {
  const { c, s, tape } = f, shape = [s.rows, c.topK];
  return s.tapRouting || s.givenRouting
    ? tape.state(`ids.${layer}`, "u32", shape)
    : f.scratch("ids", shape, "u32");
}

/** The experts of each row and what each counts. */
function chooseExperts(f: Forward, layer: string, logits: Tensor) {
  const { c, s, tape } = f, shape = [s.rows, c.topK];
  const chosen = chosenIds(f, layer);
  const own = f.scratch("weights", shape);
  tape.emit(routerTopk, { logits, ids: chosen, weights: own }, { experts: c.experts });
  if (!s.givenRouting) return { ids: chosen, weights: own };
  const ids = tape.state(`given.${layer}`, "u32", shape);
  const weights = f.scratch("weights", shape);
  tape.emit(expertWeights, { logits, ids, weights }, { experts: c.experts });
  return { ids, weights };
}

function gateAndUp(f: Forward, p: string) {
  const gate = f.form(p + "expertsGate"), up = f.form(p + "expertsUp");
  return {
    gate: f.weight(p + "expertsGate"),
    up: f.weight(p + "expertsUp"),
    rows: { gateRow: gate.firstRow, upRow: up.firstRow },
    format: gate.format,
  };
}

function indexedExperts(
  f: Forward,
  p: string,
  a: Activations,
  ids: Tensor,
  weights: Tensor,
): Tensor {
  const { c, s, tape } = f;
  const { gate, up, rows, format } = gateAndUp(f, p);
  const h = f.scratch("h", [s.rows, c.topK, c.expertFfn]);
  const act8 = a.act8(format);
  if (act8) tape.emit(moeGateUpAct8, { ...act8, ids, gate, up, h }, rows);
  else tape.emit(moeGateUp, { x: a.x, ids, gate, up, h }, rows);
  const y = f.scratch("moe", [s.rows, c.hidden]);
  const down = f.weight(p + "expertsDown");
  const pairs = new Activations(f, tape.view(h, 0, [s.rows * c.topK, c.expertFfn]));
  const down8 = pairs.act8(f.form(p + "expertsDown").format);
  if (down8) tape.emit(moeDownAct8, { ...down8, ids, weights, down, y }, {});
  else tape.emit(moeDown, { h, ids, weights, down, y }, {});
  return y;
}

function sortedExperts(
  f: Forward,
  p: string,
  a: Activations,
  ids: Tensor,
  weights: Tensor,
): Tensor {
  const { c, s, tape } = f;
  const { gate, up, rows, format } = gateAndUp(f, p);
  const pairs = s.rows * c.topK;
  const order = f.scratch("order", [pairs], "u32");
  const offsets = f.scratch("offsets", [c.experts + 1], "u32");
  tape.emit(moeSort, { ids, order, offsets }, { experts: c.experts });
  const h = f.scratch("h", [pairs, c.expertFfn]);
  const act8 = a.act8(format), params = { ...rows, topK: c.topK };
  if (act8) tape.emit(moeGateUpGemmAct8, { ...act8, order, offsets, gate, up, h }, params);
  else tape.emit(moeGateUpGemm, { x: a.x, order, offsets, gate, up, h }, params);
  const d = f.scratch("d", [pairs, c.hidden]);
  const down = f.weight(p + "expertsDown");
  const down8 = new Activations(f, h).act8(f.form(p + "expertsDown").format);
  if (down8) tape.emit(moeDownGemmAct8, { ...down8, order, offsets, down, d }, {});
  else tape.emit(moeDownGemm, { h, order, offsets, down, d }, {});
  const y = f.scratch("moe", [s.rows, c.hidden]);
  const perRow = tape.view(d, 0, [s.rows, c.topK, c.hidden]);
  tape.emit(moeCombine, { d: perRow, weights, y }, {});
  return y;
}
