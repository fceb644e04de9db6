/**
 * The bytes that each token id stands for, and the two decoders built on them: whole sequences and
 * streams. Knows byte-level BPE (Qwen) and byte-fallback BPE (Gemma); does not encode.
 */
import { UserError } from "./errors.ts";

/** The `decoder` part of tokenizer.json, as far as it is read here. */
export interface DecoderSpec {
  readonly type: string;
  readonly decoders?: readonly DecoderSpec[];
  readonly pattern?: { readonly String?: string };
  readonly content?: string;
}

type ToBytes = (token: string) => Uint8Array;

const utf8 = new TextEncoder();

/** GPT-2's map: printable Latin-1 stands for itself, the other 68 bytes for U+0100 onwards. */
const BYTE_OF_CHAR: ReadonlyMap<string, number> = (() => {
  const printable = (b: number) =>
    (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
  const map = new Map<string, number>();
  let other = 0x100;
  for (let b = 0; b < 256; b++) map.set(String.fromCharCode(printable(b) ? b : other++), b);
  return map;
})();

function byteLevel(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTE_OF_CHAR.get(token[i]);
    // A token outside the map is literal text, as in Hugging Face's tokenizers.
    if (byte === undefined) return utf8.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}

function byteFallback(replacements: readonly [string, string][]): ToBytes {
  return (token) => {
    const hex = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
    if (hex) return Uint8Array.of(parseInt(hex[1], 16));
    return utf8.encode(replacements.reduce((text, [from, to]) => text.replaceAll(from, to), token));
  };
}

/** Chooses the token-to-bytes rule that tokenizer.json's decoder asks for. Throws UserError. */
export function bytesRule(decoder: DecoderSpec | null | undefined): ToBytes {
  const steps = decoder?.type === "Sequence" ? decoder.decoders ?? [] : decoder ? [decoder] : [];
  const kinds = steps.map((s) => s.type).filter((type) => type !== "Fuse");
  if (kinds.length === 1 && kinds[0] === "ByteLevel") return byteLevel;
  const fallback = kinds.includes("ByteFallback") &&
    kinds.every((k) => k === "ByteFallback" || k === "Replace");
  const replacements = steps.filter((s) => s.type === "Replace")
    .map((s): [string, string] => [s.pattern?.String ?? "", s.content ?? ""]);
  if (fallback && replacements.every(([from]) => from !== "")) return byteFallback(replacements);
  throw new UserError(
    `tokenizer.json: decoder ${kinds.join("+") || "null"} is not supported: ` +
      "expected ByteLevel, or Replace and ByteFallback",
  );
}

/** Token id to bytes, worked out once an id. */
export class TokenBytes {
  readonly #known: (Uint8Array | undefined)[] = [];
  readonly #rule: ToBytes;
  readonly #text: (id: number) => string | undefined;
  readonly #literal: (id: number) => boolean;

  /** `literal` ids (added tokens) stand for their own text, not for byte characters. */
  constructor(
    rule: ToBytes,
    text: (id: number) => string | undefined,
    literal: (id: number) => boolean,
  ) {
    this.#rule = rule;
    this.#text = text;
    this.#literal = literal;
  }

  /** Empty for an id that the vocabulary does not have. */
  of(id: number): Uint8Array {
    const known = this.#known[id];
    if (known) return known;
    const token = this.#text(id) ?? "";
    const bytes = this.#literal(id) ? utf8.encode(token) : this.#rule(token);
    return this.#known[id] = bytes;
  }
}

/**
 * Turns ids into text one by one. A character whose bytes are spread over tokens comes out with its
 * last byte; bytes that can no longer become a character come out as U+FFFD at once, so at most
 * three bytes are ever held back.
 */
export class StreamDecoder {
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #bytes: TokenBytes;
  readonly #hidden: ReadonlySet<number>;

  /** Ids in `hidden` (special tokens) give no text. */
  constructor(bytes: TokenBytes, hidden: ReadonlySet<number>) {
    this.#bytes = bytes;
    this.#hidden = hidden;
  }

  /** The text that became certain with this token; often "". */
  push(id: number): string {
    if (this.#hidden.has(id)) return "";
    return this.#utf8.decode(this.#bytes.of(id), { stream: true });
  }

  /** The rest: "" or one U+FFFD for a character that was never finished. Ready for a new text. */
  end(): string {
    return this.#utf8.decode();
  }
}
