/** `lapwing inspect`: what a checkpoint holds, costs and needs, without loading its weights. */
import type { Command } from "commander";
import type { InspectReport } from "../engine/api_types.ts";
import type { Context } from "./context.ts";
import { EXIT } from "./exit.ts";
import { FLAGS } from "./flags.ts";
import { examples } from "./help.ts";
import { bytes, count, json, type Paint, table } from "./print.ts";

/** Adds the command to the program. */
export function addInspect(program: Command, context: Context): void {
  program.command("inspect")
    .description("Show a checkpoint's shape, bytes, cost a token and memory needs")
    .argument("[model]", "checkpoint: a name, a folder or a .safetensors file", "tiny")
    .addOption(FLAGS.json)
    .addHelpText(
      "after",
      examples([
        ["inspect ./Qwen3.5-35B-A3B-4bit", "Will it fit, and what bounds its speed"],
        ["inspect tiny --json", "For a script"],
      ]) + "\n\nExit code 2 when the checkpoint cannot be run; the reasons are printed.",
    )
    .action((model, flags) => runInspect(context, model, flags));
}

async function runInspect(context: Context, model: string, flags: { readonly json?: true }) {
  const report = await (await context.engine()).inspectCheckpoint(model, context.env);
  context.terminal.out(flags.json ? json(report) : inspectText(report, context.outPaint));
  if (report.refusals.length > 0) context.exitCode = EXIT.usage;
}

/** The report as text, section by section. */
export function inspectText(r: InspectReport, paint: Paint): string {
  const sections = [
    `${paint("bold", r.name)}  ${r.family}, ${r.format}, ${r.path}\n` +
    `${count(r.params)} parameters, ${count(r.activeParams)} used a token, ` +
    `${bytes(r.fileBytes)} in files\n`,
    configText(r),
    groupTable(r, paint),
    costTable(r, paint),
    memoryTable(r, paint),
    r.notes.map((note) => `note: ${note}\n`).join(""),
    r.warnings.map((w) => `${paint("yellow", "warning:")} ${w}\n`).join(""),
    r.refusals.map((w) => `${paint("red", "cannot run:")} ${w}\n`).join(""),
  ];
  return sections.filter((s) => s !== "").join("\n");
}

function configText(r: InspectReport): string {
  const entries = Object.entries(r.config);
  const width = Math.max(0, ...entries.map(([key]) => key.length));
  return entries.map(([key, value]) => `${key.padEnd(width)}  ${value ?? "-"}\n`).join("");
}

function groupTable(r: InspectReport, paint: Paint): string {
  if (r.groups.length === 0) return "";
  const columns = [
    { title: "tensors of" },
    { title: "count", right: true },
    { title: "parameters", right: true },
    { title: "bytes", right: true },
    { title: "read a token", right: true },
    { title: "stored as" },
  ];
  const rows = r.groups.map((g) => [
    g.name,
    String(g.tensors),
    count(g.params),
    bytes(g.bytes),
    bytes(g.bytesPerToken),
    g.formats.join(", "),
  ]);
  return table(columns, rows, paint);
}

function costTable(r: InspectReport, paint: Paint): string {
  if (r.costs.length === 0) return "";
  const titles = ["one token at depth", "weights", "KV", "state", "FLOPs"];
  const columns = titles.map((title) => ({ title, right: true }));
  const rows = r.costs.map((c) => [
    String(c.depth),
    bytes(c.weightBytes),
    bytes(c.kvBytes),
    bytes(c.stateBytes),
    count(c.flops),
  ]);
  return table(columns, rows, paint);
}

function memoryTable(r: InspectReport, paint: Paint): string {
  if (r.memory.length === 0) return "";
  const titles = ["memory at ctx", "KV type", "weights", "KV", "state", "scratch", "in all"];
  const columns = titles.map((title) => ({ title, right: true }));
  const rows = r.memory.map((m) => [
    String(m.ctx),
    m.kv,
    bytes(m.weightBytes),
    bytes(m.kvBytes),
    bytes(m.stateBytes),
    bytes(m.scratchBytes),
    bytes(m.totalBytes),
  ]);
  return table(columns, rows, paint);
}
