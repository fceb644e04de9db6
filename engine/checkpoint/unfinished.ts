/**
 * Files of a folder that come to be together: each is written beside its name, and all get their names when
 * the last is whole. What ends before takes everything away that it began. Knows no format.
 */
import { dirname, join, resolve } from "node:path";

export class UnfinishedFiles implements AsyncDisposable {
  readonly #files: { readonly temporary: string; readonly path: string }[] = [];
  /** Names that this has taken, so that nobody else's file is renamed over or removed. */
  readonly #taken: string[] = [];
  #finished = false;

  private constructor(
    readonly folder: string,
    /** Folders that were not there, the innermost first. */
    readonly made: readonly string[],
  ) {}

  /** Makes the folder, and those around it. */
  static async begin(folder: string): Promise<UnfinishedFiles> {
    // Without `..`, which Deno.mkdir would follow through links and Deno.open would not.
    const whole = resolve(folder), made: string[] = [];
    for (let at = whole; !await exists(at); at = dirname(at)) made.push(at);
    const files = new UnfinishedFiles(whole, made);
    try {
      await Deno.mkdir(whole, { recursive: true });
    } catch (e) {
      await files[Symbol.asyncDispose]();
      throw e;
    }
    return files;
  }

  /** Where to write what will have this name. */
  add(name: string): string {
    const path = join(this.folder, name);
    const temporary = `${path}.${crypto.randomUUID().slice(0, 8)}.tmp`;
    this.#files.push({ temporary, path });
    return temporary;
  }

  /**
   * Gives the files their names, in the order in which they were added. Throws AlreadyExists, and renames none,
   * where somebody else has put a file of one of these names.
   */
  async finish(): Promise<void> {
    for (const { path } of this.#files) {
      (await Deno.open(path, { write: true, createNew: true })).close();
      this.#taken.push(path);
    }
    for (const { temporary, path } of this.#files) await Deno.rename(temporary, path);
    this.#finished = true;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#finished) return;
    const begun = [...this.#files.map(({ temporary }) => temporary), ...this.#taken];
    // A folder in which others have put something since stays, with what is theirs.
    for (const path of [...begun, ...this.made]) await Deno.remove(path).catch(() => {});
  }
}

async function exists(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, (e) => !(e instanceof Deno.errors.NotFound));
}
