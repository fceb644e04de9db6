/** Every op, in id order. A new op goes to the end: ids are part of a tape's hash. */
import type { Op } from "./define.ts";
import { rmsNorm } from "./ops/rms_norm/op.ts";

export const OPS: readonly Op[] = [
  rmsNorm as unknown as Op,
];
