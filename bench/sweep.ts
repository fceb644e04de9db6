/**
 * Runs the cells of a spec one after another: sessions are shared by cells of one depth, a cell that fails is
 * an error row and the sweep goes on, an interrupted one keeps what it has. Owns that order; sampling is in
 * sample.ts, figures in rows.ts.
 */
import { type Cell, contextOf, ROUND_TOKENS } from "./grid.ts";
import { statsOf } from "./figures.ts";
import type {
  BenchEngine,
  Copied,
  FormCheck,
  MachineReading,
  PerplexityRun,
  Rig,
  RoutingFacts,
  Work,
} from "./port.ts";
import { type CellFacts, emptyRow, errorRow, measuredRow, withCopies } from "./rows.ts";
import type { Row, Spec } from "./report.ts";
import { type SampleOptions, type Samples, takeSamples } from "./sample.ts";
import { roundsRow, speculateRow } from "./spec_rows.ts";
import { roundsPlayed, takeRounds, takeRuns } from "./spec_sample.ts";
import { validityOf } from "./validity.ts";
import { curveAt } from "./verify_curves.ts";

export interface SweepProgress {
  readonly cell: string;
  readonly stage: string;
  readonly done: number;
  readonly total: number;
  /** Null until a first cell was measured. */
  readonly remainingNs: number | null;
}

export interface SweepOptions {
  readonly spec: Spec;
  readonly cells: readonly Cell[];
  readonly rig: Rig;
  readonly checkRows: number;
  readonly battery: boolean;
  readonly dirtyBuild: boolean;
  /** Rows that need not be measured again, by id. */
  readonly known?: ReadonlyMap<string, Row>;
  readonly signal?: AbortSignal;
  readonly onProgress?: (p: SweepProgress) => void;
  /** All rows so far, in the order of the cells; `running` is an error row until it is replaced. */
  readonly onRows?: (rows: readonly Row[], running: Row | null) => Promise<void>;
}

export interface SweepResult {
  readonly rows: readonly Row[];
  readonly interrupted: boolean;
}

export async function sweep(options: SweepOptions): Promise<SweepResult> {
  return await new Sweep(options).run();
}

/**
 * Weights of cells that share a session in the forecast of remaining time, about in serial steps, before anything is
 * known of the machine. A depth is filled for the first of its cells alone.
 */
function efforts(cells: readonly Cell[], spec: Spec): [string, number][] {
  return cells.map((cell, i) => {
    const fill = cell.depth === cells[i - 1]?.depth ? 0 : cell.depth / 8;
    return [cell.id, 20 + fill + steps(cell, spec)];
  });
}

function steps({ work, repetitions }: Cell, spec: Spec): number {
  // Serial steps follow each round.
  if (work?.kind === "round") return ROUND_TOKENS * roundsPlayed(work.rows, spec.repetitions);
  // Beside each run of rounds: serial decode and forced plays of as many tokens.
  const stretches = work?.kind === "speculate" ? 3 : 1;
  const prompt = work && "prompt" in work ? work.prompt : 0;
  const gen = work && "gen" in work ? stretches * work.gen : 0;
  const reps = (repetitions ?? spec.repetitions) + Math.max(1, spec.warmup);
  return reps * (prompt / 8 + gen + (work && "rows" in work ? 2 : 0));
}

class Sweep {
  readonly #rows = new Map<string, Row>();
  /** Cells to measure, by session. */
  readonly #groups: ReadonlyMap<string, readonly Cell[]>;
  readonly #efforts: ReadonlyMap<string, number>;
  readonly #origin: bigint;
  #samples = 0;
  #effortDone = 0;

  constructor(readonly o: SweepOptions) {
    this.#origin = o.rig.clock.now();
    for (const cell of o.cells) {
      const known = o.known?.get(cell.id);
      if (known) this.#rows.set(cell.id, known);
    }
    const { cells, spec } = o;
    this.#groups = Map.groupBy(cells.filter((c) => !this.#rows.has(c.id)), (c) => c.group);
    this.#efforts = new Map([...this.#groups.values()].flatMap((group) => efforts(group, spec)));
  }

  async run(): Promise<SweepResult> {
    try {
      for (const cells of this.#groups.values()) await this.#group(cells);
    } catch (e) {
      if (!this.o.signal?.aborted) throw e;
      await this.o.onRows?.(this.#ordered(), null);
      return { rows: this.#ordered(), interrupted: true };
    }
    return { rows: this.#ordered(), interrupted: false };
  }

  #ordered(): Row[] {
    return this.o.cells.flatMap((c) => this.#rows.get(c.id) ?? []);
  }

  /** Cells of one session. Where they do not fit together, each is tried by itself. */
  async #group(cells: readonly Cell[]): Promise<void> {
    this.o.signal?.throwIfAborted();
    if (cells[0].work === null) {
      for (const cell of cells) await this.#row(cell, () => this.#plain(cell));
      return;
    }
    const ctx = Math.max(...cells.map((c) => contextOf(c, this.o.checkRows)));
    let engine: BenchEngine;
    try {
      this.#tell(cells[0], "opening");
      engine = await this.o.rig.open(cells[0].settings, ctx, cells[0].tokens);
    } catch (e) {
      if (this.o.signal?.aborted) throw e;
      if (cells.length > 1) {
        for (const cell of cells) await this.#group([cell]);
      } else await this.#row(cells[0], () => Promise.reject(e));
      return;
    }
    using open = engine;
    const state: GroupState = { depth: null, form: null, routing: null };
    for (const cell of cells) await this.#row(cell, () => this.#measure(open, cell, state));
  }

  /** Settles the row of a cell whatever happens, and shows it as failed while it runs. */
  async #row(cell: Cell, measure: () => Promise<Row>): Promise<void> {
    const { spec, signal, onRows } = this.o;
    signal?.throwIfAborted();
    const running = errorRow(cell, spec, "the process ended while this row was measured");
    await onRows?.(this.#ordered(), running);
    let row: Row;
    try {
      row = await measure();
    } catch (e) {
      if (signal?.aborted) throw e;
      row = errorRow(cell, spec, e instanceof Error ? e.message.split("\n")[0] : String(e));
    }
    this.#rows.set(cell.id, row);
    this.#effortDone += this.#efforts.get(cell.id)!;
    await onRows?.(this.#ordered(), null);
    this.#tell(cell, "done");
  }

  #tell(cell: Cell, stage: string): void {
    const { cells, rig } = this.o;
    const elapsed = Number(rig.clock.now() - this.#origin), done = this.#effortDone;
    const left = cells.filter((c) => !this.#rows.has(c.id))
      .reduce((sum, c) => sum + this.#efforts.get(c.id)!, 0);
    this.o.onProgress?.({
      cell: cell.id,
      stage,
      done: this.#rows.size,
      total: cells.length,
      remainingNs: done > 0 ? elapsed / done * left : null,
    });
  }

  async #measure(engine: BenchEngine, cell: Cell, state: GroupState): Promise<Row> {
    const { spec, rig, signal } = this.o, work = cell.work!;
    if (state.depth !== cell.depth) {
      this.#tell(cell, "filling");
      await engine.fill(cell.depth, signal);
      this.#tell(cell, "checking");
      state.form = await engine.check();
      state.routing = await engine.routing();
      state.depth = cell.depth;
    }
    const cost = engine.cost(work, state.routing);
    const bandwidth = [await rig.readBandwidth(cell.settings, cost.playBytes)];
    await rig.startPeak();
    const before = await rig.reading(), from = rig.clock.now();
    const meter = "joules" in rig.energy ? rig.energy : null;
    const { samples, finish } = await this.#take(engine, work, {
      clock: rig.clock,
      origin: this.#origin,
      repetitions: cell.repetitions ?? spec.repetitions,
      minTimeNs: cell.repetitions ? 0 : spec.min_time_ns,
      warmup: spec.warmup,
      prefillRows: cell.settings.prefillRows,
      tokenTimes: spec.token_times,
      energy: meter,
      signal,
      onSample: (done, of) => this.#tell(cell, `sample ${done} of ${of}`),
    });
    const wallNs = Number(rig.clock.now() - from), after = await rig.reading();
    const memory = { ...engine.memory(), ...await rig.memoryPeak() };
    // Once more, as a quieter moment gives a truer bound.
    bandwidth.push(await rig.readBandwidth(cell.settings, cost.playBytes));
    const first = this.#samples;
    this.#samples += samples.times.length;
    const row = measuredRow({
      cell,
      spec,
      samples,
      orderIndex: samples.times.map((_, i) => first + i),
      promptSha256: await engine.promptDigest(cell.depth + promptTokens(cell)),
      form: state.form!,
      routing: state.routing,
      cost,
      bandwidth: Math.max(...bandwidth),
      dispatch: await engine.dispatch(work, rig.clock),
      memory,
      circumstances: { before, after, wallNs, ...this.#circumstances() },
      contextMax: engine.contextMax,
      energySource: energySource(rig.energy),
    });
    return finish(row);
  }

  /** Samples of a piece of work, and what they add to its row. */
  async #take(engine: BenchEngine, work: Work, options: SampleOptions): Promise<Taken> {
    if (work.kind === "round") {
      const taken = await takeRounds(engine, work, options);
      return { samples: taken.samples, finish: (row) => roundsRow(row, taken) };
    }
    if (work.kind === "speculate") {
      const taken = await takeRuns(engine, work, options), [run] = taken.runs;
      const kept = run.rounds > 0 ? Math.round(run.accepted / run.rounds) : 0;
      await engine.serial();
      const commitNs = await engine.commitNs(work.drafts + 1, Math.min(kept, work.drafts));
      return {
        samples: taken.samples,
        finish: (row) => speculateRow(row, work, taken, curveAt(this.#ordered(), row), commitNs),
      };
    }
    const samples = await takeSamples(engine, work, options);
    return { samples, finish: (row) => row };
  }

  #circumstances() {
    const { battery, dirtyBuild, rig } = this.o;
    return { clockGrainNs: rig.clockGrainNs, battery, dirtyBuild, cachedTokens: 0 };
  }

  /** Rows without a timeline: how long opening takes, how well a text is predicted. */
  async #plain(cell: Cell): Promise<Row> {
    const { spec, rig, signal } = this.o, before = await rig.reading();
    const times: { ns: number; at: number }[] = [];
    const qualities: PerplexityRun[] = [], outcomes: string[] = [], copies: (Copied | null)[] = [];
    const load = cell.kind === "load";
    // The first one is cold. All must bring the same weights, or predict equally well.
    const runs = load ? spec.repetitions + 1 : 2;
    for (let i = 0; i < runs; i++) {
      signal?.throwIfAborted();
      this.#tell(cell, `sample ${i + 1} of ${runs}`);
      const from = rig.clock.now();
      if (load) copies.push(await rig.load(cell.settings));
      else qualities.push(await rig.perplexity(cell.settings, signal));
      times.push({ ns: Number(rig.clock.now() - from), at: Number(from - this.#origin) });
      outcomes.push(load ? await rig.weights() : String(qualities[i].nll));
    }
    const same = outcomes.every((o) => o === outcomes[0]);
    const row = this.#plainRow(
      cell,
      times,
      qualities[0] ?? null,
      same,
      before,
      await rig.reading(),
    );
    if (!load) return row;
    return withCopies(row, copies.slice(1), rig.uploadBandwidth(cell.settings));
  }

  #plainRow(
    cell: Cell,
    all: readonly { ns: number; at: number }[],
    quality: Row["quality"],
    same: boolean,
    before: MachineReading,
    after: MachineReading,
  ): Row {
    const times = all.slice(1);
    const empty = emptyRow(cell, this.o.spec), first = this.#samples;
    this.#samples += times.length;
    const raw = {
      ...empty,
      samples_ns: times.map((t) => t.ns),
      tokens_per_sample: quality?.predictions ?? 0,
    };
    const stats = statsOf(raw);
    const wallNs = all.reduce((sum, t) => sum + t.ns, 0);
    return {
      ...raw,
      status: "ok",
      warmup_ns: all.slice(0, 1).map((t) => t.ns),
      warmup_tokens: raw.tokens_per_sample,
      order_index: times.map((_, i) => first + i),
      started_offset_ns: times.map((t) => t.at),
      stats,
      quality,
      validity: validityOf(raw, stats, { before, after, wallNs, ...this.#circumstances() }),
      check: { ...empty.check, repeatable: same, ok: same },
      absent: { limit: "not held against the memory", check: "no tokens come out" },
    };
  }
}

/** Where joules come from, or why there are none, as it stands now. */
function energySource(energy: Rig["energy"]): CellFacts["energySource"] {
  if ("absent" in energy) return energy;
  const absent = energy.lost();
  return absent === null ? energy.source : { absent };
}

interface Taken {
  readonly samples: Samples;
  readonly finish: (row: Row) => Row;
}

interface GroupState {
  depth: number | null;
  form: FormCheck | null;
  routing: RoutingFacts | null;
}

/** Prompt tokens behind the depth. */
function promptTokens({ work }: Cell): number {
  if (work && "prompt" in work) return work.prompt;
  return work && "rows" in work ? work.rows : 1;
}
