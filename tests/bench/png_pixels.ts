/** Reads the PNG files that tests look at: 8-bit RGBA, not interlaced. */
import { inflateSync } from "node:zlib";

export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly rgba: Uint8Array;
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const BYTES = 4;

/** Decodes a file; throws for anything but the one form above. */
export function decodePng(file: Uint8Array): Pixels {
  if (SIGNATURE.some((b, i) => file[i] !== b)) throw new Error("not a PNG");
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const data: Uint8Array[] = [];
  let width = 0, height = 0;
  for (let at = 8; at < file.length;) {
    const length = view.getUint32(at),
      type = new TextDecoder().decode(file.subarray(at + 4, at + 8));
    const body = at + 8;
    if (type === "IHDR") {
      width = view.getUint32(body);
      height = view.getUint32(body + 4);
      const form = [...file.subarray(body + 8, body + 13)].join();
      if (form !== "8,6,0,0,0") throw new Error(`form ${form}`);
    } else if (type === "IDAT") data.push(file.subarray(body, body + length));
    at = body + length + 4;
  }
  return { width, height, rgba: unfilter(inflateSync(join(data)), width, height) };
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function unfilter(raw: Uint8Array, width: number, height: number): Uint8Array {
  const line = width * BYTES, out = new Uint8Array(line * height);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (line + 1)];
    for (let i = 0; i < line; i++) {
      const left = i < BYTES ? 0 : out[y * line + i - BYTES];
      const up = y === 0 ? 0 : out[(y - 1) * line + i];
      const corner = i < BYTES || y === 0 ? 0 : out[(y - 1) * line + i - BYTES];
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[y * line + i] = raw[y * (line + 1) + 1 + i] + guess;
    }
  }
  return out;
}

function paeth(left: number, up: number, corner: number): number {
  const p = left + up - corner;
  const a = Math.abs(p - left), b = Math.abs(p - up), c = Math.abs(p - corner);
  return a <= b && a <= c ? left : b <= c ? up : corner;
}

/** Share of pixels of a rectangle that are darker than middle grey. */
export function darkShare(p: Pixels, x: number, y: number, width: number, height: number): number {
  let dark = 0;
  for (let j = y; j < y + height; j++) {
    for (let i = x; i < x + width; i++) {
      const at = (j * p.width + i) * BYTES;
      if (p.rgba[at] + p.rgba[at + 1] + p.rgba[at + 2] < 3 * 128) dark++;
    }
  }
  return dark / (width * height);
}
