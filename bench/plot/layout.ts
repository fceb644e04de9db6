/** Widths of texts without a font at hand, and line breaks that follow from them. */

// Widths of Roboto in units of the font size, rounded up by class.
const CLASSES: readonly (readonly [RegExp, number])[] = [
  [/[ \u00a0ilj.,:;'|!·]/, 0.26],
  [/[\-()[\]ftrI/]/, 0.36],
  [/[mwMW@%—]/, 0.9],
  [/[A-Z=+±×÷<>~&#]/, 0.67],
];
const OTHERS = 0.56;
// An SVG is read with its reader's fonts, some of which run this much wider.
const WIDEST = 1.16;

/** Width of a text in the unit of `size`, in the widest font that is likely. */
export function textWidth(text: string, size: number): number {
  let width = 0;
  for (const c of text) width += CLASSES.find(([like]) => like.test(c))?.[1] ?? OTHERS;
  return width * size * WIDEST;
}

/** Breaks at blanks so that no line is wider than `width`, except a single word. */
export function wrap(text: string, width: number, size: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && textWidth(longer, size) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return line === "" ? lines : [...lines, line];
}

/** Of ascending positions, the indices to label so that labels of `gap` do not touch; first and last win. */
export function spaced(positions: readonly number[], gap: number): number[] {
  const last = positions.length - 1;
  const kept: number[] = [];
  for (let i = 0; i < last; i++) {
    const free = kept.length === 0 || positions[i] - positions[kept[kept.length - 1]] >= gap;
    if (free && (kept.length === 0 || positions[last] - positions[i] >= gap)) kept.push(i);
  }
  if (last >= 0 && (kept.length === 0 || positions[last] - positions[kept[0]] >= gap)) {
    kept.push(last);
  }
  return kept;
}

/** Without the characters that XML cannot hold. */
export function xmlCharacters(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.toWellFormed().replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "\ufffd");
}

/** Text for XML and HTML. */
export function escapeXml(text: string): string {
  return xmlCharacters(text).replace(
    /[&<>"']/g,
    (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]!,
  );
}
