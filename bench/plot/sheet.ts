/**
 * Puts a picture together: title, legend, panels and caption as one SVG document, or legend and panels
 * alone for a page that has words of its own.
 */
import { FONT, FONT_SIZE } from "./canvas.ts";
import { escapeXml, wrap } from "./layout.ts";
import { drawLegend } from "./legend.ts";
import type { Palette } from "./palette.ts";
import type { Panel, PanelSize, Picture } from "./picture.ts";

const PADDING = 24;
const WIDTH = 760;
const HEADING = 22;

interface TextStyle {
  readonly size: number;
  readonly fill: string;
  readonly bold?: true;
}

/** Elements below one another, and how far down they reach. */
class Column {
  readonly parts: string[] = [];
  y: number;

  constructor(readonly x: number, y: number, readonly width: number) {
    this.y = y;
  }

  text(text: string, { size, fill, bold }: TextStyle): void {
    // Bold letters are wider than those that were measured.
    for (const line of wrap(text, this.width, bold ? size * 1.06 : size)) {
      const baseline = Math.round(this.y + size);
      const weight = bold ? ' font-weight="600"' : "";
      this.parts.push(
        `<text x="${this.x}" y="${baseline}" font-size="${size}" fill="${fill}"${weight}>` +
          `${escapeXml(line)}</text>`,
      );
      this.y += Math.round(size * 1.45);
    }
  }

  panel({ svg, height, heading }: Panel, palette: Palette): void {
    if (heading) {
      this.space(HEADING - 1.45 * FONT_SIZE);
      this.text(heading, { size: FONT_SIZE, fill: palette.ink, bold: true });
    }
    this.parts.push(svg.replace("<svg ", `<svg x="${this.x}" y="${Math.round(this.y)}" `));
    this.y += height;
  }

  space(height: number): void {
    this.y += height;
  }
}

/** Width of the panels in `standaloneSvg`. */
export const SHEET: PanelSize = { width: WIDTH - 2 * PADDING, narrow: false };

/** A document with everything that a reader needs, on paper of the palette's colour. */
export function standaloneSvg(picture: Picture, palette: Palette): string {
  const column = new Column(PADDING, PADDING - 4, SHEET.width);
  column.text(picture.title, { size: 19, fill: palette.ink, bold: true });
  column.space(2);
  column.text(picture.finding, { size: 14, fill: palette.ink });
  column.space(10);
  addPanels(column, picture, SHEET, palette);
  column.space(10);
  for (const note of picture.notes) column.text(note, { size: 12, fill: palette.ink });
  column.space(picture.notes.length > 0 ? 4 : 0);
  for (const fact of picture.facts) column.text(fact, { size: 11, fill: palette.muted });
  const height = Math.ceil(column.y + PADDING - 8);
  const paper = `<rect width="${WIDTH}" height="${height}" fill="${palette.paper}"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${box(WIDTH, height)} role="img" ` +
    `font-family="${FONT}"><title>${escapeXml(picture.title)}</title>` +
    `<desc>${escapeXml(picture.finding)}</desc>${paper}\n${column.parts.join("\n")}\n</svg>\n`;
}

/** Legend and panels, without words around them, as an element of a page. */
export function embeddedSvg(picture: Picture, size: PanelSize, palette: Palette): string {
  const column = new Column(0, 0, size.width);
  addPanels(column, picture, size, palette);
  const label = escapeXml(`${picture.title}. ${picture.finding}`);
  return `<svg ${box(size.width, Math.ceil(column.y))} role="img" aria-label="${label}" ` +
    `font-family="${FONT}">${column.parts.join("\n")}</svg>`;
}

function addPanels(column: Column, picture: Picture, size: PanelSize, palette: Palette): void {
  column.panel(drawLegend(picture.legend, size, palette), palette);
  column.space(8);
  for (const panel of picture.panels(size, palette)) column.panel(panel, palette);
}

function box(width: number, height: number): string {
  return `width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"`;
}
