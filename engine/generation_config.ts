/**
 * generation_config.json: how a checkpoint wants to be sampled, and which ids end its text. Pure
 * parsing; draws nothing.
 */
import * as v from "valibot";
import { parseJson } from "./json.ts";

/** How a token is chosen. Neutral values switch a rule off. */
export interface Sampling {
  /** 0 is greedy: every other rule but the penalty is then without effect. */
  readonly temperature: number;
  /** 0: all tokens. */
  readonly topK: number;
  /** 1: all tokens. */
  readonly topP: number;
  /** Keeps tokens of at least minP times the likeliest one's probability; 0: all. */
  readonly minP: number;
  /** Divides positive and multiplies negative logits of repeated tokens; 1: none. */
  readonly repeatPenalty: number;
  /** How many of the latest tokens count as repeated. */
  readonly repeatWindow: number;
  readonly seed: number;
}

/** What a checkpoint that says nothing gets: greedy, as in transformers. */
export const GREEDY: Sampling = Object.freeze({
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repeatPenalty: 1,
  repeatWindow: 64,
  seed: 0,
});

/** Where every token is nearly as likely as any other. */
export const TEMPERATURE_MAX = 100;

export interface GenerationConfig {
  readonly sampling: Sampling;
  readonly eosIds: readonly number[];
}

const id = v.pipe(v.number(), v.integer(), v.minValue(0));
const schema = v.object({
  do_sample: v.nullish(v.boolean()),
  temperature: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(TEMPERATURE_MAX))),
  top_k: v.nullish(v.pipe(v.number(), v.integer())),
  top_p: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  min_p: v.nullish(v.pipe(v.number(), v.minValue(0), v.maxValue(1))),
  repetition_penalty: v.nullish(v.pipe(v.number(), v.gtValue(0))),
  eos_token_id: v.nullish(v.union([id, v.array(id)], "Expected a token id or a list of them")),
});

/** Reads generation_config.json, or gives the defaults without one. Throws UserError. */
export function parseGenerationConfig(text: string | undefined): GenerationConfig {
  if (text === undefined) return { sampling: GREEDY, eosIds: [] };
  const c = parseJson("generation_config.json", text, schema);
  // Files with sampling settings but no do_sample mean them; without either, transformers is greedy.
  const samples = c.do_sample ?? typeof c.temperature === "number";
  return {
    sampling: {
      temperature: samples ? c.temperature ?? 1 : 0,
      topK: Math.max(0, c.top_k ?? GREEDY.topK),
      // 0 would keep nothing at all; files that hold it mean "off".
      topP: c.top_p || GREEDY.topP,
      minP: c.min_p ?? GREEDY.minP,
      repeatPenalty: c.repetition_penalty ?? GREEDY.repeatPenalty,
      repeatWindow: GREEDY.repeatWindow,
      seed: GREEDY.seed,
    },
    eosIds: [c.eos_token_id ?? []].flat(),
  };
}
