/**
 * Prompt ids to text: prefill, then runs of decode with streaming, stop strings and interruption. Owns the
 * loop and its clock; sampling and stopping at token ids happen on the device.
 */
import type { GenerateOptions, GeneratePiece, GenerateResult, StopReason } from "./api_types.ts";
import type { Session } from "./session.ts";
import type { Rounds, RoundsReport } from "./speculate/rounds.ts";
import { roundsFor } from "./speculate/speculation.ts";
import { StopMatcher } from "./stop.ts";
import type { HALT } from "../kernels/step.ts";

/** One call into the device should last about this long: short enough to stream and to interrupt. */
const CALL_MS = 30;
const TOKENS_PER_CALL_MAX = 64;

const REASON: Record<keyof typeof HALT, StopReason | null> = {
  running: null,
  stopToken: "stop_token",
  budget: "max_tokens",
  contextFull: "context_full",
};

/** Text of one run as it becomes certain, cut at stop strings and at stop tokens. */
class TextRun {
  readonly #decoder;
  readonly #matcher: StopMatcher;
  readonly #stopIds: ReadonlySet<number>;
  readonly ids: number[] = [];
  text = "";
  stopped: StopReason | null = null;

  constructor(session: Session, options: GenerateOptions) {
    this.#decoder = session.model.tokenizer.streamDecoder();
    this.#matcher = new StopMatcher(options.stopStrings);
    this.#stopIds = new Set(options.stopIds);
  }

  /** Takes new ids; tokens behind a stop are dropped. */
  push(ids: Uint32Array): GeneratePiece {
    let text = "";
    const taken: number[] = [];
    for (const id of ids) {
      if (this.stopped) break;
      if (this.#stopIds.has(id)) {
        this.stopped = "stop_token";
        break;
      }
      taken.push(id);
      const out = this.#matcher.push(this.#decoder.push(id));
      text += out.text;
      if (out.stop !== null) this.stopped = "stop_string";
    }
    return this.#give(text, taken);
  }

  /** What was still held back; nothing when a stop string ended the text. */
  end(): GeneratePiece {
    if (this.stopped === "stop_string") return { text: "", ids: [] };
    const last = this.#matcher.push(this.#decoder.end());
    return this.#give(last.text + this.#matcher.end(), []);
  }

  #give(text: string, ids: number[]): GeneratePiece {
    this.text += text;
    this.ids.push(...ids);
    return { text, ids };
  }
}

/** How a run is played: a token at a time or by speculative rounds. */
type Player = Pick<Rounds, "prefill" | "take" | "next"> & { readonly report?: RoundsReport };

function playerOf(session: Session, { speculation, prompt }: GenerateOptions): Player {
  const rounds = roundsFor(session, speculation);
  rounds?.begin(prompt);
  return rounds ?? {
    prefill: (ids, signal) => session.prefill(ids, signal),
    take: () => session.take(),
    next: async (tokens) => {
      const halt = await session.decode(tokens);
      return { ids: session.take(), halt };
    },
  };
}

function nowNs(): number {
  return Math.round(performance.now() * 1e6);
}

/**
 * Generates after `prompt` at the session's position. Yields text as soon as it is certain; returns the
 * whole result. Throws UserError when the prompt does not fit, NativeError when the device fails.
 */
export async function* generate(
  session: Session,
  options: GenerateOptions,
): AsyncGenerator<GeneratePiece, GenerateResult, void> {
  const { signal } = options;
  const run = new TextRun(session, options);
  const prompt = Uint32Array.from(options.prompt);
  const player = playerOf(session, options);
  session.begin({
    sampling: options.sampling,
    stopIds: options.stopIds,
    limit: Math.max(1, options.maxTokens),
  });
  const start = nowNs(), before = session.pos;
  if (options.maxTokens > 0) await player.prefill(prompt, signal);
  const first = nowNs();
  // Fewer than the prompt has where the prefill was interrupted.
  const promptTokens = options.maxTokens > 0 ? session.pos - before : prompt.length;
  let last = first, produced = 0, perCall = 1;
  let halt: StopReason | null = options.maxTokens > 0 ? null : "max_tokens";
  let ids = player.take(), state = session.halted();
  while (!halt && !run.stopped) {
    produced += ids.length;
    last = nowNs();
    if (ids.length) yield run.push(ids);
    halt = signal?.aborted ? "interrupted" : REASON[state];
    if (halt || run.stopped) break;
    const called = performance.now();
    ({ ids, halt: state } = await player.next(perCall));
    if (performance.now() - called < CALL_MS) perCall = Math.min(perCall * 2, TOKENS_PER_CALL_MAX);
  }
  const tail = run.end();
  if (tail.text) yield tail;
  return {
    ids: Uint32Array.from(run.ids),
    text: run.text,
    stopReason: run.stopped ?? halt ?? "interrupted",
    promptTokens,
    prefillNs: first - start,
    ttftNs: first - start,
    decodeIntervals: Math.max(0, produced - 1),
    decodeNs: last - first,
    ...player.report && { rounds: player.report },
  };
}
