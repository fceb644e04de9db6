/**
 * Power as powermetrics prints it, from text in the form that its manual and published output have: nothing here
 * was recorded by this project on a Mac.
 */
import process from "node:process";
import assert from "node:assert/strict";
import { startChild } from "../../bench/energy.ts";
import { type Child, PowermetricsMeter, PowerText } from "../../bench/powermetrics.ts";
import { FakeClock } from "./fake_rig.ts";

const MS = 1e6;

function head(ms: number): string {
  return `\n\n*** Sampled system activity (Fri Sep 11 13:41:46 2026 -0700) (${ms}ms elapsed) ***\n\n\n`;
}

/** One stretch of an M-series machine; the GPU's own section tells its power again. */
function apple(ms: number, cpu: number, gpu: number, ane = 0): string {
  return head(ms) + `**** Processor usage ****

E-Cluster HW active frequency: 1248 MHz
E-Cluster HW active residency:  77.43% (600 MHz:   0% 912 MHz:  54% 2424 MHz: 8.7%)
CPU 0 frequency: 1359 MHz

CPU Power: ${cpu} mW
GPU Power: ${gpu} mW
ANE Power: ${ane} mW
Combined Power (CPU + GPU + ANE): ${cpu + gpu + ane} mW

**** GPU usage ****

GPU HW active frequency: 444 MHz
GPU Power: ${gpu} mW
`;
}

const PREAMBLE = "Machine model: Mac14,2\nOS version: 25C56\nBoot arguments: \n";

function samplesOf(pieces: readonly string[]) {
  const text = new PowerText();
  return pieces.flatMap((piece, i) => text.push(piece, BigInt(i)));
}

Deno.test("powermetrics: text gives the same samples wherever it is cut", () => {
  const text = PREAMBLE + apple(203.52, 823, 26, 323) + apple(201, 205, 19);
  const want = [{ ms: 203.52, watts: 1.172 }, { ms: 201, watts: 0.224 }];
  for (let cut = 0; cut <= text.length; cut++) {
    const found = samplesOf([text.slice(0, cut), text.slice(cut)]);
    assert.deepEqual(found.map(({ ms, watts }) => ({ ms, watts })), want, `${cut}`);
  }
  assert.equal(samplesOf([...text]).length, 2);
  // A sample ends when its head is printed, not when its last line is.
  const cut = text.indexOf("CPU Power");
  assert.equal(samplesOf([text.slice(0, cut), text.slice(cut)])[0].at, 0n);
});

Deno.test("powermetrics: the widest power that a sample tells counts, and what is cut off does not", () => {
  const end = head(200);
  const watts = (lines: string) => samplesOf([head(200) + lines + end]).map((s) => s.watts);
  const intel = "Intel energy model derived package power (CPUs+GT+SA): 2.48W\n";
  assert.deepEqual(watts(intel), [2.48]);
  assert.deepEqual(watts("CPU Power: 400 mW\n" + intel), [2.48]);
  assert.deepEqual(watts("CPU Power: 400 mW\nPackage Power: 6100 mW\n"), [6.1]);
  assert.deepEqual(watts("CPU Power: 400 mW\n"), [0.4]);
  assert.deepEqual(watts("CPU Power: 1 W\nGPU Power: 30 mW\n\nGPU Power: 30 mW\n"), [1.03]);
  assert.deepEqual(watts("CPU 0 frequency: 1 MHz\n"), [undefined]);
  assert.deepEqual(watts("Combined Power (CPU + GPU + ANE): n/a mW\n"), [undefined]);
  assert.deepEqual(samplesOf([`CPU Power: 9 mW\n${head(200)}CPU Power: 4`]), []);
  assert.deepEqual(samplesOf([`${head(200)}Combined Power (CPU + GPU + ANE): 12`]), []);
});

class FakeChild implements Child {
  readonly #queue: TransformStream<string, string> = new TransformStream();
  readonly #writer = this.#queue.writable.getWriter();
  readonly output = this.#queue.readable;
  readonly #end = Promise.withResolvers<string>();
  readonly ended = this.#end.promise;
  killed = 0;
  #ended = false;

  /** Prints, and gives the reader time to see it. */
  async print(text: string): Promise<void> {
    void this.#writer.write(text);
    await settled();
  }
  async end(why: string): Promise<void> {
    if (!this.#ended) void this.#writer.close();
    this.#ended = true;
    this.#end.resolve(why);
    await settled();
  }
  kill(): void {
    this.killed++;
    void this.end("exit code 143");
  }
}

function settled(): Promise<void> {
  return new Promise((done) => setTimeout(done, 0));
}

interface Begun {
  readonly child: FakeChild;
  readonly clock: FakeClock;
  readonly args: readonly string[];
  readonly opening: ReturnType<typeof PowermetricsMeter.open>;
}

function begin(): Begun {
  const child = new FakeChild(), clock = new FakeClock(), args: string[] = [];
  const start = (program: string, given: readonly string[]) => {
    args.push(program, ...given);
    return child;
  };
  const opening = PowermetricsMeter.open({ start, now: () => clock.now() });
  return { child, clock, args, opening };
}

/** A meter that has seen 200 ms of one watt. */
async function running() {
  const { opening, ...begun } = begin();
  await begun.child.print(PREAMBLE + apple(200, 900, 100));
  const meter = await opening;
  assert(meter instanceof PowermetricsMeter);
  return { meter, ...begun };
}

Deno.test("powermetrics: power times its stretch, and the latest power until the next one is there", async () => {
  const { meter, child, clock, args } = await running();
  const near = async (want: number) =>
    assert(Math.abs((await meter.joules())! - want) < 1e-9, `${await meter.joules()}, not ${want}`);
  assert.deepEqual(args.slice(0, 5), [
    "powermetrics",
    "--samplers",
    "cpu_power,gpu_power",
    "-i",
    "200",
  ]);
  assert.equal(meter.source, "powermetrics");
  await near(0.2);
  clock.advance(100 * MS);
  await near(0.3);
  clock.advance(103.5 * MS);
  await child.print(apple(203.5, 9000, 1000));
  await near(0.2 + 2.035);
  clock.advance(50 * MS);
  await near(0.2 + 2.035 + 0.5);
  // Less than was foreseen: a sum never goes back.
  clock.advance(150 * MS);
  await near(0.2 + 2.035 + 2);
  await child.print(apple(200, 500, 0));
  await near(0.2 + 2.035 + 2);
  assert.equal(meter.lost(), null);
  meter[Symbol.dispose]();
  await settled();
  assert.deepEqual([child.killed, meter.lost()], [1, null]);
});

Deno.test("powermetrics: a sample without a power goes on at the one before", async () => {
  const { meter, child, clock } = await running();
  clock.advance(400 * MS);
  await child.print(head(200) + "CPU 0 frequency: 1 MHz\n" + apple(200, 2000, 0));
  assert.equal((await meter.joules())!.toFixed(9), "0.800000000");
  for (let i = 0; i < 6; i++) await child.print(head(200));
  assert.equal(await meter.joules(), null);
  assert.equal(meter.lost(), "powermetrics shows no power on this machine");
  meter[Symbol.dispose]();
});

Deno.test("powermetrics: a child that dies or falls silent is told, and makes no joules", async () => {
  const { meter, child } = await running();
  await child.print(head(200) + "CPU Pow");
  await child.end("exit code 1");
  assert.deepEqual([await meter.joules(), meter.lost()], [
    null,
    "powermetrics ended: exit code 1",
  ]);
  meter[Symbol.dispose]();
  const silent = await running();
  silent.clock.advance(1999 * MS);
  assert.notEqual(await silent.meter.joules(), null);
  silent.clock.advance(2 * MS);
  assert.deepEqual([await silent.meter.joules(), silent.meter.lost()], [
    null,
    "powermetrics fell silent",
  ]);
  silent.meter[Symbol.dispose]();
  await settled();
});

Deno.test("powermetrics: no meter without a first power", async () => {
  const dies = begin();
  await dies.child.end("powermetrics: unrecognized sampler: gpu_power");
  assert.deepEqual(await dies.opening, {
    absent: "powermetrics ended: powermetrics: unrecognized sampler: gpu_power",
  });
  const powerless = begin();
  for (let i = 0; i < 6; i++) await powerless.child.print(head(200));
  const absent = "powermetrics shows no power on this machine";
  assert.deepEqual(await powerless.opening, { absent });
  assert.equal(powerless.child.killed, 1);
});

Deno.test("powermetrics: a real child is read while it runs, ended, and heard when it complains", {
  ignore: Deno.build.os === "windows",
}, async () => {
  const start = (script: string) => () => startChild("sh", ["-c", script]);
  const now = () => process.hrtime.bigint();
  const children: Child[] = [];
  const keep = (script: string) => () => {
    children.push(start(script)());
    return children[0];
  };
  const print = `printf '%s' '${apple(200, 900, 100)}'`;
  const meter = await PowermetricsMeter.open({ start: keep(`${print}; exec sleep 60`), now });
  assert(meter instanceof PowermetricsMeter);
  assert((await meter.joules())! >= 0.2);
  meter[Symbol.dispose]();
  assert.equal(await children[0].ended, "exit code 143");
  meter[Symbol.dispose]();
  const failing = start("echo 'must be invoked as the superuser' >&2; exit 1");
  assert.deepEqual(await PowermetricsMeter.open({ start: failing, now }), {
    absent: "powermetrics ended: must be invoked as the superuser",
  });
});
