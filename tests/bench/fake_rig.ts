/**
 * An engine whose times are scripted and a clock that only they move: what the arithmetic of figures is
 * tested with. Nothing here runs a model.
 */
import { createHash } from "node:crypto";
import { ROUND_TOKENS } from "../../bench/grid.ts";
import type {
  BenchEngine,
  Chain,
  Clock,
  Copied,
  EnergyMeter,
  EngineSettings,
  ForcedPlay,
  FormCheck,
  MachineReading,
  Produced,
  Rig,
  RoutingFacts,
  RunOfRounds,
  RunsEngine,
  SpeculateWork,
  Work,
  WorkCost,
} from "../../bench/port.ts";

export interface Script {
  /** Time of the step that gives token `i` of a timeline of `pos` tokens; default 1 ms. */
  readonly stepNs?: (pos: number, run: number) => number;
  /** Added to each call of a decode and of a run of rounds. */
  readonly callNs?: number;
  /** Time of filling so many tokens; default 7 ms. */
  readonly fillNs?: (depth: number) => number;
  /** Time of a prompt of so many tokens; default 10 us a token. */
  readonly promptNs?: (tokens: number, run: number) => number;
  readonly verifyNs?: (rows: number) => number;
  /** Times of one round and of its commit, and what the head's drafts add to it; none: no head. */
  readonly roundNs?: (rows: number, accepted: number, run: number) => number;
  readonly commitNs?: (rows: number, accepted: number) => number;
  readonly draftNs?: (drafts: number) => number;
  /**
   * Drafts that each round of a run accepts, again and again, with their number where it is not the one asked
   * for; null: no draft, a single token.
   */
  readonly accepts?: readonly (number | null | { length: number; right: number })[];
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
  /** Bytes a second. */
  readonly upload?: number;
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
    this.rig.clock.advance(this.rig.script.fillNs?.(depth) ?? 7_000_000);
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
  async serial(tokens = ROUND_TOKENS): Promise<Produced> {
    await this.restore();
    await this.decode(tokens);
    return await this.produced();
  }
  round(rows: number, accepted: number, drafts = 0): Promise<void> {
    this.#play(rows, accepted, drafts);
    return Promise.resolve();
  }
  #play(rows: number, accepted: number, drafts: number): void {
    const { roundNs, draftNs } = this.rig.script;
    this.rig.clock.advance(roundNs?.(rows, accepted, this.run) ?? 1_000_000);
    if (drafts > 0) this.rig.clock.advance(draftNs!(drafts));
    this.#pos += accepted + 1;
    this.#made += accepted + 1;
  }
  commitNs(rows: number, accepted: number): Promise<number> {
    return Promise.resolve(this.rig.script.commitNs?.(rows, accepted) ?? 1000);
  }
  async runs(work: SpeculateWork): Promise<RunsEngine> {
    const serial = await this.serial(work.gen);
    return {
      serial,
      run: (clock) => this.#run(work, clock),
      walk: (plays, clock) => this.#walk(work, plays, clock),
      chain: (clock) => this.#chain(work, clock),
      proposeNs: (times) => work.drafter === "mtp" ? 0 : times * (this.rig.script.proposeNs ?? 0),
      hitRates: () => ({ prompt: 0.01, output: 0.25 }),
    };
  }
  async #run(work: SpeculateWork, clock: Clock): Promise<RunOfRounds> {
    await this.restore();
    const { accepts = [work.drafts], proposeNs = 0, callNs = 0 } = this.rig.script;
    const head = work.drafter === "mtp", next = head ? work.drafts : 0, from = clock.now();
    const counts = new Map<number, { plays: number; acceptedAt: number[] }>();
    let deviceNs = 0, proposed = 0, drafted = 0;
    for (let i = 0; this.#made < work.gen; i++) {
      if (!head) this.rig.clock.advance(proposeNs), proposed++;
      const left = work.gen - this.#made, at = clock.now();
      // Rounds of the head are one call, but for the first play.
      if (!head || i < 2) this.rig.clock.advance(callNs);
      const plan = head && i === 0 ? null : accepts[i % accepts.length];
      const { length, right } = typeof plan === "number"
        ? { length: work.drafts, right: plan }
        : plan ?? { length: 0, right: 0 };
      const kept = Math.min(right, left - 1);
      this.#play(length + 1, kept, next);
      const count = counts.get(length) ?? { plays: 0, acceptedAt: new Array(length).fill(0) };
      counts.set(length, count);
      count.plays++;
      for (let k = 0; k < kept; k++) count.acceptedAt[k]++;
      drafted += length;
      deviceNs += Number(clock.now() - at);
    }
    const { tokens, digest } = await this.produced();
    const lengths = [...counts].map(([drafts, c]) => ({ drafts, ...c }))
      .sort((a, b) => a.drafts - b.drafts);
    const serial = counts.get(0)?.plays ?? 0;
    const acceptedAt = Array.from(
      { length: 15 },
      (_, k) => lengths.reduce((sum, l) => sum + (l.acceptedAt[k] ?? 0), 0),
    );
    return {
      tokens,
      digest,
      ns: Number(clock.now() - from),
      deviceNs,
      draftNs: proposed * proposeNs,
      rounds: lengths.reduce((sum, l) => sum + l.plays, 0) - serial,
      serial,
      lengths,
      drafted,
      accepted: acceptedAt.reduce((sum, n) => sum + n, 0),
      acceptedAt,
      ids: new Array<number>(tokens).fill(0),
    };
  }
  async #walk(work: SpeculateWork, plays: readonly ForcedPlay[], clock: Clock) {
    await this.restore();
    const times: number[] = [];
    const ahead = Math.max(...plays.map((p) => p.drafts)) + 1;
    for (let i = 0; this.#made + ahead <= work.gen; i = (i + 1) % plays.length) {
      const from = clock.now(), { drafts, accepted, next } = plays[i];
      this.rig.clock.advance(this.rig.script.callNs ?? 0);
      this.#play(drafts + 1, accepted, next);
      times.push(Number(clock.now() - from));
    }
    return times;
  }
  async #chain({ drafts, gen }: SpeculateWork, clock: Clock): Promise<Chain> {
    await this.restore();
    const from = clock.now(), plays = Math.floor(gen / (drafts + 1)) - 1;
    this.rig.clock.advance(this.rig.script.callNs ?? 0);
    for (let i = 0; i < plays; i++) this.#play(drafts + 1, i % (drafts + 1), drafts);
    const acceptedAt = Array.from(
      { length: drafts },
      (_, k) =>
        Array.from({ length: plays }, (_, i) => i % (drafts + 1)).filter((n) => n > k).length,
    );
    return { ns: Number(clock.now() - from), length: { drafts, plays, acceptedAt } };
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
  uploadBandwidth(): number | null {
    return this.script.upload ?? null;
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
