/**
 * A native library as a file: whether it may be measured, its hash, and a copy that nobody overwrites while
 * it is open. Opens no library.
 */
import { createHash } from "node:crypto";
import { basename, join } from "node:path";
import { shownName, UserError } from "../engine/errors.ts";

export interface LibraryFile {
  /** The copy that is opened. */
  readonly path: string;
  readonly sha256: string;
  /** What could not be told from the file, for people. */
  readonly warnings: readonly string[];
}

/** Symbols that only a sanitised build needs. */
const SANITIZERS: readonly (readonly [symbol: string, name: string])[] = [
  ["__asan_init", "address sanitizer"],
  ["__tsan_init", "thread sanitizer"],
  ["__msan_init", "memory sanitizer"],
  ["__ubsan_handle_", "undefined behaviour sanitizer"],
];
/** How gcc notes its command line in debug information. */
const PRODUCER = /GNU (?:C|C\+\+)\d+ [^\0]*/g;
const OPTIMISED = /(?:^| )-O(?:[123s]|fast)?(?: |$)/;

/** Copies a library into `folder` under its hash. Throws UserError for a build that must not be timed. */
export async function takeLibrary(path: string, folder: string): Promise<LibraryFile> {
  const bytes = await Deno.readFile(path).catch((e) => {
    throw new UserError(`Cannot read the library ${shownName(path)}: ${(e as Error).message}`);
  });
  const warnings = inspectLibrary(bytes, path);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  const place = join(folder, sha256.slice(0, 16));
  await Deno.mkdir(place, { recursive: true });
  const copy = join(place, basename(path));
  await Deno.writeFile(copy, bytes, { mode: 0o755 });
  return { path: copy, sha256, warnings };
}

/** Refuses sanitised and unoptimised builds; returns what cannot be told. */
export function inspectLibrary(bytes: Uint8Array, path: string): string[] {
  // Latin-1 keeps one character a byte, so that symbol names can be searched as text.
  const text = new TextDecoder("latin1").decode(bytes);
  for (const [symbol, name] of SANITIZERS) {
    if (text.includes(symbol)) {
      throw new UserError(
        `${
          shownName(path)
        } is built with the ${name}: its times mean nothing. Build it without SANITIZE.`,
      );
    }
  }
  const producers = [...text.matchAll(PRODUCER)].map((m) => m[0]);
  if (producers.length === 0) {
    return [`${path}: the file does not say whether it was optimised`];
  }
  if (producers.some((p) => OPTIMISED.test(p))) return [];
  throw new UserError(
    `${shownName(path)} is a debug build (${producers[0].slice(0, 40).trim()}... without -O): ` +
      `its times mean nothing. Build it with \`make\`.`,
  );
}
