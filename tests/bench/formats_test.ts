/** What other tools are given, by their own grammars and schemas, and what is read of theirs. */
import assert from "node:assert/strict";
import * as v from "valibot";
import { EXPORTERS, IMPORTERS, OUTPUTS } from "../../bench/formats/formats.ts";
import { exportable } from "../../bench/formats/selection.ts";
import { type Report, reportSchema } from "../../bench/report.ts";
import { parseReport } from "../../bench/report_file.ts";
import { fakeReport } from "./fake_report.ts";

/** Decode, prefill, both and a load; one row failed, one did not pass its check. */
async function report(): Promise<Report> {
  const made = await fakeReport({
    n_gen: [64],
    n_prompt: [512, 600_000],
    prompt_gen: [[100, 10]],
    n_depth: [0, 1024],
    load: true,
    repetitions: 4,
  }, {
    refuse: (_, ctx) => ctx > 600_000 ? "no room" : null,
    stepNs: (pos, run) => 1e6 * (1 + run / 100 + pos / 1e5),
  });
  const rows = made.rows.map((row) =>
    row.id === "decode64@d1024" ? { ...row, check: { ...row.check, ok: false } } : row
  );
  return { ...made, rows };
}

Deno.test("exports leave out what failed or was not checked", async () => {
  const { rows, leftOut } = exportable(await report());
  assert.equal(leftOut, 3);
  assert.deepEqual(rows.map((r) => r.id), [
    "load",
    "prefill512@d0",
    "decode64@d0",
    "prompt_decode100+10@d0",
    "prefill512@d1024",
    "prompt_decode100+10@d1024",
  ]);
});

/** golang.org/design/14313-benchmark-format: what benchstat reads. */
const GO_RESULT = /^Benchmark(?:[^\p{Ll}\s]\S*)? +\d+(?: +[-+.\de]+ +\S+)+$/u;
const GO_CONFIG = /^[\p{Ll}][^\p{Lu}\s:]*: .*$/u;
const GO_UNIT = /^Unit \S+( \S+=\S+)+$/;

Deno.test("benchstat: every line is a result, a setting or a unit of its grammar", async () => {
  const made = await report(), text = EXPORTERS.benchstat(made);
  const lines = text.trimEnd().split("\n");
  for (const line of lines) {
    assert(GO_RESULT.test(line) || GO_CONFIG.test(line) || GO_UNIT.test(line), line);
  }
  const results = lines.filter((l) => GO_RESULT.test(l));
  assert.equal(results.length, 6 * 4);
  const decode = results.filter((l) => l.includes("/step=decode/"));
  for (const [i, line] of decode.entries()) {
    const [name, times, ns, unit, rate, per] = line.split(" ");
    assert.equal(name, "BenchmarkModel/name=fake/step=decode/gen=64/kv=f16/depth=0");
    assert.deepEqual([times, unit, per], ["1", "ns/token", "token/sec"]);
    const sample = made.rows.find((r) => r.id === "decode64@d0")!.samples_ns[i];
    assert(
      Math.abs(Number(ns) - sample / 64) < 0.01 &&
        Math.abs(Number(rate) * sample / 64e9 - 1) < 1e-6,
    );
  }
});

/** The action's own rule for customBiggerIsBetter and customSmallerIsBetter. */
const githubSchema = v.pipe(
  v.array(v.strictObject({
    name: v.string(),
    value: v.number(),
    unit: v.string(),
    range: v.optional(v.string()),
    extra: v.optional(v.string()),
  })),
  v.minLength(1),
);

Deno.test("github-action-benchmark: names are unique, values finite and not 0", async () => {
  for (const format of ["github-rates", "github-times"]) {
    const got = v.parse(githubSchema, JSON.parse(EXPORTERS[format](await report())));
    assert.equal(new Set(got.map((r) => r.name)).size, got.length);
    assert(got.every((r) => r.value > 0 && Number.isFinite(r.value)));
    assert(got.every((r) => r.name.includes("[Some CPU]")));
  }
});

/** https://bencher.dev/bmf.json */
const bencherSchema = v.record(
  v.pipe(v.string(), v.maxLength(1024)),
  v.record(
    v.pipe(v.string(), v.maxLength(64)),
    v.strictObject({
      value: v.number(),
      lower_value: v.optional(v.number()),
      upper_value: v.optional(v.number()),
    }),
  ),
);

Deno.test("bencher: metric format with the interval around the value", async () => {
  const got = v.parse(bencherSchema, JSON.parse(EXPORTERS.bencher(await report())));
  const metric = got["fake/decode64/d0"]["decode-throughput"];
  assert(metric.lower_value! <= metric.value && metric.value <= metric.upper_value!);
  assert.equal(got["fake/load"]["load-time"].value, 2e6);
  assert.equal(got["fake/prefill512/d0"].ttft.value, 512 * 10_000);
});

Deno.test("markdown and CSV: a line a row", async () => {
  const made = await report(), md = OUTPUTS.md(made).trimEnd().split("\n");
  assert.equal(md.length, 2 + 6);
  assert(md.every((l) => l.split("|").length === md[0].split("|").length));
  const csv = OUTPUTS.csv(made).trimEnd().split("\n");
  assert.equal(csv.length, 1 + 6);
  assert(csv.every((l) => /^"[^"]*"(,"[^"]*")*$/.test(l)));
  assert.equal(csv[0].split(",").length, csv[1].split(",").length);
});

Deno.test("markdown and CSV: what is to be known of all figures goes along", async () => {
  const made = await report(), caveat = 'measured "elsewhere", not here';
  const text = { ...made, tool: { ...made.tool, caveat } };
  assert.equal(OUTPUTS.md(text).trimEnd().split("\n").at(-1), caveat);
  const [head, ...rows] = OUTPUTS.csv(text).trimEnd().split("\n");
  assert(head.endsWith(',"caveat"'));
  assert(rows.length > 0 && rows.every((l) => l.endsWith(',"measured ""elsewhere"", not here"')));
});

Deno.test("outputs: the report itself reads back", async () => {
  const made = await report();
  for (const name of ["json", "jsonl"]) {
    assert.deepEqual(parseReport(OUTPUTS[name](made), name), made);
  }
});

Deno.test("llama-bench: out and in again, times to the nanosecond", async () => {
  const made = await report(), text = EXPORTERS["llama-bench"](made);
  const rows = JSON.parse(text);
  assert.equal(rows.length, 5);
  const decode = rows.find((r: { n_gen: number; n_prompt: number }) => r.n_gen === 64);
  const own = made.rows.find((r) => r.id === "decode64@d0")!;
  assert.deepEqual(decode.samples_ns, own.samples_ns);
  const mean = own.samples_ns.reduce((a, b) => a + b) / 4;
  assert.equal(decode.avg_ns, Math.round(mean));
  assert(Math.abs(decode.avg_ts - own.stats!.mean_tps!) < 1e-9);
  assert(decode.stddev_ns > 0 && Number.isInteger(decode.stddev_ns));
  const back = v.parse(reportSchema, IMPORTERS["llama-bench"](text, "x", {}));
  assert.deepEqual(back.rows.map((r) => r.id), exportable(made).rows.slice(1).map((r) => r.id));
  assert.deepEqual(back.rows[1].samples_ns, own.samples_ns);
  assert.deepEqual(back.rows[1].stats?.median_tps, own.stats?.median_tps);
  assert(back.rows.every((r) => !r.check.ok));
  const lines = rows.map((r: unknown) => JSON.stringify(r)).join("\n");
  assert.deepEqual(IMPORTERS["llama-bench"](lines, "x", {}), back);
  assert.throws(() => IMPORTERS["llama-bench"]("[]", "x", {}), /has no rows/);
  assert.throws(() => IMPORTERS["llama-bench"]("no", "x", {}), /not llama-bench JSON/);
  assert.throws(() => IMPORTERS["llama-bench"]('[{"n_prompt":1}]', "x", {}), /row 1: n_gen/);
});

Deno.test("mlx_lm: its generation rate counts a token that it did not time", () => {
  const text = `Running warmup..
Trial 1:  prompt_tps=2902.212, generation_tps=200.0, peak_memory=3.285, total_time=5.3
Trial 2:  prompt_tps=2903.0, generation_tps=100.0, peak_memory=3.3, total_time=5.4
Averages: prompt_tps=2902.6, generation_tps=150.0, peak_memory=3.3`;
  const got = v.parse(
    reportSchema,
    IMPORTERS["mlx-lm"](text, "x", { model: "m", prompt: 512, gen: 100 }),
  );
  const [prefill, decode] = got.rows;
  assert.equal(prefill.samples_ns[0], Math.round(512e9 / 2902.212));
  assert.deepEqual(decode.samples_ns, [5e8, 1e9]);
  assert.equal(decode.stats?.max, 99 / 0.5);
  assert.equal(decode.memory?.peak, 3.3e9);
  assert.equal(decode.params.n_depth, 512);
  assert.throws(() => IMPORTERS["mlx-lm"]("nothing", "x", {}), /no trials/);
});

Deno.test("vllm: latency of whole requests, and what serve saw", () => {
  const latency = JSON.stringify({ avg_latency: 1, latencies: [1.5, 2], percentiles: {} });
  const [row] = IMPORTERS.vllm(latency, "x", { model: "m", prompt: 32, gen: 128 }).rows;
  assert.deepEqual(row.samples_ns, [1.5e9, 2e9]);
  assert.equal(row.tokens_per_sample, 160);
  assert.throws(() => IMPORTERS.vllm(latency, "x", {}), /give --prompt and --gen/);
  const serve = JSON.stringify({
    model_id: "org/m",
    date: "20261130-101500",
    completed: 10,
    total_input_tokens: 1000,
    total_output_tokens: 500,
    mean_ttft_ms: 40,
    mean_tpot_ms: 8,
    median_ttft_ms: 30,
    median_tpot_ms: 5,
  });
  const got = v.parse(reportSchema, IMPORTERS.vllm(serve, "x", {}));
  assert.deepEqual(got.rows.map((r) => r.id), ["prefill100@d0", "decode50@d100"]);
  assert.equal(got.rows[0].ttft_ns, 30e6);
  assert.equal(got.rows[1].stats?.median_tps, 200);
  assert.throws(() => IMPORTERS.vllm("{}", "x", {}), /neither a latency nor a serve result/);
});
