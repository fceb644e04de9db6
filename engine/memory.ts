/** How much memory a session will need, and the checks of it and of its context before anything is allocated. */
import type { Device } from "../ffi/abi/handle.ts";
import { OWN_MEMORY_KINDS } from "../ffi/abi/layout.ts";
import type { KvType } from "../kernels/models/forward.ts";
import { kvBytesPerToken, stateBytes } from "./checkpoint/facts.ts";
import { UserError } from "./errors.ts";
import type { LoadedModel } from "./model.ts";
import { planForward } from "./state.ts";

export interface SessionBytes {
  readonly kvBytes: number;
  /** GDN and convolution state, f32. */
  readonly stateBytes: number;
  readonly scratchBytes: number;
}

/** What a session will allocate, from the tapes that it will play. */
export function sessionBytes(
  model: LoadedModel,
  ctx: number,
  kv: KvType,
  prefillRows: number,
  draftHead = false,
): SessionBytes {
  const head = draftHead ? { head: true } as const : {};
  const shape = { ctx, kv, plan: model.plan, output: "sample", ...head } as const;
  const c = model.config;
  // The head caches like one more layer of attention.
  const cached = draftHead ? { ...c, layerKinds: [...c.layerKinds, "attention" as const] } : c;
  const rows = Math.min(prefillRows, ctx);
  const decode = planForward(model, { ...shape, rows: 1, keys: ctx });
  const prefill = planForward(model, { ...shape, rows, keys: ctx });
  return {
    kvBytes: kvBytesPerToken(cached, kv) * ctx,
    stateBytes: stateBytes(model.config),
    scratchBytes: Math.max(decode.scratchBytes, prefill.scratchBytes),
  };
}

/** Part of the free memory that stays for everything else on the machine. */
const HEADROOM = 0.05;

/** Refuses a session that cannot fit, before anything is allocated. */
export function checkMemory(
  model: LoadedModel,
  ctx: number,
  kv: KvType,
  prefillRows: number,
  draftHead = false,
): void {
  const need = sessionBytes(model, ctx, kv, prefillRows, draftHead);
  const bytes = need.kvBytes + need.stateBytes + need.scratchBytes;
  refuseUnlessFree(
    model.device,
    bytes,
    `A context of ${ctx} tokens with ${kv} keys and values`,
    "Give a smaller --ctx, or --kv q8.",
  );
}

/** Throws UserError when `bytes` are not free now where the device computes. */
export function refuseUnlessFree(device: Device, bytes: number, what: string, todo: string): void {
  const { kind, memoryFreeBytes } = device.info, own = OWN_MEMORY_KINDS.includes(kind);
  const available = own ? memoryFreeBytes : Deno.systemMemoryInfo().available;
  const free = available * (1 - HEADROOM);
  if (bytes <= free) return;
  const gib = (n: number) => `${(n / 2 ** 30).toFixed(2)} GiB`;
  const memory = own ? "device memory" : "memory";
  throw new UserError(
    `${what} needs ${gib(bytes)} of ${memory} and ${gib(free)} are free. ${todo}`,
  );
}

/** Throws UserError where a model does not take a context of so many tokens, at most `most`. */
export function checkContext(
  model: LoadedModel,
  ctx: number,
  most = model.config.contextMax,
): void {
  if (Number.isInteger(ctx) && ctx >= 1 && ctx <= most) return;
  throw new UserError(
    `Context of ${ctx} tokens: ${model.name} takes 1 to ${model.config.contextMax}. Give --ctx a number in that range.`,
  );
}
