/**
 * A BenchEngine over a session: fills once, goes back to a snapshot, runs prompt tokens by place, and says
 * what its plays cost. Times nothing but the recording of a tape that dispatch() describes.
 */
import { createHash } from "node:crypto";
import { kvBytesPerToken, stateBytes } from "../engine/checkpoint/facts.ts";
import { Coster } from "../engine/cost.ts";
import { GREEDY } from "../engine/generation_config.ts";
import { sessionBytes } from "../engine/memory.ts";
import type { LoadedModel } from "../engine/model.ts";
import { planForward, type Snapshot } from "../engine/state.ts";
import { encodeTape, hashTape, launchForm } from "../ffi/tape/encode.ts";
import type { PlannedTape } from "../ffi/tape/plan.ts";
import { compareForms } from "./form_check.ts";
import { ROUND_TOKENS } from "./grid.ts";
import { commitTime, forcedDrafts } from "./live_rounds.ts";
import { LiveRuns } from "./live_runs.ts";
import type {
  BenchEngine,
  Clock,
  EngineSettings,
  FormCheck,
  Produced,
  RoutingFacts,
  RunsEngine,
  SpeculateWork,
  Work,
  WorkCost,
} from "./port.ts";
import { idsDigest, type Prompt } from "./prompt.ts";
import { routingFacts } from "./routing.ts";
import { runForms } from "./forms.ts";
import { TimedSession } from "./timed_session.ts";
import { costOfWork, playOf } from "./work_cost.ts";

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
  readonly #session: TimedSession;
  readonly #coster: Coster;
  #filled: Mark | null = null;
  /** The state behind the last long prefill: the filled state of what follows it. */
  #ahead: Mark | null = null;
  /** Rows of the largest logits that a play leaves on the device. */
  #resultRows = 1;
  /** Positions whose keys and values are those of the prompt. */
  #prefix = 0;
  /** Tokens that rounds have read back. */
  #read: number[] = [];
  /** What serial decode makes behind the filled state. */
  #truth: Uint32Array | null = null;

  constructor(
    readonly model: LoadedModel,
    readonly settings: EngineSettings,
    readonly prompt: Prompt,
    ctx: number,
  ) {
    const { kv, prefillRows } = settings;
    const draftHead = model.hasDraftHead;
    this.#session = new TimedSession(model, { ctx, kv, prefillRows, stretch: true, draftHead });
    this.#coster = new Coster(model, { ctx, kv, prefillRows });
  }

  get contextMax(): number {
    return this.model.config.contextMax;
  }

  /** For plays that are timed otherwise than in the calls here. */
  get session(): TimedSession {
    return this.#session;
  }

  get #depth(): number {
    return this.#filled!.snapshot.pos;
  }

  async fill(depth: number, signal?: AbortSignal): Promise<void> {
    const session = this.#session, ahead = this.#ahead;
    this.#drop("filled");
    this.#truth = null;
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

  async restore(): Promise<void> {
    const { snapshot, hash } = this.#filled!;
    this.#session.restore(snapshot);
    if (this.#hash() !== hash) {
      throw new Error("The restored recurrent state is not the filled one");
    }
    await this.rewind();
  }

  rewind(temperature = 0): Promise<void> {
    const { snapshot } = this.#filled!;
    this.#session.restore(snapshot);
    this.#begin(temperature);
    this.#read = [];
    if (snapshot.pos < this.#session.ctx) {
      this.#session.place(this.prompt.slice(snapshot.pos, snapshot.pos + 1)[0]);
    }
    return Promise.resolve();
  }

  get draftHead(): boolean {
    return this.#session.draftHead;
  }

  async round(rows: number, accepted: number, drafts = 0): Promise<void> {
    const session = this.#session, from = session.pos;
    this.#prefix = Math.min(this.#prefix, from);
    this.#resultRows = Math.max(this.#resultRows, rows);
    this.draft(rows, accepted);
    await session.rounds(1, { rows, drafts });
    this.#read.push(...session.take());
    if (session.pos - from !== accepted + 1) {
      throw new Error(`A round of ${rows} rows kept ${session.pos - from} of ${accepted + 1}`);
    }
  }

  async serial(tokens = ROUND_TOKENS, temperature = 0): Promise<Produced> {
    await this.rewind(temperature);
    await this.decode(tokens);
    this.#truth = this.#session.take();
    return { tokens: this.#truth.length, digest: idsDigest(this.#truth) };
  }

  async commitNs(rows: number, accepted: number): Promise<number> {
    await this.rewind();
    const drafts = this.#forced(rows, accepted);
    return await commitTime(this.#session, { rows, drafts }, () => this.rewind());
  }

  async runs(work: SpeculateWork): Promise<RunsEngine> {
    const { gen, temperature } = work, from = this.#depth;
    this.#prefix = Math.min(this.#prefix, from);
    await this.serial(gen, temperature);
    const timeline = this.prompt.slice(0, from + 1), rewind = () => this.rewind(temperature);
    return new LiveRuns(this.#session, work, timeline, this.#truth!, rewind);
  }

  /** Drafts for a round of so many rows; the first `accepted` of them are right. */
  draft(rows: number, accepted: number): void {
    this.#session.draft(this.#forced(rows, accepted));
  }

  #forced(rows: number, accepted: number): number[] {
    if (rows === 1) return [];
    const ahead = this.#truth!.subarray(this.#session.pos - this.#depth);
    return forcedDrafts(ahead, rows, accepted, this.model.vocabUsed);
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
    if (work.kind === "round") session.tapeFor(work.rows, pos + work.rows, "round");
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
    const ids = Uint32Array.from([...this.#read, ...this.#session.take()]);
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
    return costOfWork(this.#coster, work, this.#depth, (rows) => routing?.distinct(rows));
  }

  async dispatch(work: Work, clock: Clock) {
    const session = this.#session, at = this.#depth;
    const { rows, output } = playOf(work, this.settings.prefillRows);
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
      await this.rewind();
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

  #begin(temperature = 0): void {
    const sampling = { ...GREEDY, temperature };
    this.#session.begin({ sampling, stopIds: [], limit: 0xffff_ffff });
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

function kernelCounts(tape: PlannedTape): { name: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { kernel } of tape.records) counts.set(kernel, (counts.get(kernel) ?? 0) + 1);
  return [...counts].map(([name, count]) => ({ name, count })).sort((a, b) => b.count - a.count);
}
