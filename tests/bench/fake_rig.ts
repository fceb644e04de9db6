/**
 * An engine whose times are scripted and a clock that only they move: what the arithmetic of figures is
 * tested with. Nothing here runs a model.
 */
import { createHash } from "node:crypto";
import { ROUND_TOKENS } from "../../bench/grid.ts";
import type {
  BenchEngine,
  Clock,
  Copied,
  EnergyMeter,
  EngineSettings,
  FormCheck,
  MachineReading,
  Produced,
  Rig,
  RoutingFacts,
  RunOfRounds,
  SpeculateWork,
  Work,
  WorkCost,
} from "../../bench/port.ts";

export interface Script {
  /** Time of the step that gives token `i` of a timeline of `pos` tokens; default 1 ms. */
  readonly stepNs?: (pos: number, run: number) => number;
  /** Added to each call of a decode. */
  readonly callNs?: number;
  /** Time of a prompt of so many tokens; default 10 us a token. */
  readonly promptNs?: (tokens: number, run: number) => number;
  readonly verifyNs?: (rows: number) => number;
  /** Times of one round and of its commit, and what the head's drafts add to it; none: no head. */
  readonly roundNs?: (rows: number, accepted: number, run: number) => number;
  readonly commitNs?: (rows: number, accepted: number) => number;
  readonly draftNs?: (drafts: number) => number;
  /** Drafts that each round of a run accepts, again and again; null: no draft, a single token. */
  readonly accepts?: readonly (number | null)[];
  readonly proposeNs?: number;
  /** Added to what would be the digest: other text, other output. */
  readonly output?: (run: number) => string;
  readonly form?: Partial<FormCheck>;
  readonly routing?: RoutingFacts;
  readonly cost?: WorkCost;
  /** Bytes a second. */
  readonly bandwidth?: number;
  /** Throws for sessions that do not fit. */
  readonly refuse?: (settings: EngineSettings, ctx: number) => string | null;
  /** Called before each run; may abort or throw. */
  readonly onRun?: (run: number, engine: FakeEngine) => void;
  readonly watts?: number;
  /** The meter is lost from this moment of the clock on. */
  readonly meterDiesNs?: number;
  readonly readings?: (n: number) => Partial<MachineReading>;
  readonly loadNs?: (n: number) => number;
  readonly copied?: (n: number) => Copied;
  readonly weights?: (n: number) => string;
}

const COST: WorkCost = { weights: 1e6, kv: 1000, state: 2000, flops: 2e6, playBytes: 1_003_000 };

export class FakeClock {
  #now = 1_000_000n;
  now(): bigint {
    return this.#now;
  }
  advance(ns: number): void {
    this.#now += BigInt(Math.round(ns));
  }
}

export class FakeEngine implements BenchEngine {
  readonly contextMax = 8192;
  /** What was called, in order. */
  readonly calls: string[] = [];
  /** Runs since the engine was opened, warm-ups included. */
  run = -1;
  #depth = 0;
  #pos = 0;
  #made = 0;
  disposed = false;

  constructor(readonly rig: FakeRig, readonly ctx: number) {}

  fill(depth: number): Promise<void> {
    this.calls.push(`fill ${depth}`);
    this.#depth = depth;
    this.rig.clock.advance(7_000_000);
    return Promise.resolve();
  }
  restore(): Promise<void> {
    this.#pos = this.#depth;
    this.#made = 0;
    this.run++;
    this.rig.script.onRun?.(this.run, this);
    // Time outside of every sample: it must not show in any figure.
    this.rig.clock.advance(3_000_000);
    return Promise.resolve();
  }
  prefill(tokens: number): Promise<void> {
    this.rig.clock.advance(this.rig.script.promptNs?.(tokens, this.run) ?? tokens * 10_000);
    this.#pos += tokens;
    this.#made = 1;
    return Promise.resolve();
  }
  decode(tokens: number): Promise<void> {
    this.rig.clock.advance(this.rig.script.callNs ?? 0);
    for (let i = 0; i < tokens; i++) {
      this.rig.clock.advance(this.rig.script.stepNs?.(this.#pos, this.run) ?? 1_000_000);
      this.#pos++;
    }
    this.#made += tokens;
    this.calls.push(`decode ${tokens}`);
    return Promise.resolve();
  }
  verify(rows: number): Promise<void> {
    this.rig.clock.advance(this.rig.script.verifyNs?.(rows) ?? rows * 500_000);
    this.#pos += rows;
    return Promise.resolve();
  }
  get draftHead(): boolean {
    return this.rig.script.draftNs !== undefined;
  }
  rewind(): Promise<void> {
    return this.restore();
  }
  async serial(): Promise<Produced> {
    await this.restore();
    await this.decode(ROUND_TOKENS);
    return await this.produced();
  }
  round(rows: number, accepted: number, drafts = 0): Promise<void> {
    const { roundNs, draftNs } = this.rig.script;
    this.rig.clock.advance(roundNs?.(rows, accepted, this.run) ?? 1_000_000);
    if (drafts > 0) this.rig.clock.advance(draftNs!(drafts));
    this.#pos += accepted + 1;
    this.#made += accepted + 1;
    return Promise.resolve();
  }
  commitNs(rows: number, accepted: number): Promise<number> {
    return Promise.resolve(this.rig.script.commitNs?.(rows, accepted) ?? 1000);
  }
  hitRates() {
    return { prompt: 0.01, output: 0.25 };
  }
  async speculate(work: SpeculateWork, clock: Clock): Promise<RunOfRounds> {
    const { accepts = [work.drafts], proposeNs = 0 } = this.rig.script;
    const acceptedAt = new Array<number>(15).fill(0), from = clock.now();
    let rounds = 0, serial = 0, accepted = 0, deviceNs = 0;
    for (let i = 0; this.#made < work.gen; i++) {
      this.rig.clock.advance(proposeNs);
      const left = work.gen - this.#made, plan = accepts[i % accepts.length], at = clock.now();
      if (plan === null) {
        await this.round(1, 0);
        serial++;
      } else {
        const kept = Math.min(plan, left - 1);
        await this.round(work.drafts + 1, kept);
        rounds++;
        accepted += kept;
        for (let k = 0; k < kept; k++) acceptedAt[k]++;
      }
      deviceNs += Number(clock.now() - at);
    }
    const { tokens, digest } = await this.produced();
    const ns = Number(clock.now() - from), draftNs = (rounds + serial) * proposeNs;
    const drafted = rounds * work.drafts, ids = new Array<number>(tokens).fill(0);
    return {
      tokens,
      digest,
      ns,
      deviceNs,
      draftNs,
      rounds,
      serial,
      drafted,
      accepted,
      acceptedAt,
      ids,
    };
  }
  produced(): Promise<Produced> {
    const text = `${this.#pos}${this.rig.script.output?.(this.run) ?? ""}`;
    const digest = createHash("sha256").update(text).digest("hex");
    return Promise.resolve({ tokens: this.#made, digest });
  }
  promptDigest(tokens: number): Promise<string> {
    return Promise.resolve(createHash("sha256").update(`prompt ${tokens}`).digest("hex"));
  }
  prepare(): void {
    this.calls.push("prepare");
  }
  keepAhead(): void {
    this.calls.push("keepAhead");
  }
  check(): Promise<FormCheck> {
    const same = { compared: 17, matched: 17, firstDivergence: null, maxLogitNmse: 0 };
    const good = { ...same, roundingNmse: null, routingMatch: null, ok: true };
    return Promise.resolve({ ...good, ...this.rig.script.form });
  }
  routing(): Promise<RoutingFacts | null> {
    return Promise.resolve(this.rig.script.routing ?? null);
  }
  cost(): WorkCost {
    return this.rig.script.cost ?? COST;
  }
  dispatch(work: Work) {
    return Promise.resolve({
      rows: work.kind === "prefill" ? work.prompt : "rows" in work ? work.rows : 1,
      records: 3,
      waits: 2,
      kernels: [{ name: "gemv", count: 3 }],
      encode_ns: 5000,
      device_ns: 900_000,
      plan: { actInt8: true },
      tape_sha256: "ab".repeat(32),
    });
  }
  memory() {
    return { weights: 100, kv: 20, state: 3, scratch: 4, forecast: 127 };
  }
  [Symbol.dispose](): void {
    this.disposed = true;
  }
}

export class FakeRig implements Rig {
  readonly clock = new FakeClock();
  readonly clockGrainNs = 1;
  readonly engines: FakeEngine[] = [];
  readonly energy: EnergyMeter | { readonly absent: string };
  #readings = 0;
  #loads = 0;

  constructor(readonly script: Script = {}) {
    const { watts, meterDiesNs = Infinity } = script, { clock } = this;
    const lost = () => clock.now() >= meterDiesNs ? "the meter died" : null;
    this.energy = watts === undefined ? { absent: "a fake has no meter" } : {
      source: "rapl",
      joules: () => Promise.resolve(lost() ? null : Number(clock.now()) / 1e9 * watts),
      lost,
      [Symbol.dispose]() {},
    };
  }

  open(settings: EngineSettings, ctx: number): Promise<BenchEngine> {
    const why = this.script.refuse?.(settings, ctx);
    if (why) return Promise.reject(new Error(why));
    const engine = new FakeEngine(this, ctx);
    this.engines.push(engine);
    return Promise.resolve(engine);
  }
  load(): Promise<Copied | null> {
    const n = this.#loads++;
    this.clock.advance(this.script.loadNs?.(n) ?? 2_000_000);
    return Promise.resolve(this.script.copied?.(n) ?? null);
  }
  weights(): Promise<string> {
    return Promise.resolve(this.script.weights?.(this.#loads) ?? "same");
  }
  perplexity() {
    this.clock.advance(4_000_000_000);
    return Promise.resolve({ nll: 2, perplexity: Math.exp(2), predictions: 1000 });
  }
  readBandwidth(): Promise<number> {
    this.clock.advance(80_000_000);
    return Promise.resolve(this.script.bandwidth ?? 4e9);
  }
  reading(): Promise<MachineReading> {
    const none = { swappedPages: 0, foreignCpuNs: 0, cpus: 4 };
    return Promise.resolve({ ...none, ...this.script.readings?.(this.#readings++) });
  }
  startPeak(): Promise<void> {
    return Promise.resolve();
  }
  memoryPeak() {
    return Promise.resolve({ device_peak: 130, peak: 500, baseline: 300 });
  }
  [Symbol.dispose](): void {}
}
