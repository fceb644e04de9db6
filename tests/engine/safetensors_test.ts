/** Headers of safetensors files: what is read, and every way in which one can be broken. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { parseHeader, readSafetensors } from "../../engine/checkpoint/safetensors.ts";
import { fileHead } from "../safetensors_writer.ts";
import { refusal } from "./fake_checkpoint.ts";

/** Parses header JSON as if `dataBytes` followed it. */
function parse(json: unknown, dataBytes: number) {
  const text = typeof json === "string" ? json : JSON.stringify(json);
  const header = new TextEncoder().encode(text);
  return parseHeader(header, 8 + header.length + dataBytes, "/m/a.safetensors");
}

const messageOf = async (json: unknown, dataBytes = 8) =>
  (await refusal(() => parse(json, dataBytes))).message;

const tensor = (dtype: unknown, shape: unknown, begin: unknown, end: unknown) => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});

Deno.test("safetensors: names, types, shapes and places", () => {
  const file = parse({
    __metadata__: { format: "pt" },
    b: tensor("F32", [], 8, 12),
    a: tensor("BF16", [2, 2], 0, 8),
    empty: tensor("U8", [0, 7], 8, 8),
  }, 12);
  assert.deepEqual([...file.tensors.keys()], ["a", "empty", "b"]);
  assert.deepEqual(file.tensors.get("b")!.offset, file.tensors.get("a")!.offset + 8);
  assert.equal(file.metadata.get("format"), "pt");
  assert.equal(parse({ f4: tensor("F4", [4], 0, 2) }, 2).tensors.get("f4")!.bytes, 2);
});

Deno.test("safetensors: a broken header is told in one line", async () => {
  assert.equal(
    await messageOf({ a: tensor("F32", [2], 0, 8) }, 4),
    "/m/a.safetensors is truncated: it has 66 bytes; expected 70 by its header. " +
      "Download the file again.",
  );
  assert.equal(
    await messageOf({ a: tensor("F32", [3], 0, 8) }),
    "/m/a.safetensors: tensor a has 8 bytes; expected 12 bytes for F32 [3]. Download the file again.",
  );
  assert.equal(
    await messageOf({ a: tensor("F32", [2], 0, 8), b: tensor("F32", [1], 4, 8) }),
    "/m/a.safetensors: tensor b overlaps tensor a; expected tensors one after the other. " +
      "Download the file again.",
  );
  assert.equal(
    await messageOf({ a: tensor("F32", [1], 0, 4), b: tensor("U8", [2], 6, 8) }),
    "/m/a.safetensors: tensor b leaves 2 unused bytes after tensor a; " +
      "expected tensors one after the other. Download the file again.",
  );
  assert.equal(
    await messageOf('{"a":1,"a":2}'),
    "/m/a.safetensors: tensor a is listed twice; expected every name once. " +
      "Write the file again with one of them.",
  );
});

const BROKEN: readonly (readonly [unknown, RegExp])[] = [
  [{ a: tensor("F32", [1], 0, 4) }, /has 4 bytes after its last tensor; expected 66 bytes in all/],
  [{ a: tensor("F32", [1], 4, 8) }, /tensor a leaves 4 unused bytes after the header/],
  [{ a: tensor("F32", [1], 1e9, 1e9 + 4) }, /leaves 1000000000 unused bytes/],
  [{ a: tensor("F31", [2], 0, 8) }, /tensor a has dtype F31; expected a safetensors type/],
  [{ a: tensor("toString", [2], 0, 8) }, /has dtype toString/],
  [{ a: tensor(7, [2], 0, 8) }, /has dtype missing/],
  [{ a: tensor("F32", [-2], 0, 8) }, /bad shape; expected a list of non-negative integers/],
  [{ a: tensor("F32", [2.5], 0, 8) }, /bad shape/],
  [{ a: tensor("F32", "2", 0, 8) }, /bad shape/],
  [{ a: tensor("F32", [2], 0.5, 8) }, /bad data_offsets; expected two integers/],
  [{ a: tensor("F32", [2], 8, 0) }, /bad data_offsets/],
  [{ a: tensor("F32", [2], -8, 0) }, /bad data_offsets/],
  [{ a: tensor("F32", [1e200, 1e200], 0, 8) }, /bad shape/],
  [{ a: tensor("F32", [2 ** 52, 2 ** 52], 0, 8) }, /expected another size for F32/],
  [{ a: 5 }, /tensor a is not an object/],
  [{ a: null }, /tensor a is not an object/],
  [{ __metadata__: { format: 1 } }, /__metadata__ of its header is not an object of strings/],
  [{ __metadata__: [] }, /__metadata__/],
  ["[]", /its header is not a JSON object/],
  ["null", /its header is not a JSON object/],
  ['{"a":', /its header is not valid JSON/],
  ["\ufeff{}", /its header is not valid JSON/],
  [{ "a\nb": 5 }, /tensor a\\u000ab is not an object/],
  [{ ["x".repeat(1000)]: 5 }, /tensor x{80}\.\.\.x{30} is not an object/],
];

Deno.test("safetensors: every other broken header is refused by name", async () => {
  for (const [json, expected] of BROKEN) assert.match(await messageOf(json), expected);
  const invalid = new Uint8Array([0x7b, 0xff, 0x7d]);
  const e = await refusal(() => parseHeader(invalid, 11, "/m/a.safetensors"));
  assert.match(e.message, /its header is not valid JSON/);
});

Deno.test("safetensors: a repeated name is found behind escapes, nesting and braces in strings", async () => {
  assert.match(await messageOf('{"\\u0061":1,"a":2}'), /tensor a is listed twice/);
  const fine = '{"a{\\"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},' +
    '"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8],"dtype":"U8"}}';
  assert.equal(parse(fine, 8).tensors.size, 2);
});

Deno.test("safetensors: files that cannot hold a header", async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "a.safetensors");
  const messageFor = async (bytes: Uint8Array) => {
    await Deno.writeFile(path, bytes);
    return (await refusal(() => readSafetensors(path))).message.replaceAll(folder, "/m");
  };
  try {
    assert.equal(
      await messageFor(new Uint8Array(3)),
      "/m/a.safetensors has 3 bytes, too few for a safetensors file; expected at least 8. " +
        "Download the file again.",
    );
    assert.equal(
      await messageFor(fileHead(new TextEncoder().encode("{}"), 1000)),
      "/m/a.safetensors: its header claims 1000 bytes but only 2 follow; " +
        "expected a whole safetensors file. Download the file again.",
    );
    assert.match(
      await messageFor(fileHead(new Uint8Array(2), 2 ** 40)),
      /expected at most 100000000/,
    );
    const pointer = new TextEncoder().encode("version https://git-lfs.github.com/spec/v1\n");
    assert.match(await messageFor(pointer), /is a Git LFS pointer.*Run "git lfs pull"\./);
    const gone = await refusal(() => readSafetensors(join(folder, "gone.safetensors")));
    assert.match(gone.message, /gone\.safetensors is missing; expected a safetensors file\./);
    const isFolder = await refusal(() => readSafetensors(folder));
    assert.match(isFolder.message, /is not a file/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("safetensors: one very long name costs no stack", () => {
  const name = "n".repeat(20_000_000);
  assert.equal(parse({ [name]: tensor("U8", [8], 0, 8) }, 8).tensors.size, 1);
});
