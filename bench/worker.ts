/**
 * The process that is measured: opens one model with one library and answers requests until the other end
 * goes. Reads the clock around the work and nowhere else; decides nothing.
 */
import { createHash } from "node:crypto";
import { UserError } from "../engine/errors.ts";
import { monotonicClock } from "./clock.ts";
import type { LineChannel } from "./lines.ts";
import { OutputError } from "./pairs.ts";
import type { Clock, TimedEngine } from "./port.ts";
import type { Environment, ModelIdentity } from "./report.ts";
import type { Sample, Workload } from "./subject.ts";
import {
  type Opened,
  type OpenRequest,
  type Reply,
  type Request,
  WORKER_PROTOCOL,
} from "./worker_protocol.ts";

/** Lengths of the fixed prompts behind which outputs are compared: one row, chunks, beyond a block. */
const OUTPUT_DEPTHS = [1, 33, 130, 300];
const OUTPUT_TOKENS = 24;

export interface WorkerEngine extends Disposable {
  readonly engine: TimedEngine;
  readonly ctx: number;
  readonly env: Environment;
  readonly model: ModelIdentity;
}

export type OpenWorkerEngine = (request: OpenRequest) => Promise<WorkerEngine>;

/** Answers requests one after another; returns when the other end is gone. */
export async function serveWorker(
  channel: LineChannel,
  open: OpenWorkerEngine,
  clock: Clock = monotonicClock,
): Promise<void> {
  const host = new Host(open, clock);
  try {
    for (;;) {
      const request = await channel.receive() as Request | undefined;
      if (request === undefined) return;
      await channel.send(await answer(host, request));
    }
  } finally {
    host[Symbol.dispose]();
  }
}

async function answer(host: Host, request: Request): Promise<Reply> {
  try {
    return { ok: await host.handle(request) };
  } catch (e) {
    const message = e instanceof Error ? e.message : String(e);
    const error = e instanceof UserError ? "user" : e instanceof OutputError ? "output" : "device";
    return { error, message };
  }
}

class Host implements Disposable {
  #opened: WorkerEngine | null = null;

  constructor(readonly open: OpenWorkerEngine, readonly clock: Clock) {}

  handle(request: Request): Promise<unknown> {
    switch (request.call) {
      case "open":
        return this.#open(request.request);
      case "outputs":
        return this.#outputs();
      case "prepare":
        return this.#engine.fill(request.workload.depth).then(() => ({}));
      case "sample":
        return this.#sample(request.workload, request.repeats);
    }
  }

  async #open(request: OpenRequest): Promise<Opened> {
    this.#opened = await this.open(request);
    const { env, model } = this.#opened;
    return { protocol: WORKER_PROTOCOL, env, model };
  }

  async #outputs(): Promise<{ digest: string }> {
    const hash = createHash("sha256");
    for (const depth of OUTPUT_DEPTHS.filter((d) => d + OUTPUT_TOKENS < this.#opened!.ctx)) {
      await this.#engine.fill(depth);
      await this.#engine.restore();
      await this.#engine.decode(OUTPUT_TOKENS);
      hash.update((await this.#engine.produced()).digest);
    }
    return { digest: hash.digest("hex") };
  }

  async #sample(workload: Workload, repeats: number): Promise<Sample> {
    const engine = this.#engine;
    let ns = 0n, digest: string | null = null;
    for (let i = 0; i < repeats; i++) {
      await engine.restore();
      const from = this.clock.now();
      await (workload.kind === "decode"
        ? engine.decode(workload.tokens)
        : engine.prefill(workload.tokens));
      ns += this.clock.now() - from;
      const made = (await engine.produced()).digest;
      if (digest !== null && digest !== made) {
        throw new OutputError("the same work gave other tokens when it was repeated");
      }
      digest = made;
    }
    return { ns: Number(ns), steps: workload.tokens * repeats, digest: digest! };
  }

  get #engine(): TimedEngine {
    if (this.#opened) return this.#opened.engine;
    throw new Error("No model has been opened");
  }

  [Symbol.dispose](): void {
    this.#opened?.[Symbol.dispose]();
  }
}
