/** From report files to picture files. Reads, writes and names them; what is in them is made elsewhere. */
import { basename, join } from "node:path";
import { UserError } from "../../engine/errors.ts";
import { BASELINE_SCHEMA, parseBaseline } from "../baseline.ts";
import { readText, schemaOf } from "../json_file.ts";
import { parseReport, writeWhole } from "../report_file.ts";
import { drawPictures, type Pictures } from "./draw.ts";
import type { NamedBaseline } from "./history_data.ts";
import { renderPage } from "./page.ts";
import { DARK, LIGHT } from "./palette.ts";
import type { PlotFormat, PlotKind, PlotTheme } from "./picture.ts";
import { standaloneSvg } from "./sheet.ts";
import type { Source } from "./source.ts";

export interface PlotRequest {
  readonly reports: readonly string[];
  readonly out: string;
  readonly formats: readonly PlotFormat[];
  readonly kinds: readonly PlotKind[];
  /** Of SVG and PNG files; a page follows its reader. */
  readonly theme: PlotTheme;
}

export interface PlotResult extends Pick<Pictures, "empty" | "omitted"> {
  readonly files: readonly string[];
}

export interface PlotInputs {
  readonly sources: readonly Source[];
  readonly baselines: readonly NamedBaseline[];
}

/** Reads files under names that tell them apart: the file's, or the path where files share a name. */
export async function readInputs(paths: readonly string[]): Promise<PlotInputs> {
  const distinct = [...new Set(paths)];
  const names = distinct.map((path) => basename(path));
  const unique = new Set(names).size === names.length;
  const sources: Source[] = [], baselines: NamedBaseline[] = [];
  for (const [i, path] of distinct.entries()) {
    const name = unique ? names[i] : path, text = await readText(path);
    if (schemaOf(text) === BASELINE_SCHEMA) {
      baselines.push({ name, baseline: parseBaseline(text, path) });
    } else sources.push({ name, report: parseReport(text, path) });
  }
  return { sources, baselines };
}

/** Draws what the reports hold and writes it. Throws UserError when that is nothing. */
export async function writePlots(request: PlotRequest): Promise<PlotResult> {
  const inputs = await readInputs(request.reports), { sources, baselines } = inputs;
  const { pictures, empty, omitted } = drawPictures(sources, request.kinds, baselines);
  if (pictures.length === 0) {
    throw new UserError(
      `Nothing to draw in ${[...sources, ...baselines].map((s) => s.name).join(", ")}`,
      {
        details: [
          ...empty.map(({ kind, why }) => `${kind}: ${why}`),
          ...omitted.map((o) => `${o.row} of ${o.source}: ${o.why}`),
        ],
      },
    );
  }
  await makeFolder(request.out);
  const files: string[] = [];
  const write = async (name: string, content: string | Uint8Array) => {
    const path = join(request.out, name);
    await writeWhole(path, content);
    files.push(path);
  };
  const wants = (format: PlotFormat) => request.formats.includes(format);
  const palette = request.theme === "dark" ? DARK : LIGHT;
  for (const picture of pictures) {
    const svg = standaloneSvg(picture, palette);
    if (wants("svg")) await write(`${picture.name}.svg`, svg);
    if (wants("png")) {
      const { renderPng } = await import("./png.ts");
      await write(`${picture.name}.png`, await renderPng(svg));
    }
  }
  if (wants("html")) await write("report.html", renderPage(pictures, inputs, omitted));
  return { files, empty, omitted };
}

async function makeFolder(path: string): Promise<void> {
  try {
    await Deno.mkdir(path, { recursive: true });
  } catch (e) {
    if (e instanceof Deno.errors.NotCapable) throw e;
    throw new UserError(`Cannot make the folder ${path}: ${(e as Error).message}`);
  }
}
