/** The closing line that a run of tests is judged by. */
import assert from "node:assert/strict";
import { addJunit, addLines, summary } from "./tally.ts";

const none = () => ({ passed: 0, failed: [] as string[], skipped: [] as string[] });

const JUNIT = `<testsuites name="deno test" tests="3" failures="1">
<testcase name="a &lt; b" classname="x" time="0.1">
</testcase>
<testcase name="needs &quot;weights&quot;" classname="x"><skipped/></testcase>
<testcase name="bad" classname="x"><failure message="m">&lt;/testcase></failure></testcase>
</testsuites>`;

Deno.test("tally: deno's report", () => {
  const counts = none();
  addJunit(counts, JUNIT, 1);
  assert.deepEqual(summary(counts), [
    'skipped: needs "weights"',
    "failed: bad",
    "1 passed, 1 failed, 1 skipped",
  ]);
});

Deno.test("tally: a test file that does not load is a failure", () => {
  const counts = none();
  addJunit(counts, JUNIT.replace(/<testcase name="bad".*\n/, ""), 1);
  assert.deepEqual(summary(counts).at(-1), "1 passed, 1 failed, 1 skipped");
  const empty = none();
  addJunit(empty, "", 1);
  assert.deepEqual(summary(empty), ["failed: a test file that did not run", "0 passed, 1 failed"]);
});

Deno.test("tally: native programs", () => {
  const counts = none();
  addLines(counts, "seed 1\nskipped: 3 cases need avx512\n7 passed, 0 failed, 3 skipped\n", 0, "a");
  addLines(counts, "5 passed, 2 failed\n", 1, "b");
  addLines(counts, "ERROR: AddressSanitizer", 134, "c");
  assert.deepEqual(summary(counts), [
    "skipped: 3 cases need avx512 (3 times)",
    "failed: b (2 times)",
    "failed: c (exit code 134)",
    "12 passed, 3 failed, 3 skipped",
  ]);
});
