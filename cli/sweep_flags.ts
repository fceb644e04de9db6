/** The flags of `lapwing bench --verify-sweep`, and the part of the spec that they make. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseCounts } from "../bench/grid.ts";
import { DRAFTERS } from "../bench/report_spec.ts";
import type { VerifySweep } from "../bench/report.ts";
import { UserError } from "../engine/errors.ts";
import { whole } from "./flags.ts";

export interface SweepFlags {
  readonly verifySweep?: readonly number[] | true;
  readonly spec?: VerifySweep["drafter"];
  readonly draftTokens?: number;
  readonly acceptance?: readonly number[];
  readonly acceptanceFile?: string;
}

/** Every width that keeps a row's bits, and two that go through the matrix kernels. */
const ROWS = [...Array.from({ length: 16 }, (_, i) => i + 1), 24, 32];
const GEN = 128;
const DRAFTS = 4;

function acceptance(text: string): number[] {
  const shares = text.split(",").map((part) => part.trim() === "" ? NaN : Number(part));
  const falls = shares.every((s, i) => i === 0 || s <= shares[i - 1]);
  if (shares.length <= 15 && falls && shares.every((s) => s >= 0 && s <= 1)) return shares;
  throw new InvalidArgumentError(
    "Expected one chance for every draft, such as 0.7, or the share of rounds that accept the draft at " +
      "each place, such as 0.8,0.6,0.4: from 1 to 0, none above the one before it.",
  );
}

/** Wider plays are prefill, which -p measures. */
const ROWS_MOST = 1024;

function widths(text: string): number[] {
  let rows: number[];
  try {
    rows = parseCounts(text, "--verify-sweep");
  } catch (e) {
    throw new InvalidArgumentError(e instanceof Error ? e.message : String(e));
  }
  if (rows.every((n) => n >= 1 && n <= ROWS_MOST)) return [...rows].sort((a, b) => a - b);
  throw new InvalidArgumentError(`Expected rows from 1 to ${ROWS_MOST}, such as 1-16,24,32.`);
}

/** Adds them; `spec` of `generate` means the same. */
export function addSweepFlags(command: Command): void {
  command.optionsGroup("Speculation:")
    .addOption(
      new Option("--verify-sweep [rows]", "what speculative rounds cost and gain (1-16,24,32)")
        .argParser(widths),
    )
    .addOption(
      new Option("--spec <drafter>", "whose drafts its runs verify (ngram)").choices(DRAFTERS),
    )
    .option(
      "--draft-tokens <n>",
      `drafts of a round in its runs (${DRAFTS})`,
      whole({ min: 1, max: 15, example: "4" }),
    )
    .addOption(
      new Option("--acceptance <list>", "what to expect at this acceptance, place by place")
        .argParser(acceptance),
    )
    .option("--acceptance-file <file>", "measure acceptance behind this text");
}

/** Null without `--verify-sweep`. Throws UserError. */
export function sweepOf(flags: SweepFlags): VerifySweep | null {
  const given = flags.verifySweep;
  if (given === undefined) {
    const alone = (["spec", "draftTokens", "acceptance", "acceptanceFile"] as const)
      .find((name) => flags[name] !== undefined);
    if (alone === undefined) return null;
    const flag = alone.replace(/[A-Z]/g, (c) => "-" + c.toLowerCase());
    throw new UserError(`--${flag} is for --verify-sweep: add it.`);
  }
  return {
    rows: given === true ? ROWS : [...given],
    drafter: flags.spec ?? "ngram",
    drafts: flags.draftTokens ?? DRAFTS,
    gen: GEN,
    acceptance: flags.acceptance ? [...flags.acceptance] : null,
    acceptance_file: flags.acceptanceFile ?? null,
  };
}
