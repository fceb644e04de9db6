/** The project's own files as text, and what is measured about them. Owns no rule. */

export const ROOT = new URL("../../", import.meta.url).pathname;
const NOT_OURS = /^(\.git|\.tools|build|node_modules)\//;

/** Paths below the root, sorted, without what tools put there. */
export function projectFiles(folder = ""): string[] {
  return [...Deno.readDirSync(ROOT + folder)].flatMap((entry) => {
    const path = folder + entry.name;
    if (entry.isDirectory) return NOT_OURS.test(path + "/") ? [] : projectFiles(path + "/");
    return entry.isFile ? [path] : [];
  }).sort();
}

export function read(path: string): string {
  return Deno.readTextFileSync(ROOT + path);
}

export function linesOf(path: string): string[] {
  return read(path).split("\n").slice(0, -1);
}

export interface Measured {
  readonly name: string;
  readonly lines: number;
}

const CONTROL = /^(if|for|while|switch|else|do|try|catch|return|throw|await|yield|}|\/\/|\*)\b/;
const NAMED = /^(?:export )?(?:default )?(?:async )?function\*? ?([\w$]*)/;
const METHOD =
  /^(?:(?:static|async|override|protected|private|public|get|set) )*\*?(#?[\w$]+|\[[\w.]+\])(?:<.*>)?\(/;
const ARROW = /=>\s*\{$/;

/** The index of the line that closes what begins at `from`, in text as `deno fmt` leaves it; -1: no block. */
function closing(lines: readonly string[], from: number, indent: string): number {
  const opens = lines[from].endsWith("{");
  let inBody = opens;
  for (let i = from + 1; i < lines.length; i++) {
    const line = lines[i];
    if (line === "" || !line.startsWith(indent) || /^\s/.test(line.slice(indent.length))) continue;
    const rest = line.slice(indent.length);
    if (inBody) {
      if (rest.startsWith("}") && !rest.endsWith("{")) return i;
    } else if (rest.endsWith("{")) inBody = true;
    else return -1;
  }
  return -1;
}

/** Functions, methods and block-bodied arrows of a formatted TypeScript file. */
export function functionsOf(lines: readonly string[]): Measured[] {
  return lines.flatMap((line, i) => {
    const text = line.trimStart(), indent = line.slice(0, line.length - text.length);
    if (CONTROL.test(text) || !/[{(]$/.test(text)) return [];
    const named = NAMED.exec(text) ?? (indent && METHOD.exec(text));
    if (!named && !ARROW.test(text)) return [];
    const end = closing(lines, i, indent);
    if (end < 0) return [];
    const name = named ? named[1] : `arrow at line ${i + 1}`;
    return [{ name, lines: end - i + 1 }];
  });
}
