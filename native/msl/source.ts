/** A .metal file with what it includes as one text, and with its macros expanded. */

/** Quoted includes are paths from the root of the project; each is taken in once. */
export function bundle(root: string, path: string, seen = new Set<string>()): string {
  if (seen.has(path)) return "";
  seen.add(path);
  const lines = Deno.readTextFileSync(root + path).split("\n");
  const out = [`#line 1 "${path}"`];
  lines.forEach((line, i) => {
    const include = /^\s*#\s*include\s+"([^"]+)"/.exec(line);
    if (include) out.push(bundle(root, include[1], seen), `#line ${i + 2} "${path}"`);
    else out.push(/^\s*#\s*pragma once/.test(line) ? "" : line);
  });
  return out.join("\n");
}

/** Macros expanded by the host's preprocessor; system includes and comments dropped, line markers kept. */
export async function expandMacros(bundled: string, defines: readonly string[]): Promise<string> {
  const text = bundled.replace(/^\s*#\s*include\s+<.*$/gm, "");
  const child = new Deno.Command(Deno.env.get("CXX") ?? "c++", {
    args: [
      "-E",
      "-x",
      "c++",
      "-std=c++14",
      "-undef",
      "-nostdinc",
      "-D__METAL_VERSION__=310",
    ]
      .concat(defines, "-"),
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  const { code, stdout } = await child.output();
  if (code !== 0) throw new Error("the preprocessor failed");
  // Markers of what is no file begin at line 0 or are named <so>.
  return new TextDecoder().decode(stdout).replace(/^# (?:0 "|\d+ "<).*$/gm, "")
    .replace(/^# (\d+) ("[^"]*").*$/gm, "#line $1 $2");
}
