/** A planned tape as text, one record a line: what `explain` prints and what golden files hold. */
import type { Tensor } from "../../kernels/define.ts";
import { type LaunchForm, launchOf } from "./encode.ts";
import type { PlannedTape } from "./plan.ts";
import type { TapeRecord } from "./tape.ts";

function show(t: Tensor): string {
  return `${t.name}[${t.shape.join(",")}]${t.dtype}`;
}

/** How a record is launched: tasks, or the grid and the threads of each group. */
function launchText(r: TapeRecord, form: LaunchForm): string {
  const [x, y, z, threads] = launchOf(r, form);
  return form === "tasks" ? `tasks=${x}` : `groups=${x}x${y}x${z} threads=${threads}`;
}

/** `|` marks a record that waits for earlier ones; the column before the parameters is its launch. */
export function explainTape(tape: PlannedTape, form: LaunchForm = "tasks"): string {
  const width = Math.max(...tape.records.map((r) => r.kernel.length));
  const lines = tape.records.map((r, i) => {
    const ins: string[] = [], outs: string[] = [];
    for (const [key, spec] of Object.entries(r.op.tensors)) {
      const t = r.tensors[key];
      if (!t) continue;
      (spec.role === "in" ? ins : outs).push((spec.role === "inout" ? "&" : "") + show(t));
    }
    const params = Object.entries(r.params).map(([k, v]) => `${k}=${v}`).join(" ");
    return `${String(i).padStart(4)} ${tape.waits[i] ? "|" : " "} ${r.kernel.padEnd(width)} ${
      ins.join(" ")
    } -> ${outs.join(" ")}  ${launchText(r, form)}${params ? "  " + params : ""}`;
  });
  const waits = tape.waits.filter(Boolean).length;
  return [
    ...lines,
    `${tape.records.length} records, ${waits} waits, ${tape.slots.length} slots, ` +
    `${tape.scratchBytes} bytes of scratch`,
  ].join("\n");
}
