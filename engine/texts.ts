/** The texts beside a checkpoint's tensors: tokenizer, chat template and sampling defaults, read and checked. */
import { type ChatTemplate, loadChatTemplate } from "./chat.ts";
import type { Checkpoint, TextFile } from "./checkpoint/folder.ts";
import { UserError } from "./errors.ts";
import { loadTokenizer, type Tokenizer, type TokenizerFiles } from "./tokenizer.ts";

export interface Texts {
  readonly tokenizer: Tokenizer;
  /** Compiled when it is first asked for, as most texts need none. Throws UserError where it is broken. */
  readonly chatTemplate: ChatTemplate | null;
}

class FolderTexts implements Texts {
  readonly tokenizer: Tokenizer;
  #template: ChatTemplate | null | undefined;

  constructor(readonly checkpoint: Checkpoint, readonly files: TokenizerFiles) {
    this.tokenizer = told(checkpoint, () => loadTokenizer(files, eosOf(checkpoint.json)));
  }

  get chatTemplate(): ChatTemplate | null {
    if (this.#template === undefined) {
      const { specialTokens } = this.tokenizer;
      this.#template = told(this.checkpoint, () => loadChatTemplate(this.files, specialTokens));
    }
    return this.#template;
  }
}

/** Null where there is no tokenizer.json. Throws UserError that names the folder. */
export async function loadTexts(checkpoint: Checkpoint): Promise<Texts | null> {
  const read = async (name: TextFile) => {
    const path = checkpoint.texts[name];
    return path === undefined ? undefined : await Deno.readTextFile(path);
  };
  const tokenizerJson = await read("tokenizer.json");
  if (tokenizerJson === undefined) return null;
  const files: TokenizerFiles = { tokenizerJson };
  const tokenizerConfig = await read("tokenizer_config.json");
  const generationConfig = await read("generation_config.json");
  const chatTemplate = await read("chat_template.jinja");
  const all = {
    ...files,
    ...(tokenizerConfig === undefined ? {} : { tokenizerConfig }),
    ...(generationConfig === undefined ? {} : { generationConfig }),
    ...(chatTemplate === undefined ? {} : { chatTemplate }),
  };
  return new FolderTexts(checkpoint, all);
}

/** Refusals with the folder that they are about. */
function told<T>(checkpoint: Checkpoint, load: () => T): T {
  try {
    return load();
  } catch (e) {
    if (!(e instanceof UserError)) throw e;
    throw new UserError(
      `In ${checkpoint.folder}: ${e.message}. Use the files that were published with the tensors.`,
      { cause: e },
    );
  }
}

/** eos_token_id of config.json, at the top and in text_config. */
function eosOf(json: Readonly<Record<string, unknown>>): number[] {
  const inner = json.text_config as Record<string, unknown> | undefined;
  return [json.eos_token_id, inner?.eos_token_id].flat().filter((x) => typeof x === "number");
}
