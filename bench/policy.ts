/**
 * What a gate demands: the policy file, its schema and its defaults. Unknown keys are refused, since a
 * mistyped rule would pass everything. Judges nothing.
 */
import * as v from "valibot";
import { UserError } from "../engine/errors.ts";
import { parseJson } from "../engine/json.ts";
import { readText } from "./json_file.ts";

export const MODES = ["paired", "floor", "history", "limit"] as const;
export type Mode = typeof MODES[number];

const text = v.pipe(v.string(), v.nonEmpty());
const finite = v.pipe(v.number(), v.finite());

/** `"2%"` is 0.02. */
const percentSchema = v.pipe(
  v.string(),
  v.regex(/^\d+(\.\d+)?%$/, 'expected a percentage such as "2%"'),
  v.transform((s) => Number(s.slice(0, -1)) / 100),
  v.maxValue(0.5, "expected at most 50%"),
);

const ruleSchema = v.strictObject({
  /** Ids of rows; * stands for any characters. */
  match: text,
  /** A field of the row by its path; `median_tps` is short for `stats.median_tps`. */
  metric: v.optional(text, "median_tps"),
  mode: v.optional(v.picklist(MODES)),
  /** paired: the loss that is allowed; default: the comparison's own. */
  tolerance: v.optional(percentSchema),
  /** floor: least rate by a part of the CPU's or GPU's name. */
  min_tps: v.optional(v.record(text, finite)),
  /** Budgets of a field that does not vary. */
  max: v.optional(finite),
  min: v.optional(finite),
  /** Whether it blocks; default: paired and budgets do. */
  required: v.optional(v.boolean()),
  note: v.optional(v.string()),
});

const policySchema = v.strictObject({
  schema: v.optional(v.literal("lapwing-policy/1")),
  rows: v.pipe(v.array(ruleSchema), v.minLength(1, "expected at least one rule")),
  /** fail: exit 5 unless a proof was found. */
  on_inconclusive: v.optional(v.picklist(["allow", "fail"]), "allow"),
  /** What must be measured on: fields of the environment to patterns. */
  env: v.optional(
    v.strictObject({
      os: v.optional(text),
      machine: v.optional(text),
      cpu: v.optional(text),
      gpu: v.optional(text),
      backend: v.optional(text),
      isa: v.optional(text),
    }),
    {},
  ),
  /** Rows whose checks did not pass fail the gate. */
  require_checks: v.optional(v.boolean(), true),
  history: v.optional(
    v.strictObject({
      /** Points looked back on, and how many there must be. */
      points: v.optional(v.pipe(v.number(), v.integer(), v.minValue(3)), 20),
      points_min: v.optional(v.pipe(v.number(), v.integer(), v.minValue(3)), 5),
      /** Half-width of the fence in robust standard deviations. */
      k: v.optional(v.pipe(v.number(), v.minValue(1)), 4),
    }),
    {},
  ),
  /** Days for which an accepted baseline is good. */
  baseline_days: v.optional(v.pipe(v.number(), v.minValue(1)), 90),
  /** Loss against the oldest accepted baseline that fails the gate; default: it is only shown. */
  cumulative_tolerance: v.optional(percentSchema),
});

export type Policy = v.InferOutput<typeof policySchema>;

/** A rule with what follows from its fields. */
export interface Rule {
  readonly match: string;
  readonly metric: string;
  readonly mode: Mode;
  readonly required: boolean;
  readonly tolerance: number | null;
  readonly minTps: Readonly<Record<string, number>>;
  readonly max: number | null;
  readonly min: number | null;
}

/** Checks a policy. Throws UserError that names the field. */
export function parsePolicy(text: string, name: string): Policy {
  const policy = parseJson(`Policy ${name}`, text, policySchema);
  rulesOf(policy, name);
  return policy;
}

export async function readPolicy(path: string): Promise<Policy> {
  return parsePolicy(await readText(path), path);
}

export function rulesOf(policy: Policy, name = "policy"): Rule[] {
  return policy.rows.map((row, i): Rule => {
    const where = `Policy ${name}: rows.${i} (${row.match})`;
    const isBudget = row.max !== undefined || row.min !== undefined;
    const mode = row.mode ?? (isBudget ? "limit" : row.min_tps ? "floor" : "paired");
    if (mode === "limit" && !isBudget) throw new UserError(`${where}: a limit needs max or min`);
    if (mode !== "limit" && isBudget) throw new UserError(`${where}: max and min need mode limit`);
    if (mode === "floor" && !row.min_tps) throw new UserError(`${where}: a floor needs min_tps`);
    if (mode === "paired" && row.metric !== "median_tps") {
      throw new UserError(`${where}: pairs are rates: paired takes the metric median_tps only`);
    }
    return {
      match: row.match,
      metric: row.metric,
      mode,
      required: row.required ?? (mode === "paired" || mode === "limit"),
      tolerance: row.tolerance ?? null,
      minTps: row.min_tps ?? {},
      max: row.max ?? null,
      min: row.min ?? null,
    };
  });
}

/** Whether a pattern with * and ? fits a whole text. */
export function matches(pattern: string, value: string): boolean {
  const source = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll(
    "?",
    ".",
  );
  return new RegExp(`^${source}$`, "s").test(value);
}
