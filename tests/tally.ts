/**
 * Adds up what test runs and native programs counted, names what failed and what was skipped, and ends with
 * one plain line. Usage: tally.ts (--junit FILE EXIT_CODE | --lines FILE EXIT_CODE | --step NAME EXIT_CODE)...
 */

interface Counts {
  passed: number;
  readonly failed: string[];
  readonly skipped: string[];
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};

function plain(text: string): string {
  return text.replace(/&(lt|gt|amp|quot|apos);/g, (_, name) => ENTITIES[name]);
}

/** Test cases of deno's JUnit report. A file that failed to load is in no report, only in the exit code. */
export function addJunit(counts: Counts, report: string, code: number): void {
  const failed = counts.failed.length;
  for (
    const [, name, body] of report.matchAll(/<testcase name="([^"]*)"[^>]*>([^]*?)<\/testcase>/g)
  ) {
    if (/<(failure|error)\b/.test(body)) counts.failed.push(plain(name));
    else if (/<skipped\b/.test(body)) counts.skipped.push(plain(name));
    else counts.passed++;
  }
  if (code !== 0 && counts.failed.length === failed) {
    counts.failed.push("a test file that did not run");
  }
}

/** `N passed, N failed, N skipped` lines of a native program, and the lines that name what it skipped. */
export function addLines(counts: Counts, text: string, code: number, name: string): void {
  const failed = counts.failed.length;
  for (const line of text.split("\n")) {
    const m = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/.exec(line);
    if (m) {
      counts.passed += Number(m[1]);
      for (let i = 0; i < Number(m[2]); i++) counts.failed.push(name);
    }
    if (line.startsWith("skipped: ")) {
      // "3 cases need ..." stands for three.
      const n = Number(/^skipped: (\d+)/.exec(line)?.[1] ?? 1);
      for (let i = 0; i < n; i++) counts.skipped.push(line.slice("skipped: ".length));
    }
  }
  if (code !== 0 && counts.failed.length === failed) {
    counts.failed.push(`${name} (exit code ${code})`);
  }
}

/** Each name once, with how often it came. */
function named(title: string, names: readonly string[]): string[] {
  const times = new Map<string, number>();
  for (const name of names) times.set(name, (times.get(name) ?? 0) + 1);
  return [...times].map(([name, n]) => `${title}: ${name}${n > 1 ? ` (${n} times)` : ""}`);
}

export function summary({ passed, failed, skipped }: Counts): string[] {
  const end = `${passed} passed, ${failed.length} failed`;
  return [
    ...named("skipped", skipped),
    ...named("failed", failed),
    skipped.length ? `${end}, ${skipped.length} skipped` : end,
  ];
}

if (import.meta.main) {
  const counts: Counts = { passed: 0, failed: [], skipped: [] };
  for (let i = 0; i < Deno.args.length; i += 3) {
    const [kind, name, code] = Deno.args.slice(i, i + 3);
    if (kind === "--step") {
      addLines(counts, code === "0" ? "1 passed, 0 failed" : "", Number(code), name);
    } else {
      const text = await Deno.readTextFile(name).catch(() => "");
      if (kind === "--junit") addJunit(counts, text, Number(code));
      else addLines(counts, text, Number(code), name);
    }
  }
  for (const line of summary(counts)) console.log(line);
  Deno.exit(counts.failed.length ? 1 : 0);
}
