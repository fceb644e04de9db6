/** JSON values over a connection, one a line. Knows nothing of what they mean. */

export class LineChannel implements Disposable {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #rest = "";
  #closed = false;

  constructor(readonly connection: Deno.Conn) {
    this.#reader = connection.readable.getReader();
  }

  async send(value: unknown): Promise<void> {
    let bytes: Uint8Array = new TextEncoder().encode(JSON.stringify(value) + "\n");
    while (bytes.length > 0) bytes = bytes.subarray(await this.connection.write(bytes));
  }

  /** The next value; undefined when the other end is gone. */
  async receive(): Promise<unknown> {
    for (;;) {
      const end = this.#rest.indexOf("\n");
      if (end >= 0) {
        const line = this.#rest.slice(0, end);
        this.#rest = this.#rest.slice(end + 1);
        return JSON.parse(line);
      }
      const { done, value } = await this.#read();
      if (done) return undefined;
      this.#rest += this.#decoder.decode(value, { stream: true });
    }
  }

  async #read(): Promise<{ done: boolean; value?: Uint8Array }> {
    try {
      return await this.#reader.read();
    } catch {
      // A peer that died resets the connection; for a reader that is its end.
      return { done: true };
    }
  }

  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#reader.cancel().catch(() => {});
    try {
      this.connection.close();
    } catch {
      // Cancelling the reader may have closed it.
    }
  }
}
