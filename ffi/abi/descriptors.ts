/**
 * Standard output for this program alone: whatever native code writes to descriptor 1 from then on goes to
 * standard error. Owns the copy of the descriptor; knows no text.
 */

const SYMBOLS = {
  dup: { parameters: ["i32"], result: "i32" },
  dup2: { parameters: ["i32", "i32"], result: "i32" },
  write: { parameters: ["i32", "buffer", "usize"], result: "isize" },
} as const satisfies Deno.ForeignLibraryInterface;

const STDOUT = 1, STDERR = 2;

/** Returns what writes to the real standard output, or null where the C library is not to be had. */
export function reserveStdout(): { writeSync(bytes: Uint8Array): number } | null {
  const name = Deno.build.os === "darwin" ? "libSystem.B.dylib" : "libc.so.6";
  let symbols: Deno.DynamicLibrary<typeof SYMBOLS>["symbols"];
  try {
    ({ symbols } = Deno.dlopen(name, SYMBOLS));
  } catch {
    return null;
  }
  const kept = symbols.dup(STDOUT);
  if (kept < 0) return null;
  // Never undone: C's own buffer of what was printed is flushed when the process ends.
  symbols.dup2(STDERR, STDOUT);
  return {
    writeSync(bytes) {
      const written = Number(symbols.write(kept, Uint8Array.from(bytes), BigInt(bytes.length)));
      if (written < 0) throw new Deno.errors.BrokenPipe("Standard output cannot be written");
      return written;
    },
  };
}
