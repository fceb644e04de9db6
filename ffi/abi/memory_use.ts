/** Bytes that a device's memories take, mapped files left out. */
export class MemoryUse {
  #now = 0;
  #peak = 0;

  get now(): number {
    return this.#now;
  }
  /** The most since the device was opened, or since restart(). */
  get peak(): number {
    return this.#peak;
  }
  restart(): void {
    this.#peak = this.#now;
  }
  add(bytes: number): void {
    this.#now += bytes;
    this.#peak = Math.max(this.#peak, this.#now);
  }
}
