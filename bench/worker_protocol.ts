/** What a comparison and its worker processes say to each other. Types and versions only. */
import * as v from "valibot";
import { headSchema, type Spec } from "./report.ts";
import type { Workload } from "./subject.ts";

/** A worker of another number is refused: it may measure something else. */
export const WORKER_PROTOCOL = 1;
/** The hidden command that a program offers to be measured. */
export const WORKER_COMMAND = "worker";

export interface OpenRequest {
  readonly model: string;
  readonly synthetic: Spec["synthetic"];
  readonly library: string;
  readonly device: string;
  readonly threads: number | null;
  readonly kv: string;
  readonly quantize: number | null;
  readonly plan: Readonly<Record<string, boolean>>;
  readonly ctx: number;
}

export type Request =
  | { readonly call: "open"; readonly request: OpenRequest }
  | { readonly call: "outputs" }
  | { readonly call: "prepare"; readonly workload: Workload }
  | { readonly call: "sample"; readonly workload: Workload; readonly repeats: number };

const text = v.string();
const count = v.pipe(v.number(), v.integer());

export const openedSchema = v.object({
  protocol: count,
  /** The machine and the library as the worker sees them. */
  env: headSchema.entries.env,
  model: headSchema.entries.model,
});
export type Opened = v.InferOutput<typeof openedSchema>;

export const outputsSchema = v.object({ digest: text });
export const sampleSchema = v.object({ ns: count, steps: count, digest: text });

/** `user`: the caller can fix it. `output`: the same work gave other tokens. `device`: all else. */
export const replySchema = v.union([
  v.object({ ok: v.unknown() }),
  v.object({ error: v.picklist(["user", "output", "device"]), message: text }),
]);
export type Reply = v.InferOutput<typeof replySchema>;
