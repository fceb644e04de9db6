/** The report as a document: its published schema, and files that are read whole, in lines, or cut off. */
import assert from "node:assert/strict";
import Ajv2020 from "ajv/dist/2020.js";
import { cellsOf } from "../../bench/grid.ts";
import { emptyRow, errorRow } from "../../bench/rows.ts";
import type { Report } from "../../bench/report.ts";
import {
  DocumentSink,
  LinesFile,
  LinesSink,
  parseReport,
  readReport,
  reportLines,
  reportText,
} from "../../bench/report_file.ts";
import { reportJsonSchema, SCHEMA_FILE } from "../../bench/schema.ts";
import { fakeReport, HEAD } from "./fake_report.ts";

function validator() {
  const ajv = new Ajv2020.default({ strict: false, validateFormats: false });
  return ajv.compile(JSON.parse(reportJsonSchema()));
}

Deno.test("report: the published JSON Schema is fresh", async () => {
  const published = await Deno.readTextFile(SCHEMA_FILE);
  assert.equal(published, reportJsonSchema(), "run `deno run -A cli/write_schema.ts`");
});

Deno.test("report: the JSON Schema takes what the program writes, and nothing else", async () => {
  const valid = validator(), report = await fakeReport();
  const text = reportText(report);
  assert(valid(JSON.parse(text)), JSON.stringify(valid.errors));
  // Readers ignore what they do not know.
  assert(valid({ ...JSON.parse(text), later: 1 }));
  for (
    const spoil of [
      (r: Report) => Object.assign(r, { schema: "lapwing-report/2" }),
      (r: Report) => Object.assign(r.rows[0], { samples_ns: [1.5] }),
      (r: Report) => Object.assign(r.rows[0].validity, { reasons: ["bad mood"] }),
      (r: Report) => Object.assign(r.rows[0], { kind: "guess" }),
      (r: Report) => delete (r.rows[0] as { check?: unknown }).check,
    ]
  ) {
    const copy = JSON.parse(text);
    spoil(copy);
    assert(!valid(copy));
    assert.throws(() => parseReport(JSON.stringify(copy), "x.json"), /^UserError: x\.json/);
  }
});

Deno.test("report: a document and its lines read back the same", async () => {
  const report = await fakeReport(), { rows, ...head } = report;
  assert.deepEqual(parseReport(reportText(report), "a"), report);
  assert.deepEqual(parseReport(JSON.stringify(report), "a"), report);
  const lines = reportLines(head, rows);
  assert.deepEqual(parseReport(lines, "a"), report);
  // A line that a killed process left half written is no line.
  assert.deepEqual(parseReport(lines.slice(0, -40), "a").rows, rows.slice(0, -1));
  assert.deepEqual(parseReport(reportLines(head, []), "a").rows, []);
  // A later line of a row replaces an earlier one.
  const spec = HEAD.spec, failed = errorRow(cellsOf(spec)[0], spec, "killed");
  assert.deepEqual(parseReport(reportLines(head, [failed, ...rows]), "a").rows, rows);
});

Deno.test("report: other files are refused in one line", () => {
  assert.throws(() => parseReport("hello", "x"), /^UserError: x is not JSON/);
  assert.throws(() => parseReport("", "x"), /x is not JSON/);
  assert.throws(() => parseReport("[1]", "x"), /x has no schema/);
  assert.throws(() => parseReport('{"schema":"other/3"}', "x"), /x is a other\/3/);
  const cut = reportLines(HEAD, []) + "{}\n{}\n";
  assert.throws(() => parseReport(cut, "x"), /x, line 2: id/);
});

Deno.test("sinks: the file is a whole report at every moment", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const spec = HEAD.spec, [a, b] = cellsOf(spec).map((cell) => emptyRow(cell, spec));
    const path = `${folder}/r.json`, document = new DocumentSink(path, HEAD);
    await document.update([], errorRow(cellsOf(spec)[0], spec, "ended"));
    assert.equal((await readReport(path)).rows[0].status, "error");
    await document.update([a], null);
    assert.deepEqual((await readReport(path)).rows, [a]);
    const lines = `${folder}/r.jsonl`;
    {
      using file = await LinesFile.begin(lines, HEAD, [a]);
      const sink = new LinesSink((line) => file.write(line), [a]);
      assert.deepEqual((await readReport(lines)).rows, [a]);
      await sink.update([a, b]);
      await sink.update([a, b]);
      assert.deepEqual((await readReport(lines)).rows, [a, b]);
      assert.equal((await Deno.readTextFile(lines)).split("\n").length, 4);
    }
    const left: string[] = [];
    for await (const { name } of Deno.readDir(folder)) left.push(name);
    assert.deepEqual(left.sort(), ["r.json", "r.jsonl"]);
    await assert.rejects(readReport(`${folder}/none.json`), /no such file/);
    await assert.rejects(
      new DocumentSink(`${folder}/no/r.json`, HEAD).update([], null),
      /^UserError: Cannot write/,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
