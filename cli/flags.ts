/**
 * The table of flags that commands share, with the parsers of their values, and the only reader of
 * the environment. Says what a flag may be; what it does is the command's business.
 */
import { InvalidArgumentError, Option } from "commander";
import type { DeviceKind, Env, Phase, Plan } from "../engine/api_types.ts";
import { DEVICE_KINDS } from "../ffi/abi/layout.ts";

/** The environment as it is now. */
export function readEnv(): Env {
  return Deno.env.toObject();
}

interface Range {
  readonly min: number;
  readonly max?: number;
  /** The smallest value itself is not allowed. */
  readonly above?: true;
  /** Devices take it as an f32, where what is nearer to 0 than the least normal one may become 0. */
  readonly f32?: true;
  readonly example: string;
}

function inRange(n: number, r: Range): boolean {
  return (r.above ? n > r.min : n >= r.min) && n <= (r.max ?? Infinity);
}

function describeRange({ min, max, above, example }: Range): string {
  const low = above ? `above ${min}` : max === undefined ? `of at least ${min}` : `from ${min}`;
  const high = max === undefined ? "" : above ? ` and at most ${max}` : ` to ${max}`;
  return `${low}${high}, such as ${example}`;
}

/** Parser of a whole number. */
export function whole(range: Range): (text: string) => number {
  return (text) => {
    const n = /^-?\d+$/.test(text) ? Number(text) : NaN;
    if (Number.isSafeInteger(n) && inRange(n, range)) return n;
    throw new InvalidArgumentError(`Expected a whole number ${describeRange(range)}.`);
  };
}

/** Parser of a decimal number. */
export function decimal(range: Range): (text: string) => number {
  return (text) => {
    const n = /^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : NaN;
    if (!Number.isFinite(n) || !inRange(n, range)) {
      throw new InvalidArgumentError(`Expected a number ${describeRange(range)}.`);
    }
    if (range.f32 && isLostInF32(text, n)) {
      const zero = range.above ? "" : "0 or ";
      throw new InvalidArgumentError(
        `Too small for a 32-bit float: expected ${zero}at least 1.2e-38, such as ${range.example}.`,
      );
    }
    return n;
  };
}

const F32_LEAST = 2 ** -126;

/** Also what is 0 in 64 bits already, though it was not written as 0. */
function isLostInF32(text: string, n: number): boolean {
  return n < F32_LEAST && /[1-9]/.test(text.split(/e/i)[0]);
}

function planSwitch(text: string, previous: Plan): Plan {
  const m = /^([A-Za-z]\w*)=(on|off)$/.exec(text);
  if (!m) throw new InvalidArgumentError("Expected NAME=on or NAME=off, such as actInt8=off.");
  return { ...previous, [m[1]]: m[2] === "on" };
}

function stopString(text: string, previous: readonly string[]): readonly string[] {
  if (text === "") throw new InvalidArgumentError("Expected some text, such as 'User:'.");
  return [...previous, text];
}

function draftTokens(text: string): number | "auto" {
  return text === "auto" ? text : whole({ min: 1, max: 15, example: "3" })(text);
}

function bits(text: string): 4 | 8 {
  if (text === "4" || text === "8") return text === "4" ? 4 : 8;
  throw new InvalidArgumentError("Expected 4 or 8 bits.");
}

const KV_TYPES = ["f32", "f16", "bf16", "q8"] as const;
const PHASES = ["decode", "prefill", "verify"] as const;
const SPECULATIONS = ["off", "auto", "ngram", "mtp"] as const;
const NO_STOPS: readonly string[] = [];
const NO_PLAN: Plan = {};

/** Rows of a phase unless told: a token, a full block of a prompt, a short draft and its successor. */
export const PHASE_ROWS: Readonly<Record<Phase, number>> = { decode: 1, prefill: 64, verify: 4 };

/** Flags by name; a command adds those that it understands. */
export const FLAGS = {
  model: new Option("-m, --model <model>", "checkpoint: a name, a folder or a .safetensors file")
    .default("tiny"),
  device: new Option("--device <kind>", "where to run").choices(DEVICE_KINDS).default("cpu"),
  threads: new Option("--threads <n>", "CPU threads (default: all that this process may use)")
    .argParser(whole({ min: 1, max: 1024, example: "8" })),
  quantize: new Option("--quantize <bits>", "quantise a 16-bit checkpoint on load: 4 or 8")
    .argParser(bits),
  plan: new Option("--plan <name=on|off>", "switch a part of the model's plan; repeatable")
    .argParser(planSwitch).default(NO_PLAN, "the model's own"),
  ctx: new Option(
    "--ctx <tokens>",
    "KV cache size (default: 4096 or what is asked for, at most the model's own limit)",
  )
    .argParser(whole({ min: 1, example: "4096" })),
  kv: new Option("--kv <type>", "element type of the KV cache").choices(KV_TYPES).default("f16"),
  maxTokens: new Option("-n, --max-tokens <n>", "tokens to make at most")
    .argParser(whole({ min: 1, example: "256" })).default(256),
  temperature: new Option("--temperature <t>", "0 is greedy")
    .argParser(decimal({ min: 0, max: 100, f32: true, example: "0.8" })),
  topK: new Option("--top-k <n>", "draw from the n likeliest tokens; 0: from all")
    .argParser(whole({ min: 0, example: "40" })),
  topP: new Option("--top-p <p>", "draw from the likeliest tokens that hold this probability")
    .argParser(decimal({ min: 0, max: 1, above: true, f32: true, example: "0.95" })),
  minP: new Option("--min-p <p>", "drop tokens below this share of the likeliest one's probability")
    .argParser(decimal({ min: 0, max: 1, f32: true, example: "0.05" })),
  repeatPenalty: new Option("--repeat-penalty <x>", "make repeated tokens less likely; 1: off")
    .argParser(decimal({ min: 0, max: 100, above: true, f32: true, example: "1.1" })),
  seed: new Option("--seed <n>", "same seed, same text")
    .argParser(whole({ min: 0, max: 2 ** 32 - 1, example: "42" })).default(0),
  stop: new Option("--stop <text>", "end before this text; repeatable")
    .argParser(stopString).default(NO_STOPS, "none"),
  spec: new Option("--spec <drafter>", "verify drafts several at a time; the text stays the same")
    .choices(SPECULATIONS).default("off"),
  draftTokens: new Option(
    "--draft-tokens <n|auto>",
    "drafts of a round (default: auto with --spec auto, else 7 of n-grams, 2 of the MTP head)",
  ).argParser(draftTokens),
  phase: new Option("--phase <phase>", "which tape").choices(PHASES).default("decode"),
  rows: new Option("--rows <n>", "tokens in one play")
    .argParser(whole({ min: 1, example: "4" })),
  depth: new Option("--depth <tokens>", "tokens already in the KV cache")
    .argParser(whole({ min: 0, example: "4096" })).default(0),
  json: new Option("--json", "print JSON and nothing else on standard output"),
} as const;

/** Flags that say which model runs where. */
export interface ModelFlags {
  readonly model: string;
  readonly device: DeviceKind;
  readonly threads?: number;
  readonly quantize?: 4 | 8;
  readonly plan: Plan;
}
