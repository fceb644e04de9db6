/**
 * What config.json says about quantised weights: the default group, exceptions per module, and the
 * schemes that are refused by name. The tensors themselves decide which module is quantised.
 */
import { shownName, UserError } from "../errors.ts";
import { canonicalModule } from "./names.ts";

export interface QuantizationRule {
  readonly group: number;
  /** Undefined where config.json names none. Compared with what the shapes say, never used instead. */
  readonly bits?: number;
  readonly mode: string;
}

/** Rule of a canonical weight; undefined where config.json says nothing that applies. */
export type QuantizationRules = (name: string) => QuantizationRule | undefined;

type Json = Readonly<Record<string, unknown>>;

const GROUPS = [16, 32, 64, 128];
const CHOOSE = "Choose an MLX affine 4-bit or 8-bit checkpoint, or the bf16 original.";
const EXPECTED = `expected MLX affine codes or dense weights`;

/** Reads `quantization`, or `quantization_config` in its MLX meaning. Throws UserError. */
export function parseQuantization(json: Json, where: string): QuantizationRules {
  refuseOtherSchemes(json, where);
  const value = json.quantization ?? json.quantization_config;
  if (value === undefined || value === null) return () => undefined;
  if (!isObject(value)) {
    throw new UserError(
      `${where}: quantization is not an object; expected group_size, bits and mode. ${CHOOSE}`,
    );
  }
  const base = parseRule(value, "quantization", where, { group: 64, mode: "affine" });
  const byModule = new Map<string, QuantizationRule | undefined>();
  for (const [key, rule] of Object.entries(value)) {
    const name = typeof rule === "object" || typeof rule === "boolean"
      ? canonicalModule(key)
      : undefined;
    if (name === undefined) continue;
    byModule.set(
      name,
      isObject(rule)
        ? parseRule(rule, key, where, { group: 64, mode: "affine" })
        : rule
        ? base
        : undefined,
    );
  }
  return (name) => byModule.has(name) ? byModule.get(name) : base;
}

/** Schemes of other tools keep their codes in tensors that no kernel here reads. */
function refuseOtherSchemes(json: Json, where: string): void {
  const text = isObject(json.text_config) ? json.text_config : {};
  for (const key of ["quantization_config", "compression_config", "quantization"]) {
    for (const value of [json[key], text[key]]) {
      if (!isObject(value)) continue;
      const scheme = value.quant_method ?? value.quant_algo ?? value.quant_type;
      if (scheme === undefined || scheme === null || scheme === "mlx") continue;
      throw new UserError(
        `${where}: ${key} names ${
          shownName(String(scheme))
        }, a quantisation that is not supported; ` +
          `${EXPECTED}. ${CHOOSE}`,
      );
    }
  }
}

function parseRule(
  value: Json,
  key: string,
  where: string,
  otherwise: QuantizationRule,
): QuantizationRule {
  const group = value.group_size ?? otherwise.group;
  const mode = value.mode ?? otherwise.mode;
  const at = `${where}: ${key === "quantization" ? key : `quantization of ${shownName(key)}`}`;
  if (mode !== "affine") {
    throw new UserError(`${at} has mode ${shownName(String(mode))}; expected affine. ${CHOOSE}`);
  }
  if (!GROUPS.some((g) => g === group)) {
    const expected = `expected ${GROUPS.join(", ")}`;
    throw new UserError(`${at} has group_size ${shownName(String(group))}; ${expected}. ${CHOOSE}`);
  }
  const { bits } = value;
  if (bits === undefined || bits === null) return { group: group as number, mode };
  if (!Number.isInteger(bits)) {
    throw new UserError(`${at} has bits ${shownName(String(bits))}; expected 4 or 8. ${CHOOSE}`);
  }
  return { group: group as number, bits: bits as number, mode };
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
