/** Reading the machine: counters, energy, hashes, and what logits and routing say. */
import process from "node:process";
import assert from "node:assert/strict";
import { clockGrainNs } from "../../bench/clock.ts";
import { type EnergyHost, energyMeter } from "../../bench/energy.ts";
import { compareForms } from "../../bench/form_check.ts";
import { bundledFrom, mappedPath } from "../../bench/identity.ts";
import { foreignTime, PeakMemory } from "../../bench/machine.ts";
import { Prompt } from "../../bench/prompt.ts";
import { routingFacts } from "../../bench/routing.ts";
import { fastest } from "../../bench/anchor.ts";
import { FakeClock } from "./fake_rig.ts";

Deno.test("machine: a program that was packed names the commit that it came from", async () => {
  const folder = await Deno.makeTempDir();
  try {
    assert.equal(await bundledFrom(folder), null);
    await Deno.writeTextFile(`${folder}/bundle.json`, '{ "commit": "abc", "dirty": false }');
    assert.deepEqual(await bundledFrom(folder), { commit: "abc", dirty: false });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("machine: CPU time of others is what was busy and not ours", () => {
  const stat = "cpu  100 20 30 5000 60 7 8 9 0 0\ncpu0 1 2 3";
  const self = "29110 (a (b) c) R 1 1 1 0 -1 4194304 100 0 0 0 11 22 0 0 20 0 1 0";
  assert.equal(foreignTime(stat, self), (100 + 20 + 30 + 7 + 8 + 9 - 11 - 22) * 1e7);
  assert.equal(foreignTime("", self), null);
});

Deno.test("machine: the peak is at least what is resident", async () => {
  const peak = new PeakMemory();
  await peak.start();
  const block = new Uint8Array(64 << 20).fill(1);
  assert(await peak.bytes() > block.length);
});

function host(files: Record<string, () => string>, more: Partial<EnergyHost> = {}): EnergyHost {
  return {
    os: "linux",
    readTextFile: (path) =>
      files[path] ? Promise.resolve(files[path]()) : Promise.reject(new Error("denied")),
    list: () => Promise.resolve(["intel-rapl", "intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"]),
    gpuEnergy: () => null,
    isRoot: () => false,
    start: () => {
      throw new Error("nothing is started here");
    },
    now: () => process.hrtime.bigint(),
    ...more,
  };
}

Deno.test("energy: RAPL packages are added, and their counters wrap around", async () => {
  const zero = [100, 900_000, 1_500_000, 200_000], one = [0, 1_000_000, 1_000_000, 3_000_000];
  const next = (list: number[]) => () => String(list.shift());
  const at = "/sys/class/powercap/intel-rapl:";
  const meter = await energyMeter(
    "cpu",
    host({
      [`${at}0/max_energy_range_uj`]: () => "2000000",
      [`${at}1/max_energy_range_uj`]: () => "9000000",
      [`${at}0/energy_uj`]: next(zero),
      [`${at}1/energy_uj`]: next(one),
    }),
  );
  assert("joules" in meter && meter.source === "rapl");
  assert.equal(await meter.joules(), 1.8999);
  assert.equal(await meter.joules(), 2.4999);
  assert.equal(await meter.joules(), 5.1999);
});

Deno.test("energy: no counter is a reason", async () => {
  const absent = async (device: string, h: EnergyHost) => {
    const meter = await energyMeter(device, h);
    return "absent" in meter ? meter.absent : null;
  };
  assert.match((await absent("cpu", host({})))!, /only be read by root/);
  assert.match((await absent("cpu", host({}, { list: () => Promise.resolve([]) })))!, /no RAPL/);
  const mac = await absent("cpu", host({}, { os: "darwin" }));
  assert.equal(mac, "powermetrics shows power to root alone: run the benchmark with sudo");
  const started = await absent("cpu", host({}, { os: "darwin", isRoot: () => true }));
  assert.equal(started, "powermetrics cannot be started: nothing is started here");
  assert.match((await absent("cuda", host({})))!, /no total energy/);
  let mj = 5000n;
  const gpu = await energyMeter("cuda", host({}, { gpuEnergy: () => () => mj += 1500n }));
  assert("joules" in gpu);
  assert.equal(await gpu.joules(), 6.5);
});

Deno.test("anchor: the fastest sample counts, and samples are long enough", async () => {
  const clock = new FakeClock(), plays: number[] = [];
  const rate = await fastest(
    (times) => {
      plays.push(times);
      clock.advance(times * (plays.length === 5 ? 1000 : 2000));
      return Promise.resolve();
    },
    4000,
    clock,
  );
  assert.equal(rate, 4e9);
  assert(plays[plays.length - 1] * 2000 >= 5e6);
});

Deno.test("clock: its grain is a few hundred ns at most here", () => {
  const grain = clockGrainNs({ now: () => process.hrtime.bigint() });
  assert(grain > 0 && grain < 1e6, `${grain}`);
});

Deno.test("identity: a library that is mapped is found by its real path", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/a`, "");
    await Deno.symlink(`${folder}/a`, `${folder}/b`);
    assert.equal(await mappedPath(`${folder}/b`), await Deno.realPath(`${folder}/a`));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("prompt: exact, the same for a seed, and longer ones begin with shorter ones", () => {
  const random = new Prompt({ tokens: "random", seed: 1, vocab: 1000 });
  const ids = random.slice(0, 2000);
  assert.equal(ids.length, 2000);
  assert(ids.every((id) => id < 1000));
  assert(new Set(ids).size > 800);
  assert.deepEqual(random.slice(500, 600), ids.slice(500, 600));
  assert.notDeepEqual(new Prompt({ tokens: "random", seed: 2, vocab: 1000 }).slice(0, 2000), ids);
  const repeat = new Prompt({ tokens: "repeat", seed: 1, vocab: 1000 }).slice(0, 9);
  assert.equal(new Set(repeat).size, 1);
  const text = new Prompt({ tokens: "text", seed: 1, vocab: 9, text: Uint32Array.of(4, 5, 6) });
  assert.deepEqual([...text.slice(1, 6)], [5, 6, 4, 5, 6]);
  assert.equal(random.digest(3).length, 64);
});

Deno.test("form check: other tokens and NaN fail, undecidable ones do not", () => {
  const row = (...x: number[]) => Float32Array.from(x);
  const want = [row(1, 5, 2), row(0, 0, 9)];
  const join = (...rows: Float32Array[]) => Float32Array.from(rows.flatMap((r) => [...r]));
  const compare = (chunk: Float32Array, oneRow = want, exact: Float32Array[] | null = null) =>
    compareForms({ chunk, oneRow, exact, routingMatch: null });
  assert.deepEqual(compare(join(...want)), {
    compared: 2,
    matched: 2,
    firstDivergence: null,
    maxLogitNmse: 0,
    roundingNmse: null,
    routingMatch: null,
    ok: true,
  });
  const wrong = compare(join(want[0], row(9, 0, 0)));
  assert.deepEqual([wrong.ok, wrong.matched, wrong.firstDivergence], [false, 1, 1]);
  const near = compare(join(row(5, 4.99, 0)), [row(4.99, 5, 0)]);
  assert.deepEqual([near.ok, near.matched], [true, 1]);
  const nan = compare(join(row(NaN, 5, 2)), [want[0]]);
  assert.deepEqual([nan.ok, nan.firstDivergence], [false, 0]);
});

Deno.test("form check: forms may not lie further apart than the plan's rounding", () => {
  const exact = [Float32Array.of(1, 5, 2)], oneRow = [Float32Array.of(1.2, 5, 2)];
  const check = (chunk: number[], routingMatch: number | null) =>
    compareForms({ chunk: Float32Array.from(chunk), oneRow, exact, routingMatch });
  assert.equal(check([1.1, 5, 2], null).ok, true);
  assert.equal(check([1.7, 5, 2], null).ok, false);
  assert.equal(check([1.1, 5, 2], 0.95).ok, true);
  assert.equal(check([1.1, 5, 2], 0.5).ok, false);
});

Deno.test("routing: distinct experts of a window and the busiest one", () => {
  // Four tokens, two experts each, of eight.
  const even = Uint32Array.of(0, 1, 2, 3, 4, 5, 6, 7),
    same = Uint32Array.of(0, 1, 0, 1, 0, 1, 0, 1);
  const facts = routingFacts([even, same], 2, 8);
  assert.equal(facts.sampledTokens, 4);
  assert.equal(facts.imbalance, (1 + 4) / 2);
  assert.equal(facts.distinct(1), 2);
  assert.equal(facts.distinct(2), (4 + 2) / 2);
  assert.equal(facts.distinct(100), (8 + 2) / 2);
});
