/** Where text input comes from: an argument, a file or standard input. Knows no model. */
import { UserError } from "../engine/errors.ts";
import type { Terminal } from "./terminal.ts";

export interface TextSource {
  readonly argument?: string;
  readonly file?: string;
}

/**
 * The text, less one line break at the end of a file or of standard input, which editors and echo
 * add. Throws UserError when there is none or more than one source.
 */
export async function readText(
  what: string,
  { argument, file }: TextSource,
  terminal: Terminal,
): Promise<string> {
  if (argument !== undefined && file !== undefined) {
    throw new UserError(`Give the ${what} either as an argument or with --file, not both`);
  }
  if (file !== undefined && file !== "-") return decode(file, await readFile(file));
  if (argument !== undefined && argument !== "-") return argument;
  if (argument === undefined && file === undefined && terminal.inIsTty) {
    throw new UserError(
      `No ${what}: give it as an argument, with --file PATH, or on standard input`,
    );
  }
  return decode("standard input", await terminal.readStdin());
}

async function readFile(path: string): Promise<Uint8Array> {
  try {
    return await Deno.readFile(path);
  } catch (e) {
    if (e instanceof Deno.errors.NotCapable) throw e;
    throw new UserError(`Cannot read ${path}: ${fileProblem(e)}`);
  }
}

function fileProblem(e: unknown): string {
  if (e instanceof Deno.errors.NotFound) return "no such file";
  if (e instanceof Deno.errors.IsADirectory) return "it is a folder";
  return (e as Error).message;
}

function decode(source: string, bytes: Uint8Array): string {
  try {
    // The decoder also takes a byte order mark off.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes).replace(/\r?\n$/, "");
  } catch {
    throw new UserError(`${source} is not UTF-8 text`);
  }
}
