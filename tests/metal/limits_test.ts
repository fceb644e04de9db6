/** What the Metal player refuses and how it fails: GPUs, memory, mapped files, compilers, command buffers, clocks. */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  type Device,
  type LoadedTape,
  type Memory,
  NativeError,
  STATUS,
} from "../../ffi/abi/handle.ts";
import { encodeTape } from "../../ffi/tape/encode.ts";
import { planTape } from "../../ffi/tape/plan.ts";
import { Tape } from "../../ffi/tape/tape.ts";
import { rmsNorm } from "../../kernels/ops/rms_norm/op.ts";
import { Bound, fake, having, metalTest, openEmulator, openMetal } from "./rig.ts";
import { contentsOf, counterTape, longTape } from "./tapes.ts";

function failsWith(run: () => void, text: RegExp, status: number): NativeError {
  try {
    run();
  } catch (e) {
    assert.ok(e instanceof NativeError, String(e));
    assert.match(e.message, text);
    assert.equal(e.status, status);
    return e;
  }
  assert.fail(`nothing failed with ${text}`);
}

metalTest("a GPU of an older family is refused by name", () => {
  having("family", 1006, () => {
    failsWith(
      openMetal,
      /Cannot open fake GPU: the kernels need GPU family Apple7 \(M1\) or later/,
      STATUS.refused,
    );
  });
});

metalTest("every GPU of the machine can be opened by its index", () => {
  having("devices", 2, () => {
    using device = openMetal(1);
    assert.equal(device.info.index, 1);
    failsWith(() => openMetal(2), /No device 2 of this kind: there are 2/, STATUS.device);
  });
});

metalTest("memory beyond what the GPU recommends is refused with both numbers", () => {
  having("recommendedMaxWorkingSetSize", 100_000, () => {
    using device = openMetal();
    const memory = device.alloc(60_000);
    const text =
      /Cannot take 60000 bytes of GPU memory: 60000 are in use, and this GPU recommends at most 100000/;
    failsWith(() => device.alloc(60_000), text, STATUS.outOfMemory);
    memory[Symbol.dispose]();
    using _ = device.alloc(60_000);
    fake.set("noBuffer", 1);
    failsWith(
      () => device.alloc(30_000),
      /Cannot allocate 30000 bytes of GPU memory/,
      STATUS.outOfMemory,
    );
    using _again = device.alloc(40_000);
  });
});

metalTest("an allocation longer than a buffer is refused", () => {
  having("maxBufferLength", 1 << 20, () => {
    using device = openMetal();
    failsWith(
      () => device.alloc((1 << 20) + 4),
      /Cannot allocate 1048580 bytes: a buffer of this GPU holds at most 1048576/,
      STATUS.refused,
    );
  });
});

const PAGE = 4096, DIM = 1024;

/** y[i] = norm of row i with the weights at `offsets[i]` of the file. */
function mappedTape(offsets: readonly number[], dim: number): Tape {
  const t = new Tape();
  const x = t.state("x", "f32", [1, dim]);
  for (const [i] of offsets.entries()) {
    t.emit(
      rmsNorm,
      { x, w: t.weight(`w${i}`, "f32", [dim]), y: t.state(`y${i}`, "f32", [1, dim]) },
      {
        eps: 1e-6,
      },
    );
  }
  return t;
}

function loadMapped(device: Device, file: Memory, offsets: readonly number[], dim = DIM) {
  const planned = planTape(mappedTape(offsets, dim));
  const memories = planned.slots.map((s) => s.kind === "weight" ? null : device.alloc(s.bytes));
  let weight = 0;
  const tape = () =>
    device.load(
      encodeTape(planned, "threadgroups"),
      planned.slots.map((s, i) => ({
        memory: memories[i] ?? file,
        offset: memories[i] ? 0 : offsets[weight++],
        bytes: s.bytes,
      })),
      null,
    );
  const named = (name: string) => memories[planned.slots.findIndex((s) => s.name === name)]!;
  const free = () => memories.forEach((m) => m?.[Symbol.dispose]());
  return { tape, named, free };
}

metalTest(
  "a mapped file longer than a buffer is read through windows, also across their borders",
  () => {
    const path = Deno.makeTempFileSync(), bytes = 5 * PAGE + 96;
    const contents = Float32Array.from({ length: bytes / 4 }, (_, i) => Math.sin(i));
    Deno.writeFileSync(path, new Uint8Array(contents.buffer));
    // Windows of two pages: inside the first, across the first border, the same again, up to the file's end.
    const offsets = [0, 2 * PAGE - 1008, 2 * PAGE - 992, 4 * PAGE - 16, bytes - 4 * DIM];
    having("maxBufferLength", 2 * PAGE + 100, () => {
      using device = openMetal();
      const made = fake.count("made FakeBuffer");
      using file = device.map(path, bytes);
      assert.equal(fake.count("made FakeBuffer") - made, 3);
      const { tape, named, free } = loadMapped(device, file, offsets);
      const states = fake.count("made FakeBuffer");
      using loaded: LoadedTape = tape();
      // One for the first border, which the next slot shares, and one for the second.
      assert.equal(fake.count("made FakeBuffer") - states, 2);
      const ones = new Float32Array(DIM).fill(1);
      named("x").write(0, ones);
      loaded.play();
      offsets.forEach((offset, i) => {
        const got = new Float32Array(DIM);
        named(`y${i}`).read(0, got);
        got.forEach((v, k) => {
          const want = contents[offset / 4 + k];
          assert.ok(Math.abs(v - want) <= 1e-6, `y${i}[${k}]: ${v}, not ${want}`);
        });
      });
      loaded[Symbol.dispose]();
      free();
    });
    Deno.removeSync(path);
  },
);

metalTest("a slot that no buffer can hold is refused by its number with both sizes", () => {
  const path = Deno.makeTempFileSync(), bytes = 8 * PAGE;
  Deno.writeFileSync(path, new Uint8Array(bytes));
  having("maxBufferLength", 2 * PAGE, () => {
    using device = openMetal();
    using file = device.map(path, bytes);
    const { tape, free } = loadMapped(device, file, [16], 2 * DIM);
    failsWith(
      tape,
      /Cannot load tape: slot 1 lies in pages of 12288 bytes, a buffer of this GPU holds at most 8192/,
      STATUS.refused,
    );
    free();
  });
  Deno.removeSync(path);
});

metalTest("what Metal's compilers say comes with record and kernel", () => {
  using device = openMetal();
  fake.set("badSource", 2);
  const e = failsWith(
    () => new Bound(device, counterTape(), "step"),
    /record 2: Metal cannot build argmax: use of undeclared identifier 'planted'/,
    STATUS.device,
  );
  assert.equal(e.record, 2);
  fake.set("badPipeline", 1);
  failsWith(
    () => new Bound(device, counterTape(), "step"),
    /record 2: Metal cannot build argmax: Compiler encountered an internal error/,
    STATUS.device,
  );
  having("maxTotalThreadsPerThreadgroup", 512, () => {
    failsWith(
      () => new Bound(device, counterTape(), "step"),
      /record 2: argmax needs 1024 threads in simdgroups of 32, this GPU gives it 512 in simdgroups of 32/,
      STATUS.device,
    );
  });
  using bound = new Bound(device, counterTape(), "step");
  bound.fill(contentsOf());
  assert.equal(bound.tape.play(), 1);
});

metalTest("a command buffer that fails ends the run, and the plays before it count", () => {
  using device = openMetal();
  using bound = new Bound(device, counterTape(), "step");
  bound.fill(contentsOf());
  fake.set("failCommandBuffer", 3);
  failsWith(
    () => bound.tape.play(10),
    /Play 3 of 10 failed on the GPU: Caused GPU Hang Error \(planted\)/,
    STATUS.device,
  );
  fake.set("failCode", 8);
  fake.set("failCommandBuffer", 1);
  failsWith(() => bound.tape.play(2), /Play 1 of 2 failed on the GPU/, STATUS.outOfMemory);
  fake.set("failCode", 2);
  fake.set("noCommandBuffer", 2);
  failsWith(() => bound.tape.play(3), /Cannot play: Metal gives no command buffer/, STATUS.device);
  assert.equal(bound.tape.play(2), 2);
});

metalTest("profiling gives each record its time, by whichever clock the GPU has", () => {
  using device = openMetal();
  using bound = new Bound(device, longTape(5));
  bound.fill(contentsOf());
  for (const dispatch of [0, 1]) {
    having("dispatchSampling", dispatch, () => {
      const ns = bound.tape.profile(5);
      for (const n of ns) assert.ok(n > 1000n && n < 10_000_000_000n, `${ns}`);
    });
  }
  const want = bound.contents();
  bound.tape.play();
  assert.deepEqual(bound.contents(), want);
  having("stageSampling", 0, () => {
    failsWith(() => bound.tape.profile(5), /this GPU samples no timestamps/, STATUS.refused);
  });
  having("noSamples", 1, () => {
    failsWith(() => bound.tape.profile(5), /the GPU gave no timestamps of record 0/, STATUS.device);
  });
  fake.set("failCommandBuffer", 4);
  const e = failsWith(
    () => bound.tape.profile(5),
    /record 3 \(rms_norm\) failed on the GPU: Caused GPU Hang Error/,
    STATUS.device,
  );
  assert.equal(e.record, 3);
});

metalTest("more records than a sample buffer holds are profiled in parts", () => {
  using device = openMetal();
  using bound = new Bound(device, longTape(1500));
  bound.fill(contentsOf());
  assert.equal(bound.tape.profile(1500).length, 1500);
});

metalTest(
  "pipelines come from the archive of the last process, and a bad archive is replaced",
  () => {
    const caches = Deno.makeTempDirSync();
    fake.caches(caches);
    const made = () =>
      fake.counts("pipelines compiled", "pipelines from the archive", "archives written");
    /** What opening a device and loading a tape adds to these. */
    const cost = () => {
      const before = made();
      using device = openMetal();
      using bound = new Bound(device, counterTape(), "step");
      bound.fill(contentsOf());
      assert.equal(bound.tape.play(3), 3);
      using _again = new Bound(device, counterTape(), "step");
      return made().map((n, i) => n - before[i]);
    };
    try {
      assert.deepEqual(cost(), [4, 0, 1]);
      assert.deepEqual(cost(), [0, 4, 0]);
      const [{ name }] = [...Deno.readDirSync(`${caches}/lapwing`)];
      assert.match(name, /^kernels-[0-9a-f]{16}\.metalarchive$/);
      const path = `${caches}/lapwing/${name}`, good = Deno.readTextFileSync(path);
      Deno.writeTextFileSync(path, good.slice(0, 30));
      assert.deepEqual(cost(), [4, 0, 1]);
      assert.equal(Deno.readTextFileSync(path), good);
      fake.set("gpu", 2);
      assert.deepEqual(cost(), [4, 0, 1]);
      fake.set("archivesRefuseToGrow", 1);
      Deno.writeTextFileSync(path, "fake archive of 2\nend\n");
      assert.deepEqual(cost(), [4, 0, 1]);
      assert.deepEqual(cost(), [0, 4, 0]);
      Deno.removeSync(caches, { recursive: true });
      Deno.writeTextFileSync(caches, "not a folder");
      assert.deepEqual(cost(), [4, 0, 0]);
    } finally {
      fake.caches("");
      Deno.removeSync(caches, { recursive: true });
    }
  },
);

metalTest("random tapes between two plays have the emulator's bits in any order", async () => {
  const { randomRealTape } = await import("../tape/real_tapes.ts");
  const { seeded } = await import("../random.ts");
  for (let seed = 1; seed <= 6; seed++) {
    fake.set("seed", seed);
    const all = [openEmulator, openMetal].map((open) => {
      using device = open();
      using bound = new Bound(device, randomRealTape(seeded(seed), 24));
      bound.fill(contentsOf());
      bound.tape.play(3);
      return Buffer.concat([...bound.contents().values()]);
    });
    assert.ok(all[0].equals(all[1]), `seed ${seed}`);
  }
});
