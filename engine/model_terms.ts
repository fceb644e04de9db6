/** Formats, weight lists and the counter hash as rooms above the engine may use them; defines nothing. */
export { type Format, isAffine, parseAffine } from "../kernels/formats/affine.ts";
export { randomWord } from "../kernels/formats/random.ts";
export { weightList } from "../kernels/models/qwen35_config.ts";
