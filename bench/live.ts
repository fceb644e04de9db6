/**
 * A BenchEngine over a session: fills once, goes back to a snapshot, runs prompt tokens by place, and says
 * what its plays cost. Times nothing but the recording of a tape that dispatch() describes.
 */
import { createHash } from "node:crypto";
import { kvBytesPerToken, stateBytes } from "../engine/checkpoint/facts.ts";
import { Coster, type DistinctExperts, movedBytes } from "../engine/cost.ts";
import { GREEDY } from "../engine/generation_config.ts";
import { sessionBytes } from "../engine/memory.ts";
import type { LoadedModel } from "../engine/model.ts";
import { Session } from "../engine/session.ts";
import { planForward, type Snapshot } from "../engine/state.ts";
import type { Cost } from "../ffi/tape/cost.ts";
import { encodeTape, hashTape, launchForm } from "../ffi/tape/encode.ts";
import type { PlannedTape } from "../ffi/tape/plan.ts";
import { compareForms } from "./form_check.ts";
import type {
  BenchEngine,
  Clock,
  EngineSettings,
  FormCheck,
  Produced,
  RoutingFacts,
  Work,
  WorkCost,
} from "./port.ts";
import { idsDigest, type Prompt } from "./prompt.ts";
import { routingFacts } from "./routing.ts";
import { runForms } from "./forms.ts";

/** More rows than any form that keeps each row's bits, and few enough to run one by one. */
export const CHECK_ROWS = 17;
const ROUTING_ROWS = 512;
/** Profiles are repeated for the least disturbed one, unless they take long. */
const PROFILES = 5;
const PROFILE_NS = 3e8;

/** A position with its recurrent state, and the hash by which a return to it is recognised. */
interface Mark {
  readonly snapshot: Snapshot;
  readonly hash: string;
}

export class LiveEngine implements BenchEngine {
  readonly #session: Session;
  readonly #coster: Coster;
  #filled: Mark | null = null;
  /** The state behind the last long prefill: the filled state of what follows it. */
  #ahead: Mark | null = null;
  /** Rows of the largest logits that a play leaves on the device. */
  #resultRows = 1;
  /** Positions whose keys and values are those of the prompt. */
  #prefix = 0;

  constructor(
    readonly model: LoadedModel,
    readonly settings: EngineSettings,
    readonly prompt: Prompt,
    ctx: number,
  ) {
    const { kv, prefillRows } = settings;
    this.#session = new Session(model, { ctx, kv, prefillRows, stretch: true });
    this.#coster = new Coster(model, { ctx, kv, prefillRows });
  }

  get contextMax(): number {
    return this.model.config.contextMax;
  }

  get #depth(): number {
    return this.#filled!.snapshot.pos;
  }

  async fill(depth: number, signal?: AbortSignal): Promise<void> {
    const session = this.#session, ahead = this.#ahead;
    this.#drop("filled");
    if (ahead && ahead.snapshot.pos === depth && depth <= this.#prefix) {
      this.#filled = ahead;
      this.#ahead = null;
      return;
    }
    session.reset();
    this.#begin();
    this.#prefix = 0;
    if (depth > 0) await session.prefill(this.prompt.slice(0, depth), signal);
    signal?.throwIfAborted();
    this.#prefix = depth;
    this.#filled = this.#mark();
  }

  restore(): Promise<void> {
    const { snapshot, hash } = this.#filled!;
    this.#session.restore(snapshot);
    if (this.#hash() !== hash) {
      throw new Error("The restored recurrent state is not the filled one");
    }
    this.#begin();
    if (snapshot.pos < this.#session.ctx) {
      this.#session.place(this.prompt.slice(snapshot.pos, snapshot.pos + 1)[0]);
    }
    return Promise.resolve();
  }

  async prefill(tokens: number, signal?: AbortSignal): Promise<void> {
    const from = this.#session.pos;
    await this.#session.prefill(this.prompt.slice(from, from + tokens), signal);
    signal?.throwIfAborted();
    if (from <= this.#prefix) this.#prefix = from + tokens;
  }

  async decode(tokens: number): Promise<void> {
    const from = this.#session.pos;
    this.#prefix = Math.min(this.#prefix, from);
    const why = await this.#session.decode(tokens);
    if (this.#session.pos - from !== tokens) {
      throw new Error(`Decoding ended after ${this.#session.pos - from} of ${tokens}: ${why}`);
    }
  }

  async verify(rows: number): Promise<void> {
    const from = this.#session.pos;
    this.#prefix = Math.min(this.#prefix, from);
    this.#resultRows = Math.max(this.#resultRows, rows);
    await this.#session.run(this.prompt.slice(from, from + rows), "logits");
    this.#session.place(this.prompt.slice(from + rows, from + rows + 1)[0]);
  }

  prepare(work: Work, calls: readonly number[]): void {
    const session = this.#session, { prefillRows } = this.settings;
    let pos = this.#depth;
    if (work.kind === "verify") session.tapeFor(work.rows, pos + work.rows, "logits");
    if (work.kind === "prefill" || work.kind === "prompt_decode") {
      for (let left = work.prompt; left > 0;) {
        const rows = Math.min(prefillRows, left);
        pos += rows;
        left -= rows;
        session.tapeFor(rows, pos, left === 0 ? "sample" : "none");
      }
    }
    for (const tokens of calls) session.tapeFor(1, pos += tokens, "sample");
  }

  /** The state behind a prefill, for a later fill() to go on from. */
  keepAhead(): void {
    this.#drop("ahead");
    this.#ahead = this.#mark();
  }

  produced(): Promise<Produced> {
    const ids = this.#session.take();
    return Promise.resolve({ tokens: ids.length, digest: idsDigest(ids) });
  }

  promptDigest(tokens: number): Promise<string> {
    return Promise.resolve(this.prompt.digest(tokens));
  }

  async check(): Promise<FormCheck> {
    const from = this.#depth;
    this.#prefix = Math.min(this.#prefix, from);
    const ids = this.prompt.slice(from, from + CHECK_ROWS);
    const forms = await runForms(this.#session, ids, () => this.restore());
    this.#session.releaseResults();
    await this.restore();
    return compareForms(forms);
  }

  async routing(): Promise<RoutingFacts | null> {
    const { moe, layers, topK, experts } = this.model.config;
    if (!moe) return null;
    const from = this.#depth, session = this.#session;
    const rows = Math.min(ROUTING_ROWS, this.settings.prefillRows, session.ctx - from);
    this.#prefix = Math.min(this.#prefix, from);
    await this.restore();
    await session.run(this.prompt.slice(from, from + rows), "none", { tapRouting: true });
    const ids = Array.from({ length: layers }, (_, layer) => session.readRouting(layer, rows));
    session.releaseResults();
    await this.restore();
    return routingFacts(ids, topK, experts);
  }

  cost(work: Work, routing: RoutingFacts | null): WorkCost {
    const distinct: DistinctExperts = (rows) => routing?.distinct(rows);
    const at = this.#depth;
    if (work.kind === "prefill") return perToken(this.#coster.prefill(work.prompt, at, distinct));
    if (work.kind === "decode") return perToken([this.#decodeCost(work.gen, at, distinct)]);
    if (work.kind === "verify") {
      const { rows } = work;
      return perToken([{ rows, cost: this.#coster.play(rows, at, at + rows, "logits", distinct) }]);
    }
    return perToken([this.#decodeCost(Math.max(1, work.gen - 1), at + work.prompt, distinct)]);
  }

  #decodeCost(tokens: number, at: number, distinct: DistinctExperts) {
    return { rows: 1, cost: this.#coster.decode(tokens, at, distinct) };
  }

  async dispatch(work: Work, clock: Clock) {
    const session = this.#session, { rows, at, output } = this.#playOf(work);
    const ready = session.tapeFor(rows, at + rows, output);
    const from = clock.now();
    const encoded = encodeTape(
      planForward(this.model, ready.shape),
      launchForm(this.model.device.info.kind),
    );
    const encodeNs = Number(clock.now() - from);
    // A prefill's own chunk writes again what is there.
    if (work.kind !== "prefill") this.#prefix = Math.min(this.#prefix, this.#depth);
    let deviceNs = Infinity;
    for (let spent = 0, i = 0; i < PROFILES && spent < PROFILE_NS; i++) {
      await this.restore();
      const ns = ready.loaded.profile(ready.planned.records.length)
        .reduce((sum, t) => sum + Number(t), 0);
      deviceNs = Math.min(deviceNs, ns);
      spent += ns;
    }
    await this.restore();
    return {
      rows,
      records: ready.planned.records.length,
      waits: ready.planned.waits.filter(Boolean).length,
      kernels: kernelCounts(ready.planned),
      encode_ns: encodeNs,
      device_ns: deviceNs,
      plan: { ...this.model.plan },
      tape_sha256: await hashTape(ready.planned, encoded),
    };
  }

  /** The play that a piece of work consists of: its largest one. */
  #playOf(work: Work) {
    const at = this.#depth;
    if (work.kind === "verify") return { rows: work.rows, at, output: "logits" as const };
    if (work.kind === "prefill") {
      const rows = Math.min(work.prompt, this.settings.prefillRows);
      return { rows, at, output: rows === work.prompt ? "sample" as const : "none" as const };
    }
    return { rows: 1, at, output: "sample" as const };
  }

  memory(): ReturnType<BenchEngine["memory"]> {
    const { model, settings } = this, session = this.#session, c = model.config;
    const kv = kvBytesPerToken(c, settings.kv) * session.ctx, state = stateBytes(c);
    const copies = (this.#filled?.snapshot.bytes ?? 0) + (this.#ahead?.snapshot.bytes ?? 0);
    const need = sessionBytes(model, session.ctx, settings.kv, settings.prefillRows);
    const results = this.#resultRows * c.vocab * 4;
    return {
      weights: model.bytes,
      kv,
      state: state + copies,
      scratch: session.bytes - kv - state,
      forecast: model.bytes + need.kvBytes + need.stateBytes + need.scratchBytes + copies + results,
    };
  }

  #begin(): void {
    this.#session.begin({ sampling: GREEDY, stopIds: [], limit: 0xffff_ffff });
  }

  #mark(): Mark {
    return { snapshot: this.#session.snapshot(), hash: this.#hash() };
  }

  #hash(): string {
    const hash = createHash("sha256");
    const states = [...this.#session.readStates("recurrent")];
    for (const [name, bytes] of states.sort(([a], [b]) => a < b ? -1 : 1)) {
      hash.update(name).update(bytes);
    }
    return hash.digest("hex");
  }

  #drop(which: "filled" | "ahead"): void {
    if (which === "filled") {
      this.#filled?.snapshot[Symbol.dispose]();
      this.#filled = null;
    } else {
      this.#ahead?.snapshot[Symbol.dispose]();
      this.#ahead = null;
    }
  }

  [Symbol.dispose](): void {
    this.#drop("filled");
    this.#drop("ahead");
    this.#session[Symbol.dispose]();
  }
}

function perToken(plays: readonly { rows: number; cost: Cost }[]): WorkCost {
  const tokens = plays.reduce((sum, p) => sum + p.rows, 0);
  const mean = (of: (c: Cost) => number) => plays.reduce((sum, p) => sum + of(p.cost), 0) / tokens;
  return {
    weights: mean((c) => c.bytes.weights),
    kv: mean((c) => c.bytes.kv),
    state: mean((c) => c.bytes.recurrent),
    flops: mean((c) => c.flops),
    playBytes: Math.round(Math.max(...plays.map((p) => movedBytes(p.cost)))),
  };
}

function kernelCounts(tape: PlannedTape): { name: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { kernel } of tape.records) counts.set(kernel, (counts.get(kernel) ?? 0) + 1);
  return [...counts].map(([name, count]) => ({ name, count })).sort((a, b) => b.count - a.count);
}
