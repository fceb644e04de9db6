/**
 * Energy on macOS: the power that `powermetrics` prints for each stretch, times its length, added up. Written
 * from its manual page and from output that others have published; none of this has run on a Mac. The manual
 * calls these powers estimates that should not be compared between machines.
 */
import type { EnergyMeter } from "./port.ts";

/** A program that runs beside this one. */
export interface Child {
  /** What it prints, as it prints it, cut anywhere. */
  readonly output: AsyncIterable<string>;
  /** Resolves when it has ended, with why: its complaint or its exit code. */
  readonly ended: Promise<string>;
  kill(): void;
}

export interface ChildHost {
  /** Throws where there is no such program. */
  start(program: string, args: readonly string[]): Child;
  /** Monotonic nanoseconds. */
  now(): bigint;
}

const PERIOD_MS = 200;
/** By lines, as a pipe would otherwise get whole blocks of some seconds. */
const ARGS = ["--samplers", "cpu_power,gpu_power", "-i", String(PERIOD_MS), "--buffer-size", "1"];
/** So long the first power is waited for, and so long the latest one stands when no other comes. */
const FIRST_MS = 10_000;
const SILENCE_MS = 2000;
/** Samples without a power after which none is expected. */
const POWERLESS_MAX = 5;

export interface PowerSample {
  readonly ms: number;
  /** Undefined where no line told it. */
  readonly watts: number | undefined;
  /** When its first line came, which is printed at its end. */
  readonly at: bigint;
}

const HEAD = /^\*+ Sampled system activity .*\(([\d.]+) ?ms elapsed\)/;
const POWER = /^(Combined|Package|CPU|GPU|ANE) Power(?: \([^)]*\))?: +([\d.]+) *(m?)W\b/;
const INTEL = /^Intel energy model derived package power(?: \([^)]*\))?: +([\d.]+) *(m?)W\b/;

/** From printed text to samples, however it is cut. */
export class PowerText {
  #rest = "";
  #open: { readonly ms: number; readonly at: bigint; readonly watts: Map<string, number> } | null =
    null;

  /** Samples that are complete with this text. */
  push(text: string, at: bigint): PowerSample[] {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    return lines.flatMap((line) => this.#line(line.trim(), at));
  }

  #line(line: string, at: bigint): PowerSample[] {
    const head = HEAD.exec(line);
    if (head) {
      const before = this.#close();
      this.#open = { ms: Number(head[1]), at, watts: new Map() };
      return before;
    }
    const power = POWER.exec(line), intel = INTEL.exec(line);
    const [name, value, milli] = power?.slice(1) ?? ["Package", ...intel?.slice(1) ?? []];
    if (value === undefined) return [];
    this.#open?.watts.set(name, Number(value) / (milli ? 1000 : 1));
    // The sum of all is the best that there is: nothing later can better it.
    return name === "Combined" ? this.#close() : [];
  }

  #close(): PowerSample[] {
    if (!this.#open) return [];
    const { ms, at, watts } = this.#open;
    this.#open = null;
    const parts = ["CPU", "GPU", "ANE"].flatMap((name) => watts.get(name) ?? []);
    const sum = parts.length > 0 ? parts.reduce((a, b) => a + b, 0) : undefined;
    return [{ ms, at, watts: watts.get("Combined") ?? watts.get("Package") ?? sum }];
  }
}

/** A child process that is read until the meter is disposed. */
export class PowermetricsMeter implements EnergyMeter {
  readonly source = "powermetrics";
  readonly #text = new PowerText();
  #joules = 0;
  /** Of the latest sample, and when that ended. */
  #watts: number | null = null;
  #at = 0n;
  #powerless = 0;
  #told = 0;
  #lost: string | null = null;
  #disposed = false;

  private constructor(readonly host: ChildHost, readonly child: Child) {}

  /** A meter that has seen a power, or why there is none. */
  static async open(host: ChildHost): Promise<PowermetricsMeter | { readonly absent: string }> {
    let child: Child;
    try {
      child = host.start("powermetrics", ARGS);
    } catch (e) {
      return { absent: `powermetrics cannot be started: ${(e as Error).message}` };
    }
    const meter = new PowermetricsMeter(host, child);
    await meter.#begin();
    if (meter.#watts !== null && meter.#lost === null) return meter;
    const absent = meter.#lost ?? `powermetrics showed no power within ${FIRST_MS / 1000} seconds`;
    meter[Symbol.dispose]();
    return { absent };
  }

  lost(): string | null {
    return this.#lost;
  }

  /**
   * A play may end between two samples: until the next one is there, the latest power goes on. So a reading
   * before the load and one at its end are both near the truth, and what lies between is summed exactly.
   */
  joules(): Promise<number | null> {
    const since = this.host.now() - this.#at;
    if (Number(since) > SILENCE_MS * 1e6) this.#lose("powermetrics fell silent");
    if (this.#lost !== null) return Promise.resolve(null);
    this.#told = Math.max(this.#told, this.#joules + this.#watts! * Number(since) / 1e9);
    return Promise.resolve(this.#told);
  }

  /** Reads until the end; resolves at the first power, or where none will come. */
  #begin(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, FIRST_MS);
      const done = () => {
        clearTimeout(timer);
        resolve();
      };
      void this.#read(done).finally(done);
    });
  }

  async #read(onPower: () => void): Promise<void> {
    try {
      for await (const text of this.child.output) {
        for (const sample of this.#text.push(text, this.host.now())) this.#add(sample);
        if (this.#watts !== null || this.#lost !== null) onPower();
      }
      this.#lose(`powermetrics ended: ${await this.child.ended}`);
    } catch (e) {
      this.#lose(`powermetrics cannot be read: ${(e as Error).message}`);
    }
  }

  #add({ ms, watts, at }: PowerSample): void {
    this.#powerless = watts === undefined ? this.#powerless + 1 : 0;
    if (this.#powerless === POWERLESS_MAX) {
      this.#lose("powermetrics shows no power on this machine");
    }
    const used = watts ?? this.#watts;
    if (used === null) return;
    this.#joules += used * ms / 1e3;
    this.#watts = used;
    this.#at = at;
  }

  #lose(why: string): void {
    if (!this.#disposed) this.#lost ??= why;
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.child.kill();
  }
}
