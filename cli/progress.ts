/** A progress bar on standard error while something loads. Silent when that is not a terminal. */
import type { Progress } from "../engine/api_types.ts";
import type { Terminal } from "./terminal.ts";

const BAR = 24;
// Often enough to look smooth, rare enough to cost nothing.
const REDRAW_MS = 80;

export class ProgressBar implements Disposable {
  readonly #terminal: Terminal;
  readonly #now: () => number;
  #drawnAt = -Infinity;
  #shown = false;

  constructor(terminal: Terminal, now: () => number = () => performance.now()) {
    this.#terminal = terminal;
    this.#now = now;
  }

  /** Draws the state, unless the last drawing is too recent. */
  update(p: Progress): void {
    if (!this.#terminal.errIsTty) return;
    const now = this.#now();
    if (now - this.#drawnAt < REDRAW_MS) return;
    this.#drawnAt = now;
    const share = p.total > 0 ? Math.min(1, Math.max(0, p.done / p.total)) : 0;
    const full = Math.round(share * BAR);
    const bar = "█".repeat(full) + "░".repeat(BAR - full);
    const line = `${bar} ${String(Math.floor(share * 100)).padStart(3)}% ${p.stage}`;
    this.#terminal.err(`\r\x1b[K${line.slice(0, Math.max(0, this.#terminal.columns() - 1))}`);
    this.#shown = true;
  }

  /** Takes the bar off the screen. */
  [Symbol.dispose](): void {
    if (this.#shown) this.#terminal.err("\r\x1b[K");
    this.#shown = false;
  }
}
