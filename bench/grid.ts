/**
 * From what was asked for to the cells that are run: lists and ranges of numbers, their product, and names.
 * Pure; knows no engine.
 */
import { UserError } from "../engine/errors.ts";
import type { EngineSettings, Work } from "./port.ts";
import type { RowKind, RowParams, Spec } from "./report.ts";

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
  /** Samples at least; undefined: as the spec says. */
  readonly repetitions?: number;
}

const LIST_MAX = 4096;

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
      out.push(cell("decode", `decode${gen}@d${d}`, d, { kind: "decode", gen }, `d${d}`));
    }
    for (const [prompt, gen] of spec.prompt_gen) {
      const work = { kind: "prompt_decode", prompt, gen } as const;
      out.push(cell("prompt_decode", `prompt_decode${prompt}+${gen}@d${d}`, d, work, `d${d}`));
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

/** Tokens of one sample. */
export function tokensOf(work: Work): number {
  if (work.kind === "prefill") return work.prompt;
  if (work.kind === "decode") return work.gen;
  return work.kind === "verify" ? work.rows : work.prompt + work.gen;
}

/** Positions that a cell needs. */
export function contextOf(cell: Cell, checkRows: number): number {
  if (!cell.work) return 0;
  return cell.depth + Math.max(checkRows, tokensOf(cell.work) + DIGEST_TOKENS) + 1;
}

export function paramsOf(cell: Cell, spec: Spec): RowParams {
  const { work, settings } = cell;
  return {
    n_prompt: work && "prompt" in work ? work.prompt : 0,
    n_gen: work && "gen" in work ? work.gen : 0,
    n_depth: cell.depth,
    rows: work?.kind === "verify" ? work.rows : null,
    gamma: null,
    kv_type: settings.kv,
    prefill_rows: settings.prefillRows,
    threads: settings.threads,
    seed: spec.seed,
    prompt_sha256: null,
    tokens: spec.tokens,
  };
}
