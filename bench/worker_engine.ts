/** Opens what a worker measures: one library, one device, one model, one timeline. Times nothing. */
import type { Env } from "../engine/api_types.ts";
import { UserError } from "../engine/errors.ts";
import { openDevice, openModel } from "../engine/model.ts";
import { prefillRowsDefault } from "../engine/prefill_rows.ts";
import { DEVICE_KINDS } from "../ffi/abi/layout.ts";
import { modelIdentity } from "./identity.ts";
import { LiveEngine } from "./live.ts";
import { captureEnvironment } from "./machine.ts";
import { Prompt } from "./prompt.ts";
import { KV_TYPES } from "./report.ts";
import type { WorkerEngine } from "./worker.ts";
import type { OpenRequest } from "./worker_protocol.ts";

const PROMPT_SEED = 0;

/** Opens a model as a comparison asked for it. */
export async function openWorkerEngine(request: OpenRequest, env: Env): Promise<WorkerEngine> {
  const kind = oneOf(DEVICE_KINDS, request.device, "device");
  const kv = oneOf(KV_TYPES, request.kv, "KV type");
  const threads = request.threads ?? 0;
  using opening = new DisposableStack();
  const device = opening.use(openDevice({ kind, library: request.library, threads }));
  const quantize = request.quantize === 4 || request.quantize === 8 ? request.quantize : undefined;
  const model = opening.use(
    await openModel(request.model, {
      device,
      env,
      plan: request.plan,
      quantize,
      synthetic: withoutNulls(request.synthetic),
    }),
  );
  const ctx = Math.min(request.ctx, model.config.contextMax);
  const prompt = new Prompt({ tokens: "random", seed: PROMPT_SEED, vocab: model.vocabUsed });
  const settings = { threads, kv, prefillRows: prefillRowsDefault(kind) };
  const engine = opening.use(new LiveEngine(model, settings, prompt, ctx));
  const identity = {
    env: await captureEnvironment(device, null),
    model: await modelIdentity(model),
  };
  const owned = opening.move();
  return { engine, ctx, ...identity, [Symbol.dispose]: () => owned.dispose() };
}

/** Reductions that were not asked for are absent, not null. */
function withoutNulls(synthetic: OpenRequest["synthetic"]) {
  if (!synthetic) return undefined;
  const { seed, routing, layers, experts, vocab } = synthetic;
  return {
    seed,
    routing,
    layers: layers ?? undefined,
    experts: experts ?? undefined,
    vocab: vocab ?? undefined,
  };
}

function oneOf<T extends string>(known: readonly T[], given: string, what: string): T {
  const found = known.find((k) => k === given);
  if (found) return found;
  throw new UserError(`Unknown ${what} ${given}: there is ${known.join(", ")}.`);
}
