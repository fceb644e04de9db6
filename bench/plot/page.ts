/**
 * The HTML report: every picture, its numbers as a table, and where they come from, in one file that needs
 * nothing else. Colours follow the reader's light or dark setting; a narrow window gets drawings of its own.
 */
import type { NamedBaseline } from "./history_data.ts";
import { escapeXml as esc } from "./layout.ts";
import { countText, dateText } from "./numbers.ts";
import { CSS, cssVariables, DARK, LIGHT } from "./palette.ts";
import type { DataTable, Picture } from "./picture.ts";
import { modelText } from "./series.ts";
import { embeddedSvg } from "./sheet.ts";
import { type Omission, refusalOf, type Source } from "./source.ts";

const WIDE = { width: 760, narrow: false };
const NARROW = { width: 340, narrow: true };

const STYLE = `
:root { color-scheme: light dark; ${cssVariables(LIGHT)} }
@media (prefers-color-scheme: dark) { :root { ${cssVariables(DARK)} } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, Roboto, Helvetica, Arial, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .25rem; }
header ul { padding-left: 1.1rem; margin: .75rem 0; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 0; }
figure { margin: 3rem 0 0; }
p { margin: .25rem 0 .75rem; }
header nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; padding: 0; margin: 1rem 0;
  list-style: none; }
a { color: inherit; text-underline-offset: .2em; }
svg { display: block; max-width: 100%; height: auto; }
svg svg { max-width: none; }
.narrow { display: none; }
figcaption { font-size: .875rem; }
figcaption p { margin: .5rem 0 0; }
.facts { color: var(--muted); font-size: .8125rem; }
.scroll { overflow-x: auto; overflow-wrap: normal; }
table { border-collapse: collapse; font-size: .8125rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem 1rem .3rem 0; white-space: nowrap;
  border-bottom: 1px solid var(--grid); vertical-align: top; }
details { margin-top: .75rem; }
summary { cursor: pointer; font-size: .875rem; }
@media (max-width: 40rem) {
  body { padding: 1rem 1rem 3rem; }
  .wide { display: none; }
  .narrow { display: block; }
}
@media print { details { display: none; } figure { break-inside: avoid; } }
`;

// Nothing may be loaded and nothing may run, whatever a report says.
const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

/** The page as text. */
export function renderPage(
  pictures: readonly Picture[],
  { sources, baselines }: {
    readonly sources: readonly Source[];
    readonly baselines: readonly NamedBaseline[];
  },
  omitted: readonly Omission[],
): string {
  const models = [
    ...new Set(
      sources.length > 0 ? sources.map(modelText) : baselines.map((b) => b.baseline.machine),
    ),
  ];
  const title = `lapwing report: ${
    models.length > 3 ? countText(models.length, "model") : models.join(", ")
  }`;
  const links = pictures.map((p) => `<li><a href="#${esc(p.name)}">${esc(shortName(p))}</a></li>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>${esc(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>${esc(title)}</h1>
<ul class="facts">${sources.map(sourceHtml).join("")}${baselines.map(baselineHtml).join("")}</ul>
<nav aria-label="Pictures"><ul>${links.join("")}</ul></nav>
</header>
<main>
${pictures.map(figureHtml).join("\n")}
${omittedHtml(omitted, sources.length > 1)}
</main>
</body>
</html>
`;
}

function shortName(picture: Picture): string {
  return picture.name.replaceAll("-", " ");
}

function sourceHtml(source: Source): string {
  const { report } = source, { env, tool } = report;
  const drawn = report.rows.filter((r) => refusalOf(r) === null).length;
  const commit = tool.commit ? ` ${tool.commit.slice(0, 9)}` : "";
  const parts = [
    `${dateText(report.started_at)} UTC`,
    modelText(source),
    ...env.gpus.map((g) => g.name),
    env.cpu,
    `${env.library.backend} ${env.library.isa}`,
    `lapwing ${tool.version}${commit}${tool.dirty ? " (uncommitted changes)" : ""}`,
    `${drawn} of ${countText(report.rows.length, "row")} fit to draw`,
  ];
  return `<li><strong>${esc(source.name)}</strong>: ${parts.map((p) => esc(p)).join(" · ")}</li>`;
}

function baselineHtml({ name, baseline: { machine, entries } }: NamedBaseline): string {
  const parts = [`baseline of ${machine}`, countText(entries.length, "accepted measurement")];
  return `<li><strong>${esc(name)}</strong>: ${parts.map((p) => esc(p)).join(" · ")}</li>`;
}

function figureHtml(picture: Picture): string {
  const facts = picture.facts.filter((f) => f !== "").map((f) => esc(f)).join("<br>");
  const notes = picture.notes.map((n) => `<p>${esc(n)}</p>`).join("");
  return `<figure id="${esc(picture.name)}">
<h2>${esc(picture.title)}</h2>
<p>${esc(picture.finding)}</p>
<div class="wide">${embeddedSvg(picture, WIDE, CSS)}</div>
<div class="narrow">${embeddedSvg(picture, NARROW, CSS)}</div>
<figcaption>${notes}<p class="facts">${facts}</p></figcaption>
<details><summary>The numbers</summary>${tableHtml(picture.table)}</details>
</figure>`;
}

function omittedHtml(omitted: readonly Omission[], manySources: boolean): string {
  if (omitted.length === 0) return "";
  const items = omitted.map((o) =>
    `<li>${esc(o.row)}${manySources ? ` of ${esc(o.source)}` : ""}: ${esc(o.why)}</li>`
  );
  return `<section id="omitted"><h2>Rows that are not drawn</h2><ul>${
    items.join("")
  }</ul></section>`;
}

function tableHtml({ head, rows }: DataTable): string {
  const line = (cells: readonly string[], tag: string) =>
    `<tr>${cells.map((c) => `<${tag}>${esc(c)}</${tag}>`).join("")}</tr>`;
  return `<div class="scroll"><table><thead>${line(head, "th")}</thead><tbody>` +
    `${rows.map((r) => line(r, "td")).join("")}</tbody></table></div>`;
}
