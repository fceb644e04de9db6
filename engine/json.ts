/**
 * Text of a named JSON file to a checked value: every failure is one UserError line that names the
 * file, the place in it and what was expected there. Reads no file.
 */
import * as v from "valibot";
import { UserError } from "./errors.ts";

/** Joins lines and cuts long quotations, so that an error stays one readable line. */
export function shorten(text: string, max = 200): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= max ? line : `${line.slice(0, max - 1)}…`;
}

/** Parses JSON text and checks it against a schema. Throws UserError. */
export function parseJson<S extends v.GenericSchema>(
  file: string,
  text: string,
  schema: S,
): v.InferOutput<S> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (e) {
    throw new UserError(`${file} is not valid JSON: ${shorten((e as Error).message)}`);
  }
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output;
  const issue = result.issues[0];
  const path = v.getDotPath(issue);
  throw new UserError(`${file}: ${path ? `${path}: ` : ""}${shorten(issue.message)}`);
}
