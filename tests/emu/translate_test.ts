/**
 * The translator of .metal files: what it makes of text on which a careless reader of C++ trips, and what it
 * refuses, with file and line.
 */
import assert from "node:assert/strict";
import { emit, manifest, type Target } from "../../native/msl/emit.ts";
import { closing, lex, splitAtCommas, words } from "../../native/msl/lex.ts";
import { read } from "../../native/msl/main.ts";
import { bundle } from "../../native/msl/source.ts";

const KERNEL = "[[kernel, max_total_threads_per_threadgroup(64)]]\n";
const ARGS = "struct k_args {\n\tuint n;\n};\n";

async function translated(source: string, target: Target = "emu"): Promise<string> {
  return emit(await read(`#line 1 "k.metal"\n${source}`, "k.metal", target), target, "k");
}

/** Text as the compiler sees it: without line markers, and with blanks between words alone. */
function plain(text: string): string {
  return text.replace(/^#line.*$/gm, "").replace(/\s+/g, " ").replace(/ ?([^\w ]) ?/g, "$1");
}

async function refusal(source: string): Promise<string> {
  try {
    await translated(source);
  } catch (e) {
    return (e as Error).message;
  }
  return "taken";
}

/** A kernel whose body is `body`, which begins in line 2. */
function inKernel(body: string): string {
  return `${KERNEL}void k(device float* y [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {${body}}`;
}

Deno.test("translate: brackets of a[b[i]] and of attributes are told apart", () => {
  const nested = lex("x = a[b[i]];");
  assert.equal(closing(nested, nested.findIndex((t) => t.text === "[")), nested.length - 2);
  const attribute = lex("[[max_total_threads_per_threadgroup(N[M[0]])]] void");
  assert.equal(words(attribute.slice(closing(attribute, 0) + 1)).join(), "void");
});

Deno.test("translate: commas inside templates and calls do not split a list", () => {
  const parts = splitAtCommas(lex("vec<T, 4> a, map<vec<int, 2>, f(x, y)> b, int c[f(1, 2)]"));
  assert.equal(parts.length, 3);
});

Deno.test("translate: comments, strings and numbers are single tokens", () => {
  assert.deepEqual(words(lex("a /* ]] , */ b // {\n c \"]]\" 1.5e-3f 0x1p+2 1'000 '\\''")), [
    "a",
    "b",
    "c",
    '"]]"',
    "1.5e-3f",
    "0x1p+2",
    "1'000",
    "'\\''",
  ]);
});

Deno.test("translate: a star inside dimensions or template arguments is no pointer", async () => {
  const text = plain(
    await translated(
      "constant constexpr uint N = 4;\ntemplate <uint A> struct Tile { float v[A]; };\n" +
        inKernel(
          "threadgroup float a[N * 2][N + 1]; threadgroup Tile<N * 2> b; threadgroup float* p = a[0]; y[i] = p[0] + b.v[0];",
        ),
    ),
  );
  assert.match(text, /MSL_TG_LOCAL\(MSL_ARG\(float\),a,MSL_ARG\(\[N\*2\]\[N\+1\]\)\);/);
  assert.match(text, /MSL_TG_LOCAL\(MSL_ARG\(Tile<N\*2>\),b,MSL_ARG\(\)\);/);
  assert.match(text, /;float\*p=a\[0\];/);
});

Deno.test("translate: pointers and references to threadgroup memory are no variables", async () => {
  const text = await translated(
    inKernel(
      "threadgroup float a[4][8]; threadgroup float (*p)[8] = a; threadgroup float (&r)[8] = a[1]; y[i] = p[0][0] + r[1];",
    ),
  );
  assert.equal(text.match(/MSL_TG_LOCAL/g)?.length, 1);
});

Deno.test("translate: instantiations by macro get every template argument, defaults too", async () => {
  const source = ARGS + "template <uint B, typename T> struct F { typedef T type; };\n" +
    "template <typename W, uint N = 2, typename S = typename W::type>\n" + KERNEL +
    "void k(device const S* s [[buffer(0)]], device float* y [[buffer(1)]], constant k_args& a [[buffer(24)]]) {" +
    " threadgroup S t[N * 8]; y[0] = float(t[0]) + float(s[a.n]); }\n" +
    "#define MAKE(NAME, ...) template [[host_name(#NAME)]] [[kernel]] decltype(__VA_ARGS__) __VA_ARGS__;\n" +
    "#define LIST(X) X(one) X(two)\n#define X(v) MAKE(k__##v, k<F<4, v##_t>>)\n" +
    "typedef float one_t;\ntypedef half two_t;\nLIST(X)\n#undef X\nMAKE(k__three, k<F<8, float>, 3, vec<float, 2>>)\n";
  const text = plain(await translated(source));
  assert.match(text, /k<F<4,one_t>>\(\(const typename F<4,one_t>::type\*\)buffers\[0\]/);
  assert.match(text, /"k__two",play_1/);
  assert.match(text, /k<F<8,float>,3,vec<float,2>>\(\(const vec<float,2>\*\)buffers\[0\]/);
  assert.match(text, /static_assert\(bytes_of_k<F<8,float>,3,vec<float,2>>\(\)<=32768/);
  const cuda = plain(await translated(source, "cuda"));
  assert.match(
    cuda,
    /extern"C"__global__ void __launch_bounds__\(64\)k_k__three\(const vec<float,2>\*a_s,float\*a_y,const __grid_constant__ k_args a_a,unsigned long long\*stamp\)/,
  );
  assert.match(
    cuda,
    /lw_cuda::Register register_k__one\("k__one",\(const void\*\)k_k__one,2,sizeof\(k_args\),64,/,
  );
});

Deno.test("translate: sizes follow constants of the body through blocks", async () => {
  const text = plain(
    await translated(
      inKernel(`
	constexpr uint WIDE = 8;
	const uint other = i * 3;
	typedef float Row[WIDE];
	for (uint n = 0; n < 2; n++) {
		constant constexpr uint TALL = WIDE * 2;
		threadgroup Row rows[TALL];
		rows[0][0] = 1;
	}
	y[i] = other;
`),
    ),
  );
  const size = /constexpr unsigned bytes_of_k\(\)\{(.*?)return lw_bytes;\}/.exec(text)![1];
  assert.match(size, /constexpr uint WIDE=8;/);
  assert.match(size, /typedef float Row\[WIDE\];/);
  assert.match(size, /\{constexpr uint TALL=WIDE\*2;typedef Row rows_tg_t\[TALL\];/);
  assert.doesNotMatch(size, /other/);
});

Deno.test("translate: a function constant says whether its slot is bound", async () => {
  const source = "constant bool has_w [[function_constant(1)]];\n" + KERNEL +
    "void k(device float* y [[buffer(0)]], device const float* w [[buffer(1), function_constant(has_w)]]) {\n" +
    "\tif (has_w) y[0] = w[0];\n}\n";
  for (const target of ["emu", "cuda"] as const) {
    assert.match(plain(await translated(source, target)), /const bool has_w=w!=nullptr;/);
  }
  const parsed = await read(source, "k.metal", "emu");
  assert.deepEqual(manifest(parsed).constants, [{ type: "bool", name: "has_w", index: 1 }]);
  assert.match(
    await refusal(
      source.replace(KERNEL, "inline float f() { return has_w ? 1.0f : 0.0f; }\n" + KERNEL),
    ),
    /^k\.metal:2: has_w is read outside a kernel function/,
  );
  assert.match(
    await refusal(source.replace("buffer(1)", "buffer(2)")),
    /has_w is that of buffer 1, which k does not have/,
  );
});

Deno.test("translate: a CUDA kernel waits for the record before it, and reads nothing past its caches", async () => {
  const cuda = await translated(
    `${KERNEL}void k(device const float* x [[buffer(0)]], device float* y [[buffer(1)]]) { y[0] = x[0]; }`,
    "cuda",
  );
  assert.match(
    cuda,
    /k_k\(const float\* a_x, float\* a_y, unsigned long long\* stamp\) \{ lw_cuda::wait_for_previous\(\); k\(a_x, a_y\); lw_cuda::stamp_end\(stamp\); \}/,
  );
});

Deno.test("translate: functions of types and namespaces are device functions", async () => {
  const text = plain(
    await translated(
      "namespace n {\nstruct A {\n\tuint v;\n\tstatic inline uint two() { return 2; }\n\tuint get() const thread { return v; }\n};\n}\n" +
        inKernel("n::A a = {n::A::two()}; y[i] = a.get();"),
      "cuda",
    ),
  );
  assert.match(text, /MSL_FN static uint two\(\)/);
  assert.match(text, /MSL_FN uint get\(\)const\{return v;\}/);
});

Deno.test("translate: program-scope tables and scalars", async () => {
  const source =
    "constant constexpr uint N = 2;\nconstant float t[N] = {1, 2};\nconstant constexpr float u[2] = {1, 2};\n" +
    inKernel("y[i] = t[i] + u[i];");
  const emu = plain(await translated(source));
  assert.match(emu, /static constexpr uint N=2;/);
  assert.match(emu, /MSL_CONSTANT float t\[N\]=\{1,2\};/);
  assert.match(emu, /MSL_CONSTANT float u\[2\]/);
});

Deno.test("translate: pragmas ask nvcc to unroll, and nobody else", async () => {
  const source = inKernel(
    "\n#pragma clang loop unroll(full)\nfor (uint n = 0; n < 2; n++) y[i] = n;\n#pragma unroll(4)\nfor (uint n = 0; n < 8; n++) y[i] = n;\n",
  );
  assert.match(await translated(source, "cuda"), /^#pragma unroll\nfor[^]*^#pragma unroll 4$/m);
  assert.doesNotMatch(await translated(source), /#pragma/);
  assert.match(await refusal(inKernel("\n#pragma omp parallel\n")), /^k\.metal:3: a pragma/);
});

Deno.test("translate: lines of the translation are those of the source", async () => {
  const text = await translated(
    `inline\nfloat f(\n\tfloat x) {\n\treturn x;\n}\n${inKernel("\n\n\tMARK;\n")}`,
  );
  let file = "", line = 0;
  for (const row of text.split("\n")) {
    const marker = /^#line (\d+) "(.*)"/.exec(row);
    if (row.includes("MARK")) break;
    if (marker) [file, line] = [marker[2], Number(marker[1])];
    else line++;
  }
  assert.deepEqual([file, line], ["k.metal", 9]);
});

Deno.test("translate: includes from the root are taken in once, with their own lines", async () => {
  const root = Deno.makeTempDirSync() + "/";
  Deno.writeTextFileSync(root + "h.h", "#pragma once\ninline float f(float* p) { return p[0]; }\n");
  Deno.writeTextFileSync(root + "k.metal", '#include "h.h"\n#include "h.h"\n');
  const text = bundle(root, "k.metal");
  Deno.removeSync(root, { recursive: true });
  assert.equal(text.match(/float f/g)!.length, 1);
  await assert.rejects(read(text, "k.metal", "emu"), /^Error: h\.h:2: f: a pointer/);
});

const REFUSED: readonly [what: string, source: string, message: RegExp][] = [
  [
    "a threadgroup variable in a device function",
    "void f() {\n\tthreadgroup float a[4];\n}",
    /^k\.metal:2: .*outside a kernel/,
  ],
  [
    "a threadgroup variable of the program",
    "\nthreadgroup float a[4];",
    /^k\.metal:2: .*outside a kernel/,
  ],
  [
    "two threadgroup variables in a statement",
    inKernel("\nthreadgroup float a[4], b[4];"),
    /^k\.metal:3: one threadgroup variable/,
  ],
  [
    "a threadgroup variable with a value",
    inKernel("threadgroup float a = 0.0f;"),
    /^k\.metal:2: a: threadgroup memory has no/,
  ],
  [
    "a kernel pointer without an address space",
    `${KERNEL}void k(float* y [[buffer(0)]]) {}`,
    /^k\.metal:2: .*address space|pointer or reference/,
  ],
  [
    "a pointer argument without an address space",
    "\ninline float f(const float* p) { return p[0]; }",
    /^k\.metal:2: f: a pointer/,
  ],
  [
    "a local pointer without an address space",
    inKernel("\nfloat* p = y;"),
    /^k\.metal:3: p: a pointer/,
  ],
  [
    "a kernel argument in threadgroup memory",
    `${KERNEL}void k(threadgroup float* y [[buffer(0)]]) {}`,
    /no pointer or reference to device/,
  ],
  [
    "an argument without an attribute",
    `${KERNEL}void k(device float* y) {}`,
    /y: a kernel argument has one attribute/,
  ],
  [
    "an unknown attribute of an argument",
    `${KERNEL}void k(uint i [[thread_index_in_warp]]) {}`,
    /attribute thread_index_in_warp/,
  ],
  ["an unknown attribute of a kernel", "[[kernel, fastest]] void k() {}", /attribute fastest/],
  [
    "an attribute inside a function",
    inKernel("[[likely]] y[0] = 1;"),
    /an attribute that is not known/,
  ],
  [
    "two arguments of one buffer",
    `${KERNEL}void k(device float* x [[buffer(0)]], device float* y [[buffer(0)]]) {}`,
    /y: x has buffer\(0\)/,
  ],
  [
    "more buffers than Metal has",
    `${KERNEL}void k(device float* y [[buffer(31)]]) {}`,
    /not one of 0\.\.30/,
  ],
  [
    "a kernel that returns something",
    "[[kernel]] uint k() { return 1; }",
    /k: a kernel is a void function/,
  ],
  [
    "a function constant that is no bool",
    "constant uint n [[function_constant(0)]];",
    /^k\.metal:1: n: function constants are bool/,
  ],
  [
    "an absent argument without its constant",
    `${KERNEL}void k(device float* y [[buffer(0), function_constant(has_y)]]) {}`,
    /no function constant has_y/,
  ],
  [
    "a program variable that is not constant",
    "constexpr uint N = 2;",
    /^k\.metal:1: .*address space constant/,
  ],
  [
    "a static variable in a function",
    inKernel("\nstatic uint n = 0;"),
    /^k\.metal:3: no static variables/,
  ],
  ["double", inKernel("\ndouble d = 1.0;"), /^k\.metal:3: there is no double/],
  ["a half literal", inKernel("half h = 1.0h;"), /no half literals/],
  ["if constexpr", inKernel("if constexpr (true) y[0] = 1;"), /no if constexpr/],
  ["a lambda", inKernel("auto f = [&](uint n) { return n; };"), /no lambdas/],
  ["a variable called thread", inKernel("uint thread = 1;"), /thread is an address space/],
  ["allocation", inKernel("auto p = new float[2];"), /no allocation|taken/],
  [
    "an instantiation of no kernel",
    'template [[host_name("x")]] [[kernel]] decltype(f<1>) f<1>;',
    /^k\.metal:1: x instantiates f/,
  ],
  [
    "one name for two instances",
    `template <uint N> ${KERNEL}void k() {}\n` +
    'template [[host_name("x")]] [[kernel]] decltype(k<1>) k<1>;\n'.repeat(2),
    /^k\.metal:\d: x is instantiated twice/,
  ],
  [
    "a bracket that is never closed",
    inKernel("y[0 = 1;"),
    /^k\.metal:2: "\{?\[?\(?" ?is never closed/,
  ],
];
for (const [what, source, message] of REFUSED) {
  Deno.test(`translate: refuses ${what}`, async () => assert.match(await refusal(source), message));
}
