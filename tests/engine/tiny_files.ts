/** The built-in model's tokenizer files, for tests. */
import { loadTokenizer, type TokenizerFiles } from "../../engine/tokenizer.ts";

const TINY = new URL("../../models/tiny-mlx-4bit/", import.meta.url);
const read = (name: string) => Deno.readTextFileSync(new URL(name, TINY));

export const tinyFiles: TokenizerFiles = {
  tokenizerJson: read("tokenizer.json"),
  tokenizerConfig: read("tokenizer_config.json"),
  generationConfig: read("generation_config.json"),
  chatTemplate: read("chat_template.jinja"),
};

export const tiny = loadTokenizer(tinyFiles, [4093]);
