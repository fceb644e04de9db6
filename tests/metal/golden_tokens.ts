/** The built-in model's golden prompts, each with the greedy tokens that no rounding can change. */
export interface GoldenTokens {
  readonly ids: Uint32Array<ArrayBuffer>;
  /** Up to the first whose logit is less than 1e-3 above the next one's. */
  readonly tokens: readonly number[];
}

interface Stored {
  readonly ids: readonly number[];
  readonly q4: { readonly greedy_ids: readonly number[]; readonly gaps: readonly number[] };
}

const file = new URL("../fixtures/tiny/golden.json", import.meta.url);
const { prompts }: { prompts: readonly Stored[] } = JSON.parse(await Deno.readTextFile(file));

export const GOLDEN_TOKENS: readonly GoldenTokens[] = prompts.map(({ ids, q4 }) => {
  const close = q4.gaps.findIndex((gap) => gap < 1e-3);
  const tokens = q4.greedy_ids.slice(0, close < 0 ? undefined : close);
  return { ids: Uint32Array.from(ids), tokens };
});
