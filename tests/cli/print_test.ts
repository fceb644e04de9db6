/** Units, tables and JSON keys at their edges; the progress bar. */
import assert from "node:assert/strict";
import {
  bytes,
  count,
  duration,
  json,
  painter,
  perSecond,
  rate,
  table,
  terminalSafe,
} from "../../cli/print.ts";
import { ProgressBar } from "../../cli/progress.ts";
import type { Terminal } from "../../cli/terminal.ts";

Deno.test("units change where the digits would overflow", () => {
  const cases: [number, string][] = [
    [0, "0 B"],
    [999, "999 B"],
    [1000, "1.00 kB"],
    [12_345, "12.3 kB"],
    [999_949, "999.9 kB"],
    [999_950, "1.00 MB"],
    [1.228e7, "12.3 MB"],
    [3.5e10, "35.0 GB"],
    [2e18, "2000.0 PB"],
  ];
  for (const [n, text] of cases) assert.equal(bytes(n), text);
  assert.equal(count(24_566_832), "24.6M");
  assert.deepEqual([850, 1.62e4, 1.62e7, 3.41e9].map(duration), [
    "850 ns",
    "16.2 us",
    "16.2 ms",
    "3.41 s",
  ]);
  assert.equal(duration(16_200_000n), "16.2 ms");
});

Deno.test("a rate needs events and time", () => {
  assert.equal(perSecond(10, 1e9), 10);
  assert.equal(perSecond(0, 1e9), null);
  assert.equal(perSecond(10, 0n), null);
  assert.equal(rate(141, 1e9), "141.0 tok/s");
  assert.equal(rate(0, 0), "no rate");
});

Deno.test("tables align and end without spaces", () => {
  const plain = painter(false, {});
  const text = table([{ title: "name" }, { title: "n", right: true }], [["a", "10"]], plain);
  assert.equal(text, "name   n\na     10\n");
});

Deno.test("JSON keys become snake_case, but for names that are not ours", () => {
  const value = { stopReason: "x", plan: { fuseNormQkv: true }, ids: Uint32Array.of(1), ns: 5n };
  assert.deepEqual(JSON.parse(json(value)), {
    stop_reason: "x",
    plan: { fuseNormQkv: true },
    ids: [1],
    ns: 5,
  });
});

Deno.test("terminal text keeps lines and tabs and shows other controls", () => {
  assert.equal(terminalSafe("a\tb\r\nc\x1b[0m\x07\x9b"), "a\tb\nc␛[0m␇\ufffd");
});

Deno.test("the progress bar: throttled, cut to the window, silent without a terminal", () => {
  const draw = (errIsTty: boolean) => {
    let err = "", now = 0;
    const terminal = { errIsTty, columns: () => 30, err: (t: string) => void (err += t) };
    {
      using bar = new ProgressBar(terminal as unknown as Terminal, () => now);
      bar.update({ stage: "reading weights", done: 1, total: 4 });
      bar.update({ stage: "reading weights", done: 2, total: 4 });
      now = 1000;
      bar.update({ stage: "reading weights", done: 0, total: 0 });
    }
    return err;
  };
  assert.equal(draw(false), "");
  const lines = draw(true).split("\r\x1b[K");
  assert.deepEqual(lines, [
    "",
    "██████░░░░░░░░░░░░░░░░░░  25%",
    "░░░░░░░░░░░░░░░░░░░░░░░░   0%",
    "",
  ]);
});

Deno.test("the progress bar: bytes have a rate, counted since their stage began", () => {
  let err = "", now = 5000;
  const terminal = { errIsTty: true, columns: () => 100, err: (t: string) => void (err = t) };
  using bar = new ProgressBar(terminal as unknown as Terminal, () => now);
  bar.update({ stage: "checking", done: 3, total: 4 });
  const shown = (done: number) => {
    bar.update({ stage: "loading weights", done, total: 20.4e9, unit: "bytes" });
    return err.split("% ")[1];
  };
  now = 10_000;
  assert.equal(shown(0), "loading weights: 0 B of 20.4 GB");
  now = 10_500;
  assert.equal(shown(5.1e9), "loading weights: 5.10 GB of 20.4 GB, 10.2 GB/s");
  now = 14_000;
  assert.equal(shown(20.4e9), "loading weights: 20.4 GB of 20.4 GB, 5.10 GB/s");
});
