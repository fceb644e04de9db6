/**
 * Reads a preprocessed .metal file: kernels with their arguments, explicit instantiations, function constants,
 * and the rest of the text as items for emit.ts to rewrite.
 */
import {
  closing,
  findOutside,
  flat,
  lex,
  Refusal,
  solid,
  splitAtCommas,
  type Token,
  words,
} from "./lex.ts";

export const SPACES = ["device", "constant", "threadgroup", "thread"];

export interface Argument {
  /** Without its address space; `const` kept. */
  readonly type: readonly Token[];
  readonly space: string;
  readonly by: "value" | "pointer" | "reference";
  readonly name: string;
  /** `[[name(value)]]` */
  readonly attributes: Readonly<Record<string, string>>;
  readonly at: Token;
}
export interface Kernel {
  readonly name: string;
  readonly at: Token;
  readonly attributes: Readonly<Record<string, string>>;
  readonly template: string;
  readonly templateParameters: readonly (readonly Token[])[];
  readonly arguments: readonly Argument[];
  readonly body: readonly Token[];
  /** Has a barrier, a collective or threadgroup memory, or calls a function that has. */
  readonly meets: boolean;
  /** Waits for the dependency of a programmatic launch. */
}
export interface Instance {
  readonly hostName: string;
  readonly kernel: string;
  readonly templateArguments: readonly (readonly Token[])[];
  readonly at: Token;
}
export interface FunctionConstant {
  readonly type: string;
  readonly name: string;
  readonly index: number;
  readonly at: Token;
}

export interface FunctionItem {
  readonly kind: "function";
  readonly template: string;
  /** Return type, qualifiers and name. */
  readonly head: Token[];
  readonly name: string;
  readonly parameters: Token[];
  /** Between parameters and body: qualifiers, initialisers of members. */
  readonly tail: Token[];
  readonly body: Token[];
  readonly kernel: Kernel | null;
}
/** A piece of the file in order; a scope is a namespace or a type with functions in it. */
export type Item =
  | { readonly kind: "other"; readonly tokens: Token[]; readonly within: Within }
  | { readonly kind: "constant"; readonly tokens: Token[] }
  | {
    readonly kind: "scope";
    readonly head: Token[];
    readonly items: Item[];
    readonly end: Token[];
  }
  | FunctionItem;
type Within = "namespace" | "type";

export interface Parsed {
  readonly items: readonly Item[];
  readonly kernels: ReadonlyMap<string, Kernel>;
  readonly instances: readonly Instance[];
  readonly constants: readonly FunctionConstant[];
}

/** Takes `[[...]]` out of tokens. */
export function withoutAttributes(tokens: readonly Token[]): [Token[], Record<string, string>] {
  const rest: Token[] = [], attributes: Record<string, string> = {};
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i].text !== "[[") {
      rest.push(tokens[i]);
      continue;
    }
    const end = closing(tokens, i);
    for (const part of splitAtCommas(tokens.slice(i + 1, end - 1))) {
      const m = /^([\w:]+)(?:\s*\((.*)\))?$/.exec(flat(part));
      if (!m) throw new Refusal(tokens[i], `cannot read the attribute ${flat(part)}`);
      attributes[m[1]] = m[2] ?? "";
    }
    i = end;
  }
  return [rest, attributes];
}

function parseArgument(tokens: readonly Token[]): Argument {
  const [bare, attributes] = withoutAttributes(tokens);
  const left = solid(bare), last = left.pop()!;
  if (last.kind !== "word") throw new Refusal(last, `cannot read the argument ${flat(bare)}`);
  const spaces = left.filter((t) => SPACES.includes(t.text)).map((t) => t.text);
  const marks = left.filter((t) => t.text === "*" || t.text === "&").map((t) => t.text);
  if (marks.length > 1 || spaces.length > 1) {
    throw new Refusal(last, `${last.text}: one pointer or reference with one address space`);
  }
  const type = left.filter((t) => !SPACES.includes(t.text) && t.text !== "*" && t.text !== "&");
  if (spaces[0] === "constant" && type[0].text !== "const") {
    type.unshift({ ...type[0], kind: "word", text: "const" });
  }
  const by = marks[0] === "*" ? "pointer" : marks[0] === "&" ? "reference" : "value";
  return { type, space: spaces[0] ?? "", by, name: last.text, attributes, at: last };
}

const TYPES = ["struct", "enum", "union", "class"];

class Parser {
  readonly kernels = new Map<string, Kernel>();
  readonly instances: Instance[] = [];
  readonly constants: FunctionConstant[] = [];
  readonly #meeting = new Calls(
    /^(simd_\w+|simdgroup_\w+|quad_\w+|threadgroup|threadgroup_barrier|make_filled_simdgroup_matrix)$/,
  );

  items(tokens: Token[], within: Within): Item[] {
    const items: Item[] = [];
    for (let i = 0; i < tokens.length;) {
      if (tokens[i].kind === "space") {
        items.push({ kind: "other", tokens: [tokens[i++]], within });
        continue;
      }
      const stop = findOutside(tokens, i, [";", "{"]);
      const brace = stop >= 0 && tokens[stop].text === "{" ? stop : -1;
      let end = stop < 0 ? tokens.length - 1 : brace < 0 ? stop : closing(tokens, brace);
      if (brace >= 0 && !isFunction(tokens.slice(i, brace))) {
        // `struct X {...};`, `X table[] = {...};`, but no semicolon behind a namespace.
        const semicolon = findOutside(tokens, end + 1, [";", "{"]);
        const behind = flat(tokens.slice(end + 1, Math.max(semicolon, end + 1)));
        if (semicolon >= 0 && tokens[semicolon].text === ";" && !behind) end = semicolon;
      }
      const item = this.#item(tokens.slice(i, end + 1), brace < 0 ? -1 : brace - i, within);
      if (item) items.push(item);
      i = end + 1;
    }
    return items;
  }

  #item(tokens: Token[], brace: number, within: Within): Item | null {
    const head = tokens.slice(0, brace < 0 ? tokens.length - 1 : brace);
    const paren = parameterList(head);
    if (brace >= 0 && isFunction(head)) return this.#function(head, paren, tokens.slice(brace));
    const [bare, attributes] = withoutAttributes(paren < 0 ? head : head.slice(0, paren));
    const names = words(bare);
    if ("host_name" in attributes) return this.#instance(attributes.host_name, head);
    if ("function_constant" in attributes) return this.#constant(names, attributes, head[0]);
    const after = names[0] === "template" ? names[templateEnd(names) + 1] : names[0];
    if (brace >= 0 && (after === "namespace" || TYPES.includes(after)) && !names.includes("=")) {
      const end = closing(tokens, brace);
      if (after === "enum") return { kind: "other", tokens, within };
      const inside = this.items(
        tokens.slice(brace + 1, end),
        after === "namespace" ? "namespace" : "type",
      );
      return {
        kind: "scope",
        head: tokens.slice(0, brace + 1),
        items: inside,
        end: tokens.slice(end),
      };
    }
    const constant = within === "namespace" && names.includes("constant") &&
      words(tokens).includes("=");
    return constant ? { kind: "constant", tokens } : { kind: "other", tokens, within };
  }

  #constant(names: string[], attributes: Record<string, string>, at: Token): null {
    const typed = names.filter((w) => w !== "constant" && w !== "const");
    const index = Number(attributes.function_constant);
    this.constants.push({ type: typed.slice(0, -1).join(" "), name: typed.at(-1)!, index, at });
    return null;
  }

  #instance(hostName: string, head: readonly Token[]): null {
    const [bare] = withoutAttributes(head);
    const tokens = solid(bare);
    const open = tokens.findIndex((t) => t.text === "decltype") + 1;
    const name = tokens[open + 1];
    if (open === 0 || name?.kind !== "word") {
      throw new Refusal(head[0], `cannot read the instantiation ${flat(bare)}`);
    }
    const list = tokens[open + 2].text === "<"
      ? tokens.slice(open + 3, closing(tokens, open + 2))
      : [];
    this.instances.push({
      hostName: hostName.replace(/["\s]/g, ""),
      kernel: name.text,
      templateArguments: splitAtCommas(list),
      at: head[0],
    });
    return null;
  }

  #function(head: readonly Token[], paren: number, body: Token[]): FunctionItem {
    const [bare, attributes] = withoutAttributes(head.slice(0, paren));
    let before = bare.filter((t) => t.text !== "kernel"), template = "";
    let templateParameters: Token[][] = [];
    if (words(before)[0] === "template") {
      const open = before.findIndex((t) => t.text === "<"), end = closing(before, open);
      templateParameters = splitAtCommas(before.slice(open + 1, end));
      template = flat(before.slice(0, end + 1)) + " ";
      before = before.slice(end + 1);
    }
    const at = solid(before).at(-1)!, name = at.text;
    const meets = this.#meeting.add(name, body);
    const close = closing(head, paren);
    const parameters = head.slice(paren + 1, close);
    const isKernel = words(bare).includes("kernel") || "kernel" in attributes;
    const kernel = !isKernel ? null : {
      name,
      at,
      attributes,
      template,
      templateParameters,
      arguments: splitAtCommas(parameters).map(parseArgument),
      body,
      meets,
    };
    if (kernel) {
      if (this.kernels.has(name)) throw new Refusal(at, `a second kernel is called ${name}`);
      this.kernels.set(name, kernel);
    }
    const tail = head.slice(close + 1);
    return { kind: "function", template, head: before, name, parameters, tail, body, kernel };
  }
}

/** Functions that call what a pattern names, directly or through one another. */
class Calls {
  readonly #names = new Set<string>();
  constructor(readonly pattern: RegExp) {}
  add(name: string, body: readonly Token[]): boolean {
    const found = body.some((t) => this.#names.has(t.text) || this.pattern.test(t.text));
    if (found) this.#names.add(name);
    return found;
  }
}

/** Whether what stands before a `{` is the head of a function. */
function isFunction(head: readonly Token[]): boolean {
  const paren = parameterList(head);
  if (paren < 0) return false;
  const names = words(withoutAttributes(head.slice(0, paren))[0]);
  const after = names[0] === "template" ? names[templateEnd(names) + 1] : names[0];
  return !TYPES.includes(after) && after !== "namespace" &&
    (names.includes("operator") || !names.slice(names.indexOf(after)).includes("="));
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
  for (let i = 0; i < head.length; i++) {
    const { text } = head[i];
    if (text === "(") return i;
    if (text === "[[") i = closing(head, i);
    if (text === "<" && words(head.slice(0, i)).at(-1) === "template") i = closing(head, i);
  }
  return -1;
}

export function parse(source: string, path = "source"): Parsed {
  const parser = new Parser();
  const items = parser.items(lex(source, path), "namespace");
  const { kernels, constants } = parser;
  const instances = [...parser.instances];
  for (const { kernel, hostName, at } of instances) {
    const k = kernels.get(kernel);
    if (!k) throw new Refusal(at, `${hostName} instantiates ${kernel}, which is no kernel here`);
    if (!k.templateParameters.length) throw new Refusal(at, `${kernel} is no template`);
  }
  for (const k of kernels.values()) {
    if (k.templateParameters.length) continue;
    instances.push({ hostName: k.name, kernel: k.name, templateArguments: [], at: k.at });
  }
  return { items, kernels, instances, constants };
}
