/**
 * `lapwing bench` as a process over the real library: what it writes, how it ends, what a second run makes of
 * an interrupted one.
 */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Report } from "../../bench/report.ts";
import { readReport } from "../../bench/report_file.ts";
import { defaultLibraryPath } from "../../ffi/abi/open.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function bench(args: readonly string[]): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--allow-all", "cli/main.ts", "bench", ...args],
    cwd: ROOT,
    env: { HF_HOME: "/nowhere", NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function ended(child: Deno.ChildProcess): Promise<Ran> {
  const { code, stdout, stderr } = await child.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Whatever a real report must hold to. */
function sound(report: Report): void {
  assert.match(report.env.library.sha256!, /^[0-9a-f]{64}$/);
  assert.match(report.model!.weights_sha256_16!, /^[0-9a-f]{16}$/);
  for (const row of report.rows.filter((r) => r.status === "ok")) {
    assert(row.check.ok, `${row.id}: ${JSON.stringify(row.check)}`);
    assert.equal(row.check.repeatable ?? true, true);
    const share = row.limit?.pct_of_measured_bw;
    assert(share === undefined || (share! > 0 && share! <= 100), `${row.id}: ${share} %`);
    assert(row.warmup_ns.length >= 1);
    if (row.memory) {
      const { device_peak: peak, forecast } = row.memory;
      assert(peak! <= 1.05 * forecast, `${row.id}: ${peak} for ${forecast} bytes`);
      // The forecast is of whole chunks of a prompt.
      const whole = row.params.n_prompt >= row.params.prefill_rows;
      if (whole) assert(peak! >= 0.95 * forecast, `${row.id}: ${peak} for ${forecast} bytes`);
    }
  }
}

Deno.test("bench: the built-in model, all kinds of rows, JSON on standard output", async () => {
  const text = `${ROOT}/tests/fixtures/tiny/heldout.txt`;
  const ran = await ended(bench([
    ...["-m", "tiny", "-p", "40,600", "-n", "70", "-d", "0,300", "-pg", "20,5", "--verify", "1,4"],
    ...["--load", "--perplexity", text, "--window", "128", "--perplexity-tokens", "200"],
    ...["-r", "2", "--tokens", "text", "--json", "-"],
  ]));
  assert.equal(ran.code, 0, ran.err);
  const report = JSON.parse(ran.out) as Report;
  sound(report);
  assert.deepEqual(report.rows.map((r) => r.kind), [
    "load",
    ...["prefill", "prefill", "decode", "prompt_decode", "verify", "verify"],
    ...["prefill", "prefill", "decode", "prompt_decode", "verify", "verify"],
    "perplexity",
  ]);
  assert.equal(report.spec.threads[0], report.env.library.threads);
  assert(report.rows.at(-1)!.quality!.perplexity < 40);
  // The table goes where JSON does not.
  assert.match(ran.err, /decode70@d300 +\d/);
});

Deno.test("bench: a native library that prints does not spoil standard output", async () => {
  if (Deno.build.os !== "linux") return;
  await withFolder(async (folder) => {
    const noisy = `${folder}/liblapwing.so`, real = defaultLibraryPath();
    const compiler = await new Deno.Command("cc", {
      args: ["-shared", "-fPIC", "-Wl,--no-as-needed", `-DREAL_LIBRARY="${real}"`, "-o", noisy]
        .concat(
          [`${ROOT}/tests/bench/noisy_library.c`, real, "-ldl"],
        ),
    }).output();
    assert(compiler.success, new TextDecoder().decode(compiler.stderr));
    const args = ["-p", "20", "-n", "4", "-r", "1", "--library", noisy, "--json", "-"];
    const ran = await ended(bench(args));
    assert.equal(ran.code, 0, ran.err);
    sound(JSON.parse(ran.out));
    assert.match(ran.err, /NOISE from write/);
    assert.match(ran.err, /NOISE from printf/);
  });
});

Deno.test("bench: a sweep whose middle cell cannot load ends with code 3 and a valid file", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/r.json`;
    const ran = await ended(
      bench(["-p", "0", "-n", "4", "-d", "0,16000000,8", "-r", "2", "--json", path]),
    );
    assert.equal(ran.code, 3, ran.err);
    const report = await readReport(path);
    sound(report);
    assert.deepEqual(report.rows.map((r) => [r.id, r.status]), [
      ["decode4@d0", "ok"],
      ["decode4@d8", "ok"],
      ["decode4@d16000000", "error"],
    ]);
    assert.match(report.rows[2].error!, /needs [\d.]+ GiB of memory/);
    const csv = await ended(
      bench(["-p", "0", "-n", "4", "-d", "0,16000000,8", "-r", "1", "-o", "csv"]),
    );
    assert.equal(csv.out.trimEnd().split("\n").length, 3);
    assert.match(csv.err, /1 of 3 rows are left out/);
  });
});

Deno.test("bench: interrupted, the file is valid; --resume finishes it", async () => {
  for (const name of ["r.json", "r.jsonl"]) {
    await withFolder(async (folder) => {
      const path = `${folder}/${name}`;
      // Two rows are quick, the third one plays 8000 times a sample.
      const args = ["-p", "0", "-n", "4,8", "-r", "2", "--json", path];
      const child = bench([...args, "-pg", "7000,1000", "-ub", "1"]);
      const reader = child.stderr.getReader();
      let said = "";
      while (!/\d of 3: decode8@d0/.test(said)) {
        const { done, value } = await reader.read();
        if (done) break;
        said += new TextDecoder().decode(value);
      }
      reader.releaseLock();
      await new Promise((wait) => setTimeout(wait, 300));
      child.kill("SIGINT");
      const ran = await ended(child);
      assert.equal(ran.code, 130, said + ran.err);
      assert.match(ran.err, /interrupted after 2 rows: go on with `lapwing bench --resume/);
      const cut = await readReport(path);
      sound(cut);
      assert.deepEqual(cut.rows.map((r) => r.id), ["decode4@d0", "decode8@d0"]);
      // What is left is made small, so that the test ends: the spec is the file's own.
      const spec = { ...cut.spec, prompt_gen: [[8, 3]] };
      const lines = name.endsWith("l");
      const { rows, ...head } = { ...cut, spec };
      const text = lines
        ? [head, rows[0]].map((x) => JSON.stringify(x) + "\n").join("")
        : JSON.stringify({ ...head, rows: [rows[0]] });
      await Deno.writeTextFile(path, text);
      const stray = await ended(bench(["--resume", path, "-n", "4"]));
      assert.equal(stray.code, 2);
      assert.match(stray.err, /--resume measures what its report says: leave out --gen/);
      const second = await ended(bench(["--resume", path]));
      assert.equal(second.code, 0, second.err);
      const whole = await readReport(path);
      sound(whole);
      assert.equal(whole.run_id, cut.run_id);
      assert.deepEqual(whole.rows.map((r) => r.id), [
        "decode4@d0",
        "decode8@d0",
        "prompt_decode8+3@d0",
      ]);
      assert.deepEqual(whole.rows[0], rows[0]);
      assert.notDeepEqual(whole.rows[1].samples_ns, rows[1].samples_ns);
    });
  }
});

Deno.test("bench: a report of other weights is not resumed", async () => {
  await withFolder(async (folder) => {
    const path = `${folder}/r.json`;
    const args = ["-m", "qwen35-0.8b", "--synthetic", "--layers", "4", "--vocab", "512"];
    // Whatever its one row comes to: on a busy machine that may seem to beat the limit, which was taken in a bad moment.
    await ended(bench([...args, "-p", "0", "-n", "4", "-r", "1", "--json", path]));
    const report = await readReport(path);
    assert.equal(report.model?.synthetic, true);
    const changed = { ...report, model: { ...report.model, weights_sha256_16: "0".repeat(16) } };
    await Deno.writeTextFile(path, JSON.stringify(changed));
    const ran = await ended(bench(["--resume", path]));
    assert.equal(ran.code, 2);
    assert.match(ran.err, /cannot be resumed: model\.weights_sha256_16 changed/);
  });
});

Deno.test("bench: what is missing or wrong is one line with what to do", async () => {
  const refused = async (...args: string[]) => {
    const ran = await ended(bench(args));
    assert.equal(ran.code, 2, ran.err);
    assert.equal(ran.out, "");
    assert.equal(ran.err.trimEnd().split("\n").length, 1, ran.err);
    return ran.err;
  };
  const missing = await refused("-m", "qwen35-a3b");
  assert.match(missing, /hf download mlx-community\/Qwen3\.5-35B-A3B-4bit .*--synthetic/);
  assert.match(await refused("--layers", "4"), /add --synthetic/);
  assert.match(await refused("-n", "x"), /give numbers, such as/);
  assert.match(await refused("--verify", "17"), /1 to 16 rows/);
  assert.match(await refused("--text", "a.txt"), /add --tokens text/);
  const text = ["-m", "qwen35-0.8b", "--synthetic", "--layers", "4", "--vocab", "512"];
  const ran = await ended(bench([...text, "--tokens", "text", "-n", "4"]));
  assert.equal(ran.code, 3);
  assert.match(ran.out, /has no tokenizer/);
});
