/**
 * The part of a report that speculation fills: what was asked for, rounds of one width, runs of rounds, and
 * what they come to. Owns names and meanings of fields, as report.ts does.
 */
import * as v from "valibot";
import { count, finite, positive, text } from "./report_values.ts";

export const DRAFTERS = ["none", "ngram", "mtp"] as const;

/** What `--verify-sweep` measures. */
export const verifySweepSchema = v.object({
  rows: v.array(count),
  /** Who proposes drafts in runs of rounds, how many, and the tokens of a run. */
  drafter: v.picklist(DRAFTERS),
  drafts: count,
  gen: count,
  /** One chance for all drafts, or the share of rounds that accept the draft at each place. */
  acceptance: v.nullable(v.array(positive)),
  /** The prompt of the runs whose acceptance is measured. */
  acceptance_file: v.nullable(text),
});

/** A run of rounds beside serial decode of the same tokens. */
export const roundsRunSchema = v.object({
  drafter: v.picklist(DRAFTERS),
  /** Drafts asked for in a round. */
  drafts: count,
  /** Of the sampler; 0: greedy. */
  temperature: v.optional(positive, 0),
  /** Single tokens, where there was no draft. */
  serial: count,
  /** Plays by the drafts that they verified, and how many kept the draft at each place. */
  lengths: v.optional(
    v.array(v.object({ drafts: count, plays: count, accepted_at: v.array(count) })),
    [],
  ),
  /** Serial decode of the same tokens in the same run, sample by sample, and the speeds. */
  serial_ns: v.array(count),
  serial_tps: v.nullable(positive),
  /** Median over the turns, each of which holds a run beside serial decode, and its 95 % interval. */
  speedup: v.nullable(positive),
  speedup_ci95: v.optional(v.nullable(v.tuple([positive, positive])), null),
  /**
   * Plays of forced outcome along the same tokens, in turn with the runs: so many drafts of which the first
   * `accepted` are right, with `next` drafts of the head behind them. Mean times, one beside each run.
   */
  forced: v.optional(
    v.array(v.object({
      drafts: count,
      accepted: count,
      next: count,
      ns: v.array(v.nullable(count)),
    })),
    [],
  ),
  /** Calls of rounds that the head drafted for behind another token, one beside each run. */
  chains: v.optional(
    v.array(v.object({ ns: count, rounds: count, accepted_at: v.array(count) })),
    [],
  ),
  /** Time of the host's drafter over as many drafts, measured by itself. */
  propose_ns: v.optional(v.array(count), []),
  /** What a run must take by these, and what its speed-up should be; null where a play was not taken. */
  foretold_ns: v.optional(v.array(v.nullable(count)), []),
  foretold_speedup: v.nullable(positive),
  /** Shares of the time of a run. Null where the sweep has no round of the run's width, whose draft the device makes. */
  shares: v.object({
    draft: v.nullable(positive),
    verify: v.nullable(positive),
    commit: positive,
    host: positive,
  }),
  /** Share of tokens of the prompt, and of what was made, that the n-gram drafter would have foretold. */
  prompt_hit_rate: v.nullable(positive),
  output_hit_rate: v.nullable(positive),
});

export const specRunSchema = v.object({
  rounds: count,
  draft_tokens: count,
  accepted: count,
  acceptance_rate: v.nullable(positive),
  mean_len: v.nullable(positive),
  per_position: v.array(positive),
  cost_ratio: v.nullable(positive),
  commit_ns: v.nullable(count),
  breakeven_acceptance: v.nullable(finite),
  /** Of a run of rounds; older reports have none of these. */
  run: v.optional(v.nullable(roundsRunSchema), null),
});

/** Rounds of one width with forced outcomes, behind the same state: a list of times for each. */
export const roundsSchema = v.object({
  /** Drafts accepted: none, half, all; without doubles. */
  accepted: v.array(count),
  ns: v.array(v.array(count)),
  /** Of serial steps right behind the rounds that accept none: the machine as it was then. */
  step_ns: v.array(count),
  /** Of the records that commit, in each of them. */
  commit_ns: v.array(count),
  /** None accepted, and the model's head drafts for the next round; null without a head. */
  draft_ns: v.nullable(v.array(count)),
});

/** Rounds over serial decode at one depth with one set of settings. */
export const curveSchema = v.object({
  id: text,
  n_depth: count,
  step_ns: positive,
  points: v.array(v.object({
    rows: count,
    /** The least tenth, as other programs only make times longer. On the scale of `step_ns`: a round over the steps timed beside it, times that. */
    verify_ns: positive,
    /** V(T) / S, V(T) / (T S), and a row's own time. */
    cost: positive,
    cost_per_row: positive,
    marginal_ns: v.nullable(finite),
    /** Time of the records that commit when none, half and all of the drafts are accepted. */
    commit_ns: v.nullable(v.tuple([count, count, count])),
    /** What a round takes beyond its records when no draft is accepted: the call, the launch, reading back. */
    host_ns: v.optional(v.nullable(count), null),
    draft_ns: v.nullable(finite),
    distinct_experts: v.nullable(positive),
    /** Kernels of the products. */
    route: v.array(text),
    /** Acceptance from which rounds of so many rows are faster than serial decode. */
    breakeven: v.nullable(positive),
  })),
  crossover_rows: v.nullable(count),
  best: v.array(v.object({
    /** Where the acceptance is from: `given`, or the row that measured it. */
    source: text,
    survival: v.array(positive),
    /** Single tokens beside each round, where there was no draft. */
    singles: v.optional(positive, 0),
    drafts: count,
    speedup: positive,
    tokens_per_round: positive,
  })),
});
