/**
 * Whether the norms of a Qwen3.5 checkpoint are stored centred (Hugging Face: 1 is still to be added)
 * or plain (MLX: it has been). Looks at layouts, never at values.
 */
import { UserError } from "../errors.ts";
import { counted } from "../wording.ts";
import type { Inventory } from "./inventory.ts";
import type { SafetensorsFile } from "./safetensors.ts";

export interface NormStorage {
  readonly centred: boolean;
  /** What told, for inspection. */
  readonly evidence: string;
}

/** Canonical norms that a centred file stores without their 1; the gated GDN norm is not one. */
export function isShiftedNorm(name: string): boolean {
  return /(^finalNorm|^mtp\.(embedNorm|hiddenNorm|norm)|\.inputNorm|\.postNorm|\.attn\.[qk]Norm)$/
    .test(name);
}

/**
 * The axis of the convolution tells: raw files hold [C, 1, 4], converted ones [C, 4, 1]. Only without
 * either the `format` in the metadata is asked. When nothing tells, the error to throw once it matters.
 */
export function normStorage(
  path: string,
  inventory: Inventory,
  files: readonly SafetensorsFile[],
): NormStorage | UserError {
  const shapes = [...inventory.modules].filter(([name]) => name.endsWith(".gdn.conv"))
    .flatMap(([, modules]) => modules.map((m) => m.parts.weight?.shape ?? []));
  const raw = shapes.filter((s) => s.length === 3 && s[1] === 1).length;
  const converted = shapes.filter((s) => s.length === 3 && s[2] === 1).length;
  if (raw > 0 && converted > 0) {
    return new UserError(
      `Checkpoint ${path} mixes ${counted(raw, "convolution")} of [C, 1, 4] with ${converted} of ` +
        `[C, 4, 1]; ` +
        `expected one layout, as it tells how norms are stored. Convert it again from the original.`,
    );
  }
  if (raw > 0) return { centred: true, evidence: "conv1d [C, 1, 4]" };
  if (converted > 0) return { centred: false, evidence: "conv1d [C, 4, 1]" };
  const formats = new Set(
    files.map((f) => f.metadata.get("format")).filter((f) => f !== undefined),
  );
  if (formats.size === 1 && formats.has("pt")) {
    return { centred: true, evidence: "metadata format pt" };
  }
  if (formats.size === 1 && formats.has("mlx")) {
    return { centred: false, evidence: "metadata format mlx" };
  }
  return new UserError(
    `Checkpoint ${path} does not tell whether its norms are stored with the 1 added; expected conv1d ` +
      `of [C, 1, 4] or [C, 4, 1], or metadata format "pt" or "mlx". Convert it again from the original.`,
  );
}
