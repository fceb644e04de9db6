/**
 * Tensor data: byte ranges read in bounded pieces, and dense values widened to f32. Knows no names and
 * decides nothing about formats.
 */
import type { DenseFormat } from "../../kernels/formats/affine.ts";
import { f16ToNumber } from "../../kernels/formats/float.ts";
import { readFully } from "./safetensors.ts";

/** Bytes of one file. */
export interface Range {
  /** Index in Checkpoint.files, and the path found there. */
  readonly file: number;
  readonly path: string;
  readonly offset: number;
  readonly bytes: number;
}

/** Receives the parts of a weight (0 values or codes, 1 scales, 2 biases) in order, piece by piece. */
export type Sink = (part: 0 | 1 | 2, offset: number, bytes: Uint8Array<ArrayBuffer>) => void;

const PIECE_BYTES = 4 << 20;

/** Reads a range whole: for what is small, such as a norm. */
export async function readRange(range: Range): Promise<Uint8Array<ArrayBuffer>> {
  using file = await Deno.open(range.path);
  await file.seek(range.offset, Deno.SeekMode.Start);
  const bytes = new Uint8Array(range.bytes);
  await readFully(file, bytes);
  return bytes;
}

/** Reads a range in pieces; each is valid until the next one is asked for. */
async function* readPieces(range: Range): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  using file = await Deno.open(range.path);
  await file.seek(range.offset, Deno.SeekMode.Start);
  const piece = new Uint8Array(Math.min(range.bytes, PIECE_BYTES));
  for (let left = range.bytes; left > 0;) {
    const part = piece.subarray(0, Math.min(left, piece.length));
    await readFully(file, part);
    left -= part.length;
    yield part;
  }
}

/** Dense values as f32; exact for every dense format. */
export function widen(
  format: DenseFormat,
  bytes: Uint8Array<ArrayBuffer>,
): Float32Array<ArrayBuffer> {
  const { buffer } = bytes.slice();
  if (format === "f32") return new Float32Array(buffer);
  const halves = new Uint16Array(buffer);
  const out = new Float32Array(halves.length);
  if (format === "bf16") {
    const words = new Uint32Array(out.buffer);
    for (let i = 0; i < halves.length; i++) words[i] = halves[i] << 16;
  } else for (let i = 0; i < halves.length; i++) out[i] = f16ToNumber(halves[i]);
  return out;
}

/** Copies ranges one after another into a part of the sink. */
export async function copyRanges(
  ranges: readonly Range[],
  part: 0 | 1 | 2,
  sink: Sink,
): Promise<void> {
  let offset = 0;
  for (const range of ranges) {
    for await (const piece of readPieces(range)) {
      sink(part, offset, piece);
      offset += piece.length;
    }
  }
}
