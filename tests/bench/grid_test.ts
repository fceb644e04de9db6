/** Lists, ranges and the cells that they make. */
import assert from "node:assert/strict";
import { cellsOf, contextOf, parseCounts, parsePairs } from "../../bench/grid.ts";
import { callsOf } from "../../bench/sample.ts";
import { specWith } from "./spec.ts";

Deno.test("grid: lists and ranges as llama-bench writes them", () => {
  assert.deepEqual(parseCounts("512", "-p"), [512]);
  assert.deepEqual(parseCounts("512,1024, 0", "-p"), [512, 1024, 0]);
  assert.deepEqual(parseCounts("1-4", "-p"), [1, 2, 3, 4]);
  assert.deepEqual(parseCounts("0-10+4,7", "-p"), [0, 4, 8, 7]);
  assert.deepEqual(parseCounts("512-4096*2", "-p"), [512, 1024, 2048, 4096]);
  assert.deepEqual(parseCounts("3,3,1-3", "-p"), [3, 1, 2]);
  for (
    const bad of ["", "x", "-3", "4-1", "1-9+0", "1-9*1", "0-8*2", "1e3", "1-", "99999999999999999"]
  ) {
    assert.throws(() => parseCounts(bad, "-p"), /^UserError: -p is/, bad);
  }
  assert.throws(() => parseCounts("0-100000", "-d"), /more than 4096 values/);
});

Deno.test("grid: pairs of prompt and generated tokens", () => {
  assert.deepEqual(parsePairs("512,128", "-pg"), [[512, 128]]);
  assert.deepEqual(parsePairs("8,1;16,2", "-pg"), [[8, 1], [16, 2]]);
  for (const bad of ["512", "512,0", "0,5", "a,b", "1,2,3"]) {
    assert.throws(() => parsePairs(bad, "-pg"), /give prompt,generated/, bad);
  }
});

Deno.test("grid: the product of all lists, named by what varies", () => {
  const spec = specWith({
    n_prompt: [512, 0],
    n_gen: [32],
    n_depth: [1024, 0],
    prompt_gen: [[8, 4]],
    verify_rows: [4],
  });
  assert.deepEqual(cellsOf(spec).map((c) => c.id), [
    "prefill512@d0",
    "decode32@d0",
    "prompt_decode8+4@d0",
    "verify4@d0",
    "prefill512@d1024",
    "decode32@d1024",
    "prompt_decode8+4@d1024",
    "verify4@d1024",
  ]);
  const settings = specWith({ n_gen: [8], kv: ["f16", "q8"], threads: [1, 2], prefill_rows: [64] });
  assert.deepEqual(cellsOf(settings).map((c) => c.id), [
    "decode8@d0,kv=f16,t=1",
    "decode8@d0,kv=q8,t=1",
    "decode8@d0,kv=f16,t=2",
    "decode8@d0,kv=q8,t=2",
  ]);
  assert.equal(new Set(cellsOf(settings).map((c) => c.group)).size, 4);
});

Deno.test("grid: a long run is a prompt and the decode behind it, in one session", () => {
  const [prefill, decode] = cellsOf(specWith({ long: [32768, 128] }));
  assert.equal(prefill.id, "prefill32768@d0");
  assert.equal(decode.id, "decode128@d32768");
  assert.equal(prefill.group, decode.group);
  assert.equal(prefill.repetitions, 1);
  assert(contextOf(decode, 17) > 32768 + 128);
});

Deno.test("grid: calls have ends at the 32nd token from either edge", () => {
  assert.deepEqual(callsOf(0), []);
  assert.deepEqual(callsOf(5), [5]);
  assert.deepEqual(callsOf(32), [32]);
  assert.deepEqual(callsOf(40), [32, 8]);
  assert.deepEqual(callsOf(64), [32, 32]);
  assert.deepEqual(callsOf(100), [32, 32, 4, 32]);
  assert.deepEqual(callsOf(128), [32, 32, 32, 32]);
  assert.deepEqual(callsOf(3, 1), [1, 1, 1]);
  assert.deepEqual(callsOf(21, 8), [8, 5, 8]);
});
