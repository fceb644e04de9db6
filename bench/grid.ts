/**
 * From what was asked for to the cells that are run: lists and ranges of numbers, their product, and names.
 * Pure; knows no engine.
 */
import { UserError } from "../engine/errors.ts";
import { TEMPERATURE_MAX } from "../engine/generation_config.ts";
import type { EngineSettings, Work } from "./port.ts";
import type { RowKind, RowParams, Spec, VerifySweep } from "./report.ts";

/** One row to be. */
export interface Cell {
  readonly id: string;
  readonly kind: RowKind;
  readonly settings: EngineSettings;
  readonly depth: number;
  /** Null where no timeline is run: loading, perplexity. */
  readonly work: Work | null;
  /** Cells of one group share a session; their depths ascend. */
  readonly group: string;
  /** What the prompt is, where not as the spec says. */
  readonly tokens?: Spec["tokens"];
  /** Samples at least; undefined: as the spec says. */
  readonly repetitions?: number;
}

const LIST_MAX = 4096;

/** Tokens of one decode call, where nothing else is asked for: long enough that a call costs nothing beside them. */
export const CALL_TOKENS = 32;

/**
 * `512`, `512,1024`, `1-4`, `0-32768+4096`, `512-8192*2`, mixed by commas; as llama-bench reads them.
 * Throws UserError.
 */
export function parseCounts(text: string, what: string): number[] {
  const out: number[] = [];
  for (const part of text.split(",")) {
    const m = /^(\d+)(?:-(\d+)(?:([+*])(\d+))?)?$/.exec(part.trim());
    const [first, last, step] = m ? [m[1], m[2] ?? m[1], m[4] ?? "1"].map(Number) : [NaN, 0, 0];
    const grows = m?.[3] === "*" ? step > 1 && first > 0 : step > 0;
    if (!(first <= last) || !grows || !Number.isSafeInteger(last)) {
      throw new UserError(
        `${what} is ${JSON.stringify(text)}: give numbers, such as 512 or 512,1024, or a range, ` +
          `such as 1-4, 0-32768+4096 or 512-8192*2.`,
      );
    }
    for (let n = first; n <= last; n = m![3] === "*" ? n * step : n + step) {
      out.push(n);
      if (out.length > LIST_MAX) {
        throw new UserError(`${what} has more than ${LIST_MAX} values: give a wider step.`);
      }
    }
  }
  return [...new Set(out)];
}

/** `512,128` or several of them by semicolons: prompt and generated tokens. */
export function parsePairs(text: string, what: string): [number, number][] {
  return text.split(";").map((pair) => {
    const m = /^\s*(\d+)\s*,\s*(\d+)\s*$/.exec(pair);
    if (!m || Number(m[1]) < 1 || Number(m[2]) < 1) {
      throw new UserError(
        `${what} is ${JSON.stringify(text)}: give prompt,generated, such as 512,128.`,
      );
    }
    return [Number(m[1]), Number(m[2])];
  });
}

/** All cells of a spec, in the order in which they are run. */
export function cellsOf(spec: Spec): Cell[] {
  const cells: Cell[] = [];
  for (const threads of spec.threads) {
    for (const kv of spec.kv) {
      for (const prefillRows of spec.prefill_rows) {
        cells.push(...cellsWith(spec, { threads, kv, prefillRows }));
      }
    }
  }
  const ids = cells.map((c) => c.id);
  return cells.filter((c, i) => ids.indexOf(c.id) === i);
}

function cellsWith(spec: Spec, settings: EngineSettings): Cell[] {
  const tail = settingsText(spec, settings);
  const cell = (kind: RowKind, name: string, depth: number, work: Work | null, group: string) => ({
    id: name + tail,
    kind,
    settings,
    depth,
    work,
    group: `${group}${tail}`,
  });
  const out: Cell[] = [];
  if (spec.load) out.push(cell("load", "load", 0, null, "load"));
  const depths = [...spec.n_depth].sort((a, b) => a - b);
  for (const d of depths) {
    for (const prompt of spec.n_prompt.filter((n) => n > 0)) {
      out.push(cell("prefill", `prefill${prompt}@d${d}`, d, { kind: "prefill", prompt }, `d${d}`));
    }
    for (const gen of spec.n_gen.filter((n) => n > 0)) {
      for (const callTokens of spec.call_tokens) {
        const work = { kind: "decode", gen, callTokens } as const;
        const calls = spec.call_tokens.length > 1 ? `,calls=${callTokens}` : "";
        out.push(cell("decode", `decode${gen}@d${d}${calls}`, d, work, `d${d}`));
      }
    }
    for (const [prompt, gen] of spec.prompt_gen) {
      const work = { kind: "prompt_decode", prompt, gen } as const;
      out.push(cell("prompt_decode", `prompt_decode${prompt}+${gen}@d${d}`, d, work, `d${d}`));
    }
    if (spec.verify_sweep) {
      out.push(...sweepCells(spec.verify_sweep, d, cell, spec.synthetic === null));
    }
    for (const rows of spec.verify_rows.filter((n) => n > 0)) {
      out.push(cell("verify", `verify${rows}@d${d}`, d, { kind: "verify", rows }, `d${d}`));
    }
  }
  if (spec.long) {
    const [prompt, gen] = spec.long;
    const prefill = cell("prefill", `prefill${prompt}@d0`, 0, { kind: "prefill", prompt }, "long");
    out.push({ ...prefill, repetitions: 1 });
    out.push(cell("decode", `decode${gen}@d${prompt}`, prompt, { kind: "decode", gen }, "long"));
  }
  if (spec.perplexity) out.push(cell("perplexity", "perplexity", 0, null, "perplexity"));
  return out;
}

/**
 * What runs of rounds go on from. Nobody can foretell the control: its prompt is random ids, and what is made
 * behind them is drawn almost evenly from the vocabulary, as a model that decodes greedily soon repeats itself.
 * The seed is fixed, so serial decode makes the same tokens.
 */
const PROMPTS = [
  { name: "text", tokens: "text", temperature: 0 },
  { name: "control", tokens: "random", temperature: TEMPERATURE_MAX },
] as const;

type MakeCell = (k: RowKind, name: string, depth: number, work: Work, group: string) => Cell;

/**
 * A serial step, rounds of every width beside it, and runs of rounds on a text and on the control: that alone
 * where random weights have no tokenizer.
 */
function sweepCells(sweep: VerifySweep, depth: number, cell: MakeCell, texts: boolean): Cell[] {
  const { gen, drafter, drafts } = sweep, at = `@d${depth}`, group = `d${depth}`;
  const out = [cell("decode", `decode${gen}${at}`, depth, { kind: "decode", gen }, group)];
  for (const rows of sweep.rows) {
    const kind = rows <= ROUND_ROWS_MAX ? "round" : "verify";
    out.push(cell("verify", `verify${rows}${at}`, depth, { kind, rows }, group));
  }
  if (drafter === "none") return out;
  for (const { name, tokens, temperature } of PROMPTS) {
    if (tokens === "text" && !texts) continue;
    const id = `${drafter}${drafts}-${name}${at}`;
    const work = { kind: "speculate", gen, drafter, drafts, temperature } as const;
    out.push({ ...cell("speculate", id, depth, work, `${group} ${name}`), tokens });
  }
  return out;
}

/** What tells rows apart beside their work: only what the spec varies. */
function settingsText(spec: Spec, s: EngineSettings): string {
  const parts: string[] = [];
  if (spec.kv.length > 1) parts.push(`kv=${s.kv}`);
  if (spec.prefill_rows.length > 1) parts.push(`ub=${s.prefillRows}`);
  if (spec.threads.length > 1) parts.push(`t=${s.threads}`);
  return parts.map((p) => `,${p}`).join("");
}

/** Tokens that run untimed behind a prefill, so that its digest says more than one token does. */
export const DIGEST_TOKENS = 16;

/** Rows of the widest round; more rows go through the matrix kernels. */
export const ROUND_ROWS_MAX = 16;
/** Tokens of untimed rounds before a timed one. */
export const ROUND_WARM_TOKENS = 2;
/** Tokens that come out of every sample of a round, whatever it accepts. */
export const ROUND_TOKENS = ROUND_WARM_TOKENS + ROUND_ROWS_MAX + 1;

/** Tokens of one sample. */
export function tokensOf(work: Work): number {
  if (work.kind === "prefill") return work.prompt;
  if (work.kind === "decode" || work.kind === "speculate") return work.gen;
  return work.kind === "prompt_decode" ? work.prompt + work.gen : work.rows;
}

/** Tokens of one of its decode calls. */
export function callTokensOf(work: Work, tokenTimes: boolean): number {
  if (tokenTimes) return 1;
  return work.kind === "decode" ? work.callTokens ?? CALL_TOKENS : CALL_TOKENS;
}

/** Positions that a cell needs. */
export function contextOf(cell: Cell, checkRows: number): number {
  if (!cell.work) return 0;
  const behind = Math.max(checkRows, ROUND_TOKENS, tokensOf(cell.work) + DIGEST_TOKENS);
  return cell.depth + behind + 1;
}

export function paramsOf(cell: Cell, spec: Spec): RowParams {
  const { work, settings } = cell;
  return {
    n_prompt: work && "prompt" in work ? work.prompt : 0,
    n_gen: work && "gen" in work ? work.gen : 0,
    call_tokens: work?.kind === "decode" ? callTokensOf(work, spec.token_times) : null,
    n_depth: cell.depth,
    rows: work?.kind === "verify" || work?.kind === "round" ? work.rows : null,
    gamma: work?.kind === "speculate" ? work.drafts : null,
    kv_type: settings.kv,
    prefill_rows: settings.prefillRows,
    threads: settings.threads,
    seed: spec.seed,
    prompt_sha256: null,
    tokens: cell.tokens ?? spec.tokens,
  };
}
