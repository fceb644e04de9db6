/**
 * Finds and opens the native library once and compares its layout with ours. Search order: an explicit
 * path, then build/ of this project. Owns no device.
 */
import { ABI_VERSION } from "./layout.ts";
import { LAYOUT_HASH } from "./layout_hash.ts";
import { SYMBOLS, type Symbols } from "./symbols.ts";

export interface Library {
  readonly path: string;
  readonly symbols: Symbols;
}

/** The library is not there, or not the one that this program was made for. One line. */
export class LibraryError extends Error {
  override readonly name = "LibraryError";
}

const opened = new Map<string, Library>();

/** Where the library is looked for when no path is given. */
export function defaultLibraryPath(): string {
  const name = Deno.build.os === "darwin" ? "liblapwing.dylib" : "liblapwing.so";
  return new URL(`../../build/${name}`, import.meta.url).pathname;
}

/** Opens the library, or returns it when it is open. Throws Error with one line saying what to do. */
export function openLibrary(path: string = defaultLibraryPath()): Library {
  const known = opened.get(path);
  if (known) return known;
  let library: Deno.DynamicLibrary<typeof SYMBOLS>;
  try {
    Deno.statSync(path);
  } catch {
    throw new LibraryError(
      `The native library is not at ${path}: run \`make\` in the project folder`,
    );
  }
  try {
    library = Deno.dlopen(path, SYMBOLS);
  } catch (e) {
    throw new LibraryError(
      `Cannot open ${path}: ${(e as Error).message.split("\n")[0]}; run \`make\``,
    );
  }
  const out = new BigUint64Array(2);
  library.symbols.lw_abi(out);
  if (out[0] !== BigInt(ABI_VERSION) || out[1] !== LAYOUT_HASH) {
    library.close();
    throw new LibraryError(
      `${path} has layout ${out[0]}/${out[1].toString(16)}, this program ${ABI_VERSION}/` +
        `${LAYOUT_HASH.toString(16)}: run \`make\` to rebuild it`,
    );
  }
  const made = { path, symbols: library.symbols };
  opened.set(path, made);
  return made;
}
