/** Formats, weight lists, row limits and the counter hash as rooms above the engine may use them; defines nothing. */
export { type Format, isAffine, parseAffine } from "../kernels/formats/affine.ts";
export { randomWord } from "../kernels/formats/random.ts";
export { type Plan, ROWS_MAX } from "../kernels/models/forward.ts";
export { weightList } from "../kernels/models/qwen35_weights.ts";
