/**
 * A checkpoint's tokenizer: text to ids, ids to text, special and stop ids, sampling defaults. Takes
 * file texts, reads no files; chat templates are chat.ts's.
 */
import * as v from "valibot";
import { Tokenizer as Encoder } from "tokenizers";
import { UserError } from "./errors.ts";
import { parseGenerationConfig, type Sampling } from "./generation_config.ts";
import { parseJson, shorten } from "./json.ts";
import { bytesRule, type DecoderSpec, StreamDecoder, TokenBytes } from "./token_bytes.ts";

export { StreamDecoder } from "./token_bytes.ts";

/** Texts of the files beside the weights. */
export interface TokenizerFiles {
  readonly tokenizerJson: string;
  readonly tokenizerConfig?: string;
  readonly generationConfig?: string;
  readonly chatTemplate?: string;
}

/** Names that chat templates may use; null where the checkpoint has none. */
export interface SpecialTokens {
  readonly bos: string | null;
  readonly eos: string | null;
  readonly pad: string | null;
  readonly unk: string | null;
}

const MAX_ID = 1 << 22;
const id = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(MAX_ID));
const object = v.looseObject({ type: v.string() });

const vocabulary = v.custom<Record<string, number>>(
  (x) =>
    typeof x === "object" && x !== null && !Array.isArray(x) &&
    Object.values(x).every((n) => Number.isInteger(n) && n >= 0 && n <= MAX_ID),
  "Expected an object from token to id",
);
const merges = v.custom<(string | [string, string])[]>(
  (x) => Array.isArray(x) && (x.every(isSpacedPair) || x.every(isPair)),
  'Expected a list of "left right" or ["left", "right"]',
);

function isSpacedPair(x: unknown): boolean {
  return typeof x === "string" && x.includes(" ");
}

function isPair(x: unknown): boolean {
  return Array.isArray(x) && x.length === 2 && x.every((part) => typeof part === "string");
}

const tokenizerSchema = v.looseObject({
  model: v.looseObject({
    type: v.literal("BPE", "Expected BPE: other tokenizer models are not supported"),
    vocab: vocabulary,
    merges,
  }),
  added_tokens: v.optional(
    v.array(v.looseObject({ id, content: v.string(), special: v.optional(v.boolean()) })),
    [],
  ),
  decoder: v.nullish(v.custom<DecoderSpec>((x) => v.is(object, x), "Expected an object")),
  normalizer: v.nullish(object),
  pre_tokenizer: v.nullish(object),
  post_processor: v.nullish(object),
});
type TokenizerJson = v.InferOutput<typeof tokenizerSchema>;

const token = v.nullish(v.union(
  [v.string(), v.looseObject({ content: v.string() })],
  "Expected a token or null",
));
const configSchema = v.looseObject({
  bos_token: token,
  eos_token: token,
  pad_token: token,
  unk_token: token,
});

function specialTokens(text: string | undefined): SpecialTokens {
  if (text === undefined) return { bos: null, eos: null, pad: null, unk: null };
  const c = parseJson("tokenizer_config.json", text, configSchema);
  const name = (t: v.InferOutput<typeof token>) => typeof t === "string" ? t : t?.content ?? null;
  return {
    bos: name(c.bos_token),
    eos: name(c.eos_token),
    pad: name(c.pad_token),
    unk: name(c.unk_token),
  };
}

function makeEncoder(json: TokenizerJson): Encoder {
  const { normalizer = null, pre_tokenizer = null, post_processor = null, decoder = null } = json;
  // No tokenizer_config.json for the library: its settings there (space clean-up, lower case) belong
  // to slow Python tokenizers; the fast ones, whose ids count, go by tokenizer.json alone.
  try {
    return new Encoder({ ...json, normalizer, pre_tokenizer, post_processor, decoder }, {});
  } catch (e) {
    throw new UserError(`tokenizer.json: ${shorten((e as Error).message)}`);
  }
}

/** One more than the largest id; refuses two tokens with one id. */
function countIds(json: TokenizerJson): number {
  const tokenOf: string[] = [];
  const claim = (content: string, n: number) => {
    if ((tokenOf[n] ?? content) !== content) {
      throw new UserError(
        `tokenizer.json: id ${n} is both ${JSON.stringify(tokenOf[n])} and ${
          JSON.stringify(content)
        }`,
      );
    }
    tokenOf[n] = content;
  };
  for (const [content, n] of Object.entries(json.model.vocab)) claim(content, n);
  if (tokenOf.length === 0) throw new UserError("tokenizer.json: model.vocab: it is empty");
  for (const t of json.added_tokens) claim(t.content, t.id);
  return tokenOf.length;
}

export class Tokenizer {
  /** Real ids are 0..size-1; a model's logits beyond are padding and must not be sampled. */
  readonly size: number;
  /** Ids that steer rather than say something; not printed unless asked for. */
  readonly specialIds: ReadonlySet<number>;
  /** Any of these ends a text: the union of what all files of the checkpoint name. */
  readonly stopIds: readonly number[];
  readonly specialTokens: SpecialTokens;
  /** generation_config.json's sampling. */
  readonly sampling: Sampling;
  readonly #encoder: Encoder;
  readonly #bytes: TokenBytes;

  constructor(files: TokenizerFiles, eosFromConfig: readonly number[]) {
    const json = parseJson("tokenizer.json", files.tokenizerJson, tokenizerSchema);
    const rule = bytesRule(json.decoder);
    this.size = countIds(json);
    this.#encoder = makeEncoder(json);
    const added = new Set(json.added_tokens.map((t) => t.id));
    this.#bytes = new TokenBytes(rule, (n) => this.#encoder.id_to_token(n), (n) => added.has(n));
    this.specialIds = new Set(json.added_tokens.filter((t) => t.special).map((t) => t.id));
    this.specialTokens = specialTokens(files.tokenizerConfig);
    const generation = parseGenerationConfig(files.generationConfig);
    this.sampling = generation.sampling;
    // Published configs disagree: chat text ends with <|im_end|> while config.json may name only
    // <|endoftext|>, so a text would run on past its end.
    const named = [this.specialTokens.eos, "<|im_end|>"].map((t) => t ? this.idOf(t) : undefined);
    const ids = [...eosFromConfig, ...generation.eosIds, ...named];
    this.stopIds = [...new Set(ids)].filter((n): n is number => n !== undefined && n < this.size)
      .sort((a, b) => a - b);
  }

  /** The id of one token's exact content. */
  idOf(content: string): number | undefined {
    return this.#encoder.token_to_id(content);
  }

  /**
   * Text to ids. Special tokens written in the text become their ids. `special` (default true) also
   * adds what the tokenizer puts around a text, such as Gemma's BOS, unless the text begins with it;
   * pass false for a rendered chat template, which holds its own.
   */
  encode(text: string, { special = true }: { special?: boolean } = {}): Uint32Array {
    const bos = this.specialTokens.bos;
    const add = special && !(bos && text.startsWith(bos));
    if (text === "" && !add) return new Uint32Array();
    return Uint32Array.from(
      this.#encoder.encode(text.toWellFormed(), { add_special_tokens: add }).ids,
    );
  }

  /** Ids to text; bytes that are not UTF-8 become U+FFFD. `special` true prints special tokens too. */
  decode(ids: Iterable<number>, options: { special?: boolean } = {}): string {
    const stream = this.streamDecoder(options);
    let text = "";
    for (const n of ids) text += stream.push(n);
    return text + stream.end();
  }

  /** A decoder for ids that come one by one. `special` true prints special tokens too. */
  streamDecoder({ special = false }: { special?: boolean } = {}): StreamDecoder {
    return new StreamDecoder(this.#bytes, special ? new Set() : this.specialIds);
  }

  /** The bytes of one id, as decode joins them. */
  bytesOf(n: number): Uint8Array {
    return this.#bytes.of(n);
  }
}

/** Builds a tokenizer from its files' texts; `eosFromConfig` is what config.json names. Throws UserError. */
export function loadTokenizer(
  files: TokenizerFiles,
  eosFromConfig: readonly number[],
): Tokenizer {
  return new Tokenizer(files, eosFromConfig);
}
