/** Reports of the fake engine, and the head that they have. */
import { cellsOf } from "../../bench/grid.ts";
import { type Report, REPORT_SCHEMA, type ReportHead, type Spec } from "../../bench/report.ts";
import { sweep } from "../../bench/sweep.ts";
import { FakeRig, type Script } from "./fake_rig.ts";
import { specWith } from "./spec.ts";

export const HEAD: ReportHead = {
  schema: REPORT_SCHEMA,
  run_id: "fake",
  started_at: "2026-11-30T10:00:00.000Z",
  tool: { version: "0.1.0", commit: null, dirty: null },
  argv: ["bench"],
  spec: specWith({ n_gen: [64], n_prompt: [512] }),
  env: {
    os: "linux",
    kernel: "6",
    machine: "x86_64",
    cpu: "Some CPU",
    gpus: [],
    mem_bytes: 1,
    mem_available_bytes: 1,
    power_source: null,
    low_power: null,
    governor: null,
    load_before: [0, 0, 0],
    library: { path: "/lib.so", sha256: null, backend: "cpu", isa: "avx2", threads: 2 },
    read_gb_s: 40,
    copy_gb_s: null,
    deno_version: "2.9.6",
  },
  model: null,
};

/** A whole report of the fake engine. */
export async function fakeReport(given?: Partial<Spec>, script: Script = {}): Promise<Report> {
  const spec = given ? specWith(given) : HEAD.spec;
  const rig = new FakeRig({ bandwidth: 1e12, ...script });
  const options = { checkRows: 17, battery: false, dirtyBuild: false };
  const { rows } = await sweep({ spec, cells: cellsOf(spec), rig, ...options });
  return { ...HEAD, spec, rows: [...rows] };
}
