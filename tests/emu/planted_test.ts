/**
 * Kernels with planted bugs (planted.metal): the emulator and the sanitizers over it find each of them, name the
 * kernel, the thread and the line, and are silent about its twin without the bug.
 */
import assert from "node:assert/strict";
import { emit } from "../../native/msl/emit.ts";
import { read } from "../../native/msl/main.ts";
import { bundle } from "../../native/msl/source.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const SOURCE = "tests/emu/planted.metal";
const FLAGS = [
  "-std=c++17",
  "-O1",
  "-g",
  "-w",
  "-fno-strict-aliasing",
  `-I${ROOT}`,
  `-I${ROOT}native/shim/emu`,
];
const CXX = Deno.env.get("CXX") ?? "c++", CLANG = "clang++-19";

/** A way to build the emulator: the emulator's own file may be compiled without what kernels have. */
interface Build {
  readonly compiler: string;
  readonly kernels: readonly string[];
  readonly runtime: readonly string[];
}
const BUILDS = {
  plain: { compiler: CXX, kernels: [], runtime: [] },
  address: { compiler: CXX, kernels: ["-fsanitize=address"], runtime: ["-fsanitize=address"] },
  thread: { compiler: CLANG, kernels: ["-fsanitize=thread"], runtime: ["-DSIMT_TSAN"] },
  memory: {
    compiler: CLANG,
    kernels: ["-fsanitize=memory", "-fsanitize-memory-track-origins=2"],
    runtime: ["-fsanitize=memory"],
  },
} satisfies Record<string, Build>;
type BuildName = keyof typeof BUILDS;

function works(command: string): boolean {
  try {
    return new Deno.Command(command, { args: ["--version"], stdout: "null", stderr: "null" })
      .outputSync().success;
  } catch {
    return false;
  }
}

function whole(path: string): string | undefined {
  return (Deno.env.get("PATH") ?? "").split(":").map((folder) => `${folder}/${path}`).find(works);
}

// Reports name lines through it; GCC's need none.
const SYMBOLIZER = whole("llvm-symbolizer-19") ?? whole("llvm-symbolizer");
const CLANG_MISSING = !works(CLANG) || !SYMBOLIZER;

const folder = Deno.makeTempDirSync();
addEventListener("unload", () => Deno.removeSync(folder, { recursive: true }));

function compile(compiler: string, args: readonly string[]): string {
  const { success, stderr } = new Deno.Command(compiler, { args: [...args], cwd: ROOT })
    .outputSync();
  return success ? "" : new TextDecoder().decode(stderr);
}

async function translate(text: string, name: string): Promise<string> {
  const path = `${folder}/${name}.cc`;
  await Deno.writeTextFile(path, emit(await read(text, SOURCE, "emu"), "emu", name));
  return path;
}

const built = new Map<BuildName, Promise<string>>();

async function build(name: BuildName): Promise<string> {
  const { compiler, kernels, runtime }: Build = BUILDS[name];
  const out = `${folder}/${name}`, object = `${out}.simt.o`;
  const planted = await translate(bundle(ROOT, SOURCE), `planted_${name}`);
  const sources = [planted, "tests/emu/planted_main.cc", "native/emu/switch.cc"];
  assert.equal(
    compile(compiler, [...FLAGS, ...runtime, "-c", "native/emu/simt.cc", "-o", object]),
    "",
  );
  assert.equal(
    compile(compiler, [...FLAGS, ...kernels, ...sources, object, "-o", out, "-pthread"]),
    "",
  );
  return out;
}

async function run(name: BuildName, kernels: readonly string[]): Promise<string> {
  if (!built.has(name)) built.set(name, build(name));
  const options = SYMBOLIZER ? `external_symbolizer_path=${SYMBOLIZER}` : "";
  const { stdout, stderr } = new Deno.Command(await built.get(name)!, {
    args: [...kernels],
    env: {
      TSAN_OPTIONS: `atexit_sleep_ms=0:${options}`,
      MSAN_OPTIONS: options,
      ASAN_OPTIONS: "detect_leaks=1",
    },
  }).outputSync();
  return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
}

/** Lines of a kernel in the source: from its head to the brace that ends it. */
function linesOf(kernel: string): [number, number] {
  const lines = Deno.readTextFileSync(ROOT + SOURCE).split("\n");
  const first = lines.findIndex((line) => line.startsWith(`PLANTED(${kernel})`));
  return [first + 1, lines.indexOf("}", first) + 1];
}

function assertReported(report: string, kernel: string, what: RegExp): void {
  assert.match(report, what);
  const line = Number(/planted\.metal:(\d+)/.exec(report)?.[1]);
  const [first, last] = linesOf(kernel);
  assert.ok(line >= first && line <= last, `line ${line} is not of ${kernel}:\n${report}`);
}

const IN_THREAD = /threadgroup \d,0,0, thread \d+, simdgroup \d, lane \d+/;

const RACES = ["barrier_missing", "second_barrier_missing", "word_shared", "barrier_of_others"]
  .concat("simd_barrier_missing", "count_plain");
for (const kernel of RACES) {
  Deno.test({
    name: `planted: ThreadSanitizer of ${CLANG} catches ${kernel}`,
    ignore: CLANG_MISSING,
    fn: async () => {
      const report = await run("thread", [kernel]);
      assertReported(report, kernel, /WARNING: ThreadSanitizer: data race/);
      assert.match(report, /Thread T\d+ 'threadgroup \d,0,0, thread \d+ of \w+'/);
      assert.match(report, new RegExp(`in kernel ${kernel}, ${IN_THREAD.source}`));
    },
  });
}

Deno.test({
  name: `planted: ThreadSanitizer of ${CLANG} catches records without a wait between them`,
  ignore: CLANG_MISSING,
  fn: async () => {
    assertReported(await run("thread", ["word_owned", "word_owned"]), "word_owned", /data race/);
    assert.equal(await run("thread", ["word_owned", "+wait", "word_owned"]), "fine\n");
    assert.equal(await run("thread", ["device_inside", "+wait", "barrier_of_own"]), "fine\n");
  },
});

for (const kernel of ["device_write_outside", "device_read_outside", "threadgroup_outside"]) {
  Deno.test(`planted: AddressSanitizer catches ${kernel}`, async () => {
    const report = await run("address", [kernel]);
    assertReported(report, kernel, /ERROR: AddressSanitizer: heap-buffer-overflow/);
    assert.match(report, new RegExp(`in kernel ${kernel}, ${IN_THREAD.source}`));
  });
}

const DIVERGENT: readonly [kernel: string, what: RegExp][] = [
  ["barrier_divergent", /no thread can go on|barrier/],
  ["barrier_left_out", /returned/],
  ["simd_divergent", /lanes of one simdgroup are in different simdgroup operations/],
  [
    "simd_loop_divergent",
    /after lanes of the simdgroup have returned|returned while its simdgroup waits/,
  ],
];
for (const [kernel, what] of DIVERGENT) {
  Deno.test(`planted: the emulator refuses ${kernel}`, async () => {
    const report = await run("plain", [kernel]);
    assert.match(report, new RegExp(`^refused: .*\\(${kernel}, ${IN_THREAD.source}\\)`));
    assert.match(report, what);
  });
}

/** Caught inside a thread, or only when the output was looked at: then the report tells where it came from. */
const UNWRITTEN: readonly [kernel: string, inside: boolean][] = [
  ["slot_unwritten", false],
  ["slot_unwritten_sum", true],
  ["slot_unwritten_branch", true],
  ["slot_unwritten_matrix", true],
];
for (const [kernel, inside] of UNWRITTEN) {
  Deno.test({
    name: `planted: MemorySanitizer of ${CLANG} catches ${kernel}`,
    ignore: CLANG_MISSING,
    fn: async () => {
      const report = await run("memory", [kernel]);
      assertReported(report, kernel, /WARNING: MemorySanitizer: use-of-uninitialized-value/);
      if (inside) assert.match(report, new RegExp(`in kernel ${kernel}, ${IN_THREAD.source}`));
    },
  });
}

Deno.test("planted: threadgroup memory that nobody wrote is NaN", async () => {
  assert.equal(await run("plain", ["slot_unwritten"]), "nan\n");
  assert.equal(await run("plain", ["slot_unwritten_sum"]), "nan\n");
});

const SOUND = ["barrier_there", "second_barrier_there", "word_owned", "barrier_of_own"]
  .concat("simd_barrier_there", "count_atomic", "device_inside", "threadgroup_inside")
  .concat("uniform", "slot_written");
for (const name of Object.keys(BUILDS) as BuildName[]) {
  Deno.test({
    name: `planted: nothing is said of sound kernels (${name}, ${BUILDS[name].compiler})`,
    ignore: BUILDS[name].compiler === CLANG && CLANG_MISSING,
    fn: async () => {
      for (const kernel of SOUND) assert.equal(await run(name, [kernel]), "fine\n", kernel);
      const all = SOUND.flatMap((kernel) => [kernel, "+wait"]);
      assert.equal(await run(name, all), "fine\n");
    },
  });
}

Deno.test("planted: a kernel over a limit of Apple GPUs does not compile", async () => {
  const kernel = (threads: string, bytes: string) =>
    `#line 1 "planted.metal"\n[[kernel, max_total_threads_per_threadgroup(${threads})]]\n` +
    "void big(device float* y [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n" +
    `\tthreadgroup float a[${bytes} / 8]; threadgroup float b[${bytes} / 8 + 0];\n` +
    "\ta[i] = b[i] = 0.0f;\n\ty[i] = a[i] + b[i];\n}\n";
  const errors = async (threads: string, bytes: string) =>
    compile(CXX, [...FLAGS, "-fsyntax-only", await translate(kernel(threads, bytes), "big")]);
  assert.equal(await errors("1024", "32768"), "");
  assert.match(await errors("64", "32776"), /big: more than 32768 bytes of threadgroup memory/);
  assert.match(await errors("1056", "64"), /big: threads are a multiple of 32, at most 1024/);
  assert.match(await errors("100", "64"), /big: threads are a multiple of 32, at most 1024/);
});
