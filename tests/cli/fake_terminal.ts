/** A terminal that collects what is written, for running commands inside a test. */
import type { EngineApi } from "../../engine/api_types.ts";
import { makeContext } from "../../cli/context.ts";
import { main } from "../../cli/main.ts";
import type { Terminal } from "../../cli/terminal.ts";

export interface Setup {
  readonly stdin?: string | Uint8Array;
  /** Streams that are terminals. */
  readonly tty?: { readonly in?: boolean; readonly out?: boolean; readonly err?: boolean };
  readonly env?: Record<string, string>;
  readonly engine?: EngineApi;
  readonly signal?: AbortSignal;
}

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Runs one command line in this process. */
export async function run(argv: readonly string[], setup: Setup = {}): Promise<Ran> {
  let out = "", err = "";
  const { stdin = "", tty = {} } = setup;
  const terminal: Terminal = {
    inIsTty: tty.in ?? false,
    outIsTty: tty.out ?? false,
    errIsTty: tty.err ?? false,
    out: (text) => void (out += text),
    err: (text) => void (err += text),
    columns: () => 80,
    reserveOut: () => {},
    readStdin: () =>
      Promise.resolve(typeof stdin === "string" ? new TextEncoder().encode(stdin) : stdin),
    interrupt: () => ({
      signal: setup.signal ?? new AbortController().signal,
      [Symbol.dispose]() {},
    }),
  };
  const engine = () =>
    setup.engine
      ? Promise.resolve(setup.engine)
      : Promise.reject(new Error("this test has no engine"));
  const code = await main(argv, makeContext(terminal, setup.env ?? {}, engine));
  return { code, out, err };
}
