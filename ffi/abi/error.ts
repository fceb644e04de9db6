/** The one place where a native status becomes a TypeScript error. */
import { ERROR_BYTES, ERROR_TEXT_AT, NO_RECORD, STATUS } from "./layout.ts";

/** A failure inside the library or its device. `status` is one of layout.ts's STATUS. */
export class NativeError extends Error {
  override readonly name = "NativeError";
  constructor(
    message: string,
    readonly status: number,
    /** Index of the tape record at fault, if one is. */
    readonly record: number | null,
    /** errno or the backend's own code; 0 when there is none. */
    readonly backendCode: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
  /** True when the caller can fix it: a refused argument or tape. */
  get refused(): boolean {
    return this.status === STATUS.refused;
  }
}

/** A caller-owned error block, reused for every call of one thread of control. */
export function errorBlock(): Uint8Array<ArrayBuffer> {
  return new Uint8Array(ERROR_BYTES);
}

/** Throws what the block says when `status` is not ok. */
export function check(status: number, block: Uint8Array<ArrayBuffer>): void {
  if (status === STATUS.ok) return;
  const view = new DataView(block.buffer, block.byteOffset);
  const text = block.subarray(ERROR_TEXT_AT);
  const end = text.indexOf(0);
  const record = view.getUint32(4, true);
  throw new NativeError(
    new TextDecoder().decode(text.subarray(0, end < 0 ? text.length : end)),
    status,
    record === NO_RECORD ? null : record,
    view.getInt32(8, true),
  );
}
