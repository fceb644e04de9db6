/** A session that adds up how long its plays take, for telling the device's time from the host's. */
import { Session } from "../engine/session.ts";
import type { Clock } from "./port.ts";

export class TimedSession extends Session {
  #clock: Clock | null = null;
  #spent = 0;

  /** Runs `work`; gives the time that decode() and rounds() took meanwhile. */
  async timed(clock: Clock, work: () => Promise<void>): Promise<number> {
    this.#clock = clock;
    this.#spent = 0;
    try {
      await work();
      return this.#spent;
    } finally {
      this.#clock = null;
    }
  }

  override decode(...args: Parameters<Session["decode"]>): ReturnType<Session["decode"]> {
    return this.#add(() => super.decode(...args));
  }

  override rounds(...args: Parameters<Session["rounds"]>): ReturnType<Session["rounds"]> {
    return this.#add(() => super.rounds(...args));
  }

  async #add<T>(play: () => Promise<T>): Promise<T> {
    if (!this.#clock) return await play();
    const from = this.#clock.now();
    const result = await play();
    this.#spent += Number(this.#clock.now() - from);
    return result;
  }
}
