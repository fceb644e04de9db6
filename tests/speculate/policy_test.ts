/** The policy under scripted clocks: what it may lose, what it must win, and that it comes back. */
import assert from "node:assert/strict";
import type { CallOutcome, DraftPolicy } from "../../engine/speculate/drafter.ts";
import { fixedDrafts } from "../../engine/speculate/drafter.ts";
import { evenSurvival, expectedTokens } from "../../engine/speculate/expected.ts";
import { AutoDrafts } from "../../engine/speculate/policy.ts";
import { normal, type Random, seeded } from "../random.ts";

const STEP_NS = 1e6;
const CALL_TOKENS = 64;

interface Scene {
  /** Time of a play of so many rows, in steps. */
  readonly cost: (rows: number) => number;
  /** Acceptance of a draft whose forerunners were accepted, at a moment of the run. */
  readonly accepts: (place: number, token: number) => number;
  /** Whether the drafter has something to propose. */
  readonly proposes?: (random: Random) => boolean;
  /** Of a host's drafter: every round is a call of its own, which costs this many steps. */
  readonly callCost?: number;
  readonly noise?: number;
  /** In steps, once for each width: making and loading its tape. */
  readonly firstPlay?: number;
  readonly most?: number;
}

interface Run {
  /** In steps. */
  readonly time: number;
  readonly rounds: number;
  readonly depths: readonly number[];
}

/**
 * Plays a policy through a scene as rounds would, until `tokens` are made; one scene for each drafter that it
 * chooses from. Of those a head's first call behind another one's makes a single token and its drafts.
 */
function play(policy: DraftPolicy, given: Scene | readonly Scene[], tokens: number, seed = 1): Run {
  const random = seeded(seed), seen = new Set<number>();
  const scenes = [given].flat(), depths: number[] = [];
  let made = 0, time = 0, rounds = 0, standing = -1;
  while (made < tokens) {
    const place = policy.drafter?.() ?? 0, scene = scenes[place];
    const drafts = policy.drafts(), host = scene.callCost !== undefined;
    if (scenes.length > 1 && !host && drafts > 0 && standing !== place) {
      const ns = scene.cost(1) * STEP_NS, none = { drafted: 0, accepted: 0, acceptedAt: [] };
      policy.observe({ rounds: 1, rows: 1, tokens: 1, ...none, standing: drafts, ns });
      standing = place;
      made++;
      time += scene.cost(1);
      continue;
    }
    standing = drafts > 0 && !host ? place : -1;
    const limit = Math.min(policy.callTokens?.() ?? Infinity, CALL_TOKENS, tokens - made);
    let steps = scene.callCost ?? 0, drafted = 0, accepted = 0, n = 0, plays = 0, rows = 1;
    const acceptedAt = new Array<number>(15).fill(0);
    const most = host && drafts > 0 ? 1 : Math.ceil(limit / (drafts + 1));
    while (plays < Math.max(1, most)) {
      const proposed = drafts > 0 && (scene.proposes?.(random) ?? true) ? drafts : 0;
      let k = 0;
      while (k < proposed && random() < scene.accepts(k, made + n)) acceptedAt[k++]++;
      rows = Math.max(rows, proposed + 1);
      if (!seen.has(rows)) steps += scene.firstPlay ?? 0;
      seen.add(rows);
      steps += scene.cost(proposed + 1) * Math.exp((scene.noise ?? 0) * normal(random));
      drafted += proposed;
      accepted += k;
      n += k + 1;
      plays++;
      depths.push(drafts);
    }
    const ns = Math.round(steps * STEP_NS);
    policy.observe({ rounds: plays, rows, tokens: n, drafted, accepted, acceptedAt, ns });
    made += n;
    time += steps;
    if (rows > 1) rounds += plays;
  }
  return { time: time * tokens / made, rounds, depths };
}

function auto(scene: Scene): AutoDrafts {
  return new AutoDrafts({ most: scene.most });
}

const LINE = (slope: number) => (rows: number) => 1 + slope * (rows - 1);
/** Flat up to 4 rows, a jump, flat to 8, a jump. */
const STAIRS = (rows: number) => rows === 1 ? 1 : rows <= 4 ? 1.5 : rows <= 8 ? 2.1 : 4.5;
const EXPERTS = (rows: number) => 0.3 + 0.7 * (1 - (1 - 8 / 256) ** rows) / (8 / 256);
const CURVES: Record<string, (rows: number) => number> = {
  flat: LINE(0.02),
  line: LINE(0.15),
  steep: LINE(0.5),
  stairs: STAIRS,
  experts: EXPERTS,
  loop: (rows) => rows,
};

Deno.test("policy: where acceptance is too low it is at most 3 % slower than serial", () => {
  for (const [name, cost] of Object.entries(CURVES)) {
    for (const p of [0, 0.05, 0.1, 0.2, 0.3, 0.5]) {
      const gains = Array.from({ length: 15 }, (_, i) => i + 1)
        .map((d) => expectedTokens(evenSurvival(p, d), d) / cost(d + 1));
      if (Math.max(...gains) > 1) continue;
      for (const tokens of [100, 300, 1000, 5000]) {
        for (let seed = 1; seed <= 4; seed++) {
          const scene = { cost, accepts: () => p, noise: seed > 2 && tokens >= 300 ? 0.05 : 0 };
          const { time } = play(auto(scene), scene, tokens, seed);
          const serial = play(fixedDrafts(0), scene, tokens, seed).time;
          const slower = time / serial - 1;
          assert.ok(slower <= 0.03, `${name} p ${p}, ${tokens} tokens, seed ${seed}: ${slower}`);
        }
      }
    }
  }
});

Deno.test("policy: a drafter of the host that finds nothing, or the wrong thing, costs at most 3 %", () => {
  for (const callCost of [0.01, 0.05, 0.2]) {
    for (const often of [0, 0.1, 0.5, 1]) {
      const scene: Scene = {
        cost: LINE(0.15),
        accepts: () => 0.05,
        proposes: (random) => random() < often,
        callCost,
      };
      const { time } = play(auto(scene), scene, 2000);
      const serial = play(fixedDrafts(0), scene, 2000).time;
      assert.ok(time / serial <= 1.03, `call ${callCost}, often ${often}: ${time / serial}`);
    }
  }
});

Deno.test("policy: a first play that is slow costs no more than itself", () => {
  const scene: Scene = { cost: LINE(0.1), accepts: () => 0, firstPlay: 3 };
  const { time } = play(auto(scene), scene, 2000);
  assert.ok(time <= 2000 * 1.03, String(time));
  const good = { ...scene, accepts: () => 0.9 };
  const best = bestFixed(good, 4000);
  assert.ok(play(auto(good), good, 4000).time <= best.time / 0.95);
});

function bestFixed(scene: Scene, tokens: number, seed = 1): { depth: number; time: number } {
  const runs = Array.from({ length: (scene.most ?? 15) + 1 }, (_, depth) => ({
    depth,
    time: play(fixedDrafts(depth), scene, tokens, seed).time,
  }));
  return runs.reduce((a, b) => b.time < a.time ? b : a);
}

Deno.test("policy: where drafts are good it reaches 97 % of the best fixed depth", () => {
  for (const [name, cost] of Object.entries(CURVES)) {
    for (const p of [0.7, 0.8, 0.9, 0.97]) {
      for (const most of [3, 8, 15]) {
        const scene = { cost, accepts: () => p, most, noise: 0.03 };
        const best = bestFixed(scene, 12_000), { time } = play(auto(scene), scene, 12_000, 7);
        const share = best.time / time;
        assert.ok(share >= 0.97, `${name} p ${p} most ${most}: ${share} of depth ${best.depth}`);
      }
    }
  }
});

Deno.test("policy: acceptance that falls with the place", () => {
  const shares = [0.9, 0.8, 0.5, 0.3, 0.1];
  const scene = { cost: LINE(0.15), accepts: (place: number) => shares[place] ?? 0.05 };
  const best = bestFixed(scene, 6000), { time, depths } = play(auto(scene), scene, 6000, 3);
  assert.ok(best.time / time >= 0.97, `${best.time / time} of depth ${best.depth}`);
  const late = depths.slice(-200).toSorted((a, b) => a - b)[100];
  assert.ok(Math.abs(late - best.depth) <= 2, `${late} against ${best.depth}`);
});

Deno.test("policy: it comes back after a change of regime, and leaves again", () => {
  const span = 3000;
  const scene: Scene = {
    cost: LINE(0.15),
    accepts: (_, token) => Math.floor(token / span) % 2 === 0 ? 0.05 : 0.9,
    noise: 0.02,
  };
  const { time } = play(auto(scene), scene, 4 * span);
  const good = bestFixed({ ...scene, accepts: () => 0.9 }, span).time;
  const ideal = 2 * span + 2 * good;
  assert.ok(time <= 1.08 * ideal, `${time / ideal} of what knowing it would take`);
  const bad = play(auto(scene), scene, span).time;
  assert.ok(bad <= 1.03 * span);
  const back = play(auto(scene), scene, 2 * span).time - bad;
  assert.ok(back <= 1.35 * good, `${back / good}`);
});

Deno.test("policy: costs that change with the context are followed", () => {
  let made = 0;
  const scene: Scene = {
    // Verification becomes dearer and dearer, then one by one is best.
    cost: (rows) => rows === 1 ? 1 : 1 + (rows - 1) * Math.min(1.2, 0.1 + made++ / 4000),
    accepts: () => 0.8,
  };
  const policy = auto(scene), { depths } = play(policy, scene, 20_000);
  const early = depths.slice(300, 800);
  assert.ok(early.filter((d) => d > 0).length > 450, `${early.filter((d) => d > 0).length}`);
  const late = depths.slice(-2000);
  assert.ok(late.filter((d) => d === 0).length > 1900, `${late.filter((d) => d === 0).length}`);
});

Deno.test("policy: trials grow rarer", () => {
  const scene = { cost: LINE(0.15), accepts: () => 0 };
  const { depths } = play(auto(scene), scene, 8000);
  const trials = depths.flatMap((d, i) => d > 0 ? [i] : []);
  const gaps = trials.slice(1).map((at, i) => at - trials[i]);
  assert.ok(trials.length > 8 && trials.length < 60, `${trials.length} trials`);
  assert.ok(gaps.at(-1)! >= 256 && gaps[0] < 64, String(gaps));
});

/** A head that is right as often as said, in a chain, and prompt lookup, a call each round. */
function rivals(head: number, lookup: number, finds: number): Scene[] {
  const scene = { cost: LINE(0.15), noise: 0.02 };
  return [
    { ...scene, accepts: () => head, most: 4 },
    { ...scene, accepts: () => lookup, proposes: (random) => random() < finds, callCost: 0.02 },
  ];
}

Deno.test("policy: of several drafters it takes the better one, whichever that is", () => {
  const tokens = 6000;
  for (
    const [head, lookup, finds] of [[0.8, 0.1, 1], [0.2, 0.9, 1], [0.8, 0.8, 0.1], [0.7, 0.97, 0.9]]
  ) {
    const scenes = rivals(head, lookup, finds);
    const policy = new AutoDrafts({ drafters: 2 }), { time } = play(policy, scenes, tokens, 5);
    const alone = scenes.map((scene) => play(auto(scene), scene, tokens, 5).time);
    const share = Math.min(...alone) / time;
    assert.ok(
      share >= 0.93,
      `head ${head}, lookup ${lookup} of ${finds}: ${share} of the better one`,
    );
  }
});

Deno.test("policy: several drafters that are wrong cost at most 3 % together", () => {
  for (const [name, cost] of Object.entries(CURVES)) {
    for (const finds of [0, 0.3, 1]) {
      for (const callCost of [0.01, 0.2]) {
        for (const tokens of [100, 1000, 5000]) {
          const scenes: Scene[] = [
            { cost, accepts: () => 0 },
            { cost, accepts: () => 0, proposes: (random) => random() < finds, callCost },
          ];
          const { time } = play(new AutoDrafts({ drafters: 2 }), scenes, tokens);
          const serial = play(fixedDrafts(0), scenes[1], tokens).time;
          const what = `${name}, finds ${finds}, call ${callCost}, ${tokens} tokens`;
          assert.ok(time / serial <= 1.03, `${what}: ${time / serial}`);
        }
      }
    }
  }
});

Deno.test("policy: it changes to the other drafter when the text does", () => {
  const span = 3000, tokens = 4 * span;
  const now = (token: number) => Math.floor(token / span) % 2;
  const scenes: Scene[] = rivals(0, 0, 1).map((scene, place) => ({
    ...scene,
    accepts: (_, token) => now(token) === place ? 0.9 : 0.1,
  }));
  const { time } = play(new AutoDrafts({ drafters: 2 }), scenes, tokens);
  const ideal = scenes.map((scene) => {
    const good = { ...scene, accepts: () => 0.9 };
    return 2 * play(auto(good), good, span).time;
  }).reduce((a, b) => a + b);
  assert.ok(time <= 1.25 * ideal, `${time / ideal} of what knowing it would take`);
});

Deno.test("policy: the same calls give the same choices, however often they are asked", () => {
  const scene = { cost: STAIRS, accepts: () => 0.7, noise: 0.1 };
  const once = play(auto(scene), scene, 1500);
  assert.deepEqual(play(auto(scene), scene, 1500), once);
  const policy = auto(scene);
  const asked: DraftPolicy = {
    drafts: () => (policy.drafts(), policy.callTokens(), policy.drafter(), policy.drafts()),
    callTokens: () => policy.callTokens(),
    observe: (call: CallOutcome) => policy.observe(call),
  };
  assert.deepEqual(play(asked, scene, 1500), once);
});
