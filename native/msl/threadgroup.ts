/**
 * Threadgroup variables: which statements declare one, and a function that adds up their bytes when the translated
 * file is compiled. Dimensions may use template parameters and constants of the kernel, so that function repeats
 * the declarations that they need.
 */
import { closing, findOutside, joined, Refusal, solid, type Token, words } from "./lex.ts";
import type { Kernel } from "./parse.ts";

export interface ThreadgroupVariable {
  readonly type: readonly Token[];
  readonly name: string;
  readonly dims: readonly Token[];
  /** Index of the semicolon. */
  readonly end: number;
}

/** The variable that the statement at `threadgroup` declares; null where that is a pointer or a reference. */
export function threadgroupVariable(
  tokens: readonly Token[],
  at: number,
): ThreadgroupVariable | null {
  const before = solid(tokens.slice(0, at)).at(-1)?.text ?? ";";
  if (![";", "{", "}"].includes(before)) return null;
  const end = findOutside(tokens, at, [";"]);
  if (end < 0) return null;
  const statement = tokens.slice(at + 1, end);
  const assigned = findOutside(statement, 0, ["="]);
  let left = solid(assigned < 0 ? statement : statement.slice(0, assigned));
  if (commaOutside(left)) {
    if (left.some((t) => t.text === "*" || t.text === "&") && assigned >= 0) return null;
    throw new Refusal(tokens[at], "one threadgroup variable a statement");
  }
  const bracket = findOutside(left, 0, ["["]);
  const dims = bracket < 0 ? [] : left.slice(bracket);
  if (bracket >= 0) left = left.slice(0, bracket);
  const name = left.at(-1);
  const mark = left.at(-2)?.text;
  if (name?.kind !== "word" || mark === "*" || mark === "&") return null;
  if (left.length < 2) {
    throw new Refusal(tokens[at], "a threadgroup variable has a type and a name");
  }
  if (assigned >= 0) {
    throw new Refusal(tokens[at], `${name.text}: threadgroup memory has no initial value`);
  }
  return { type: left.slice(0, -1), name: name.text, dims, end };
}

/** A comma outside all brackets, those of templates included. */
function commaOutside(tokens: readonly Token[]): boolean {
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i].text === ",") return true;
    if (["(", "[", "{", "<"].includes(tokens[i].text)) i = closing(tokens, i);
  }
  return false;
}

/** A statement that may name what a dimension uses: its text, what it declares and what it reads. */
interface Declaration {
  readonly tokens: readonly Token[];
  readonly names: readonly string[];
}

type Step =
  | { readonly kind: "brace"; readonly text: string }
  | { readonly kind: "declaration"; readonly declaration: Declaration }
  | { readonly kind: "variable"; readonly variable: ThreadgroupVariable };

const DECLARES = ["constant", "constexpr", "const", "static", "typedef", "using", "struct", "enum"];

function declarationAt(tokens: readonly Token[]): Declaration | null {
  const list = solid(tokens);
  if (!DECLARES.includes(list[0].text)) return null;
  const all = list.map((t) => t.text);
  if (all[0] === "typedef") return { tokens, names: [all[all.length - 2]] };
  if (["using", "struct", "enum"].includes(all[0])) return { tokens, names: all.slice(1, 3) };
  const names = all.filter((_, i) => ["=", "["].includes(all[i + 1]) && /^\w+$/.test(all[i]));
  return { tokens, names };
}

/** The blocks of a body with what declares something in them; all other statements left out. */
function stepsOf(body: readonly Token[]): Step[] {
  const steps: Step[] = [];
  for (let i = 0; i < body.length; i++) {
    const t = body[i];
    if (t.kind === "space" || t.text === ";") continue;
    if (t.text === "{" || t.text === "}") {
      steps.push({ kind: "brace", text: t.text });
      continue;
    }
    const variable = t.text === "threadgroup" ? threadgroupVariable(body, i) : null;
    if (variable) {
      steps.push({ kind: "variable", variable });
      i = variable.end;
      continue;
    }
    const stop = findOutside(body, i, [";", "{", "}"]);
    const before = solid(body.slice(i, stop)).at(-1)?.text ?? "";
    const opens = body[stop].text === "{" && [")", "else", "do"].includes(before);
    if (opens || body[stop].text === "}") {
      i = stop - 1;
      continue;
    }
    const end = body[stop].text === ";" ? stop : findOutside(body, closing(body, stop) + 1, [";"]);
    const declaration = declarationAt(body.slice(i, end + 1));
    if (declaration) steps.push({ kind: "declaration", declaration });
    i = end;
  }
  return steps;
}

/** Names that the sizes of the variables need, through other declarations too. */
function needed(steps: readonly Step[]): Set<string> {
  const names = new Set<string>();
  for (const s of steps) {
    if (s.kind === "variable") {
      for (const w of words([...s.variable.type, ...s.variable.dims])) names.add(w);
    }
  }
  for (let size = -1; size !== names.size;) {
    size = names.size;
    for (const s of steps) {
      if (s.kind !== "declaration" || !s.declaration.names.some((n) => names.has(n))) continue;
      for (const w of words(s.declaration.tokens)) names.add(w);
    }
  }
  return names;
}

/** `bytes_of_<kernel>()`: threadgroup memory, each variable at a multiple of 16 bytes. */
export function sizeFunction(k: Kernel): string {
  const steps = stepsOf(k.body), names = needed(steps);
  let body = "";
  for (const s of steps) {
    if (s.kind === "brace") body += s.text;
    else if (s.kind === "variable") {
      const { type, name, dims } = s.variable;
      body += ` typedef ${joined(type)} ${name}_tg_t ${joined(dims)};` +
        ` lw_bytes = (lw_bytes + 15) / 16 * 16 + sizeof(${name}_tg_t);`;
    } else if (s.declaration.names.some((n) => names.has(n))) {
      const kept = s.declaration.tokens.filter((t) => t.text !== "constant" && t.text !== "static");
      body += ` ${joined(kept)}`;
    }
  }
  return `${k.template}constexpr unsigned bytes_of_${k.name}() { unsigned lw_bytes = 0; ${body} return lw_bytes; }\n`;
}
