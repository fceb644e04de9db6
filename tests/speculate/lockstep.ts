/**
 * Two sessions side by side, one a token at a time and one by rounds: whatever the rounds do, tokens, logits,
 * recurrent states and caches up to the position must be the same bytes.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { DeviceKind } from "../../ffi/abi/layout.ts";
import { GREEDY, type Sampling } from "../../engine/generation_config.ts";
import { defaultPlan, type LoadedModel, openDevice, openModel } from "../../engine/model.ts";
import { Session, type SessionOptions } from "../../engine/session.ts";
import type { ScriptedDraft } from "../../engine/speculate/scripted.ts";

const FIXTURES = new URL("../fixtures/", import.meta.url).pathname;

export const MODELS: Readonly<Record<string, string>> = {
  tiny: "tiny",
  dense: `${FIXTURES}qwen35-dense-tiny/model.safetensors`,
  moe: `${FIXTURES}qwen35-moe-tiny/model.safetensors`,
  "dense head": `${FIXTURES}qwen35-dense-tiny`,
  "dense mlx4": `${FIXTURES}qwen35-dense-tiny/mlx4`,
};

export const ENDLESS = 0xffff_ffff;

export interface Pair {
  readonly model: LoadedModel;
  readonly serial: Session;
  readonly rounds: Session;
}

export interface PairOptions {
  readonly kind?: DeviceKind;
  readonly actInt8?: boolean;
  /** Left out: as the device has it. */
  readonly fused?: boolean;
  readonly draftHead?: boolean;
  readonly session?: SessionOptions;
}

export async function withPair(
  name: string,
  options: PairOptions,
  run: (pair: Pair) => Promise<void>,
): Promise<void> {
  const { kind = "cpu", actInt8 = false, draftHead = false } = options;
  using device = openDevice({ kind });
  const { fused = defaultPlan(kind).fused } = options;
  using model = await openModel(name, { device, env: {}, plan: { actInt8, fused }, draftHead });
  using serial = new Session(model, { ctx: 512, ...options.session });
  using rounds = new Session(model, { ctx: 512, ...options.session, draftHead });
  await run({ model, serial, rounds });
}

/** A prompt of any length for any model. */
export function somePrompt(model: LoadedModel, n: number): Uint32Array<ArrayBuffer> {
  const most = Math.min(model.config.vocab, 500);
  return Uint32Array.from({ length: n }, (_, i) => (i * i * 31 + i * 7 + 13) % most);
}

export interface StartOptions {
  readonly sampling?: Sampling;
  readonly stopIds?: readonly number[];
  readonly limit?: number;
  /** Drafts that the head makes behind the prompt. */
  readonly drafts?: number;
}

/** Both sessions behind the same prompt, with its first token sampled. */
export async function start(
  { serial, rounds }: Pair,
  prompt: Uint32Array<ArrayBuffer>,
  { sampling = GREEDY, stopIds = [], limit = ENDLESS, drafts = 0 }: StartOptions = {},
): Promise<void> {
  for (const session of [serial, rounds]) {
    session.reset();
    session.begin({ sampling, stopIds, limit });
  }
  await serial.prefill(prompt);
  await rounds.prefill(prompt, undefined, drafts);
}

/** The timeline that serial decode makes: prompt and `n` tokens. Leaves the session behind the prompt. */
export async function truthOf(
  session: Session,
  prompt: Uint32Array<ArrayBuffer>,
  n: number,
  sampling: Sampling = GREEDY,
): Promise<number[]> {
  session.reset();
  session.begin({ sampling, stopIds: [], limit: ENDLESS });
  await session.prefill(prompt);
  await session.decode(n - 1);
  return [...prompt, ...session.take()];
}

/** Decodes what the rounds have made and compares everything; gives the tokens. */
export async function compare(pair: Pair, what: string): Promise<number[]> {
  const { serial, rounds } = pair;
  const got = [...rounds.take()], n = rounds.pos - serial.pos;
  if (n > 0) await serial.decode(n);
  assert.deepEqual(got, [...serial.take()], `${what}: tokens`);
  assert.equal(rounds.pos, serial.pos, `${what}: position`);
  assert.equal(rounds.halted(), serial.halted(), `${what}: why it stopped`);
  compareStates(pair, what);
  return got;
}

export function compareStates({ serial, rounds }: Pair, what: string): void {
  sameStates(rounds, serial.readStates(), what);
}

/** The session's recurrent states, and its caches up to its position, are those of `wanted`. */
export function sameStates(
  session: Session,
  wanted: ReadonlyMap<string, Uint8Array>,
  what: string,
): void {
  const { ctx, pos, model } = session, got = session.readStates();
  for (const [name, want] of wanted) {
    const mine = got.get(name)!;
    if (!name.startsWith("kv.")) {
      assert(same(mine, want), `${what}: ${name} differs`);
      continue;
    }
    const perHead = want.length / model.config.kvHeads;
    const bytes = perHead / ctx * pos;
    for (let at = 0; at < want.length; at += perHead) {
      const rows = (x: Uint8Array) => x.subarray(at, at + bytes);
      assert(same(rows(mine), rows(want)), `${what}: ${name} before ${pos} differs`);
    }
  }
}

/** The logits that gave the last token, of a round of `rows` that kept `kept`, against serial ones. */
export function compareLogits(
  { serial, rounds }: Pair,
  rows: number,
  kept: number,
  what: string,
): void {
  assert(same(lastLogits(rounds, rows, kept), lastLogits(serial)), `${what}: final logits differ`);
}

/** Bytes of the logits of the last token: those of a play of one row, or of the row that a round kept last. */
export function lastLogits(session: Session, rows = 1, kept = 1): Uint8Array {
  const { vocab } = session.model.config;
  const all = session.readState("logits", rows * vocab);
  return new Uint8Array(all.slice((kept - 1) * vocab, kept * vocab).buffer);
}

export function same(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  const words = (x: Uint8Array) => Buffer.from(x.buffer, x.byteOffset, x.length);
  return words(a).equals(words(b));
}

/** Drafts of `length`, the first `right` of which are what follows in `truth` behind position `pos`. */
export function draftAt(
  truth: readonly number[],
  pos: number,
  { length, right }: ScriptedDraft,
  vocab: number,
): number[] {
  return Array.from({ length }, (_, i) => {
    const id = truth[pos + 1 + i];
    return i < right ? id : (id + 1) % vocab;
  });
}

/** Every width up to `most` with a rejection at every place, and with none. */
export function everyRejection(widths: readonly number[]): { rows: number; right: number }[] {
  return widths.flatMap((rows) => Array.from({ length: rows }, (_, right) => ({ rows, right })));
}
