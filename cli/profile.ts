/** `lapwing profile`: flags to a play, its times to a table and a file. Measures nothing itself. */
import { type Command, Option } from "commander";
import type { ProfileSpec } from "../bench/profile_report.ts";
import type { KvType, Phase } from "../engine/api_types.ts";
import { SYNTHETIC, SYNTHETIC_FLAGS, type SyntheticFlags, syntheticOf } from "./bench_flags.ts";
import type { Context } from "./context.ts";
import { FLAGS, type ModelFlags, PHASE_ROWS, whole } from "./flags.ts";
import { examples } from "./help.ts";
import { noteTo, threadsNotes } from "./notes.ts";
import { type Grouping, GROUPINGS, profileTable } from "./profile_table.ts";
import { ProgressBar } from "./progress.ts";

interface Flags extends ModelFlags, SyntheticFlags {
  readonly phase: Phase;
  readonly rows?: number;
  readonly depth: number;
  readonly kv: KvType;
  readonly ctx?: number;
  readonly repetitions: number;
  readonly by: Grouping;
  readonly json?: string;
  readonly library?: string;
}

const EXAMPLES = examples([
  ["profile", "Where the time of one token goes"],
  [
    "profile --device cuda -m qwen35-a3b --synthetic --depth 4096",
    "On a GPU, without a checkpoint",
  ],
  ["profile --phase prefill --rows 512 --by layer", "A chunk of a prompt, layer by layer"],
  ["profile --phase verify --rows 8 --json profile.json", "A round of eight rows, as JSON too"],
]);

/** Adds the command to the program. */
export function addProfile(program: Command, context: Context): void {
  program.command("profile")
    .description("Time one play on its device, record by record, beside the whole step")
    .addOption(FLAGS.model)
    .addOption(SYNTHETIC)
    .addOption(SYNTHETIC_FLAGS.layers)
    .addOption(SYNTHETIC_FLAGS.experts)
    .addOption(SYNTHETIC_FLAGS.vocab)
    .addOption(SYNTHETIC_FLAGS.routing)
    .addOption(FLAGS.phase)
    .addOption(FLAGS.rows)
    .addOption(FLAGS.depth)
    .addOption(FLAGS.kv)
    .addOption(FLAGS.ctx)
    .addOption(FLAGS.device)
    .addOption(FLAGS.threads)
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .option(
      "-r, --repetitions <n>",
      "profiled plays: each record has the median of its times",
      whole({ min: 1, max: 1000, example: "20" }),
      20,
    )
    .addOption(
      new Option("--by <what>", "what a line is").choices(GROUPINGS).default("op" as const),
    )
    .option("--json <file>", "write everything, record by record; - is standard output")
    .option("--library <file>", "native library (default: the one that make built)")
    .addHelpText("after", EXAMPLES)
    .action((flags) => runProfileCommand(context, flags as Flags));
}

async function runProfileCommand(context: Context, flags: Flags) {
  const { terminal } = context;
  const { runProfile } = await import("../bench/profile.ts");
  const { refuseUnwritable, writeWhole } = await import("../bench/report_file.ts");
  const spec = specOf(flags), note = noteTo(context);
  const toOut = flags.json === "-", file = toOut ? undefined : flags.json;
  if (file !== undefined) await refuseUnwritable(file);
  terminal.reserveOut();
  for (const line of threadsNotes(flags.device, flags.threads)) note(line);
  using bar = new ProgressBar(terminal);
  const profile = await runProfile({
    spec,
    argv: Deno.args,
    env: context.env,
    library: flags.library,
    onProgress: (p) => bar.update(p),
    onNote: (line) => {
      bar[Symbol.dispose]();
      note(line);
    },
  });
  bar[Symbol.dispose]();
  const json = JSON.stringify(profile, null, 2) + "\n";
  const table = profileTable(profile, flags.by, toOut ? context.errPaint : context.outPaint);
  if (toOut) terminal.out(json);
  (toOut ? terminal.err : terminal.out)(table);
  if (file === undefined) return;
  await writeWhole(file, json);
  terminal.err(`profile: ${file}\n`);
}

/** Everything that was asked for; 0 where the run itself finds out. Throws UserError. */
function specOf(flags: Flags): ProfileSpec {
  return {
    model: flags.model,
    synthetic: syntheticOf(flags),
    device: flags.device,
    threads: flags.threads ?? 0,
    quantize: flags.quantize ?? null,
    plan: { ...flags.plan },
    phase: flags.phase,
    rows: flags.rows ?? PHASE_ROWS[flags.phase],
    n_depth: flags.depth,
    kv: flags.kv,
    ctx: flags.ctx ?? 0,
    repetitions: flags.repetitions,
  };
}
