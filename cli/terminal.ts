/**
 * The process's streams and its interrupt key behind an interface, so that commands run in tests
 * without a process. Formats nothing.
 */
import { UserError } from "../engine/errors.ts";
import { reserveStdout } from "../ffi/abi/descriptors.ts";

export interface Interrupt extends Disposable {
  readonly signal: AbortSignal;
}

export interface Terminal {
  readonly outIsTty: boolean;
  readonly errIsTty: boolean;
  readonly inIsTty: boolean;
  out(text: string): void;
  err(text: string): void;
  /** Columns of the error stream's window. */
  columns(): number;
  readStdin(): Promise<Uint8Array>;
  /** From now on standard output is this program's alone: what native code prints goes to the errors. */
  reserveOut(): void;
  /** Turns the first Ctrl-C or SIGTERM into an abort until it is disposed; a later one ends the process. */
  interrupt(): Interrupt;
}

type Sink = { writeSync(bytes: Uint8Array): number };

function writeAll(sink: Sink, text: string): void {
  let rest: Uint8Array = new TextEncoder().encode(text);
  while (rest.length > 0) rest = rest.subarray(sink.writeSync(rest));
}

function writeOut(sink: Sink, text: string): void {
  try {
    writeAll(sink, text);
  } catch (e) {
    if (e instanceof Deno.errors.BrokenPipe) throw e;
    throw new UserError(
      `Cannot write to standard output: ${(e as Error).message}. Send it where there is room.`,
    );
  }
}

/** Where errors cannot be written there is nobody to tell; the exit code must still be right. */
function writeErr(text: string): void {
  try {
    writeAll(Deno.stderr, text);
  } catch {
    return;
  }
}

function windowColumns(): number {
  try {
    return Deno.consoleSize().columns;
  } catch {
    return 80;
  }
}

const INTERRUPTS = ["SIGINT", "SIGTERM"] as const;
/** `deno task` hands on a signal that the whole process group has got already: both are one. */
const SAME_MS = 1000;

function listenForInterrupt(): Interrupt {
  const controller = new AbortController();
  let same: ReturnType<typeof setTimeout> | undefined;
  const release = () => {
    clearTimeout(same);
    for (const name of INTERRUPTS) Deno.removeSignalListener(name, stop);
  };
  const stop = () => {
    if (controller.signal.aborted) return;
    same = setTimeout(release, SAME_MS);
    controller.abort();
  };
  for (const name of INTERRUPTS) Deno.addSignalListener(name, stop);
  return { signal: controller.signal, [Symbol.dispose]: release };
}

/** The terminal of this process. */
export function systemTerminal(): Terminal {
  let sink: Sink = Deno.stdout;
  return {
    outIsTty: Deno.stdout.isTerminal(),
    errIsTty: Deno.stderr.isTerminal(),
    inIsTty: Deno.stdin.isTerminal(),
    out: (text) => writeOut(sink, text),
    err: (text) => writeErr(text),
    columns: windowColumns,
    readStdin: async () => new Uint8Array(await new Response(Deno.stdin.readable).arrayBuffer()),
    reserveOut: () => {
      sink = reserveStdout() ?? sink;
    },
    interrupt: listenForInterrupt,
  };
}
