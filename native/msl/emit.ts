/**
 * A parsed .metal file as C++ for the emulator, as CUDA C++, or in the dialect by which clang checks address
 * spaces. What differs between targets beyond this is in native/shim.
 */
import { closing, flat, type Token, words } from "./lex.ts";
import { type Argument, type Kernel, type Parsed, SPACES } from "./parse.ts";

export type Target = "emu" | "cuda" | "check";

const CHECK_SPACES: Record<string, string> = {
  device: "AS_DEVICE",
  constant: "AS_CONSTANT",
  threadgroup: "AS_TG",
  thread: "",
};

/** What a kernel argument's attribute reads: name in the shim, and whether it has up to three parts. */
const BUILT_IN: Record<string, { readonly field: string; readonly vector: boolean }> = {
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

const VECTOR = /^(float|half|bfloat|u?(int|short|char|long))[234]$/;

/** Text of a function body or of anything else between declarations, in the target's words. */
function rewrite(tokens: readonly Token[], target: Target): string {
  let out = "", statement = true;
  for (let i = 0; i < tokens.length; i++) {
    const t = tokens[i];
    if (t.kind === "space") {
      out += t.text;
      continue;
    }
    if (t.text === "threadgroup" && statement) {
      const local = threadgroupVariable(tokens, i);
      if (local) {
        out += local.text;
        i = local.end;
        continue;
      }
    }
    if (t.text === "[[") {
      i = closing(tokens, i);
      continue;
    }
    if (target === "check" && VECTOR.test(t.text) && tokens[i + 1]?.text === "(") {
      out += `(${t.text})`;
    } else if (SPACES.includes(t.text)) out += target === "check" ? CHECK_SPACES[t.text] : "";
    else out += t.text;
    statement = [";", "{", "}", ")"].includes(t.text);
  }
  return out;
}

/** `threadgroup T name[dims];` as the shim's macro; null for a pointer or a reference. */
function threadgroupVariable(tokens: readonly Token[], at: number) {
  let end = at;
  while (tokens[end].text !== ";") end++;
  const declaration = tokens.slice(at + 1, end);
  const bracket = declaration.findIndex((t) => t.text === "[");
  const typed = bracket < 0 ? declaration : declaration.slice(0, bracket);
  const names = words(typed);
  if (names.some((w) => w === "*" || w === "&" || w === "=")) return null;
  const name = names.pop()!;
  const dims = bracket < 0 ? "" : flat(declaration.slice(bracket));
  return { end, text: `MSL_TG_LOCAL(MSL_ARG(${names.join(" ")}), ${name}, ${dims});` };
}

function declaration(a: Argument, target: Target): string {
  const space = target === "check" && a.space ? CHECK_SPACES[a.space] + " " : "";
  const by = a.by === "pointer" ? "*" : a.by === "reference" ? "&" : "";
  return `${space}${a.type} ${by}${a.name}`;
}

/** Everything but trampolines. */
function text(parsed: Parsed, target: Target): string {
  let out = "";
  for (const item of parsed.items) {
    if (item.kind === "other") out += rewrite(item.tokens, target);
    else if (item.kind === "constant") {
      const rest = item.tokens.filter((t) => t.text !== "constant");
      const space = target === "check"
        ? "AS_CONSTANT "
        : item.constexpr
        ? "static "
        : "MSL_CONSTANT ";
      out += space + rewrite(rest, target).trim();
    } else if (item.kernel) {
      const list = item.kernel.arguments.map((a) => declaration(a, target)).join(", ");
      const bounds = target === "cuda" ? launchBounds(item.kernel) : "";
      out += `${item.template}MSL_KERNEL ${bounds}void ${item.kernel.name}(${list}) ${
        rewrite(item.body, target)
      }`;
    } else {
      const head = rewrite(item.head, target).replace(/\binline\b|\bstatic\b/g, "");
      out += `${item.template}MSL_FN ${head}(${rewrite(item.parameters, target)}) ${
        rewrite(item.body, target)
      }`;
    }
  }
  return out;
}

function launchBounds(_: Kernel): string {
  return "";
}

function specialised(type: string, k: Kernel, templateArguments: string): string {
  const given = templateArguments.split(",").map((x) => x.trim());
  return k.templateParameters.reduce(
    (t, p, i) => t.replace(new RegExp(`\\b${p.replace(/^.*\s/, "")}\\b`, "g"), given[i]),
    type,
  );
}

/** The calls of a kernel's arguments in the emulator: buffers by index, then what attributes read. */
function emuArgument(a: Argument, type: string, kernel: string): string {
  if ("buffer" in a.attributes) {
    const at = `buffers[${a.attributes.buffer}]`;
    return a.by === "reference" ? `*(${type}*)${at}` : `(${type}*)${at}`;
  }
  return builtIn(a, type, kernel) + "(ids)";
}

function builtIn(a: Argument, type: string, kernel: string): string {
  const found = Object.keys(a.attributes).find((name) => BUILT_IN[name]);
  if (!found) throw new Error(`${kernel}: no attribute of ${a.name} is known`);
  const { field, vector } = BUILT_IN[found];
  return vector ? `msl_id${/([23])$/.exec(type)?.[1] ?? "1"}_${field}` : `msl_id_${field}`;
}

function emuTrampolines(parsed: Parsed): string {
  const sets = parsed.constants.map((c) =>
    `${c.name} = ${c.type === "bool" ? `present >> ${c.index} & 1` : "present"};`
  );
  let out = `static void prepare([[maybe_unused]] uint32_t present) { ${sets.join(" ")} }\n`;
  parsed.instances.forEach(({ hostName, kernel, templateArguments }, i) => {
    const k = parsed.kernels.get(kernel);
    if (!k) throw new Error(`${hostName} instantiates ${kernel}, which is not a kernel here`);
    const given = k.arguments.map((a) =>
      emuArgument(a, specialised(a.type, k, templateArguments), kernel)
    );
    const call = kernel + (templateArguments ? `<${templateArguments}>` : "");
    out += `static void play_${i}(void* const* buffers, [[maybe_unused]] const simt::Ids& ids) { ` +
      `${call}(${given.join(", ")}); }\n` +
      `static simt::Register register_${i}("${hostName}", play_${i}, ${k.meets}, prepare);\n`;
  });
  return out;
}

/** A parameter of the __global__ function, and what the kernel gets for it. */
function cudaArgument(a: Argument, type: string, k: Kernel): { parameter?: string; given: string } {
  if (!("buffer" in a.attributes)) return { given: builtIn(a, type, k.name) + "()" };
  if (a.by === "reference") {
    return {
      parameter: `const __grid_constant__ ${type.replace(/^const /, "")} a_${a.name}`,
      given: `a_${a.name}`,
    };
  }
  // What an earlier record may still be writing must not come through the read-only path.
  const once = /^const /.test(type) && !k.waits ? " __restrict__" : "";
  return { parameter: `${type}*${once} a_${a.name}`, given: `a_${a.name}` };
}

function cudaTrampolines(parsed: Parsed): string {
  let out = "";
  for (const { hostName, kernel, templateArguments } of parsed.instances) {
    const k = parsed.kernels.get(kernel)!;
    const made = k.arguments.map((a) =>
      cudaArgument(a, specialised(a.type, k, templateArguments), k)
    );
    const call = kernel + (templateArguments ? `<${templateArguments}>` : "");
    out += `extern "C" __global__ void k_${hostName}(${
      made.flatMap((m) => m.parameter ?? []).join(", ")
    }) { ${call}(${made.map((m) => m.given).join(", ")}); }\n` +
      `static MSL_CUDA_REGISTER register_${hostName}("${hostName}", (const void*)k_${hostName});\n`;
  }
  return out;
}

/** The whole file for a target; `stem` names its namespace. */
export function emit(parsed: Parsed, target: Target, stem: string): string {
  const constants = parsed.constants.map((c) =>
    target === "check"
      ? `AS_CONSTANT constexpr ${c.type} ${c.name} = 0;`
      : target === "emu"
      ? `static ${c.type} ${c.name};`
      : `static constexpr ${c.type} ${c.name} = true;`
  ).join("\n");
  const trampolines = target === "emu"
    ? emuTrampolines(parsed)
    : target === "cuda"
    ? cudaTrampolines(parsed)
    : parsed.instances.filter((i) => i.templateArguments).map((i) => {
      const f = `${i.kernel}<${i.templateArguments}>`;
      return `template decltype(${f}) ${f};\n`;
    }).join("");
  return `// Generated by native/msl from kernels/ops/${stem}: do not edit.\n` +
    `#include "metal_stdlib"\n#define MSL_ARG(...) __VA_ARGS__\n` +
    `namespace metal {\nnamespace ${stem}_kernels {\n${constants}\n${text(parsed, target)}\n` +
    `${trampolines}}\n}\n`;
}

/** Arguments of every kernel as data. */
export function manifest(parsed: Parsed) {
  return {
    constants: parsed.constants,
    kernels: [...parsed.kernels.values()].map((k) => ({
      name: k.name,
      attributes: k.attributes,
      arguments: k.arguments.map(({ name, type, space, by, attributes }) => ({
        name,
        type,
        space,
        by,
        attributes,
      })),
    })),
    instances: parsed.instances,
  };
}

