/** How many threads can run at once. Apart from model.ts, so that asking loads no native code. */

/** Processors that this process may use, by its affinity and its cgroup's quota. */
export function usableProcessors(): number {
  return navigator.hardwareConcurrency;
}
