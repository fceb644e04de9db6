/**
 * One play behind a filled engine, to be timed record by record or in plain calls: a token, a chunk of a prompt,
 * or a round whose drafts are all right. Reads no clock.
 */
import { movedBytes } from "../engine/cost.ts";
import type { ReadyTape } from "../engine/state.ts";
import { costOfRecord, costOfTape } from "../ffi/tape/cost.ts";
import { hashTape } from "../ffi/tape/encode.ts";
import type { LiveEngine } from "./live.ts";
import type { RoutingFacts, Work } from "./port.ts";
import type { ProfiledPlay } from "./profile.ts";
import type { RecordFacts } from "./profile_figures.ts";
import type { ProfileSpec } from "./profile_report.ts";
import { placesOf } from "./record_places.ts";
import { playOf } from "./work_cost.ts";

/** Tokens of one call of plain decode. */
export const DECODE_PLAYS = 32;

/** What a phase plays. */
export function workOf({ phase, rows }: Pick<ProfileSpec, "phase" | "rows">): Work {
  if (phase === "decode") return { kind: "decode", gen: DECODE_PLAYS };
  return phase === "prefill" ? { kind: "prefill", prompt: rows } : { kind: "round", rows };
}

export class LivePlay implements ProfiledPlay {
  readonly playsPerCall: number;
  readonly #ready: ReadyTape;

  private constructor(
    readonly engine: LiveEngine,
    readonly work: Work,
    readonly depth: number,
    readonly routing: RoutingFacts | null,
  ) {
    const { rows, output } = playOf(work, engine.settings.prefillRows);
    this.playsPerCall = work.kind === "decode" ? work.gen : 1;
    // The tape of the plain call: which attention it has goes by the last of its tokens.
    const keys = depth + rows + this.playsPerCall - 1;
    this.#ready = engine.session.tapeFor(rows, keys, output);
  }

  /** Fills the engine up to `depth`. */
  static async open(
    engine: LiveEngine,
    spec: Pick<ProfileSpec, "phase" | "rows" | "n_depth">,
    signal?: AbortSignal,
  ): Promise<LivePlay> {
    const work = workOf(spec), depth = spec.n_depth;
    await engine.fill(depth, signal);
    const routing = await engine.routing();
    // What forced drafts are right by.
    if (work.kind === "round") await engine.serial();
    return new LivePlay(engine, work, depth, routing);
  }

  async rewind(): Promise<void> {
    await this.engine.rewind();
    if (this.work.kind === "round") this.engine.draft(this.work.rows, this.work.rows - 1);
  }

  profile(): number[] {
    const { loaded, planned } = this.#ready;
    return Array.from(loaded.profile(planned.records.length), Number);
  }

  async plain(): Promise<void> {
    const { engine, work } = this;
    if (work.kind === "decode") await engine.decode(work.gen);
    else if (work.kind === "prefill") await engine.prefill(work.prompt);
    else await engine.session.rounds(1, { rows: this.#ready.shape.rows });
  }

  records(): RecordFacts[] {
    const { planned } = this.#ready, at = this.#traffic();
    const places = placesOf(planned, this.engine.model.config.layerKinds);
    return planned.records.map((r, i) => {
      const { bytes, flops } = costOfRecord(r, planned.slots, at);
      return {
        op: r.op.name,
        kernel: r.kernel,
        ...places[i],
        waits: planned.waits[i],
        bytes: { weights: bytes.weights, kv: bytes.kv, state: bytes.recurrent },
        flops,
      };
    });
  }

  /** Bytes of a play that cross the memory. */
  bytes(): number {
    return Math.round(movedBytes(costOfTape(this.#ready.planned, this.#traffic())));
  }

  async hash(): Promise<string> {
    return await hashTape(this.#ready.planned, this.#ready.encoded);
  }

  #traffic() {
    const distinct = this.routing?.distinct(this.#ready.shape.rows);
    return { pos: this.depth, ...distinct !== undefined && { distinctExperts: distinct } };
  }
}
