/**
 * One benchmark from a spec to a report: identity and environment first, then the sweep, with every row given
 * to sinks as it is done. Prints nothing.
 */
import type { Env, Progress } from "../engine/api_types.ts";
import { UserError } from "../engine/errors.ts";
import { openDevice } from "../engine/model.ts";
import { DEVICE_KINDS } from "../ffi/abi/layout.ts";
import { type Cell, cellsOf } from "./grid.ts";
import { readText } from "./json_file.ts";
import { toolIdentity } from "./identity.ts";
import { isComparable, type Report, REPORT_SCHEMA, type ReportHead, type Row } from "./report.ts";
import type { Spec } from "./report.ts";
import type { ReportSink } from "./report_file.ts";
import { CHECK_ROWS, LiveRig } from "./rig.ts";
import { withDerived } from "./derived.ts";
import { sweep, type SweepProgress } from "./sweep.ts";

export interface BenchOptions {
  readonly spec: Spec;
  readonly argv: readonly string[];
  readonly env: Env;
  readonly library?: string;
  /** A report of the same spec whose good rows are kept. */
  readonly resume?: Report;
  readonly signal?: AbortSignal;
  readonly onLoad?: (p: Progress) => void;
  /** Receives what a user should know about the model, a line at a time, whenever it is opened. */
  readonly onNote?: (line: string) => void;
  readonly onProgress?: (p: SweepProgress) => void;
  /** Where rows go while they are measured, once the head and the kept rows are known. */
  readonly sinks?: (head: ReportHead, kept: readonly Row[]) => Promise<readonly ReportSink[]>;
}

export interface BenchResult {
  readonly report: Report;
  readonly interrupted: boolean;
}

/** Throws UserError for what the caller can fix before anything was measured. */
export async function runBench(o: BenchOptions): Promise<BenchResult> {
  const spec = resolveThreads(o);
  const cells = cellsOf(spec);
  if (cells.length === 0) {
    throw new UserError("Nothing to measure: give -p, -n, -pg or another workload.");
  }
  await refuseUnreadable(spec);
  using rig = await LiveRig.open({
    spec,
    env: o.env,
    library: o.library,
    onProgress: o.onLoad,
    onNote: o.onNote,
  });
  const head = await makeHead(o, spec, rig);
  const kept = o.resume ? keptRows(o.resume, head) : [];
  const sinks = await o.sinks?.(head, kept) ?? [];
  const tell = async (rows: readonly Row[], running: Row | null) => {
    for (const sink of sinks) await sink.update(rows, running);
  };
  const { rows, interrupted } = await sweep({
    spec,
    cells: runnable(cells, head, o.onNote),
    rig,
    checkRows: CHECK_ROWS,
    battery: head.env.power_source === "battery",
    dirtyBuild: head.tool.dirty === true,
    known: new Map(kept.map((row) => [row.id, row])),
    signal: o.signal,
    onProgress: o.onProgress,
    onRows: tell,
  });
  return { report: withDerived(head, rows), interrupted };
}

/** Without the runs on a text that nobody named, where the model cannot read one. */
function runnable(
  cells: readonly Cell[],
  { model, spec }: ReportHead,
  onNote?: (line: string) => void,
): readonly Cell[] {
  const named = spec.text_file ?? spec.verify_sweep?.acceptance_file;
  if (!model || model.tokenizer_sha256 !== null || named) return cells;
  const left = cells.filter((cell) => cell.tokens !== "text");
  if (left.length < cells.length) {
    onNote?.(`${model.path} has no tokenizer: runs on a text are left out`);
  }
  return left;
}

/** Texts are needed rows later; what is wrong with one is told before anything is measured. */
async function refuseUnreadable(spec: Spec): Promise<void> {
  const files = [spec.verify_sweep?.acceptance_file, spec.text_file, spec.perplexity?.file];
  for (const file of files) {
    if (file === null || file === undefined) continue;
    if (await readText(file) === "") throw new UserError(`${file} is empty: expected a text.`);
  }
}

/** Real thread counts for "all": a report says what ran. */
function resolveThreads({ spec, library }: BenchOptions): Spec {
  const kind = DEVICE_KINDS.find((k) => k === spec.device);
  if (!kind) {
    throw new UserError(`Unknown device ${spec.device}: there is ${DEVICE_KINDS.join(", ")}.`);
  }
  const threads = spec.threads.map((n) => {
    using device = openDevice({ kind, threads: n, library });
    return device.info.threads;
  });
  return { ...spec, threads: [...new Set(threads)] };
}

async function makeHead(o: BenchOptions, spec: Spec, rig: LiveRig): Promise<ReportHead> {
  const env = await rig.environment(spec.threads[0]);
  return {
    schema: REPORT_SCHEMA,
    run_id: o.resume?.run_id ?? crypto.randomUUID(),
    started_at: o.resume?.started_at ?? new Date().toISOString(),
    tool: await toolIdentity(),
    argv: [...o.argv],
    spec,
    env,
    model: await rig.identity(spec.threads[0]),
  };
}

/** The good rows of an interrupted run. Throws UserError unless it measured the very same thing. */
function keptRows(before: Report, now: ReportHead): Row[] {
  const facts = (r: ReportHead) => ({
    spec: r.spec,
    "model.weights_sha256_16": r.model?.weights_sha256_16,
    "env.library.sha256": r.env.library.sha256,
    "env.cpu": r.env.cpu,
  });
  const was = facts(before), is = facts(now);
  const changed = Object.keys(is).filter((key) =>
    JSON.stringify(was[key as keyof typeof was]) !== JSON.stringify(is[key as keyof typeof is])
  );
  if (changed.length > 0) {
    throw new UserError(
      `The report cannot be resumed: ${
        changed.join(", ")
      } changed since it was begun. Begin a new one.`,
    );
  }
  return before.rows.filter(isComparable);
}
