/**
 * A comparison session over two open subjects: outputs first, then row by row until each is decided or the
 * budget ends. Owns order, budget and what becomes of failures; measuring is in pairs.ts, judging in
 * verdict.ts. Opens no process and writes no file.
 */
import type { CompareRow, CompareSettings, SessionSummary } from "./compare_report.ts";
import {
  Duel,
  logRatios,
  OutputError,
  type PairRecord,
  PairRunner,
  rejectedShare,
  settle,
  type Settling,
} from "./pairs.ts";
import { holm, median } from "./stats.ts";
import { type Subject, SubjectError, type Surroundings, type Workload } from "./subject.ts";
import { type Estimate, estimate, judge, type Judgement, type JudgeOptions } from "./verdict.ts";

/** What a session is doing, for people who wait. */
export interface CompareProgress {
  readonly row: string;
  readonly phase: "outputs" | "prepare" | "settle" | "pairs";
  readonly pairs: number;
  readonly of: number;
}

export interface SessionResult {
  readonly outputs:
    | { readonly base: string; readonly head: string; readonly equal: boolean }
    | null;
  readonly rows: CompareRow[];
  readonly session: SessionSummary;
}

export interface SessionHooks {
  readonly onProgress?: (p: CompareProgress) => void;
  /** Called with all rows so far after each one, so that what was measured survives. */
  readonly onRow?: (result: SessionResult) => Promise<void>;
}

/** More pairs than this many times the wanted ones are not measured to replace rejected ones. */
const REPLACE_MAX = 2;

export async function compareSession(
  base: Subject,
  head: Subject,
  workloads: readonly Workload[],
  settings: CompareSettings,
  around: Surroundings,
  hooks: SessionHooks = {},
): Promise<SessionResult> {
  const session = new Session(base, head, workloads, settings, around, hooks);
  return await session.run();
}

class Session {
  readonly #rows: CompareRow[] = [];
  readonly #anchors: number[] = [];
  #outputs: SessionResult["outputs"] = null;

  constructor(
    readonly base: Subject,
    readonly head: Subject,
    readonly workloads: readonly Workload[],
    readonly settings: CompareSettings,
    readonly around: Surroundings,
    readonly hooks: SessionHooks,
  ) {}

  async run(): Promise<SessionResult> {
    const { clock } = this.around;
    const end = clock.now() + BigInt(Math.round(this.settings.max_seconds * 1e9));
    const refusal = await this.#compareOutputs();
    for (const [i, workload] of this.workloads.entries()) {
      const left = end - clock.now();
      const deadline = clock.now() + left / BigInt(this.workloads.length - i);
      this.#rows.push(refusal ? emptyRow(workload, refusal) : await this.#row(workload, deadline));
      await this.hooks.onRow?.(this.#result());
    }
    return this.#result();
  }

  #result(): SessionResult {
    return {
      outputs: this.#outputs,
      ...concludeRows(this.#rows, this.settings, this.around.signal?.aborted ?? false),
    };
  }

  /** Why nothing can be measured; null when both make the same tokens, or may differ. */
  async #compareOutputs(): Promise<Pick<CompareRow, "outcome" | "why"> | null> {
    this.#tell({ row: "", phase: "outputs", pairs: 0, of: 0 });
    try {
      const base = await this.base.outputs(), head = await this.head.outputs();
      this.#outputs = { base, head, equal: base === head };
      if (base === head || this.settings.output_change !== null) return null;
      return { outcome: "incomparable", why: "base and head make different tokens" };
    } catch (e) {
      if (e instanceof SubjectError) return { outcome: "error", why: `${e.side}: ${e.message}` };
      if (e instanceof OutputError) return { outcome: "incomparable", why: e.message };
      throw e;
    }
  }

  async #row(workload: Workload, deadline: bigint): Promise<CompareRow> {
    const row = new RowInProgress(workload);
    const duel = new Duel(this.base, this.head, workload);
    const runner = new PairRunner(duel, this.around, {
      order: this.settings.order,
      seed: this.settings.seed,
      anchors: this.#anchors,
    });
    try {
      this.#tell({ row: workload.id, phase: "prepare", pairs: 0, of: this.settings.pairs });
      await duel.prepare();
      const [base, head] = [duel.digest("base"), duel.digest("head")];
      row.outputs = { base, head, equal: base === head };
      if (base !== head && this.settings.output_change === null) {
        return row.end({ outcome: "incomparable", why: "base and head make different tokens" });
      }
      this.#tell({ row: workload.id, phase: "settle", pairs: 0, of: this.settings.pairs });
      row.settling = await settle(duel, this.around);
      await this.#measure(runner, deadline);
      return row.measured(runner, duel.repeats, this.#anchors);
    } catch (e) {
      row.measured(runner, duel.repeats, this.#anchors);
      if (e instanceof SubjectError) return row.fail(`${e.side}: ${e.message}`);
      if (e instanceof OutputError) return row.end({ outcome: "incomparable", why: e.message });
      throw e;
    }
  }

  async #measure(runner: PairRunner, deadline: bigint): Promise<void> {
    const { settings, around } = this;
    const id = runner.duel.workload.id;
    for (const look of settings.looks) {
      for (;;) {
        const records = runner.records, kept = logRatios(records).length;
        this.#tell({ row: id, phase: "pairs", pairs: kept, of: settings.pairs });
        if (kept >= look) break;
        const replacing = records.length >= REPLACE_MAX * settings.pairs;
        if (replacing || around.signal?.aborted || around.clock.now() >= deadline) return;
        await runner.block();
      }
      if (settings.aa) continue;
      const options = judgeOptions(settings, this.workloads.length);
      const e = estimate(logRatios(runner.records), options);
      // A row that stops here as slower must still be slower when all rows are corrected together.
      const alone = e && Math.min(1, e.p_slower * this.workloads.length);
      if (judge(e, options, alone ?? 1).outcome !== "inconclusive") return;
    }
  }

  #tell(p: CompareProgress): void {
    this.hooks.onProgress?.(p);
  }
}

/** A row as far as it has come. */
class RowInProgress {
  outputs: CompareRow["outputs"] = null;
  settling: Settling | null = null;
  #pairs: PairRecord[] = [];
  #repeats = 1;
  #anchorMedian: number | null = null;

  constructor(readonly workload: Workload) {}

  measured(runner: PairRunner, repeats: number, anchors: readonly number[]): CompareRow {
    this.#pairs = runner.records;
    this.#repeats = repeats;
    this.#anchorMedian = anchors.length > 0 ? median([...anchors]) : null;
    return this.end({ outcome: "inconclusive", why: "not judged" });
  }

  fail(error: string): CompareRow {
    return { ...this.end({ outcome: "error", why: error }), status: "error", error };
  }

  end({ outcome, why }: Pick<CompareRow, "outcome" | "why">): CompareRow {
    return {
      ...emptyRow(this.workload, { outcome, why }),
      outputs: this.outputs,
      repeats: this.#repeats,
      settling: this.settling && { ...this.settling, rates: [...this.settling.rates] },
      anchor_median: this.#anchorMedian,
      pairs: this.#pairs,
    };
  }
}

function emptyRow(w: Workload, { outcome, why }: Pick<CompareRow, "outcome" | "why">): CompareRow {
  return {
    id: w.id,
    kind: w.kind,
    tokens: w.tokens,
    depth: w.depth,
    status: outcome === "error" ? "error" : "ok",
    ...(outcome === "error" ? { error: why } : {}),
    outputs: null,
    repeats: 1,
    settling: null,
    anchor_median: null,
    pairs: [],
    unpaired: null,
    estimate: null,
    outcome,
    why,
  };
}

/** How rows of a session are judged; many rows need finer tails of the bootstrap. */
export function judgeOptions(
  s: Pick<CompareSettings, "tolerance" | "confidence" | "looks" | "resamples" | "seed">,
  rows: number,
): JudgeOptions {
  const { tolerance, confidence, looks, resamples, seed } = s;
  const finest = 10 * rows * looks.length / ((1 - confidence) / 2);
  return {
    tolerance,
    confidence,
    looks: looks.length,
    resamples: Math.max(resamples, Math.ceil(finest)),
    seed,
  };
}

/** Judges rows together: Holm over all of them, and none is proven in an invalid session. */
export function concludeRows(
  rows: readonly CompareRow[],
  settings: CompareSettings,
  interrupted: boolean,
): { rows: CompareRow[]; session: SessionSummary } {
  const session = summarize(rows, settings, interrupted);
  const estimates = rows.map((row) => estimateRow(row, settings, rows.length));
  const corrected = holm(estimates.map((e) => e?.p_slower ?? 1));
  const judged = rows.map((row, i): CompareRow => {
    if (!isMeasured(row)) return row;
    const judgement = session.valid
      ? judge(estimates[i], judgeOptions(settings, rows.length), corrected[i])
      : { outcome: "inconclusive" as const, why: `invalid session: ${session.reasons.join("; ")}` };
    return { ...row, estimate: estimates[i], ...withInterruption(judgement, interrupted) };
  });
  return { rows: judged, session };
}

function isMeasured(row: CompareRow): boolean {
  return row.unpaired === null && row.outcome !== "incomparable" && row.outcome !== "error";
}

function estimateRow(row: CompareRow, settings: CompareSettings, rows: number): Estimate | null {
  return isMeasured(row) ? estimate(logRatios(row.pairs), judgeOptions(settings, rows)) : null;
}

function withInterruption(j: Judgement, interrupted: boolean): Judgement {
  if (!interrupted || j.outcome !== "inconclusive") return j;
  return { outcome: j.outcome, why: `interrupted; ${j.why}` };
}

function summarize(
  rows: readonly CompareRow[],
  settings: CompareSettings,
  interrupted: boolean,
): SessionSummary {
  const pairs = rows.flatMap((r) => r.pairs);
  const broke = pairs.filter((p) => p.rejected !== null && p.rejected !== "partner_rejected");
  const valid = rejectedShare(pairs) <= settings.rejected_max;
  const kinds = [...new Set(broke.map((p) => p.rejected))].join(", ");
  const reasons = valid ? [] : [`${broke.length} of ${pairs.length} pairs rejected (${kinds})`];
  return { valid, reasons, pairs: pairs.length, rejected: broke.length, interrupted };
}
