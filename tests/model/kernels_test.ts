/** The random Qwen3.5 fixtures through .metal kernels, emulated and on GPUs, against transformers' float32. */
import { KERNEL_KINDS } from "../kernel_kinds.ts";
import { assertClose, floats, ids, readGolden } from "./golden.ts";
import {
  BOUND,
  checkGreedy,
  checkLayers,
  FIXTURE_ROOT,
  FIXTURES,
  logitsInPieces,
  PROMPTS,
  withFixture,
} from "./fixture.ts";

for (const [kind, name] of KERNEL_KINDS.flatMap((k) => FIXTURES.map((f) => [k, f] as const))) {
  Deno.test(`${kind}, ${name}: prompts in one piece and step by step`, async () => {
    await withFixture(name, "/model.safetensors", async (session, golden) => {
      for (const p of PROMPTS) {
        const prompt = ids(golden, `${p}.input_ids`), want = floats(golden, `${p}.logits`);
        assertClose(await logitsInPieces(session, prompt, []), want, BOUND, `${p} one-shot`);
        if (prompt.length > 64) continue;
        const steps = [...prompt.keys()].slice(1);
        assertClose(await logitsInPieces(session, prompt, steps), want, BOUND, `${p} by steps`);
      }
    }, kind);
  });

  Deno.test(`${kind}, ${name}: greedy continuations`, async () => {
    await withFixture(name, "/model.safetensors", checkGreedy, kind);
  });

  Deno.test(`${kind}, ${name}: layer outputs and states`, async () => {
    await withFixture(name, "/model.safetensors", checkLayers, kind);
  });

  Deno.test(`${kind}, ${name}: the MLX 4-bit form`, async () => {
    const want = await readGolden(`${FIXTURE_ROOT}${name}/mlx4/golden.safetensors`);
    await withFixture(name, "/mlx4", async (session) => {
      for (const p of ["short", "long"]) {
        const prompt = ids(want, `${p}.input_ids`);
        const logits = await logitsInPieces(session, prompt, []);
        assertClose(logits, floats(want, `${p}.logits`), BOUND, `${p} one-shot`);
      }
    }, kind);
  });
}
