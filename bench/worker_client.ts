/**
 * A subject in a process of its own: starts it, talks to it over a Unix socket, and turns its death into an
 * error of a row. Standard output of the worker belongs to the native library and is only kept for that
 * error. Measures nothing itself.
 */
import { join } from "node:path";
import * as v from "valibot";
import { UserError } from "../engine/errors.ts";
import { LineChannel } from "./lines.ts";
import { OutputError } from "./pairs.ts";
import { type Sample, type Side, type Subject, SubjectError, type Workload } from "./subject.ts";
import {
  type Opened,
  openedSchema,
  type OpenRequest,
  outputsSchema,
  replySchema,
  type Request,
  sampleSchema,
  WORKER_COMMAND,
  WORKER_PROTOCOL,
} from "./worker_protocol.ts";

export interface WorkerLaunch {
  readonly side: Side;
  /** Folder of the program that is measured, with its cli/main.ts. */
  readonly program: string;
  readonly request: OpenRequest;
}

/** The first start in a new worktree fetches what the program depends on. */
const START_MS = 300_000;
/** Loading a large checkpoint and filling a long context take minutes; an hour is a hang. */
const CALL_MS = 3_600_000;
const TAIL_CHARACTERS = 2000;

export class WorkerSubject implements Subject, AsyncDisposable {
  #worker: RunningWorker | null = null;
  #opened: Opened | null = null;

  constructor(readonly launch: WorkerLaunch) {}

  get side(): Side {
    return this.launch.side;
  }

  /** What the worker says that it opened. */
  async opened(): Promise<Opened> {
    await this.#ready();
    return this.#opened!;
  }

  async outputs(): Promise<string> {
    return this.#read(outputsSchema, await this.#call({ call: "outputs" })).digest;
  }

  async prepare(workload: Workload): Promise<void> {
    await this.#call({ call: "prepare", workload });
  }

  async sample(workload: Workload, repeats: number): Promise<Sample> {
    return this.#read(sampleSchema, await this.#call({ call: "sample", workload, repeats }));
  }

  #read<S extends v.GenericSchema>(schema: S, answer: unknown): v.InferOutput<S> {
    const read = v.safeParse(schema, answer);
    if (read.success) return read.output;
    throw new SubjectError(this.side, `garbled answer: ${read.issues[0].message}`);
  }

  async #call(request: Request): Promise<unknown> {
    const worker = await this.#ready();
    try {
      return await worker.call(request);
    } catch (e) {
      // The next row starts a fresh process: this one may have lost its state.
      if (!(e instanceof OutputError)) await this[Symbol.asyncDispose]();
      throw e;
    }
  }

  async #ready(): Promise<RunningWorker> {
    if (this.#worker) return this.#worker;
    const worker = await RunningWorker.start(this.launch);
    try {
      const request = { call: "open", request: this.launch.request } as const;
      const opened = v.safeParse(openedSchema, await worker.call(request));
      if (!opened.success || opened.output.protocol !== WORKER_PROTOCOL) {
        throw new UserError(
          `The program in ${this.launch.program} speaks another worker protocol than this one: ` +
            `compare it with a program of its own time.`,
        );
      }
      this.#opened = opened.output;
    } catch (e) {
      await worker[Symbol.asyncDispose]();
      throw e;
    }
    return this.#worker = worker;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const worker = this.#worker;
    this.#worker = null;
    await worker?.[Symbol.asyncDispose]();
  }
}

class RunningWorker implements AsyncDisposable {
  private constructor(
    readonly side: Side,
    readonly child: Deno.ChildProcess,
    readonly channel: LineChannel,
    readonly tail: () => string,
  ) {}

  static async start({ side, program }: WorkerLaunch): Promise<RunningWorker> {
    const folder = await Deno.makeTempDir({ prefix: "lapwing-worker-" });
    try {
      const path = join(folder, "socket");
      using listener = Deno.listen({ transport: "unix", path });
      const child = spawn(program, path);
      const tail = keepTail(child);
      const connection = await accepted(listener, child, tail, side);
      return new RunningWorker(side, child, new LineChannel(connection), tail);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }

  async call(request: Request): Promise<unknown> {
    const timer = setTimeout(() => this.child.kill("SIGKILL"), CALL_MS);
    let answer: unknown;
    try {
      await this.channel.send(request);
      answer = await this.channel.receive();
    } catch (e) {
      if (e instanceof SyntaxError) {
        throw new SubjectError(this.side, `garbled answer: ${e.message}`);
      }
    } finally {
      clearTimeout(timer);
    }
    if (answer === undefined) throw await died(this.child, this.tail, this.side);
    const read = v.safeParse(replySchema, answer);
    if (!read.success) {
      throw new SubjectError(this.side, `garbled answer: ${read.issues[0].message}`);
    }
    const reply = read.output;
    if ("ok" in reply) return reply.ok;
    if (reply.error === "user") throw new UserError(reply.message);
    if (reply.error === "output") throw new OutputError(`${this.side}: ${reply.message}`);
    throw new SubjectError(this.side, reply.message);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.channel[Symbol.dispose]();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await this.child.status;
    clearTimeout(timer);
  }
}

/** What opening a model, looking at the machine and answering over a socket needs. */
const PERMISSIONS = ["read", "write", "env", "ffi", "sys", "run", "net"].map((p) => `--allow-${p}`);

function spawn(program: string, socket: string): Deno.ChildProcess {
  const main = join(program, "cli", "main.ts");
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      ...PERMISSIONS,
      "--config",
      join(program, "deno.json"),
      main,
      WORKER_COMMAND,
      socket,
    ],
    cwd: program,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** The worker's connection; a worker that ends or stalls before it has one is an error. */
async function accepted(
  listener: Deno.UnixListener,
  child: Deno.ChildProcess,
  tail: () => string,
  side: Side,
): Promise<Deno.UnixConn> {
  const timer = setTimeout(() => child.kill("SIGKILL"), START_MS);
  const ended = child.status.then(async () => {
    throw await died(child, tail, side);
  });
  try {
    return await Promise.race([listener.accept(), ended]);
  } finally {
    clearTimeout(timer);
  }
}

async function died(
  child: Deno.ChildProcess,
  tail: () => string,
  side: Side,
): Promise<SubjectError> {
  const { signal, code } = await child.status;
  const how = signal ? `was ended by ${signal}` : `ended with code ${code}`;
  const said = tail().trim().split("\n").at(-1);
  return new SubjectError(side, `the worker ${how}${said ? `; it last said: ${said}` : ""}`);
}

/** Reads both streams to their ends, so that the worker never blocks on them, and keeps the last of it. */
function keepTail(child: Deno.ChildProcess): () => string {
  let text = "";
  const drain = async (stream: ReadableStream<Uint8Array>) => {
    for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
      text = (text + chunk).slice(-TAIL_CHARACTERS);
    }
  };
  Promise.all([drain(child.stdout), drain(child.stderr)]).catch(() => {});
  return () => text;
}
