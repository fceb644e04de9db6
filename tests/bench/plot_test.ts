/** Pictures from the example reports: what is drawn, what is left out, and that files hold up by themselves. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { drawPictures } from "../../bench/plot/draw.ts";
import { renderPage } from "../../bench/plot/page.ts";
import { DARK, LIGHT, MAX_SERIES, type Palette } from "../../bench/plot/palette.ts";
import { PLOT_KINDS } from "../../bench/plot/picture.ts";
import { renderPng } from "../../bench/plot/png.ts";
import { SHEET, standaloneSvg } from "../../bench/plot/sheet.ts";
import type { Source } from "../../bench/plot/source.ts";
import { run } from "../cli/fake_terminal.ts";
import { changed, examples, FOLDER, HISTORY, marksOf, picture } from "./plot_examples.ts";
import { darkShare, decodePng } from "./png_pixels.ts";

Deno.test("decode: a point a row, its limit, intervals, labelled axes, share of the limit", async () => {
  const p = await picture("decode", "gpu-a3b.json");
  const marks = marksOf(p);
  assert.deepEqual([marks.points, marks.limits, marks.intervals], [5, 1, 5]);
  for (const text of ["tokens per second", "tokens already in context", "128K", "53%"]) {
    assert.ok(marks.text.includes(text), text);
  }
  assert.match(
    p.finding,
    /^413 tokens\/s at depth 0 \(53% of the limit\), 162 tokens\/s at depth 128K/,
  );
  assert.deepEqual(p.legend.map((i) => i.label), [
    "qwen35-a3b q4g64 (synthetic weights), cuda sm_90",
    "hardware limit",
    "suspect",
  ]);
  assert.match(
    p.facts.join("\n"),
    /1480 GB\/s measured.*8 samples a point.*Example\u00a0GPU.*persistent=on/s,
  );
  assert.match(
    p.notes.join("\n"),
    /^Synthetic: random weights.*\nSuspect .*d32768 \(thermal drift\)\.$/,
  );
});

Deno.test("every kind: what is to be known of all figures stands below, once", async () => {
  const caveat = "measured elsewhere";
  const given = await examples("gpu-a3b.json", ...HISTORY);
  const sources = given.map(({ name, report }) => ({
    name,
    report: { ...report, tool: { ...report.tool, caveat } },
  }));
  const { pictures } = drawPictures(sources, PLOT_KINDS);
  assert.deepEqual(new Set(pictures.map((p) => p.kind)), new Set(PLOT_KINDS));
  for (const p of pictures) {
    assert.equal(standaloneSvg(p, LIGHT).split(caveat).length, 2, p.name);
  }
});

Deno.test("prefill: far below the limit both axes are logarithmic and say so", async () => {
  const marks = marksOf(await picture("prefill", "gpu-a3b.json"));
  assert.deepEqual([marks.points, marks.limits], [5, 1]);
  assert.match(marks.text, /tokens per second \(log scale\)/);
  assert.match(marks.text, /prompt tokens T \(log scale\)/);
});

Deno.test("verify: cost in decode steps, the line of serial steps, the least cost", async () => {
  const p = await picture("verify", "gpu-a3b.json");
  const marks = marksOf(p);
  assert.deepEqual([marks.points, marks.limits], [8, 1]);
  assert.match(marks.text, /V\(T\) \/ S: cost in decode steps.*tokens T in one play/);
  const [source] = await examples("gpu-a3b.json");
  const rateOf = (id: string) => source.report.rows.find((r) => r.id === id)!.stats!.median_tps!;
  const cost = 16 * rateOf("decode128@d0") / rateOf("verify16@d0");
  assert.equal(p.table.rows.at(-1)![4], cost.toFixed(3));
  assert.match(p.finding, /^16 tokens in one play cost 3\.\d\d decode steps; the limit is 1\.38$/);
});

Deno.test("noise wider than the value: intervals stay above zero, drift stays in the frame", async () => {
  const wild = (await examples("cpu-int8.json")).map((s) =>
    changed(s, (row) => {
      const rate = row.stats!.median_tps!;
      const stats = {
        ...row.stats!,
        ci95: [rate / 9, rate * 3] as [number, number],
        drift_pct: 400,
      };
      return { ...row, stats };
    })
  );
  const [verify] = drawPictures(wild, ["verify"]).pictures;
  for (const cells of verify.table.rows) {
    const [low, high] = cells[5].split(" to ").map(Number);
    assert.ok(cells[5] === "-" || low > 0 && low < high, cells[5]);
  }
  const [{ svg, height }] = drawPictures(wild, ["samples"]).pictures[0].panels(SHEET, LIGHT);
  const drifts = [
    ...svg.matchAll(/class="drift"[^>]*><path d="M[\d.]+,([\d.-]+)L[\d.]+,([\d.-]+)"/g),
  ];
  assert.equal(drifts.length, 10);
  for (const y of drifts.flatMap((m) => [Number(m[1]), Number(m[2])])) {
    assert.ok(y >= 0 && y <= height - 40, String(y));
  }
});

Deno.test("verify: without a serial step at the same depth nothing is drawn", async () => {
  const [source] = await examples("gpu-a3b.json");
  const rows = source.report.rows.filter((r) => r.kind === "verify" && r.params.rows !== 1);
  const { pictures, omitted } = drawPictures([{ ...source, report: { ...source.report, rows } }], [
    "verify",
  ]);
  assert.equal(pictures.length, 0);
  assert.match(omitted[0].why, /^no decode row and no verify row of one token at depth 0$/);
});

Deno.test("samples: every sample of every row, in order, with time above", async () => {
  const sources = await examples("cpu-int8.json");
  const p = await picture("samples", "cpu-int8.json");
  const marks = marksOf(p);
  const samples = sources[0].report.rows.reduce((n, r) => n + r.samples_ns.length, 0);
  assert.equal(marks.points, samples);
  assert.equal(p.table.rows.length, samples);
  assert.match(marks.text, /time since the run began/);
  assert.match(marks.text, /sample, in the order of measurement/);
  const one = await picture("samples", "one-row.json");
  assert.match(one.legend[0].label, /^decode64@d0, drift [+−±]\d\.\d%$/);
});

Deno.test("a report with a single row has its picture, and its limit runs across", async () => {
  const p = await picture("decode", "one-row.json");
  const marks = marksOf(p);
  assert.deepEqual([marks.points, marks.limits], [1, 1]);
  const { empty } = drawPictures(await examples("one-row.json"), PLOT_KINDS);
  assert.deepEqual(empty, [
    { kind: "prefill", why: "no prefill row to draw" },
    { kind: "verify", why: "no verify row to draw" },
    { kind: "history", why: "needs two runs or more" },
  ]);
});

Deno.test("two reports: labels say what differs, captions what does not", async () => {
  const p = await picture("decode", "cpu-int8.json", "cpu-exact.json");
  assert.deepEqual(p.legend.map((i) => i.label), [
    "actInt8=on",
    "actInt8=off",
    "hardware limit",
    "suspect",
  ]);
  assert.match(p.facts.join("\n"), /tiny\u00a0q4g64\u00a0· Example\u00a0CPU,\u00a08\u00a0cores/);
  const mixed = await picture("decode", "gpu-a3b.json", "cpu-int8.json");
  assert.deepEqual(mixed.legend.slice(0, 3).map((i) => i.label), [
    "qwen35-a3b q4g64 (synthetic weights), cuda sm_90",
    "tiny q4g64, cpu avx512",
    "hardware limit of each",
  ]);
  assert.match(mixed.notes[0], /^Synthetic in 5 rows/);
});

Deno.test("more series than colours: the last are drawn and the others named", async () => {
  const [source] = await examples("one-row.json");
  const many = Array.from(
    { length: MAX_SERIES + 2 },
    (_, i) => ({ ...source, name: `r${i}.json` }),
  );
  const { pictures, omitted } = drawPictures(many, ["decode"]);
  assert.equal(marksOf(pictures[0]).points, MAX_SERIES);
  assert.deepEqual(omitted.map((o) => o.source), ["r0.json", "r1.json"]);
});

Deno.test("rows that failed are not drawn; picture, page and standard error say which", async () => {
  const out = await Deno.makeTempDir();
  try {
    const path = join(FOLDER, "cpu-failed.json");
    const ran = await run(["plot", path, "--out", out, "--format", "svg,html"]);
    assert.equal(ran.code, 0);
    assert.deepEqual(ran.out.split("\n"), [
      ...["decode.svg", "samples.svg", "report.html"].map((name) => join(out, name)),
      "",
    ]);
    assert.match(ran.err, /^no prefill picture: no prefill row to draw$/m);
    const svg = await Deno.readTextFile(join(out, "decode.svg"));
    const page = await Deno.readTextFile(join(out, "report.html"));
    const [{ report }] = await examples("cpu-failed.json");
    for (const { id } of report.rows.filter((r) => r.id !== "decode128@d0")) {
      assert.match(ran.err, new RegExp(`^not drawn: ${id} of cpu-failed\\.json: `, "m"));
      assert.ok(page.includes(`<li>${id}: `), id);
      assert.equal(svg.includes(id), id.startsWith("decode"), id);
    }
    assert.match(ran.err, /decode128@d512 .*check failed: output differs from token 17 on$/m);
    assert.equal(marksOf(await picture("decode", "cpu-failed.json")).points, 1);
  } finally {
    await Deno.remove(out, { recursive: true });
  }
});

Deno.test("nothing to draw, no report, a word that is no kind: code 2 and no folder", async () => {
  const cases: [string[], RegExp][] = [
    [[join(FOLDER, "cpu-failed.json"), "--kind", "verify"], /Nothing to draw.*\n {2}verify: /],
    [
      [join(FOLDER, "../../../deno.json")],
      /deno\.json has no schema: expected a lapwing-report\/1/,
    ],
    [["nowhere.json"], /Cannot read nowhere\.json: no such file/],
    [["x.json", "--kind", "decode,pie"], /Expected one or more of decode,prefill,/],
    [["x.json", "--format", "pdf"], /Expected one or more of svg,png,html/],
  ];
  for (const [argv, expected] of cases) {
    const out = join(Deno.env.get("TMPDIR") ?? "/tmp", "lapwing-no-such-folder");
    const ran = await run(["plot", ...argv, "--out", out]);
    assert.equal(ran.code, 2);
    assert.equal(ran.out, "");
    assert.match(ran.err, expected);
    await assert.rejects(Deno.stat(out), Deno.errors.NotFound);
  }
});

Deno.test("PNG: well-formed XML goes in, every picture has ink, its title too, in both themes", async () => {
  const sources = await examples("gpu-a3b.json", "cpu-int8.json", ...HISTORY);
  const { pictures } = drawPictures(sources, PLOT_KINDS);
  assert.deepEqual(new Set(pictures.map((p) => p.kind)), new Set(PLOT_KINDS));
  for (const p of pictures) {
    // The rasteriser's parser is strict: it refuses what is not XML.
    const png = decodePng(await renderPng(standaloneSvg(p, LIGHT)));
    assert.equal(png.width, 1520);
    const title = darkShare(png, 40, 40, 400, 56);
    assert.ok(title > 0.02 && title < 0.6, `${p.name}: title ${title}`);
    const all = darkShare(png, 0, 0, png.width, png.height);
    assert.ok(all > 0.005 && all < 0.3, `${p.name}: ${all}`);
  }
  const dark = decodePng(await renderPng(standaloneSvg(pictures[0], DARK)));
  assert.ok(darkShare(dark, 0, 0, dark.width, dark.height) > 0.8);
});

Deno.test("the page needs nothing from elsewhere, runs nothing, and has both themes and widths", async () => {
  const sources = await examples("gpu-a3b.json", "cpu-failed.json", ...HISTORY);
  const { pictures, omitted } = drawPictures(sources, PLOT_KINDS);
  const page = renderPage(pictures, { sources, baselines: [] }, omitted);
  const foreign = /\/\/\w|url\(|@import|<script|<link|<img|\bsrc=/i.exec(page);
  assert.equal(foreign && page.slice(foreign.index - 80, foreign.index + 80), null);
  for (const [, target] of page.matchAll(/href="([^"]*)"/g)) assert.match(target, /^#[\w-]+$/);
  assert.match(page, /prefers-color-scheme: dark/);
  assert.match(page, /<meta name="viewport"/);
  assert.equal(page.match(/<figure /g)!.length, pictures.length);
  assert.equal(page.match(/<div class="narrow"><svg /g)!.length, pictures.length);
  assert.equal(/NaN|undefined|Infinity|\[object/.exec(page), null);
  assert.ok(
    page === renderPage(pictures, { sources, baselines: [] }, omitted),
    "the same input, the same bytes",
  );
});

Deno.test("names from a report cannot become markup", async () => {
  const [source] = await examples("one-row.json");
  const name = `<script>alert("1")</script>&\u0007\ud800`;
  const hostile: Source = {
    name: `"><img src=x>.json`,
    report: { ...source.report, model: { ...source.report.model!, alias: name } },
  };
  const { pictures, omitted } = drawPictures([hostile], PLOT_KINDS);
  assert.doesNotMatch(
    renderPage(pictures, { sources: [hostile], baselines: [] }, omitted),
    /<script|<img/,
  );
  for (const p of pictures) {
    const svg = standaloneSvg(p, LIGHT);
    assert.doesNotMatch(svg, /<script|<img/);
    await renderPng(svg);
  }
});

Deno.test("colours stand out from the paper", () => {
  for (const palette of [LIGHT, DARK]) {
    for (const color of palette.series) assert.ok(contrast(color, palette) >= 3, color);
    assert.ok(contrast(palette.muted, palette) >= 4.5);
    assert.ok(contrast(palette.ink, palette) >= 7);
    assert.equal(palette.series.length, MAX_SERIES);
  }
});

/** Contrast to the paper as WCAG defines it. */
function contrast(color: string, { paper }: Palette): number {
  const [low, high] = [luminance(color), luminance(paper)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16) / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
