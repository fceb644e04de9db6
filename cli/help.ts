/** Parts of help texts that every command shares. */

/** A block of examples below a command's help: command line and what it does. */
export function examples(lines: readonly (readonly [command: string, does: string])[]): string {
  const body = lines.map(([command, does]) => `  ${does}:\n    lapwing ${command}`).join("\n");
  return `\nExamples:\n${body}`;
}
