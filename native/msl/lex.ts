/** Tokens of the Metal Shading Language, as far as translating kernels needs them. Comments and line markers are white space. */

export type TokenKind = "space" | "word" | "number" | "string" | "mark";
export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
}

const TOKEN =
  /((?:\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|^#[^\n]*)+)|([A-Za-z_]\w*)|(\.?\d(?:[eEpP][+-]|[\w.])*)|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(\[\[|\]\]|::|->|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||<<|\+\+|--|[^\s\w])/gmy;

const KINDS: readonly TokenKind[] = ["space", "word", "number", "string", "mark"];

export function lex(source: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.length) {
    const m = TOKEN.exec(source);
    if (!m) break;
    tokens.push({ kind: KINDS[m.slice(1).findIndex((x) => x !== undefined)], text: m[0] });
  }
  return tokens;
}

/** Tokens as one line: white space becomes a blank, comments and line markers vanish. */
export function flat(tokens: readonly Token[]): string {
  return tokens.map((t) => t.kind === "space" ? " " : t.text).join("").replace(/\s+/g, " ").trim();
}

export function words(tokens: readonly Token[]): string[] {
  return tokens.filter((t) => t.kind !== "space").map((t) => t.text);
}

const OPEN = ["(", "<", "[", "{", "[["], CLOSE = [")", ">", "]", "}", "]]"];

/** Splits at commas that no bracket encloses. */
export function splitAtCommas(tokens: readonly Token[]): Token[][] {
  const parts: Token[][] = [[]];
  let depth = 0;
  for (const t of tokens) {
    if (OPEN.includes(t.text)) depth++;
    if (CLOSE.includes(t.text)) depth--;
    if (t.text === "," && depth === 0) parts.push([]);
    else parts[parts.length - 1].push(t);
  }
  return parts.filter((p) => flat(p));
}

/** Index of the mark that closes the one at `open`. */
export function closing(tokens: readonly Token[], open: number): number {
  const from = tokens[open].text, to = CLOSE[OPEN.indexOf(from)];
  let depth = 0;
  for (let i = open; i < tokens.length; i++) {
    if (tokens[i].text === from) depth++;
    if (tokens[i].text === to && --depth === 0) return i;
  }
  throw new Error(`"${from}" is never closed in: ${flat(tokens.slice(open, open + 40))}`);
}
