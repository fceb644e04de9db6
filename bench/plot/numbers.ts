/** How numbers look in pictures. Rounds for reading only; nothing is computed from the result. */

/** Three digits that matter, with thousands separators: `0.84`, `41.3`, `1,840`. */
export function rateText(rate: number): string {
  const digits = rate >= 100 ? 0 : rate >= 10 ? 1 : 2;
  return rate.toLocaleString("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** `800`, `3,000`, `20k`, `1.5M`: short enough for an axis. */
export function axisText(value: number): string {
  const [divisor, unit] = value >= 1e6 ? [1e6, "M"] : value >= 1e4 ? [1e3, "k"] : [1, ""];
  return (value / divisor).toLocaleString("en-US", { maximumFractionDigits: 2 }) + unit;
}

/** Round values for a logarithmic axis: fewer a decade over more decades. */
export function logTicks(low: number, high: number): number[] {
  const steps = high / low > 2e4 ? [1] : high / low > 1e3 ? [1, 3] : [1, 2, 5];
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const decades = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  return decades.flatMap((d) => steps.map((s) => s * d)).filter((t) => t >= low && t <= high);
}

/** Multiples of 1024 as `4K`, others as they are. */
export function tokensText(tokens: number): string {
  if (tokens > 0 && tokens % 2 ** 20 === 0) return `${tokens / 2 ** 20}M`;
  return tokens > 0 && tokens % 1024 === 0 ? `${tokens / 1024}K` : tokens.toLocaleString("en-US");
}

/** `62%`; below ten with one digit after the point. */
export function percentText(share: number): string {
  const percent = share * 100;
  return `${percent.toFixed(percent < 10 ? 1 : 0)}%`;
}

/** `+0.4%`, `−3.1%`. */
export function changeText(percent: number): string {
  const rounded = Math.abs(percent).toFixed(1);
  return `${rounded === "0.0" ? "±" : percent < 0 ? "−" : "+"}${rounded}%`;
}

/** `5`, or `5 to 12`. */
export function spanText(values: readonly number[], text: (n: number) => string = String): string {
  const low = text(Math.min(...values)), high = text(Math.max(...values));
  return low === high ? low : `${low} to ${high}`;
}

/** `1 row`, `3 rows`. */
export function countText(n: number, word: string): string {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}

/** `2026-11-30 14:05`, in UTC. */
export function dateText(iso: string): string {
  return new Date(iso).toISOString().slice(0, 16).replace("T", " ");
}
