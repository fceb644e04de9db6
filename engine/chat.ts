/**
 * Messages to prompt text, through the template that the checkpoint carries. Owns finding, compiling
 * and rendering it as transformers does; no template is built in.
 */
import * as v from "valibot";
import { Template } from "jinja";
import { UserError } from "./errors.ts";
import { parseJson, shorten } from "./json.ts";
import type { SpecialTokens, TokenizerFiles } from "./tokenizer.ts";

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

export interface ChatRequest {
  readonly messages: readonly ChatMessage[];
  /** Ends the text where the assistant's answer begins. */
  readonly addGenerationPrompt: boolean;
  /** Undefined leaves it to the template. */
  readonly enableThinking?: boolean;
  /** Tool declarations, passed on as they are. */
  readonly tools?: readonly unknown[];
}

/** A compiled template with the special tokens that it may name. */
export interface ChatTemplate {
  readonly source: string;
  readonly compiled: Template;
  readonly tokens: SpecialTokens;
}

const named = v.array(v.object({ name: v.string(), template: v.string() }));
const configSchema = v.looseObject({
  chat_template: v.nullish(v.union(
    [v.string(), named, v.record(v.string(), v.string())],
    "Expected a template or a list of named ones",
  )),
});

/** The template text of a checkpoint: chat_template.jinja, else tokenizer_config.json's. */
function findSource(files: Omit<TokenizerFiles, "tokenizerJson">): string | null {
  if (files.chatTemplate !== undefined) return files.chatTemplate;
  if (files.tokenizerConfig === undefined) return null;
  const found = parseJson("tokenizer_config.json", files.tokenizerConfig, configSchema)
    .chat_template;
  if (found === null || found === undefined || typeof found === "string") return found ?? null;
  const byName = Array.isArray(found)
    ? Object.fromEntries(found.map((t) => [t.name, t.template]))
    : found;
  if (byName.default !== undefined) return byName.default;
  const names = Object.keys(byName);
  if (names.length === 1) return byName[names[0]];
  throw new UserError(
    `tokenizer_config.json: none of the chat templates is named default: ${names.join(", ")}`,
  );
}

/** Null when the checkpoint has no chat template. Throws UserError for a broken one. */
export function loadChatTemplate(
  files: Omit<TokenizerFiles, "tokenizerJson">,
  tokens: SpecialTokens,
): ChatTemplate | null {
  const source = findSource(files);
  if (source === null) return null;
  try {
    return { source, compiled: new Template(source), tokens };
  } catch (e) {
    throw new UserError(`chat template: ${shorten((e as Error).message)}`);
  }
}

/** The prompt text; encode it with `special: false`. Throws UserError when the template refuses. */
export function renderChat(template: ChatTemplate, request: ChatRequest): string {
  const { bos, eos, pad, unk } = template.tokens;
  const variables: Record<string, unknown> = {
    messages: request.messages,
    add_generation_prompt: request.addGenerationPrompt,
    tools: request.tools ?? null,
    documents: null,
    bos_token: bos ?? "",
    eos_token: eos ?? "",
    pad_token: pad ?? "",
    unk_token: unk ?? "",
  };
  // Templates ask `is defined`, so an unset value must be absent rather than null.
  if (request.enableThinking !== undefined) variables.enable_thinking = request.enableThinking;
  try {
    return template.compiled.render(variables);
  } catch (e) {
    // Also what a template says through raise_exception, such as "System message must be first".
    throw new UserError(`chat template: ${shorten((e as Error).message)}`);
  }
}
