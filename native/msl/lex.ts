/**
 * Tokens of the Metal Shading Language, as far as translating kernels needs them, each with its place in the
 * source. Comments, line markers and pragmas are white space. Owns the error that names a place.
 */

export type TokenKind = "space" | "word" | "number" | "string" | "mark";
export interface Token {
  readonly kind: TokenKind;
  readonly text: string;
  readonly file: string;
  readonly line: number;
}

/** What the translator does not take, with where it stands. */
export class Refusal extends Error {
  constructor(at: { readonly file: string; readonly line: number } | undefined, what: string) {
    super(at ? `${at.file}:${at.line}: ${what}` : what);
  }
}

// `[[` opens an attribute and nothing else, but `]]` may also end a[b[i]]: it is two marks. So is `>>`, which may
// close two template lists.
const TOKEN =
  /((?:\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\/|^#[^\n]*)+)|([A-Za-z_]\w*)|(\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(\[\[|::|->|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||<<|\+\+|--|[^\s\w])/gmy;

const KINDS: readonly TokenKind[] = ["space", "word", "number", "string", "mark"];

/** Where the text behind a stretch of white space stands. */
function moved(text: string, file: string, line: number): { file: string; line: number } {
  const at = { file, line };
  const lines = text.split("\n");
  for (const row of lines.slice(0, -1)) {
    const marker = /^#line (\d+) "(.*)"/.exec(row);
    if (marker) {
      at.line = Number(marker[1]);
      at.file = marker[2];
    } else at.line++;
  }
  return at;
}

export function lex(source: string, path = "source"): Token[] {
  const tokens: Token[] = [];
  let file = path, line = 1;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < source.length) {
    const m = TOKEN.exec(source);
    if (!m) throw new Refusal({ file, line }, "text that is no token");
    const kind = KINDS[m.slice(1).findIndex((x) => x !== undefined)];
    tokens.push({ kind, text: m[0], file, line });
    if (m[0].includes("\n")) ({ file, line } = moved(m[0], file, line));
  }
  return tokens;
}

/** Tokens as one line: white space becomes a blank, comments and line markers vanish. */
export function flat(tokens: readonly Token[]): string {
  return tokens.map((t) => t.kind === "space" ? " " : t.text).join("").replace(/\s+/g, " ").trim();
}

/** Tokens as text in which words stay apart, whatever white space was between them. */
export function joined(tokens: readonly Token[]): string {
  return words(tokens).join(" ").replace(/ ?(::|[<>[\],]) ?/g, "$1").replace(/>(?=\w)/g, "> ");
}

/** Tokens without white space. */
export function solid(tokens: readonly Token[]): Token[] {
  return tokens.filter((t) => t.kind !== "space");
}

export function words(tokens: readonly Token[]): string[] {
  return solid(tokens).map((t) => t.text);
}

const CLOSES: Readonly<Record<string, string>> = { "(": ")", "<": ">", "[": "]", "{": "}" };

/** Index of the mark that closes the one at `open`; of `[[`, the second `]`. */
export function closing(tokens: readonly Token[], open: number): number {
  const first = tokens[open].text;
  if (first === "[[") return closingAttribute(tokens, open);
  const last = CLOSES[first];
  for (let i = open + 1; i < tokens.length; i++) {
    const { text } = tokens[i];
    if (text === last) return i;
    if (text === "[[") i = closingAttribute(tokens, i);
    // Elsewhere `<` may be "less than".
    else if (text !== "<" ? text in CLOSES : first === "<") i = closing(tokens, i);
    else if (text === ")" || text === "]" || text === "}") break;
  }
  throw new Refusal(tokens[open], `"${first}" is never closed`);
}

function closingAttribute(tokens: readonly Token[], open: number): number {
  for (let i = open + 1; i < tokens.length; i++) {
    const { text } = tokens[i];
    if (text === "]" && tokens[i + 1]?.text === "]") return i + 1;
    if (text === "(" || text === "[") i = closing(tokens, i);
  }
  throw new Refusal(tokens[open], '"[[" is never closed');
}

/** Splits at commas that no bracket encloses; `<` is a bracket. */
export function splitAtCommas(tokens: readonly Token[]): Token[][] {
  const parts: Token[][] = [[]];
  for (let i = 0; i < tokens.length; i++) {
    const { text } = tokens[i];
    if (text === ",") {
      parts.push([]);
      continue;
    }
    const end = text in CLOSES || text === "[[" ? closing(tokens, i) : i;
    parts[parts.length - 1].push(...tokens.slice(i, end + 1));
    i = end;
  }
  return parts.filter((p) => flat(p));
}

/** Index of the first of `texts` outside brackets from `from` on, or -1. */
export function findOutside(tokens: readonly Token[], from: number, texts: string[]): number {
  for (let i = from; i < tokens.length; i++) {
    const { text } = tokens[i];
    if (texts.includes(text)) return i;
    if (text === "(" || text === "[" || text === "{" || text === "[[") i = closing(tokens, i);
  }
  return -1;
}
