/** The CUDA player on a real device: memory, errors, and the same bits from every way of playing. */
import assert from "node:assert/strict";
import { Device, NativeError } from "../../ffi/abi/handle.ts";
import { STATUS } from "../../ffi/abi/layout.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";

const FIXTURE = new URL("../fixtures/qwen35-moe-tiny/mlx4", import.meta.url).pathname;

function cudaTest(name: string, run: () => Promise<void> | void): void {
  Deno.test({
    name: `cuda: ${name} (needs an NVIDIA device)`,
    ignore: Device.count("cuda") === 0,
    fn: run,
  });
}

Deno.test("cuda: without a device, one line says why", () => {
  if (Device.count("cuda") > 0) return;
  assert.throws(
    () => openDevice({ kind: "cuda" }),
    (e) =>
      e instanceof NativeError && e.status === STATUS.device &&
      /^Cannot open a cuda device: (there is no NVIDIA driver|this library was built without|the NVIDIA driver)/
        .test(e.message),
  );
});

cudaTest("more memory than there is is refused, and nothing is lost", () => {
  using device = openDevice({ kind: "cuda" });
  const before = device.info.memoryFreeBytes;
  assert.throws(
    () => device.alloc(before * 2),
    (e) =>
      e instanceof NativeError && e.status === STATUS.outOfMemory &&
      /^Cannot allocate \d+ bytes on .*, which has \d+ free: out of memory/.test(e.message),
  );
  assert.equal(device.info.memoryFreeBytes, before);
  using small = device.alloc(1 << 20);
  const bytes = Uint8Array.of(1, 2, 3);
  small.read((1 << 20) - 3, bytes);
  assert.deepEqual([...bytes], [0, 0, 0]);
});

const IDS = Uint32Array.from({ length: 100 }, (_, i) => (i * 7919 + 13) % 500);

const TOKENS = 25;

async function tokens(session: Session, plays: number): Promise<number[]> {
  session.reset();
  session.begin({ sampling: GREEDY, stopIds: [], limit: TOKENS });
  await session.prefill(IDS);
  while (await session.decode(plays) === "running");
  return [...session.take()];
}

cudaTest("a model that is opened, played and closed leaves no memory behind", async () => {
  using device = openDevice({ kind: "cuda" });
  const free: number[] = [];
  for (let i = 0; i < 4; i++) {
    {
      using model = await openModel(FIXTURE, { device, env: {} });
      using session = new Session(model, { ctx: 256 });
      await tokens(session, 8);
    }
    free.push(device.info.memoryFreeBytes);
  }
  // The first round makes what the driver keeps for the next ones.
  assert.deepEqual(free.slice(1), [free[1], free[1], free[1]]);
});

cudaTest("one token a call, many a call, first plays and graphs make the same bits", async () => {
  using device = openDevice({ kind: "cuda" });
  using model = await openModel(FIXTURE, { device, env: {} });
  const runs: { made: number[]; states: ReadonlyMap<string, Uint8Array> }[] = [];
  for (const plays of [1, 24, 5, 1]) {
    // A session's tapes are its own: each begins with direct plays and goes on with graphs.
    using session = new Session(model, { ctx: 256 });
    for (let again = 0; again < 2; again++) {
      const made = await tokens(session, plays);
      runs.push({ made, states: session.readStates() });
    }
  }
  for (const run of runs.slice(1)) assert.deepEqual(run, runs[0]);
});
