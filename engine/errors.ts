/**
 * Mistakes that the caller can fix. Owns the error class that every refusal of input uses and the
 * way names from a file are shown in it; does not print and does not exit.
 */

/** Exit code of a command that was given bad input. */
export const USER_EXIT = 2;

/**
 * A mistake that the caller can fix. The message is one line: what is wrong and where, what was
 * expected, what to do. A long list goes to `details`, one line each.
 */
export class UserError extends Error {
  override readonly name = "UserError";
  readonly exitCode = USER_EXIT;
  readonly details: readonly string[];

  constructor(message: string, options: { details?: readonly string[]; cause?: unknown } = {}) {
    super(oneLine(message), { cause: options.cause });
    this.details = (options.details ?? []).map(oneLine);
  }
}

/** A name out of a file, safe to print: control characters escaped, the middle of a long one cut. */
export function shownName(name: string, max = 120): string {
  const cut = name.length > max ? `${name.slice(0, max - 40)}...${name.slice(-30)}` : name;
  return oneLine(cut);
}

/** The first five of a list, each at most `max` long, and how many more there are. */
export function firstFive(names: readonly string[], separator = ", ", max = 120): string {
  const rest = names.length - 5;
  const head = names.slice(0, 5).map((n) => shownName(n, max)).join(separator);
  return rest > 0 ? `${head} and ${rest} more` : head;
}

function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
