/** Files for native programs: words, texts and bytes, appended through one buffer. */
export class Output {
  readonly #file: Deno.FsFile;
  readonly #parts: Uint8Array<ArrayBuffer>[] = [];
  #bytes = 0;
  constructor(path: string) {
    this.#file = Deno.openSync(path, { write: true, create: true, truncate: true });
  }
  words(...values: number[]): void {
    this.bytes(new Uint8Array(Uint32Array.from(values).buffer));
  }
  text(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.words(bytes.length);
    this.bytes(bytes);
  }
  bytes(bytes: Uint8Array<ArrayBuffer>): void {
    this.#parts.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes > 1 << 22) this.flush();
  }
  flush(): void {
    for (const part of this.#parts) {
      for (let at = 0; at < part.length;) at += this.#file.writeSync(part.subarray(at));
    }
    this.#parts.length = this.#bytes = 0;
  }
  close(): void {
    this.flush();
    this.#file.close();
  }
}
