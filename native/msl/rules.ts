/**
 * What the Metal Shading Language refuses and a C++ compiler would take, and what this tool chain leaves out.
 * Each complaint names file and line.
 */
import { Refusal, solid, splitAtCommas, type Token, words } from "./lex.ts";
import { type Argument, type Item, type Kernel, type Parsed, SPACES } from "./parse.ts";
import { threadgroupVariable } from "./threadgroup.ts";

/** Attributes of kernel arguments beside `buffer` and `function_constant`. */
export const BUILT_IN: Readonly<Record<string, { field: string; vector: boolean }>> = {
  thread_position_in_grid: { field: "gid", vector: true },
  threadgroup_position_in_grid: { field: "tg", vector: true },
  thread_position_in_threadgroup: { field: "tid", vector: true },
  threads_per_threadgroup: { field: "ntid", vector: true },
  threadgroups_per_grid: { field: "ntg", vector: true },
  thread_index_in_threadgroup: { field: "idx", vector: false },
  thread_index_in_simdgroup: { field: "lane", vector: false },
  simdgroup_index_in_threadgroup: { field: "sg", vector: false },
  simdgroups_per_threadgroup: { field: "nsg", vector: false },
  threads_per_simdgroup: { field: "wsz", vector: false },
};
const BUFFERS_MAX = 31;
const KERNEL_ATTRIBUTES = ["kernel", "max_total_threads_per_threadgroup"];

const BANNED: Readonly<Record<string, string>> = {
  double: "there is no double on an Apple GPU",
  goto: "no goto in the Metal Shading Language",
  try: "no exceptions in the Metal Shading Language",
  throw: "no exceptions in the Metal Shading Language",
  new: "no allocation in the Metal Shading Language",
  delete: "no allocation in the Metal Shading Language",
  virtual: "no virtual functions in the Metal Shading Language",
  dynamic_cast: "no run-time types in the Metal Shading Language",
  typeid: "no run-time types in the Metal Shading Language",
  thread_local: "no thread_local in the Metal Shading Language",
};

const SCALAR =
  /^(bool|char|uchar|short|ushort|int|uint|long|ulong|half|float|bfloat|size_t)[234]?$/;

/** Every line that a pragma of a `.metal` file may be, and what it asks of a loop. */
export function pragma(line: string): { unroll: string } | null {
  const text = line.replace(/^\s*#\s*pragma\s+/, "").trim();
  const m = /^unroll(?:\s*\(?\s*(\w+)\s*\)?)?$/.exec(text);
  if (m) return { unroll: m[1] ?? "" };
  const loop = /^clang\s+loop\s+unroll(_count)?\s*\(\s*(\w+)\s*\)$/.exec(text);
  if (!loop) return null;
  if (loop[1]) return { unroll: loop[2] };
  return { unroll: loop[2] === "disable" ? "1" : "" };
}

function checkSpace(t: Token): void {
  const lines = t.text.split("\n");
  const file = t.file;
  let line = t.line;
  for (const text of lines) {
    const marker = /^#line (\d+)/.exec(text);
    if (/^\s*#\s*pragma\b/.test(text) && !pragma(text) && !/pragma\s+METAL\s+fp\b/.test(text)) {
      throw new Refusal({ file, line }, `a pragma that Metal does not know: ${text.trim()}`);
    }
    line = marker ? Number(marker[1]) : line + 1;
  }
}

/** What can be told from a token and its neighbours. */
export function checkTokens(all: readonly Token[]): void {
  for (const t of all) if (t.kind === "space") checkSpace(t);
  const tokens = solid(all);
  tokens.forEach((t, i) => {
    const before = tokens[i - 1]?.text ?? ";", after = tokens[i + 1]?.text ?? ";";
    if (t.kind === "word" && t.text in BANNED && before !== "=") {
      throw new Refusal(t, BANNED[t.text]);
    }
    if (t.kind === "number" && /^[\d.]+(e[-+]?\d+)?h$/i.test(t.text)) {
      throw new Refusal(t, "no half literals: convert with half(...)");
    }
    if (t.text === "constexpr" && before === "if") throw new Refusal(t, "no if constexpr in C++14");
    if (t.text === "thread" && !/^[\w*&]+$/.test(after) && after !== ")" && after !== "{") {
      throw new Refusal(t, "thread is an address space, not a name");
    }
    const opens = ["(", ",", "=", ";", "{", "}", "return"].includes(before);
    if (t.text === "[" && opens) throw new Refusal(t, "no lambdas in the Metal Shading Language");
    checkLocalPointer(tokens, i);
  });
}

/** `float* p` at the beginning of a statement: Metal wants to know what it points into. */
function checkLocalPointer(tokens: readonly Token[], i: number): void {
  const before = tokens[i - 1]?.text ?? ";";
  if (![";", "{", "}"].includes(before)) return;
  let at = i;
  if (tokens[at].text === "const") at++;
  if (!SCALAR.test(tokens[at]?.text ?? "")) return;
  const mark = tokens[at + 1]?.text;
  if (mark !== "*" && mark !== "&") return;
  if (tokens[at + 2]?.kind !== "word") return;
  throw new Refusal(
    tokens[i],
    `${tokens[at + 2].text}: a pointer or reference needs an address space`,
  );
}

function checkParameters(parameters: readonly Token[], name: string): void {
  for (const p of splitAtCommas(parameters)) {
    const names = words(p);
    const ends = names.findIndex((w) => w === "=");
    const declared = ends < 0 ? names : names.slice(0, ends);
    const points = declared.some((w) => w === "*" || w === "&" || w === "&&");
    if (points && !declared.some((w) => SPACES.includes(w))) {
      const t = solid(p)[0];
      throw new Refusal(t, `${name}: a pointer or reference argument needs an address space`);
    }
  }
}

function checkArgument(a: Argument, k: Kernel, taken: Map<string, string>): void {
  const names = Object.keys(a.attributes);
  const known = names.filter((n) => n in BUILT_IN);
  const unknown = names.find((n) =>
    !(n in BUILT_IN) && n !== "buffer" && n !== "function_constant"
  );
  if (unknown) throw new Refusal(a.at, `${a.name}: the attribute ${unknown} is not known here`);
  if (known.length + ("buffer" in a.attributes ? 1 : 0) !== 1) {
    throw new Refusal(a.at, `${a.name}: a kernel argument has one attribute that says what it is`);
  }
  if (known.length) {
    if (a.by !== "value") throw new Refusal(a.at, `${a.name}: ${known[0]} is a value`);
    return;
  }
  const index = a.attributes.buffer;
  if (!/^\d+$/.test(index) || Number(index) >= BUFFERS_MAX) {
    throw new Refusal(a.at, `${a.name}: buffer(${index}) is not one of 0..${BUFFERS_MAX - 1}`);
  }
  if (taken.has(index)) {
    throw new Refusal(a.at, `${a.name}: ${taken.get(index)} has buffer(${index})`);
  }
  taken.set(index, a.name);
  if (a.by === "value" || !["device", "constant"].includes(a.space)) {
    throw new Refusal(
      a.at,
      `${k.name}: ${a.name} is no pointer or reference to device or constant`,
    );
  }
  const constant = a.attributes.function_constant;
  if (constant !== undefined && a.by !== "pointer") {
    throw new Refusal(a.at, `${a.name}: only a pointer can be absent`);
  }
}

function checkKernel(k: Kernel, parsed: Parsed, head: readonly Token[]): void {
  if (words(head).join(" ") !== `void ${k.name}`) {
    throw new Refusal(k.at, `${k.name}: a kernel is a void function`);
  }
  const odd = Object.keys(k.attributes).find((a) => !KERNEL_ATTRIBUTES.includes(a));
  if (odd) throw new Refusal(k.at, `${k.name}: the attribute ${odd} is not known here`);
  const taken = new Map<string, string>();
  for (const a of k.arguments) checkArgument(a, k, taken);
  for (const c of parsed.constants) {
    const used = k.body.find((t) => t.text === c.name) ??
      k.arguments.find((a) => a.attributes.function_constant === c.name)?.at;
    if (used && !taken.has(String(c.index))) {
      throw new Refusal(
        used,
        `${c.name} is that of buffer ${c.index}, which ${k.name} does not have`,
      );
    }
  }
  for (const a of k.arguments) {
    const name = a.attributes.function_constant;
    if (name !== undefined && !parsed.constants.some((c) => c.name === name)) {
      throw new Refusal(a.at, `${a.name}: there is no function constant ${name}`);
    }
  }
}

/** Attributes stand on kernels, their arguments, function constants and instantiations; nowhere else. */
function checkBody(body: readonly Token[], kernel: Kernel | null, parsed: Parsed): void {
  for (let i = 0; i < body.length; i++) {
    const t = body[i];
    if (t.text === "[[") throw new Refusal(t, "an attribute that is not known here");
    if (t.text === "threadgroup" && !kernel && threadgroupVariable(body, i)) {
      throw new Refusal(t, "a threadgroup variable outside a kernel function");
    }
    if (!kernel && parsed.constants.some((c) => c.name === t.text)) {
      throw new Refusal(t, `${t.text} is read outside a kernel function: hand it in`);
    }
    if (t.text === "static" && words(body.slice(i + 1, i + 4))[0] !== "constant") {
      throw new Refusal(t, "no static variables in functions");
    }
  }
}

function checkOther(tokens: readonly Token[], within: "namespace" | "type"): void {
  const names = words(tokens);
  if (!names.length) return;
  const first = solid(tokens)[0];
  const attribute = tokens.find((t) => t.text === "[[");
  if (attribute) throw new Refusal(attribute, "an attribute that is not known here");
  if (["typedef", "using", "template", "enum", "static_assert", "struct", ";"].includes(names[0])) {
    return;
  }
  if (names[0] === "threadgroup" && within === "namespace" && !names.includes("(")) {
    throw new Refusal(first, "a threadgroup variable outside a kernel function");
  }
  const variable = names.includes("=") && (within === "namespace" || names.includes("static"));
  if (variable && !names.includes("constant") && !names.includes("operator")) {
    throw new Refusal(first, "a variable outside functions needs the address space constant");
  }
}

function checkItems(items: readonly Item[], parsed: Parsed): void {
  for (const item of items) {
    if (item.kind === "scope") checkItems(item.items, parsed);
    else if (item.kind === "other") checkOther(item.tokens, item.within);
    else if (item.kind === "function") {
      checkBody(item.body, item.kernel, parsed);
      if (item.kernel) checkKernel(item.kernel, parsed, item.head);
      checkParameters(item.parameters, item.name);
    }
  }
}

function checkConstants(parsed: Parsed): void {
  const indices = new Set<number>();
  for (const { type, name, index, at } of parsed.constants) {
    if (type !== "bool") throw new Refusal(at, `${name}: function constants are bool`);
    if (!(index >= 0 && index < BUFFERS_MAX)) throw new Refusal(at, `${name}: no buffer ${index}`);
    if (indices.has(index)) throw new Refusal(at, `${name}: index ${index} is taken`);
    indices.add(index);
  }
}

export function check(parsed: Parsed, tokens: readonly Token[]): void {
  checkTokens(tokens);
  checkConstants(parsed);
  checkItems(parsed.items, parsed);
  const names = new Set<string>();
  for (const { hostName, at } of parsed.instances) {
    if (names.has(hostName)) throw new Refusal(at, `${hostName} is instantiated twice`);
    names.add(hostName);
  }
}
