/**
 * A profile: one play timed record by record, in turn with plain plays of the same work, all from one filled state.
 * Owns that order and what it is held against; figures are in profile_figures.ts. Prints nothing.
 */
import type { Env, Progress } from "../engine/api_types.ts";
import { UserError } from "../engine/errors.ts";
import { refuseShape } from "../engine/explain.ts";
import { prefillRowsDefault } from "../engine/prefill_rows.ts";
import { CTX_DEFAULT } from "../engine/session.ts";
import { ROUND_TOKENS } from "./grid.ts";
import { toolIdentity } from "./identity.ts";
import { DECODE_PLAYS, LivePlay } from "./live_play.ts";
import type { Clock } from "./port.ts";
import { profileFigures, type ProfileTimes } from "./profile_figures.ts";
import { type Profile, PROFILE_SCHEMA, type ProfileSpec } from "./profile_report.ts";
import { LiveRig } from "./rig.ts";

/** One play behind a filled state; a test can stand in for it. */
export interface ProfiledPlay {
  /** Plays that one plain call makes. */
  readonly playsPerCall: number;
  /** Back to the filled state: every play does the same work. */
  rewind(): Promise<void>;
  /** Plays once; nanoseconds of each record. */
  profile(): number[];
  /** One call of plain plays, which has finished its work when its promise resolves. */
  plain(): Promise<void>;
}

export interface ProfileLoop {
  readonly clock: Clock;
  readonly repetitions: number;
  readonly signal?: AbortSignal;
  readonly onRepetition?: (done: number, of: number) => void;
}

/** Slow plays need fewer plain calls: more than these only within so long. */
const PLAIN_CALLS_MIN = 5;
const PLAIN_NS = 4e9;
const WARM_CALLS = 2;

/** Both kinds in turn, so that a drift of the machine is in both, behind some that only warm up. */
export async function takeProfile(play: ProfiledPlay, o: ProfileLoop): Promise<ProfileTimes> {
  const profiles: number[][] = [], callsNs: number[] = [];
  const plain = async () => {
    await play.rewind();
    const from = o.clock.now();
    await play.plain();
    return Number(o.clock.now() - from);
  };
  const profile = async () => {
    await play.rewind();
    return play.profile();
  };
  // Plain first: it leaves the tokens of a prompt where the profiled play reads them. A player may make itself
  // ready in the second call only, when it knows that there are more than one.
  for (let i = 0; i < WARM_CALLS; i++) await plain();
  await profile();
  for (let i = 0, spent = 0; i < o.repetitions; i++) {
    o.signal?.throwIfAborted();
    if (callsNs.length < PLAIN_CALLS_MIN || spent < PLAIN_NS) {
      const ns = await plain();
      callsNs.push(ns);
      spent += ns;
    }
    profiles.push(await profile());
    o.onRepetition?.(i + 1, o.repetitions);
  }
  await play.rewind();
  return { profiles, playsPerCall: play.playsPerCall, callsNs };
}

export interface ProfileOptions {
  /** Threads 0: all; ctx 0: as large as explain's, or as the plays need. */
  readonly spec: ProfileSpec;
  readonly argv: readonly string[];
  readonly env: Env;
  readonly library?: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (p: Progress) => void;
  readonly onNote?: (line: string) => void;
}

/** Throws UserError for what the caller can fix before anything is loaded. */
export async function runProfile(o: ProfileOptions): Promise<Profile> {
  const { spec } = o, { threads, kv } = spec;
  refuseUntimed(spec.device);
  refuseShape(spec);
  using rig = await LiveRig.open({
    spec: { ...spec, verify_sweep: null, tokens: "random", text_file: null, seed: 0 },
    env: o.env,
    library: o.library,
    onProgress: o.onProgress,
    onNote: o.onNote,
  });
  const env = await rig.environment(threads);
  const model = await rig.identity(threads);
  const prefillRows = spec.phase === "prefill" ? spec.rows : prefillRowsDefault(spec.device);
  const settings = { threads, kv, prefillRows };
  const ctx = contextFor(spec, await rig.contextMax(threads));
  using engine = await rig.open(settings, ctx);
  o.onProgress?.({ stage: `filling ${spec.n_depth} tokens`, done: 0, total: spec.repetitions });
  const play = await LivePlay.open(engine, spec, o.signal);
  const times = await takeProfile(play, {
    clock: rig.clock,
    repetitions: spec.repetitions,
    signal: o.signal,
    onRepetition: (done, total) => o.onProgress?.({ stage: "profiling", done, total }),
  });
  const bytes = play.bytes(), rate = await rig.readBandwidth(settings, bytes) / 1e9;
  return {
    schema: PROFILE_SCHEMA,
    started_at: new Date().toISOString(),
    tool: await toolIdentity(),
    argv: [...o.argv],
    spec: { ...spec, threads: env.library.threads, ctx },
    env,
    model,
    tape_sha256: await play.hash(),
    working_set_bytes: bytes,
    measured_gb_s: rate,
    ...profileFigures(play.records(), times, rate),
  };
}

const UNTIMED: Readonly<Record<string, string>> = {
  null: "computes nothing, so no record of it takes time",
  emu: "runs GPU threads as fibers of the CPU: its times say nothing about a GPU",
};

function refuseUntimed(device: string): void {
  if (!Object.hasOwn(UNTIMED, device)) return;
  throw new UserError(`--device ${device} ${UNTIMED[device]}. Give cpu, cuda or metal.`);
}

/** As large as explain's context, unless the plays need more. Throws UserError where one was given that is too small. */
export function contextFor(
  { phase, rows, n_depth: depth, ctx }: Pick<ProfileSpec, "phase" | "rows" | "n_depth" | "ctx">,
  contextMax: number,
): number {
  const ahead = phase === "decode" ? DECODE_PLAYS : phase === "verify" ? ROUND_TOKENS : rows;
  const need = depth + ahead + 1;
  if (ctx === 0) return Math.max(need, Math.min(contextMax, Math.max(CTX_DEFAULT, depth + rows)));
  if (ctx >= need) return ctx;
  throw new UserError(
    `--ctx ${ctx} is too small: ${phase} at depth ${depth} is timed over ${need} positions. Give --ctx ${need} or more.`,
  );
}
