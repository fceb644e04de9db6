/**
 * Reads a preprocessed .metal file: kernels with their arguments, explicit instantiations, function constants,
 * and the rest of the text for emit.ts to rewrite.
 */
import { closing, flat, lex, splitAtCommas, type Token, words } from "./lex.ts";

export const SPACES = ["device", "constant", "threadgroup", "thread"];

export interface Argument {
  /** Without its address space; `const` kept. */
  readonly type: string;
  readonly space: string;
  readonly by: "value" | "pointer" | "reference";
  readonly name: string;
  /** `[[name(value)]]` */
  readonly attributes: Readonly<Record<string, string>>;
}
export interface Kernel {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly templateParameters: readonly string[];
  readonly arguments: readonly Argument[];
  /** Has a barrier or a collective, or calls a function that has. */
  readonly meets: boolean;
  /** Waits for the dependency of a programmatic launch. */
  readonly waits: boolean;
}
export interface Instance {
  readonly hostName: string;
  readonly kernel: string;
  readonly templateArguments: string;
}
export interface FunctionConstant {
  readonly type: string;
  readonly name: string;
  readonly index: number;
}

/** A piece of the file in order. */
export type Item =
  | { readonly kind: "other"; readonly tokens: Token[] }
  | { readonly kind: "constant"; readonly tokens: Token[]; readonly constexpr: boolean }
  | {
    readonly kind: "function";
    readonly template: string;
    /** Return type, qualifiers and name. */
    readonly head: Token[];
    readonly parameters: Token[];
    readonly body: Token[];
    readonly kernel: Kernel | null;
  };

export interface Parsed {
  readonly items: readonly Item[];
  readonly kernels: ReadonlyMap<string, Kernel>;
  readonly instances: readonly Instance[];
  readonly constants: readonly FunctionConstant[];
}

const MEETS =
  /\b(simd_\w+|simdgroup_\w+|threadgroup|quad_\w+|threadgroup_barrier|make_filled_simdgroup_matrix)\b/;

/** Takes `[[...]]` out of tokens. */
function withoutAttributes(tokens: readonly Token[]): [Token[], Record<string, string>] {
  const rest: Token[] = [], attributes: Record<string, string> = {};
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i].text !== "[[") {
      rest.push(tokens[i]);
      continue;
    }
    const end = closing(tokens, i);
    for (const part of splitAtCommas(tokens.slice(i + 1, end))) {
      const m = /^(\w+)(?:\s*\((.*)\))?$/.exec(flat(part));
      if (m) attributes[m[1]] = m[2] ?? "";
    }
    i = end;
  }
  return [rest, attributes];
}

function parseArgument(tokens: readonly Token[]): Argument {
  const [bare, attributes] = withoutAttributes(tokens);
  const left = words(bare);
  const name = left.pop()!;
  let space = "", by: Argument["by"] = "value";
  const type: string[] = [];
  for (const w of left) {
    if (SPACES.includes(w)) space = w;
    else if (w === "*") by = "pointer";
    else if (w === "&") by = "reference";
    else type.push(w);
  }
  if (space === "constant" && type[0] !== "const") type.unshift("const");
  return { type: type.join(" ").replace(/ ?:: ?/g, "::"), space, by, name, attributes };
}

/** End of the top-level statement that begins at i: its last token, and where its body opens or -1. */
function statementEnd(tokens: readonly Token[], i: number): { end: number; brace: number } {
  let depth = 0;
  for (let j = i; j < tokens.length; j++) {
    const { text } = tokens[j];
    if (text === "(") depth++;
    if (text === ")") depth--;
    if (text === ";" && depth === 0) return { end: j, brace: -1 };
    if (text === "{" && depth === 0) {
      let end = closing(tokens, j), next = end + 1;
      while (tokens[next]?.kind === "space") next++;
      if (tokens[next]?.text === ";") end = next;
      return { end, brace: j };
    }
  }
  return { end: tokens.length - 1, brace: -1 };
}

const NOT_FUNCTIONS = ["struct", "enum", "union", "class", "namespace"];

class Parser {
  readonly items: Item[] = [];
  readonly kernels = new Map<string, Kernel>();
  readonly instances: Instance[] = [];
  readonly constants: FunctionConstant[] = [];
  readonly #meeting = new Set<string>();

  file(tokens: Token[]): void {
    for (let i = 0; i < tokens.length;) {
      if (tokens[i].kind === "space") {
        this.items.push({ kind: "other", tokens: [tokens[i++]] });
        continue;
      }
      const { end, brace } = statementEnd(tokens, i);
      this.#statement(tokens.slice(i, end + 1), brace < 0 ? -1 : brace - i);
      i = end + 1;
    }
  }

  #statement(tokens: Token[], brace: number): void {
    const head = tokens.slice(0, brace < 0 ? tokens.length - 1 : brace);
    const paren = parameterList(head);
    const [bare, attributes] = withoutAttributes(paren < 0 ? head : head.slice(0, paren));
    const names = words(bare);
    if ("host_name" in attributes) return this.#instance(attributes.host_name, head);
    if ("function_constant" in attributes) {
      const typed = names.filter((w) => w !== "constant" && w !== "const");
      const index = Number(attributes.function_constant);
      this.constants.push({ type: typed.slice(0, -1).join(" "), name: typed.at(-1)!, index });
      return;
    }
    const after = names[0] === "template" ? names[templateEnd(names) + 1] : names[0];
    if (brace >= 0 && paren >= 0 && !NOT_FUNCTIONS.includes(after) && !names.includes("=")) {
      return this.#function(head, paren, bare, attributes, tokens.slice(brace));
    }
    if (names[0] === "constant" && words(tokens).includes("=")) {
      this.items.push({ kind: "constant", tokens, constexpr: names.includes("constexpr") });
    } else this.items.push({ kind: "other", tokens });
  }

  #instance(hostName: string, head: readonly Token[]): void {
    const m = /decltype\s*\(\s*(\w+)\s*(?:<(.*)>\s*)?\)\s*\1/.exec(flat(withoutAttributes(head)[0]));
    if (!m) throw new Error(`cannot read the instantiation: ${flat(head)}`);
    this.instances.push({
      hostName: hostName.replace(/["\s]/g, ""),
      kernel: m[1],
      templateArguments: (m[2] ?? "").trim(),
    });
  }

  #function(
    head: readonly Token[],
    paren: number,
    bare: Token[],
    attributes: Record<string, string>,
    body: Token[],
  ): void {
    let before = bare.filter((t) => t.text !== "kernel"), template = "";
    let templateParameters: string[] = [];
    if (words(before)[0] === "template") {
      const open = before.findIndex((t) => t.text === "<"), end = closing(before, open);
      templateParameters = splitAtCommas(before.slice(open + 1, end)).map(flat);
      template = flat(before.slice(0, end + 1)) + " ";
      before = before.slice(end + 1);
    }
    const name = words(before).at(-1)!;
    const text = flat(body);
    const meets = MEETS.test(text) ||
      [...this.#meeting].some((f) => new RegExp(`\\b${f}\\b`).test(text));
    if (meets) this.#meeting.add(name);
    const parameters = head.slice(paren + 1, closing(head, paren));
    const isKernel = words(bare).includes("kernel") || "kernel" in attributes;
    const kernel = !isKernel ? null : {
      name,
      attributes,
      templateParameters,
      arguments: splitAtCommas(parameters).map(parseArgument),
      meets,
      waits: /\bgrid_dep_wait\b/.test(text),
    };
    if (kernel) this.kernels.set(name, kernel);
    this.items.push({ kind: "function", template, head: before, parameters, body, kernel });
  }
}

function templateEnd(names: readonly string[]): number {
  let depth = 0;
  for (let i = 1; i < names.length; i++) {
    if (names[i] === "<") depth++;
    if (names[i] === ">" && --depth === 0) return i;
  }
  return names.length;
}

/** Index of the parenthesis that opens a parameter list: the first outside attributes and template brackets. */
function parameterList(head: readonly Token[]): number {
  let attribute = 0;
  for (let i = 0; i < head.length; i++) {
    const { text } = head[i];
    if (text === "[[") attribute++;
    if (text === "]]") attribute--;
    if (text === "(" && attribute === 0) return i;
  }
  return -1;
}

export function parse(source: string): Parsed {
  const parser = new Parser();
  parser.file(lex(source));
  const { items, kernels, constants } = parser;
  const instances = [...parser.instances];
  for (const k of kernels.values()) {
    if (!k.templateParameters.length) {
      instances.push({ hostName: k.name, kernel: k.name, templateArguments: "" });
    }
  }
  return { items, kernels, instances, constants };
}
