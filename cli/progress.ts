/** A progress bar on standard error while something loads. Silent when that is not a terminal. */
import type { Progress } from "../engine/api_types.ts";
import { bytes } from "./print.ts";
import type { Terminal } from "./terminal.ts";

const BAR = 24;
// Often enough to look smooth, rare enough to cost nothing.
const REDRAW_MS = 80;

export class ProgressBar implements Disposable {
  readonly #terminal: Terminal;
  readonly #now: () => number;
  #drawnAt = -Infinity;
  /** When and where the present stage began. */
  #began = { stage: "", at: 0, done: 0 };
  #shown = false;

  constructor(terminal: Terminal, now: () => number = () => performance.now()) {
    this.#terminal = terminal;
    this.#now = now;
  }

  /** Draws the state, unless the last drawing is too recent. */
  update(p: Progress): void {
    if (!this.#terminal.errIsTty) return;
    const now = this.#now();
    if (p.stage !== this.#began.stage) this.#began = { stage: p.stage, at: now, done: p.done };
    if (now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    const share = p.total > 0 ? Math.min(1, Math.max(0, p.done / p.total)) : 0;
    const full = Math.round(share * BAR);
    const bar = "█".repeat(full) + "░".repeat(BAR - full);
    const percent = String(Math.floor(share * 100)).padStart(3);
    const line = `${bar} ${percent}% ${p.stage}${
      p.unit === "bytes" ? this.#bytesText(p, now) : ""
    }`;
    this.#terminal.err(`\r\x1b[K${line.slice(0, Math.max(0, this.#terminal.columns() - 1))}`);
    this.#shown = true;
  }

  /** `: 4.90 GB of 20.4 GB, 6.12 GB/s`. */
  #bytesText({ done, total }: Progress, now: number): string {
    const { at, done: from } = this.#began;
    const rate = now > at && done > from ? `, ${bytes(1e3 * (done - from) / (now - at))}/s` : "";
    return `: ${bytes(done)} of ${bytes(total)}${rate}`;
  }

  /** Takes the bar off the screen. */
  [Symbol.dispose](): void {
    if (this.#shown) this.#terminal.err("\r\x1b[K");
    this.#shown = false;
  }
}
