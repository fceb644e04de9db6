/** What loading tells while it runs: bytes of whole files where a device copies them. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { Progress } from "../../engine/api_types.ts";
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { planWeights } from "../../engine/checkpoint/weights.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { loadedBytes, LOADING } from "../../engine/weights.ts";

const TINY = fileURLToPath(new URL("../../models/tiny-mlx-4bit", import.meta.url));

Deno.test("load: a device with memory of its own takes each file once, another takes what it copies", async () => {
  const checkpoint = await openCheckpoint(TINY), plan = planWeights(checkpoint);
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  const computed = sum(
    plan.weights.map(({ source }) => source.kind === "computed" ? source.from.bytes : 0),
  );
  // That of the draft head is not used.
  const used = new Set(
    plan.weights.flatMap(({ source }) =>
      source.kind === "mapped" ? source.parts.map((r) => r.file) : []
    ),
  );
  const files = sum(checkpoint.files.filter((_, i) => used.has(i)).map((f) => f.bytes));
  const cpu = loadedBytes(plan, checkpoint.files, "cpu");
  const cuda = loadedBytes(plan, checkpoint.files, "cuda");
  assert.equal(cuda.length, plan.weights.length);
  assert.equal(sum(cuda) - sum(cpu), files);
  assert(sum(cpu) >= computed && computed > 0);
});

Deno.test("load: progress begins at nothing, grows, and ends with all bytes", async () => {
  const seen: Progress[] = [];
  using device = openDevice({ kind: "cpu", threads: 1 });
  using _ = await openModel(TINY, {
    device,
    env: {},
    onProgress: (p) => void (p.stage === LOADING && seen.push(p)),
  });
  assert.equal(seen[0].done, 0);
  assert(seen.every((p, i) => p.unit === "bytes" && (i === 0 || p.done >= seen[i - 1].done)));
  assert.equal(seen.at(-1)!.done, seen[0].total);
});
