/** The random Qwen3.5 fixtures on the CPU player against transformers' float32, position by position. */
import assert from "node:assert/strict";
import type { Session } from "../../engine/session.ts";
import { argmax, assertClose, floats, ids, readGolden } from "./golden.ts";
import {
  BOUND,
  checkGreedy,
  checkLayers,
  FIXTURE_ROOT,
  FIXTURES,
  type Golden,
  logitsInPieces,
  PROMPTS,
  withFixture,
} from "./fixture.ts";

for (const [name, fused] of FIXTURES.flatMap((n) => [false, true].map((f) => [n, f] as const))) {
  const label = `${name}, fused=${fused}`;
  const onCpu = (file: string, run: (session: Session, golden: Golden) => Promise<void>) =>
    withFixture(name, file, run, "cpu", fused);

  Deno.test(`${label}: one-shot prefill and step-by-step decode, every prompt`, async () => {
    await onCpu("/model.safetensors", async (session, golden) => {
      for (const p of PROMPTS) {
        const prompt = ids(golden, `${p}.input_ids`), want = floats(golden, `${p}.logits`);
        assertClose(await logitsInPieces(session, prompt, []), want, BOUND, `${p} one-shot`);
        const steps = [...prompt.keys()].slice(1);
        assertClose(await logitsInPieces(session, prompt, steps), want, BOUND, `${p} by steps`);
      }
    });
  });

  Deno.test(`${label}: greedy continuations`, async () => {
    await onCpu("/model.safetensors", checkGreedy);
  });

  Deno.test(`${label}: layer outputs and states`, async () => {
    await onCpu("/model.safetensors", checkLayers);
  });

  Deno.test(`${label}: the MLX 4-bit form`, async () => {
    const want = await readGolden(`${FIXTURE_ROOT}${name}/mlx4/golden.safetensors`);
    await onCpu("/mlx4", async (session) => {
      for (const p of ["short", "long"]) {
        const prompt = ids(want, `${p}.input_ids`), logits = floats(want, `${p}.logits`);
        assertClose(await logitsInPieces(session, prompt, []), logits, BOUND, `${p} one-shot`);
        const steps = [...prompt.keys()].slice(1);
        const stepped = await logitsInPieces(session, prompt, steps);
        assertClose(stepped, logits, BOUND, `${p} by steps`);
        const vocab = session.model.config.vocab, last = (prompt.length - 1) * vocab;
        assert.equal(argmax(stepped.subarray(last)), argmax(logits.subarray(last)));
      }
    });
  });
}

// Splits are many, and joined records have the same bits on the CPU (fused_test.ts): once is enough.
for (const name of FIXTURES) {
  Deno.test(`${name}: prefill split at every position`, async () => {
    await withFixture(name, "/model.safetensors", async (session, golden) => {
      for (const p of PROMPTS) {
        const prompt = ids(golden, `${p}.input_ids`), want = floats(golden, `${p}.logits`);
        for (let split = 1; split < prompt.length; split++) {
          const got = await logitsInPieces(session, prompt, [split]);
          assertClose(got, want, BOUND, `${p} split at ${split}`);
        }
      }
    });
  });
}
