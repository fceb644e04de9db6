/**
 * How things look in text: units, tables, colours, JSON keys. No arithmetic beyond formatting, and
 * nothing is written from here.
 */
import { styleText } from "node:util";
import type { Env } from "../engine/api_types.ts";

type Style = Parameters<typeof styleText>[0];
/** Styles a text, or returns it as it is where colour is not wanted. */
export type Paint = (style: Style, text: string) => string;

/** Colour only for a terminal, and never against NO_COLOR or TERM=dumb. */
export function painter(isTty: boolean, env: Env): Paint {
  if (!isTty || env.NO_COLOR || env.TERM === "dumb") return (_style, text) => text;
  return (style, text) => styleText(style, text, { validateStream: false });
}

const SI = ["", "k", "M", "G", "T", "P"];

function scaled(n: number): [string, string] {
  let step = 0;
  // 999.95 would print as 1000.0 of the smaller unit.
  while (Math.abs(n) >= 999.95 && step < SI.length - 1) {
    n /= 1000;
    step++;
  }
  return [step === 0 ? String(Math.round(n)) : n.toFixed(n < 10 ? 2 : 1), SI[step]];
}

/** `12.3 MB`, in powers of 1000. */
export function bytes(n: number): string {
  const [value, unit] = scaled(n);
  return `${value} ${unit}B`;
}

/** `24.6M`, `850`: large counts such as parameters and FLOPs. */
export function count(n: number): string {
  return scaled(n).join("");
}

/** `850 ns`, `16.2 ms`, `3.41 s`. */
export function duration(ns: number | bigint): string {
  const t = Number(ns);
  if (t < 1e3) return `${Math.round(t)} ns`;
  if (t < 1e6) return `${(t / 1e3).toFixed(1)} us`;
  if (t < 1e9) return `${(t / 1e6).toFixed(1)} ms`;
  return `${(t / 1e9).toFixed(2)} s`;
}

/** Events a second; null when nothing was timed. */
export function perSecond(events: number, ns: number | bigint): number | null {
  return events > 0 && Number(ns) > 0 ? events * 1e9 / Number(ns) : null;
}

/** `141.2 tok/s`, or `no rate` when nothing was timed. */
export function rate(tokens: number, ns: number | bigint): string {
  const r = perSecond(tokens, ns);
  return r === null ? "no rate" : `${r < 1000 ? r.toFixed(1) : Math.round(r)} tok/s`;
}

export interface Column {
  readonly title: string;
  readonly right?: boolean;
}

/** Columns as wide as their widest cell, two spaces between, a bold head; ends with a newline. */
export function table(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  paint: Paint,
): string {
  const width = columns.map((c, i) => Math.max(c.title.length, ...rows.map((r) => r[i].length)));
  const line = (cells: readonly string[]) =>
    cells.map((cell, i) => columns[i].right ? cell.padStart(width[i]) : cell.padEnd(width[i]))
      .join("  ").trimEnd();
  return [paint("bold", line(columns.map((c) => c.title))), ...rows.map(line)].join("\n") + "\n";
}

/** Model text for a terminal: control characters shown, so that they cannot steer the window. */
export function terminalSafe(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, (c) => {
    const code = c.charCodeAt(0);
    return code === 0x0d ? "" : code < 0x20 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}

// Their keys are names from elsewhere, not ours to respell.
const FOREIGN_KEYS: ReadonlySet<string> = new Set(["plan", "config"]);

/** Pretty JSON with snake_case keys and big integers as numbers; ends with a newline. */
export function json(value: unknown): string {
  return JSON.stringify(snakeKeys(value), null, 2) + "\n";
}

function snakeKeys(value: unknown): unknown {
  if (typeof value === "bigint") return Number(value);
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as Iterable<number>);
  if (Array.isArray(value)) return value.map(snakeKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, v]) => [
      key.replace(/[A-Z]/g, (c) => "_" + c.toLowerCase()),
      FOREIGN_KEYS.has(key) ? v : snakeKeys(v),
    ]),
  );
}
