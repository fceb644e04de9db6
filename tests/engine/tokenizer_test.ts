/** The tokenizer: ids against golden ones, special and stop ids, streaming, and refusals of broken files. */
import assert from "node:assert/strict";
import { UserError } from "../../engine/errors.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { loadTokenizer, type TokenizerFiles } from "../../engine/tokenizer.ts";
import { below, pick, type Random, seeded } from "../random.ts";
import { tiny, tinyFiles } from "./tiny_files.ts";

const golden: {
  prompts: { text: string; ids: number[]; bf16w: { greedy_ids: number[]; greedy_text: string } }[];
} = JSON.parse(
  Deno.readTextFileSync(new URL("../fixtures/tiny/golden.json", import.meta.url)),
);

const IM_START = 4094, IM_END = 4095;
const SIZE = 4096;

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (e) {
    assert.ok(e instanceof UserError, `expected a UserError, got ${e}`);
    assert.doesNotMatch(e.message, /\n/);
    return e.message;
  }
  assert.fail("expected a UserError");
}

Deno.test("ids and texts are the golden ones", () => {
  for (const p of golden.prompts) {
    assert.deepEqual([...tiny.encode(p.text)], p.ids);
    assert.equal(tiny.decode(p.ids), p.text);
    assert.equal(tiny.decode(p.bf16w.greedy_ids), p.bf16w.greedy_text);
  }
});

Deno.test("special tokens are matched before the splitting regex, in any surroundings", () => {
  const user = [...tiny.encode("user\nhi")];
  assert.deepEqual([...tiny.encode("<|im_start|>user\nhi<|im_end|>")], [IM_START, ...user, IM_END]);
  assert.deepEqual([...tiny.encode("user\nhi<|im_end|><|im_end|>")], [...user, IM_END, IM_END]);
  assert.ok(!tiny.encode("<|im_end|").includes(IM_END));
  assert.ok(!tiny.encode("<|IM_END|>").includes(IM_END));
});

Deno.test("text is normalised to NFC", () => {
  assert.deepEqual(tiny.encode("cafe\u0301"), tiny.encode("caf\u00e9"));
  assert.deepEqual(tiny.encode("\u1112\u1161\u11ab"), tiny.encode("\ud55c"));
});

Deno.test("lone surrogates become U+FFFD; the empty text has no ids", () => {
  assert.deepEqual(tiny.encode("a\ud800b"), tiny.encode("a\ufffdb"));
  assert.equal(tiny.encode("").length, 0);
  assert.equal(tiny.decode([]), "");
});

Deno.test("size, special ids and stop ids", () => {
  assert.equal(tiny.size, SIZE);
  assert.deepEqual([...tiny.specialIds].sort(), [4093, IM_START, IM_END]);
  assert.deepEqual(tiny.stopIds, [4093, IM_END]);
});

Deno.test("stop ids are the union of all sources; ids that the tokenizer lacks are dropped", () => {
  const bare = loadTokenizer({ tokenizerJson: tinyFiles.tokenizerJson }, []);
  assert.deepEqual(bare.stopIds, [IM_END]);
  const union = loadTokenizer({
    tokenizerJson: tinyFiles.tokenizerJson,
    tokenizerConfig: '{"eos_token": {"content": "<|im_start|>", "special": true}}',
    generationConfig: '{"eos_token_id": 7}',
  }, [3, SIZE]);
  assert.deepEqual(union.stopIds, [3, 7, IM_START, IM_END]);
});

Deno.test("sampling comes from generation_config.json", () => {
  const sampling = (generationConfig?: string) =>
    loadTokenizer({ tokenizerJson: tinyFiles.tokenizerJson, generationConfig }, []).sampling;
  assert.deepEqual(tiny.sampling, { ...GREEDY, temperature: 0.8, topK: 40, topP: 0.95 });
  assert.deepEqual(sampling(), GREEDY);
  assert.deepEqual(sampling("{}"), GREEDY);
  assert.equal(sampling('{"do_sample": true}').temperature, 1);
  assert.equal(sampling('{"temperature": 0.6}').temperature, 0.6);
  const greedy = sampling('{"do_sample": false, "temperature": 0.6, "repetition_penalty": 1.1}');
  assert.equal(greedy.temperature, 0);
  assert.equal(greedy.repeatPenalty, 1.1);
});

Deno.test("broken files are refused in one line that names the file and the place", () => {
  const json = JSON.parse(tinyFiles.tokenizerJson);
  const changed = (change: (j: typeof json) => void): string => {
    const copy = structuredClone(json);
    change(copy);
    return JSON.stringify(copy);
  };
  const cases: [tokenizerJson: string, expected: RegExp][] = [
    ["", /^tokenizer\.json is not valid JSON/],
    ['{"model":\n\n oops', /^tokenizer\.json is not valid JSON/],
    ["[]", /^tokenizer\.json: /],
    ["{}", /^tokenizer\.json: model: /],
    [changed((j) => j.model.type = "Unigram"), /^tokenizer\.json: model\.type: Expected BPE/],
    [changed((j) => j.model.vocab.the = "1"), /^tokenizer\.json: model\.vocab: Expected/],
    [changed((j) => j.model.vocab.the = 1e12), /^tokenizer\.json: model\.vocab: Expected/],
    [changed((j) => j.model.vocab.the = 5), /^tokenizer\.json: id 5 is both .*"the"/],
    [changed((j) => j.model.merges[3] = [1, 2]), /^tokenizer\.json: model\.merges: Expected/],
    [changed((j) => j.model.vocab = {}), /^tokenizer\.json: model\.vocab: it is empty/],
    [changed((j) => j.added_tokens[0].id = -1), /^tokenizer\.json: added_tokens\.0\.id: /],
    [changed((j) => j.decoder = null), /^tokenizer\.json: decoder null is not supported/],
    [changed((j) => j.decoder.type = "WordPiece"), /^tokenizer\.json: decoder WordPiece/],
    [changed((j) => j.normalizer.type = "Nonsense"), /^tokenizer\.json: .*Nonsense/],
    [changed((j) => j.pre_tokenizer.pretokenizers[0].pattern.Regex = "("), /^tokenizer\.json: /],
  ];
  for (const [tokenizerJson, expected] of cases) {
    assert.match(refusal(() => loadTokenizer({ tokenizerJson }, [])), expected);
  }
  const beside: [Partial<TokenizerFiles>, RegExp][] = [
    [{ tokenizerConfig: "{" }, /^tokenizer_config\.json is not valid JSON/],
    [{ tokenizerConfig: '{"eos_token": 5}' }, /^tokenizer_config\.json: eos_token: Expected/],
    [{ generationConfig: '{"top_k": "many"}' }, /^generation_config\.json: top_k: /],
    [{ generationConfig: '{"top_p": 1.5}' }, /^generation_config\.json: top_p: /],
    [{ generationConfig: '{"eos_token_id": [1, -2]}' }, /^generation_config\.json: eos_token_id/],
  ];
  for (const [files, expected] of beside) {
    assert.match(refusal(() => loadTokenizer({ ...tinyFiles, ...files }, [])), expected);
  }
});

/** Text of all planes and lengths of UTF-8, with special tokens and combining marks strewn in. */
function randomText(random: Random): string {
  const ranges = [
    [0x20, 0x7e],
    [0, 0x1f],
    [0xa0, 0x7ff],
    [0x800, 0xd7ff],
    [0xe000, 0xffff],
    [
      0x10000,
      0x10ffff,
    ],
    [0x300, 0x36f],
    [0x1f300, 0x1f6ff],
  ];
  let text = "";
  for (let n = 1 + below(random, 60); n > 0; n--) {
    const [low, high] = pick(random, ranges);
    text += random() < 0.02
      ? "<|im_end|>"
      : String.fromCodePoint(low + below(random, high - low + 1));
  }
  return text;
}

Deno.test("streamed text equals the decoded text and the normalised input, for random Unicode", () => {
  const random = seeded(1);
  for (let i = 0; i < 400; i++) {
    const text = randomText(random);
    const ids = tiny.encode(text);
    assert.equal(tiny.decode(ids, { special: true }), text.normalize("NFC"), `text ${i}`);
    const stream = tiny.streamDecoder({ special: true });
    let streamed = "";
    for (const id of ids) {
      const piece = stream.push(id);
      assert.ok(piece.isWellFormed(), `half a character in text ${i}`);
      if (!text.includes("\ufffd")) assert.ok(!piece.includes("\ufffd"), `text ${i}`);
      streamed += piece;
    }
    assert.equal(streamed + stream.end(), text.normalize("NFC"), `text ${i}`);
  }
});

Deno.test("streamed text equals the decoded text for random ids, which are mostly not UTF-8", () => {
  const random = seeded(2);
  const bytes = Array.from({ length: 256 }, (_, id) => id);
  for (let i = 0; i < 400; i++) {
    const ids = Array.from(
      { length: 1 + below(random, 40) },
      () => random() < 0.5 ? pick(random, bytes) : below(random, SIZE),
    );
    const all = new Uint8Array(
      ids.filter((id) => !tiny.specialIds.has(id)).flatMap((id) => [...tiny.bytesOf(id)]),
    );
    const stream = tiny.streamDecoder();
    const streamed = ids.map((id) => stream.push(id)).join("") + stream.end();
    assert.equal(streamed, tiny.decode(ids));
    assert.equal(streamed, new TextDecoder("utf-8", { ignoreBOM: true }).decode(all));
  }
});

Deno.test("bytes that never become a character are not held back for ever", () => {
  const idOfByte = (byte: number) => {
    for (let id = 0; id < SIZE; id++) {
      const bytes = tiny.bytesOf(id);
      if (bytes.length === 1 && bytes[0] === byte) return id;
    }
    assert.fail(`no token for byte ${byte}`);
  };
  for (const byte of [0x80, 0xbf, 0xc0, 0xe2, 0xf0, 0xff]) {
    const id = idOfByte(byte);
    const stream = tiny.streamDecoder();
    let length = 0;
    for (let n = 1; n <= 1000; n++) {
      length += stream.push(id).length;
      assert.ok(n - length <= 3, `byte ${byte.toString(16)}: ${n - length} tokens held back`);
    }
  }
});

Deno.test("a stream is silent about special tokens unless asked, and ready again after its end", () => {
  const ids = tiny.encode("<|im_start|>a<|im_end|>");
  assert.equal(tiny.decode(ids), "a");
  assert.equal(tiny.decode(ids, { special: true }), "<|im_start|>a<|im_end|>");
  const stream = tiny.streamDecoder();
  const [first] = tiny.encode("é");
  assert.equal(stream.push(first), tiny.bytesOf(first).length === 2 ? "é" : "");
  stream.end();
  assert.equal(tiny.encode("b").length, 1);
  assert.equal(stream.push(tiny.encode("b")[0]) + stream.end(), "b");
});

/** A tokenizer in Gemma's form: spaces as U+2581, bytes as <0xNN>, a BOS in front. */
function gemmaLike(): TokenizerFiles {
  const bytes = Array.from(
    { length: 256 },
    (_, b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`,
  );
  const words = ["<bos>", ...bytes, "\u2581", "a", "b", "\u2581a"];
  return {
    tokenizerJson: JSON.stringify({
      added_tokens: [{ id: 0, content: "<bos>", special: true }],
      normalizer: { type: "Replace", pattern: { String: " " }, content: "\u2581" },
      pre_tokenizer: null,
      post_processor: {
        type: "TemplateProcessing",
        single: [{ SpecialToken: { id: "<bos>", type_id: 0 } }, { Sequence: { id: "A" } }],
        pair: [],
        special_tokens: { "<bos>": { id: "<bos>", ids: [0], tokens: ["<bos>"] } },
      },
      decoder: {
        type: "Sequence",
        decoders: [
          { type: "Replace", pattern: { String: "\u2581" }, content: " " },
          { type: "ByteFallback" },
          { type: "Fuse" },
        ],
      },
      model: {
        type: "BPE",
        byte_fallback: true,
        vocab: Object.fromEntries(words.map((w, id) => [w, id])),
        merges: [["\u2581", "a"]],
      },
    }),
    tokenizerConfig: '{"bos_token": "<bos>"}',
  };
}

Deno.test("byte-fallback tokenizers: spaces, split characters, and one BOS", () => {
  const t = loadTokenizer(gemmaLike(), []);
  const text = "b a é 👍";
  const ids = t.encode(text);
  assert.equal(ids[0], 0);
  assert.equal(t.decode(ids), text);
  const stream = t.streamDecoder();
  const pieces = [...ids].map((id) => stream.push(id)).filter((p) => p !== "");
  assert.deepEqual(pieces, ["b", " a", " ", "é", " ", "👍"]);
  assert.equal(t.encode("<bos>a").filter((id) => id === 0).length, 1);
  assert.ok(!t.encode("a", { special: false }).includes(0));
  assert.deepEqual([...t.encode("")], [0]);
});
