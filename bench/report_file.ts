/**
 * Reports as files: one JSON document, or JSONL whose first line is the head and whose others are rows.
 * Reads and checks them; writes so that a reader finds a whole report at any moment.
 */
import { readText } from "./json_file.ts";
import { withDerived } from "./derived.ts";
import { dirname } from "node:path";
import * as v from "valibot";
import { shorten } from "../engine/json.ts";
import { shownName, UserError } from "../engine/errors.ts";
import {
  headSchema,
  type Report,
  REPORT_SCHEMA,
  type ReportHead,
  reportSchema,
  type Row,
  rowSchema,
} from "./report.ts";

/** Reads a report, a partial one too. Throws UserError. */
export function parseReport(text: string, where: string): Report {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const first = lines.length > 0 ? tryJson(lines[0]) : undefined;
  if (first !== undefined && lines.length > 1) return parseLines(lines, where);
  const whole = tryJson(text);
  if (whole === undefined) throw new UserError(`${where} is not JSON: expected a report.`);
  refuseOthers(whole, where);
  // A report of one line is the head of a JSONL report that has no rows yet, or a document.
  const rows = (whole as { rows?: unknown }).rows ?? [];
  return check(reportSchema, { ...whole as object, rows }, where);
}

function parseLines(lines: readonly string[], where: string): Report {
  const [first, ...rest] = lines;
  const head = tryJson(first);
  refuseOthers(head, where);
  const rows = new Map<string, Row>();
  rest.forEach((line, i) => {
    const value = tryJson(line);
    // The last line of a run that was killed may be cut off.
    if (value === undefined && i === rest.length - 1) return;
    const row = check(rowSchema, value, `${where}, line ${i + 2}`);
    // A later line replaces an earlier one of the same row.
    rows.delete(row.id);
    rows.set(row.id, row);
  });
  return { ...check(headSchema, head, where), rows: [...rows.values()] };
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function refuseOthers(value: unknown, where: string): void {
  const schema = typeof value === "object" && value !== null && "schema" in value
    ? value.schema
    : undefined;
  if (schema === REPORT_SCHEMA) return;
  const what = typeof schema === "string" ? `is a ${shownName(schema)}` : "has no schema";
  throw new UserError(`${where} ${what}: expected a ${REPORT_SCHEMA} report.`);
}

function check<S extends v.GenericSchema>(
  schema: S,
  value: unknown,
  where: string,
): v.InferOutput<S> {
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const issue = result.issues[0], path = v.getDotPath(issue);
  throw new UserError(`${where}: ${path ? `${path}: ` : ""}${shorten(issue.message)}`);
}

export async function readReport(path: string): Promise<Report> {
  return parseReport(await readText(path), path);
}

/** Throws UserError where a file could not be: told before what is to be written was measured. */
export async function refuseUnwritable(path: string): Promise<void> {
  const folder = dirname(path), found = await Deno.stat(folder).catch(() => null);
  if (!found?.isDirectory) {
    throw new UserError(`Cannot write ${path}: there is no folder ${folder}`);
  }
}

/** Replaces a file in one step: a reader sees the old one or the new one. Throws UserError. */
export async function writeWhole(path: string, content: string | Uint8Array): Promise<void> {
  const temporary = `${path}.${crypto.randomUUID().slice(0, 8)}.tmp`;
  try {
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
    await Deno.writeFile(temporary, bytes);
    await Deno.rename(temporary, path);
  } catch (e) {
    await Deno.remove(temporary).catch(() => {});
    if (e instanceof Deno.errors.NotCapable) throw e;
    throw new UserError(`Cannot write ${path}: ${(e as Error).message}`);
  }
}

export function reportText(report: Report): string {
  return JSON.stringify(report, null, 2) + "\n";
}

/** Takes rows as they are measured. */
export interface ReportSink {
  /** All rows so far, and the one that is being measured as it would stand if the process died now. */
  update(rows: readonly Row[], running: Row | null): Promise<void>;
}

/** One JSON document, replaced whole at each update. */
export class DocumentSink implements ReportSink {
  constructor(readonly path: string, readonly head: ReportHead) {}

  async update(rows: readonly Row[], running: Row | null): Promise<void> {
    const all = running ? [...rows, running] : [...rows];
    await writeWhole(this.path, reportText(withDerived(this.head, all)));
  }
}

/** A line a row, written as soon as the row is done. */
export class LinesSink implements ReportSink {
  readonly #seen: Set<string>;

  /** The head and `known` rows are written already. */
  constructor(readonly write: (line: string) => Promise<void>, known: readonly Row[]) {
    this.#seen = new Set(known.map((row) => row.id));
  }

  async update(rows: readonly Row[]): Promise<void> {
    for (const row of rows) {
      if (this.#seen.has(row.id)) continue;
      this.#seen.add(row.id);
      await this.write(JSON.stringify(row) + "\n");
    }
  }
}

/** The lines of a report that has only these rows. */
export function reportLines(head: ReportHead, rows: readonly Row[]): string {
  return [head, ...rows].map((value) => JSON.stringify(value) + "\n").join("");
}

/** A JSONL file with the head and the rows that are known; every further line is on disk when it is written. */
export class LinesFile implements Disposable {
  private constructor(readonly file: Deno.FsFile) {}

  static async begin(path: string, head: ReportHead, known: readonly Row[]): Promise<LinesFile> {
    await writeWhole(path, reportLines(head, known));
    return new LinesFile(await Deno.open(path, { append: true }));
  }

  async write(line: string): Promise<void> {
    let bytes: Uint8Array = new TextEncoder().encode(line);
    while (bytes.length > 0) bytes = bytes.subarray(await this.file.write(bytes));
    await this.file.sync();
  }

  [Symbol.dispose](): void {
    this.file.close();
  }
}
