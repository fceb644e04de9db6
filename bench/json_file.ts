/** JSON files of whichever schema: their text, and the schema that they name. Checks nothing else. */
import { shownName, UserError } from "../engine/errors.ts";

/** Text of a file that the user named. Throws UserError. */
export async function readText(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (e) {
    if (e instanceof Deno.errors.NotCapable) throw e;
    const why = e instanceof Deno.errors.NotFound ? "no such file" : (e as Error).message;
    throw new UserError(`Cannot read ${shownName(path)}: ${why}`);
  }
}

/** The schema that a document names at its top; null where it names none. */
export function schemaOf(text: string): string | null {
  // The first line of JSONL is a document of its own.
  for (const part of [text, text.split("\n", 1)[0]]) {
    try {
      const { schema } = JSON.parse(part);
      if (typeof schema === "string") return schema;
    } catch {
      // Not a document, or one without fields.
    }
  }
  return null;
}
