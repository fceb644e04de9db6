/** The tape of a model and phase as text, with what it would cost; loads nothing onto the device. */
import { costOfTape } from "../ffi/tape/cost.ts";
import { encodeTape, hashTape, launchForm } from "../ffi/tape/encode.ts";
import { explainTape } from "../ffi/tape/explain.ts";
import { ROWS_MAX } from "../kernels/models/forward.ts";
import type { ExplainOptions } from "./api_types.ts";
import { UserError } from "./errors.ts";
import type { LoadedModel } from "./model.ts";
import { checkContext } from "./memory.ts";
import { CTX_DEFAULT, keyBucket } from "./session.ts";
import { planForward } from "./state.ts";
import { counted } from "./wording.ts";

/** Throws UserError for rows that a phase has no play of. */
export function refuseShape({ phase, rows }: Pick<ExplainOptions, "phase" | "rows">): void {
  if (phase === "decode" && rows !== 1) throw new UserError("Decode has one row; give --rows 1.");
  if (phase === "verify" && (rows < 2 || rows > ROWS_MAX)) {
    throw new UserError(`Verify has 2 to ${ROWS_MAX} rows, not ${rows}.`);
  }
}

/** Prints what one play of `rows` tokens at `depth` would be. */
export async function explainModel(model: LoadedModel, options: ExplainOptions): Promise<string> {
  const { phase, rows, depth, kv } = options;
  const ctx = options.ctx ?? Math.min(model.config.contextMax, Math.max(CTX_DEFAULT, depth + rows));
  checkContext(model, ctx);
  if (depth + rows > ctx) {
    throw new UserError(
      `${counted(rows, "row")} at depth ${depth} ${
        rows === 1 ? "does" : "do"
      } not fit into a context of ${ctx}.`,
    );
  }
  refuseShape(options);
  const planned = planForward(model, {
    rows,
    ctx,
    keys: rows <= ROWS_MAX ? keyBucket(depth + rows, ctx) : ctx,
    kv,
    output: phase === "verify" ? "round" : "sample",
    plan: model.plan,
  });
  const cost = costOfTape(planned, { pos: depth });
  const form = launchForm(model.device.info.kind);
  const hash = await hashTape(planned, encodeTape(planned, form));
  const { weights, kv: kvBytes, recurrent } = cost.bytes;
  const plan = Object.entries(model.plan).map(([name, on]) => `${name}=${on ? "on" : "off"}`);
  return [
    explainTape(planned, form),
    `plan ${plan.join(" ")}`,
    `bytes per play at depth ${depth}: weights ${weights}, kv ${kvBytes}, recurrent state ${recurrent}`,
    `floating point operations per play: ${Math.round(cost.flops)}`,
    `tape sha256 ${hash}`,
  ].join("\n");
}
