/** Numbers inside sentences: plurals and articles. Formats no units and prints nothing. */

/** `1 tensor`, `2 tensors`. */
export function counted(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}

/** A whole number below a million with the article that its first sound asks for: `a 4`, `an 8`, `an 18`. */
export function withArticle(n: number): string {
  return /^(8|1[18](\d{3})?$)/.test(String(n)) ? `an ${n}` : `a ${n}`;
}
