/**
 * What the same build twice shows on this machine: made from an A/A comparison, kept in a folder, used to
 * forecast what a comparison can see. Owns the files of that folder.
 */
import { join } from "node:path";
import * as v from "valibot";
import type { Env } from "../engine/api_types.ts";
import { type Comparison, type NoiseProfile, noiseSchema } from "./compare_report.ts";
import { describeMachine } from "./fingerprint.ts";
import { minimalDetectableEffect } from "./stats.ts";
import { writeWhole } from "./report_file.ts";

/** A gate may not ask for less than this many half-widths of the noise. */
export const TOLERANCE_HALF_WIDTHS = 2;

/** The profile that an A/A comparison shows; null where nothing was measured. */
export function profileOf(comparison: Comparison): NoiseProfile | null {
  const rows = comparison.rows.flatMap(({ id, estimate: e }) =>
    e === null ? [] : [{ id, pairs: e.pairs, sigma: e.sigma, half_width: (e.ci[1] - e.ci[0]) / 2 }]
  );
  if (!comparison.session.valid || rows.length === 0) return null;
  return {
    schema: "lapwing-noise/1",
    fingerprint: comparison.fingerprint,
    machine: describeMachine(comparison.env),
    measured_at: comparison.started_at,
    confidence: comparison.settings.confidence,
    rows,
  };
}

function fileOf(folder: string, fingerprint: string): string {
  return join(folder, `${fingerprint}.json`);
}

/** The profile of a machine; null where there is none that can be read. */
export async function readNoise(folder: string, fingerprint: string): Promise<NoiseProfile | null> {
  try {
    const text = await Deno.readTextFile(fileOf(folder, fingerprint));
    const parsed = v.safeParse(noiseSchema, JSON.parse(text));
    return parsed.success && parsed.output.fingerprint === fingerprint ? parsed.output : null;
  } catch {
    return null;
  }
}

/** Keeps a profile with the rows of an older one that it does not measure; returns the file. */
export async function keepNoise(folder: string, profile: NoiseProfile): Promise<string> {
  const old = await readNoise(folder, profile.fingerprint);
  const known = new Set(profile.rows.map((r) => r.id));
  const rows = [...profile.rows, ...(old?.rows ?? []).filter((r) => !known.has(r.id))];
  const path = fileOf(folder, profile.fingerprint);
  await Deno.mkdir(folder, { recursive: true });
  await writeWhole(path, JSON.stringify({ ...profile, rows }, null, 2) + "\n");
  return path;
}

/** Smallest change of a row that so many pairs should show; null without a profile. */
export function forecast(
  noise: NoiseProfile | null,
  row: string,
  pairs: number,
  confidence: number,
): number | null {
  const known = noise?.rows.find((r) => r.id === row);
  return known ? minimalDetectableEffect({ sigma: known.sigma, pairs, confidence }) : null;
}

/** Where noise profiles are kept, by the rules for state files. */
export function noiseFolder(env: Env): string {
  const state = env.XDG_STATE_HOME || join(env.HOME || "/tmp", ".local", "state");
  return join(state, "lapwing", "noise");
}
