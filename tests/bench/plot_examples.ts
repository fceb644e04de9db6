/** The example reports and what is counted in pictures of them. */
import { join } from "node:path";
import assert from "node:assert/strict";
import { DOMParser } from "linkedom";
import { drawPictures } from "../../bench/plot/draw.ts";
import { readInputs } from "../../bench/plot/output.ts";
import { LIGHT } from "../../bench/plot/palette.ts";
import type { Picture, PlotKind } from "../../bench/plot/picture.ts";
import { SHEET } from "../../bench/plot/sheet.ts";
import type { Source } from "../../bench/plot/source.ts";
import type { Report, Row } from "../../bench/report.ts";

export const FOLDER = new URL("../fixtures/reports/", import.meta.url).pathname;
export const HISTORY = [...Deno.readDirSync(`${FOLDER}history`)].map((f) => `history/${f.name}`)
  .sort();

export async function examples(...names: string[]): Promise<readonly Source[]> {
  return (await readInputs(names.map((name) => join(FOLDER, name)))).sources;
}

/** The only picture of a kind. */
export async function picture(kind: PlotKind, ...names: string[]): Promise<Picture> {
  const { pictures } = drawPictures(await examples(...names), [kind]);
  assert.equal(pictures.length, 1);
  return pictures[0];
}

export interface Drawn {
  readonly points: number;
  readonly limits: number;
  readonly intervals: number;
  readonly text: string;
}

/** Counts the marks of a picture, in all of its panels. */
export function marksOf(p: Picture): Drawn {
  const svg = p.panels(SHEET, LIGHT).map((panel) => panel.svg).join("");
  const document = new DOMParser().parseFromString(svg, "text/html");
  const count = (selector: string) => document.querySelectorAll(selector).length;
  return {
    points: count(".points path, .points circle"),
    limits: count(".limit path, .limit line"),
    intervals: count(".interval line"),
    text: [...document.querySelectorAll("text")].map((t) => t.textContent).join("|"),
  };
}

/** A report with other rows in place of its own. */
export function changed(source: Source, change: (row: Row) => Row): Source {
  const report: Report = { ...source.report, rows: source.report.rows.map(change) };
  return { ...source, report };
}
