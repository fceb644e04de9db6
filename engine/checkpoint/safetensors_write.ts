/** Writes safetensors files, streaming: headers from shapes, data piece by piece. Reads none. */
import { Buffer } from "node:buffer";

const BYTES: Readonly<Record<string, number>> = { U32: 4, F32: 4, I32: 4, BF16: 2, F16: 2, U8: 1 };

export interface TensorHead {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
}

export interface TensorToWrite extends TensorHead {
  /** Its bytes in order, each piece valid until the next is asked for; zeros when absent. */
  readonly data?: () => Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

export function tensorBytes(t: TensorHead): number {
  return t.shape.reduce((a, b) => a * b, 1) * (BYTES[t.dtype] ?? 1);
}

/** The JSON of a header, padded as the format's own writer does. */
export function headerBytes(
  tensors: readonly TensorHead[],
  metadata?: Readonly<Record<string, string>>,
): Uint8Array<ArrayBuffer> {
  const json: Record<string, unknown> = metadata ? { __metadata__: metadata } : {};
  let at = 0;
  for (const t of tensors) {
    const end = at + tensorBytes(t);
    json[t.name] = { dtype: t.dtype, shape: t.shape, data_offsets: [at, end] };
    at = end;
  }
  const text = JSON.stringify(json);
  return new TextEncoder().encode(text + " ".repeat(-Buffer.byteLength(text) & 7));
}

/** The first bytes of a file: length and header. */
export function fileHead(header: Uint8Array, length = header.length): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(8 + header.length);
  new DataView(out.buffer).setBigUint64(0, BigInt(length), true);
  out.set(header, 8);
  return out;
}

/** `onTensor` is called after each tensor with its bytes; an aborted signal's reason is thrown between two pieces. */
export async function writeSafetensors(
  path: string,
  tensors: readonly TensorToWrite[],
  metadata?: Readonly<Record<string, string>>,
  onTensor?: (bytes: number) => void,
  signal?: AbortSignal,
): Promise<void> {
  using file = await Deno.open(path, { write: true, create: true, truncate: true });
  const head = fileHead(headerBytes(tensors, metadata));
  let end = head.length;
  await writeAll(file, head);
  for (const t of tensors) {
    end += tensorBytes(t);
    if (!t.data) await file.truncate(end);
    else {
      for await (const piece of t.data()) {
        signal?.throwIfAborted();
        await writeAll(file, piece);
      }
    }
    await file.seek(end, Deno.SeekMode.Start);
    onTensor?.(tensorBytes(t));
  }
}

async function writeAll(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
}
