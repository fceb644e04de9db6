/**
 * Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), the twin of philox.h:
 * key and counter 0 give 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
 */

type Four = readonly [number, number, number, number];

/** High 32 bits of the product of two u32. */
function mulHigh(a: number, b: number): number {
  const al = a & 0xffff, ah = a >>> 16, bl = b & 0xffff, bh = b >>> 16;
  const middle = ah * bl + ((al * bl) >>> 16);
  return ah * bh + Math.floor(middle / 65536) + (((middle % 65536) + al * bh) / 65536 >>> 0);
}

export function philox4x32(key: readonly [number, number], counter: Four): Four {
  let [k0, k1] = key;
  let [c0, c1, c2, c3] = counter;
  for (let round = 0; round < 10; round++) {
    const high0 = mulHigh(0xd2511f53, c0), low0 = Math.imul(0xd2511f53, c0) >>> 0;
    const high2 = mulHigh(0xcd9e8d57, c2), low2 = Math.imul(0xcd9e8d57, c2) >>> 0;
    [c0, c1, c2, c3] = [(high2 ^ c1 ^ k0) >>> 0, low2, (high0 ^ c3 ^ k1) >>> 0, low0];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return [c0, c1, c2, c3];
}
