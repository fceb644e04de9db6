/**
 * What `--base` and `--head` name: a library file, a stored report, or a git ref that is built in a
 * temporary worktree. Owns telling them apart, building, and cleaning up. Measures nothing.
 */
import { createHash } from "node:crypto";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { shownName, UserError } from "../engine/errors.ts";
import { defaultLibraryPath } from "../ffi/abi/open.ts";
import type { SubjectIdentity } from "./compare_report.ts";
import { takeLibrary } from "./libraries.ts";
import type { Side } from "./subject.ts";

/** The folder of this program. */
export const PROGRAM = fileURLToPath(new URL("../", import.meta.url));

/** Folders and files that decide what runs; others, such as documents, do not make another program. */
const PROGRAM_PATHS = [
  "bench",
  "cli",
  "engine",
  "ffi",
  "kernels",
  "models",
  "native",
  "deno.json",
  "Makefile",
];

export type SubjectSource =
  | { readonly kind: "library"; readonly name: string; readonly path: string }
  | { readonly kind: "report"; readonly name: string; readonly path: string }
  | { readonly kind: "ref"; readonly name: string; readonly commit: string };

/** A subject that can be started. */
export interface Built {
  readonly identity: SubjectIdentity;
  readonly program: string;
  readonly library: string;
  readonly warnings: readonly string[];
}

/** Tells what a text names: a file that exists wins over a ref. Throws UserError. */
export async function nameSubject(text: string, side: Side): Promise<SubjectSource> {
  if (await isFile(text)) {
    const path = resolve(text);
    return { kind: /\.jsonl?$/.test(text) ? "report" : "library", name: text, path };
  }
  const commit = text.startsWith("-")
    ? null
    : await git(["rev-parse", "--verify", "--quiet", `${text}^{commit}`]);
  if (commit) return { kind: "ref", name: text, commit };
  throw new UserError(
    `--${side} ${
      shownName(text)
    } is neither a file nor a git ref of ${PROGRAM}; expected a library ` +
      `(.so, .dylib), a report (.json) or a ref such as main.`,
  );
}

/** Makes a subject ready to be started; what it needs lives in `folder` until `cleanup` is disposed. */
export async function buildSubject(
  source: Exclude<SubjectSource, { kind: "report" }>,
  folder: string,
  cleanup: AsyncDisposableStack,
  tell: (line: string) => void,
): Promise<Built> {
  const { kind, name } = source;
  if (kind === "library") {
    const taken = await takeLibrary(source.path, folder);
    const program = await ownProgram();
    return {
      identity: { kind, name, commit: null, library: shown(taken, source.path), program },
      program: PROGRAM,
      library: taken.path,
      warnings: taken.warnings,
    };
  }
  const { commit } = source;
  const tree = join(folder, `tree-${commit.slice(0, 12)}`);
  const program = await programOf(commit);
  if (!await isFile(join(tree, "Makefile"))) await addWorktree(tree, commit, cleanup);
  tell(`building ${name} (${commit.slice(0, 12)})`);
  await make(tree, name);
  const built = join(tree, "build", defaultLibraryPath().split("/").at(-1)!);
  const taken = await takeLibrary(built, folder);
  return {
    identity: { kind, name, commit, library: shown(taken, built), program },
    program: tree,
    library: taken.path,
    warnings: taken.warnings,
  };
}

function shown(taken: { readonly sha256: string }, path: string) {
  return { path, sha256: taken.sha256 };
}

async function addWorktree(tree: string, commit: string, cleanup: AsyncDisposableStack) {
  // A comparison that was killed leaves an entry of a worktree that is gone.
  await runGit(["worktree", "prune"]);
  const added = await runGit(["worktree", "add", "--detach", "--force", tree, commit]);
  if (added.code !== 0) throw new UserError(`git cannot check out ${commit}: ${added.said}`);
  cleanup.defer(async () => {
    await runGit(["worktree", "remove", "--force", tree]);
  });
}

async function make(tree: string, name: string): Promise<void> {
  const jobs = String(navigator.hardwareConcurrency);
  // scripts/deno of either commit finds this deno first.
  const made = await new Deno.Command("sh", {
    args: ["-c", 'PATH="$0:$PATH" exec make "$@"', dirname(Deno.execPath()), "-C", tree]
      .concat("-j", jobs, "lib"),
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).output().catch((e) => {
    throw new UserError(`Cannot run make: ${(e as Error).message}`);
  });
  if (made.code === 0) return;
  const said = new TextDecoder().decode(made.stderr).trim().split("\n");
  const error = said.find((line) => /error/i.test(line)) ?? said.at(-1) ?? "";
  throw new UserError(`${shownName(name)} does not build: ${error}`);
}

/** Hash of everything in a commit that decides what runs. */
async function programOf(commit: string): Promise<string> {
  const list = await git(["ls-tree", commit, "--", ...PROGRAM_PATHS]);
  return createHash("sha256").update(list ?? commit).digest("hex");
}

/** The same of this program; null where its files are not those of a commit. */
async function ownProgram(): Promise<string | null> {
  const changes = await git(["status", "--porcelain", "--", ...PROGRAM_PATHS]);
  return changes === "" ? await programOf("HEAD") : null;
}

/** Whether two subjects cannot differ: the same library played by the same program. */
export function areSame(a: SubjectIdentity, b: SubjectIdentity): boolean {
  return a.library?.sha256 === b.library?.sha256 && a.program === b.program;
}

/** Output of git in the program's folder; null where it fails. */
export async function git(args: readonly string[]): Promise<string | null> {
  const { code, out } = await runGit(args);
  return code === 0 ? out : null;
}

async function runGit(args: readonly string[]) {
  try {
    const done = await new Deno.Command("git", {
      args: ["-C", PROGRAM, ...args],
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes).trim();
    return { code: done.code, out: text(done.stdout), said: text(done.stderr) };
  } catch (e) {
    return { code: 127, out: "", said: (e as Error).message };
  }
}

function isFile(path: string): Promise<boolean> {
  return Deno.stat(path).then((s) => s.isFile, () => false);
}
