/**
 * How a host launches translated kernels: entry points by kernel name in a registry, with what they were compiled
 * for. Limits of Apple GPUs are static_asserts here, so that a kernel over one of them does not build.
 */
import { joined, Refusal, solid, type Token } from "./lex.ts";
import type { Argument, Instance, Kernel, Parsed } from "./parse.ts";
import { BUILT_IN } from "./rules.ts";
import { sizeFunction } from "./threadgroup.ts";

const THREADGROUP_BYTES_MAX = 32768, THREADS_MAX = 1024;

/** Template arguments by parameter name, with defaults filled in. */
function bound(k: Kernel, i: Instance): Map<string, readonly Token[]> {
  const values = new Map<string, readonly Token[]>();
  k.templateParameters.forEach((parameter, n) => {
    const list = solid(parameter), equals = list.findIndex((t) => t.text === "=");
    const name = (equals < 0 ? list : list.slice(0, equals)).at(-1)!.text;
    const given = i.templateArguments[n] ?? (equals < 0 ? null : list.slice(equals + 1));
    if (!given) throw new Refusal(i.at, `${i.hostName}: no argument for ${name}`);
    values.set(name, substituted(given, values));
  });
  return values;
}

function substituted(tokens: readonly Token[], by: Map<string, readonly Token[]>): Token[] {
  return tokens.flatMap((t) => t.kind === "word" && by.has(t.text) ? [...by.get(t.text)!] : [t]);
}

function concrete(a: Argument, k: Kernel, i: Instance): string {
  return joined(substituted(a.type, bound(k, i)));
}

function called(i: Instance): string {
  const list = i.templateArguments.map(joined).join(", ");
  return list ? `<${list}>` : "";
}

function builtIn(a: Argument, ids: string): string {
  const { field, vector } = BUILT_IN[Object.keys(a.attributes).find((name) => name in BUILT_IN)!];
  if (!vector) return `msl_id_${field}(${ids})`;
  return `msl_id${/([23])$/.exec(joined(a.type))?.[1] ?? "1"}_${field}(${ids})`;
}

function threadsOf(k: Kernel): string {
  return k.attributes.max_total_threads_per_threadgroup ?? String(THREADS_MAX);
}

/** What must hold of an instance, checked by whatever compiles it. */
function limits(k: Kernel, i: Instance): string {
  const bytes = `bytes_of_${k.name}${called(i)}()`, threads = threadsOf(k);
  return `static_assert(${bytes} <= ${THREADGROUP_BYTES_MAX}, "${i.hostName}: more than ${THREADGROUP_BYTES_MAX} bytes of threadgroup memory");\n` +
    `static_assert(${threads} <= ${THREADS_MAX} && ${threads} % 32 == 0, "${i.hostName}: threads are a multiple of 32, at most ${THREADS_MAX}");\n`;
}

function buffersOf(k: Kernel): Argument[] {
  return k.arguments.filter((a) => "buffer" in a.attributes)
    .sort((a, b) => Number(a.attributes.buffer) - Number(b.attributes.buffer));
}

function sizes(parsed: Parsed): string {
  return [...parsed.kernels.values()].map(sizeFunction).join("");
}

/** Buffers by index; the emulator hands every thread its ids. */
export function emuLaunches(parsed: Parsed): string {
  let out = sizes(parsed);
  parsed.instances.forEach((i, n) => {
    const k = parsed.kernels.get(i.kernel)!;
    const given = k.arguments.map((a) => {
      if (!("buffer" in a.attributes)) return builtIn(a, "ids");
      const at = `(${concrete(a, k, i)}*)buffers[${a.attributes.buffer}]`;
      return a.by === "reference" ? `*${at}` : at;
    });
    out += limits(k, i) +
      `static void play_${n}([[maybe_unused]] void* const* buffers, [[maybe_unused]] const simt::Ids& ids) { ` +
      `${k.name}${called(i)}(${given.join(", ")}); }\n` +
      `static simt::Register register_${n}("${i.hostName}", play_${n}, ${k.meets}, ${
        threadsOf(k)
      }, ` +
      `bytes_of_${k.name}${called(i)}(), ${buffersOf(k).length});\n`;
  });
  return out;
}

/**
 * `k_<name>(one pointer a slot in order, argument struct by value, time stamp)`. A kernel becomes resident while the
 * record before it runs, and waits for that one first. What that one may still be writing must not come through the
 * read-only path, so inputs are not __restrict__.
 */
export function cudaLaunches(parsed: Parsed): string {
  let out = sizes(parsed);
  for (const i of parsed.instances) {
    const k = parsed.kernels.get(i.kernel)!, buffers = buffersOf(k);
    const pointers = buffers.filter((a) => a.by === "pointer");
    const gap = pointers.find((a, n) => a.attributes.buffer !== String(n));
    if (gap) {
      throw new Refusal(gap.at, `${gap.name}: buffers of slots are numbered from 0 without gaps`);
    }
    const parameters = buffers.map((a) => {
      const type = concrete(a, k, i);
      if (a.by === "reference") {
        return `const __grid_constant__ ${type.replace(/^const /, "")} a_${a.name}`;
      }
      return `${type}* a_${a.name}`;
    });
    const given = k.arguments.map((a) => "buffer" in a.attributes ? `a_${a.name}` : builtIn(a, ""));
    const args = buffers.filter((a) => a.by === "reference");
    if (args.length > 1) throw new Refusal(args[1].at, `${k.name}: one argument struct`);
    out += limits(k, i) +
      `extern "C" __global__ void __launch_bounds__(${threadsOf(k)}) k_${i.hostName}(${
        [...parameters, "unsigned long long* stamp"].join(", ")
      }) { lw_cuda::wait_for_previous(); ` +
      `${k.name}${called(i)}(${given.join(", ")}); lw_cuda::stamp_end(stamp); }\n` +
      `static lw_cuda::Register register_${i.hostName}("${i.hostName}", (const void*)k_${i.hostName}, ` +
      `${pointers.length}, ${
        args.length ? `sizeof(${concrete(args[0], k, i).replace(/^const /, "")})` : "0"
      }, ${threadsOf(k)}, ` +
      `bytes_of_${k.name}${called(i)}());\n`;
  }
  return out;
}

/** Every instantiation, so that clang looks at it. */
export function checkLaunches(parsed: Parsed): string {
  return parsed.instances.filter((i) => i.templateArguments.length).map((i) => {
    const f = `${i.kernel}${called(i)}`;
    return `template decltype(${f}) ${f};\n`;
  }).join("");
}
