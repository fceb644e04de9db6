/** What must be the same for two measurements to be held against each other. Pure. */
import { createHash } from "node:crypto";
import type { Environment, Report, Spec } from "./report.ts";

export interface Measured {
  readonly env: Environment;
  readonly model: string;
  readonly synthetic: Spec["synthetic"];
  readonly quantize: number | null;
}

/** 16 hex digits over the machine, its drivers, the kernels in use and the model. */
export function fingerprintOf({ env, model, synthetic, quantize }: Measured): string {
  const { os, machine, cpu, gpus, library } = env;
  const identity = {
    os,
    machine,
    cpu,
    gpus: gpus.map((g) => [g.name, g.driver]),
    library: [library.backend, library.isa, library.threads],
    model,
    synthetic,
    quantize,
  };
  return createHash("sha256").update(JSON.stringify(identity)).digest("hex").slice(0, 16);
}

/** The fingerprint of a report. */
export function reportFingerprint(report: Report): string {
  const { env, spec } = report;
  return fingerprintOf({ env, ...spec });
}

/** One line for people: what runs, and where. */
export function describeMachine({ cpu, gpus, library }: Environment): string {
  const where = gpus.length > 0 && library.backend !== "cpu" ? gpus[0].name : cpu;
  const how = [library.backend, library.isa].filter(Boolean).join(" ");
  return `${where}, ${how}, ${library.threads} threads`;
}
