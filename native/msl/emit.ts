/**
 * A parsed .metal file as C++ for the emulator, as CUDA C++, or in the dialect by which clang checks address
 * spaces: the part that is alike. What differs between targets is in launch.ts and in native/shim.
 */
import { closing, flat, joined, type Token, words } from "./lex.ts";
import { type Argument, type Item, type Kernel, type Parsed, SPACES } from "./parse.ts";
import { pragma } from "./rules.ts";
import { threadgroupVariable } from "./threadgroup.ts";
import { checkLaunches, cudaLaunches, emuLaunches } from "./launch.ts";

export type Target = "emu" | "cuda" | "check";

const CHECK_SPACES: Readonly<Record<string, string>> = {
  device: "AS_DEVICE",
  constant: "AS_CONSTANT",
  threadgroup: "AS_TG",
  thread: "AS_THREAD",
};

const VECTOR = /^(float|half|bfloat|bool|u?(?:int|short|char|long))([234])$/;

/** White space with its pragmas in the target's words. */
function space(text: string, target: Target): string {
  if (!text.includes("#")) return text;
  return text.split("\n").map((line) => {
    if (!/^\s*#\s*pragma\b/.test(line)) return line;
    const asked = pragma(line);
    // The emulator's compiler unrolls as it likes.
    return target === "cuda" && asked ? `#pragma unroll ${asked.unroll}`.trimEnd() : "";
  }).join("\n");
}

/** `float4(...)` and `vec<T, 4>(...)` for clang's dialect, where vectors have no such constructors. */
function vectorConstructor(
  tokens: readonly Token[],
  i: number,
): { text: string; end: number } | null {
  const short = VECTOR.exec(tokens[i].text);
  if (short && tokens[i + 1]?.text === "(") {
    const element = short[1] === "bool" ? "int" : short[1];
    return { text: `vec_of<${element}, ${short[2]}>`, end: i };
  }
  if (tokens[i].text !== "vec" || tokens[i + 1]?.text !== "<") return null;
  const end = closing(tokens, i + 1);
  if (tokens[end + 1]?.text !== "(") return null;
  return { text: `vec_of${flat(tokens.slice(i + 1, end + 1))}`, end };
}

/** Text of a function body or of anything else between declarations, in the target's words. */
export function rewrite(tokens: readonly Token[], target: Target): string {
  let out = "";
  for (let i = 0; i < tokens.length; i++) {
    const t = tokens[i];
    if (t.kind === "space") {
      out += space(t.text, target);
      continue;
    }
    const local = t.text === "threadgroup" ? threadgroupVariable(tokens, i) : null;
    if (local) {
      const type = joined(local.type);
      out += `MSL_TG_LOCAL(MSL_ARG(${type}), ${local.name}, MSL_ARG(${joined(local.dims)}));`;
      i = local.end;
      continue;
    }
    const made = target === "check" ? vectorConstructor(tokens, i) : null;
    if (made) {
      out += made.text;
      i = made.end;
    } else if (SPACES.includes(t.text)) out += target === "check" ? CHECK_SPACES[t.text] : "";
    else out += t.text;
  }
  return out;
}

/** So that compilers and debuggers speak of the .metal file. */
function lineMark(t: Token): string {
  return `\n#line ${t.line} "${t.file}"\n`;
}

function declaration(a: Argument, target: Target): string {
  const space = target === "check" && a.space ? CHECK_SPACES[a.space] + " " : "";
  const by = a.by === "pointer" ? "*" : a.by === "reference" ? "&" : "";
  return `${space}${joined(a.type)} ${by}${a.name}`;
}

/** Function constants become variables of the kernel: whether a slot is bound is known when it is launched. */
function presence(k: Kernel, parsed: Parsed): string {
  return parsed.constants.flatMap(({ name, index }) => {
    const a = k.arguments.find((a) => a.attributes.buffer === String(index));
    return a ? `[[maybe_unused]] const bool ${name} = ${a.name} != nullptr; ` : [];
  }).join("");
}

function constantItem(tokens: Token[], target: Target): string {
  const names = words(tokens), equals = names.indexOf("=");
  const array = names.slice(0, equals).includes("[");
  const rest = tokens.filter((t) =>
    !["constant", "static", ...(array ? ["constexpr", "const"] : [])].includes(t.text)
  );
  const table = array || !names.includes("constexpr");
  const space = target === "check"
    ? `AS_CONSTANT ${array ? "const " : ""}`
    : table
    ? "MSL_CONSTANT "
    : "static ";
  return lineMark(tokens[0]) + space + rewrite(rest, target).trim();
}

function functionItem(item: Item & { kind: "function" }, parsed: Parsed, target: Target): string {
  const { kernel, template, body } = item;
  if (!kernel) {
    const head = rewrite(item.head, target).replace(/\binline\b/g, "").trim();
    return `${
      lineMark(item.head.find((t) => t.kind !== "space") ?? body[0])
    }${template}MSL_FN ${head}(${rewrite(item.parameters, target)})${rewrite(item.tail, target)}${
      lineMark(body[0])
    }${rewrite(body, target)}`;
  }
  const list = kernel.arguments.map((a) => declaration(a, target)).join(", ");
  const present = target === "check" ? "" : presence(kernel, parsed);
  return `${lineMark(kernel.at)}${template}MSL_KERNEL void ${kernel.name}(${list}) {${present}${
    lineMark(body[0])
  }${rewrite(body.slice(1), target)}`;
}

function itemsText(items: readonly Item[], parsed: Parsed, target: Target): string {
  return items.map((item) => {
    if (item.kind === "other") return rewrite(item.tokens, target);
    if (item.kind === "constant") return constantItem(item.tokens, target);
    if (item.kind === "function") return functionItem(item, parsed, target);
    return rewrite(item.head, target) + itemsText(item.items, parsed, target) +
      rewrite(item.end, target);
  }).join("");
}

/** The whole file for a target; `stem` names its namespace. */
export function emit(parsed: Parsed, target: Target, stem: string): string {
  const constants = target !== "check"
    ? ""
    : parsed.constants.map((c) => `AS_CONSTANT constexpr bool ${c.name} = false;\n`).join("");
  const launches = { emu: emuLaunches, cuda: cudaLaunches, check: checkLaunches }[target](parsed);
  return `// Generated by native/msl from ${stem}.metal: do not edit.\n` +
    `#include "metal_stdlib"\n#define MSL_ARG(...) __VA_ARGS__\n` +
    `namespace metal {\nnamespace ${stem}_kernels {\n${constants}${
      itemsText(parsed.items, parsed, target)
    }\n#line 1 "launches of ${stem}.metal"\n${launches}}\n}\n`;
}

/** Arguments of every kernel as data. */
export function manifest(parsed: Parsed) {
  return {
    constants: parsed.constants.map(({ type, name, index }) => ({ type, name, index })),
    kernels: [...parsed.kernels.values()].map((k) => ({
      name: k.name,
      attributes: k.attributes,
      arguments: k.arguments.map(({ name, type, space, by, attributes }) => ({
        name,
        type: joined(type),
        space,
        by,
        attributes,
      })),
    })),
    instances: parsed.instances.map(({ hostName, kernel, templateArguments }) => ({
      hostName,
      kernel,
      templateArguments: templateArguments.map(joined),
    })),
  };
}
