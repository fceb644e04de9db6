/**
 * The header of a safetensors file: which tensors it holds and where their bytes are. Checks all that
 * the format promises; does not read tensor data and does not know what a tensor is for.
 */
import { shownName, UserError } from "../errors.ts";
import { counted } from "../wording.ts";

/** Bits of one element, by the name that a header gives its type. */
const DTYPE_BITS = {
  F64: 64,
  F32: 32,
  F16: 16,
  BF16: 16,
  I64: 64,
  I32: 32,
  I16: 16,
  I8: 8,
  U64: 64,
  U32: 32,
  U16: 16,
  U8: 8,
  BOOL: 8,
  C64: 64,
  F8_E4M3: 8,
  F8_E5M2: 8,
  F8_E8M0: 8,
  F6_E2M3: 6,
  F6_E3M2: 6,
  F4: 4,
} as const; // deno-fmt-ignore

export type StoredType = keyof typeof DTYPE_BITS;

export interface StoredTensor {
  readonly name: string;
  readonly dtype: StoredType;
  readonly shape: readonly number[];
  /** Of the first byte, from the start of the file. */
  readonly offset: number;
  readonly bytes: number;
}

export interface SafetensorsFile {
  readonly path: string;
  readonly bytes: number;
  readonly metadata: ReadonlyMap<string, string>;
  /** By name, in the order of their bytes. */
  readonly tensors: ReadonlyMap<string, StoredTensor>;
}

const HEADER_MAX = 100_000_000;
const AGAIN = "Download the file again.";

type Json = Record<string, unknown>;

/** Reads and checks the header of one file. Throws UserError. */
export async function readSafetensors(path: string): Promise<SafetensorsFile> {
  using file = await openFile(path);
  const { size, isFile } = await file.stat();
  if (!isFile) {
    throw new UserError(`${path} is not a file; expected safetensors data. Check the path.`);
  }
  const head = new Uint8Array(Math.min(8, size));
  await readFully(file, head);
  const length = headerLength(head, size, path);
  const header = new Uint8Array(length);
  await readFully(file, header);
  return parseHeader(header, size, path);
}

async function openFile(path: string): Promise<Deno.FsFile> {
  try {
    return await Deno.open(path);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new UserError(
      `${path} is missing; expected a safetensors file. Finish the download or check the path.`,
      { cause },
    );
  }
}

/** Fills `to` from the file's position; a file that shrank meanwhile is an error. */
export async function readFully(file: Deno.FsFile, to: Uint8Array): Promise<void> {
  for (let done = 0; done < to.length;) {
    const n = await file.read(to.subarray(done));
    if (n === null) {
      throw new UserError(`A checkpoint file ended early while it was read. ${AGAIN}`);
    }
    done += n;
  }
}

/** Length of the JSON header, from the first 8 bytes of a file. */
export function headerLength(head: Uint8Array, fileBytes: number, path: string): number {
  if (fileBytes < 8 || head.length < 8) {
    throw new UserError(
      `${path} has ${
        counted(fileBytes, "byte")
      }, too few for a safetensors file; expected at least 8. ${AGAIN}`,
    );
  }
  if (new TextDecoder().decode(head) === "version ") {
    throw new UserError(
      `${path} is a Git LFS pointer, not tensor data; expected safetensors. Run "git lfs pull".`,
    );
  }
  const length = new DataView(head.buffer, head.byteOffset).getBigUint64(0, true);
  if (length > HEADER_MAX) {
    throw new UserError(
      `${path}: its header claims ${length} bytes; expected at most ${HEADER_MAX}. ` +
        `Check that this is a safetensors file.`,
    );
  }
  if (length > fileBytes - 8) {
    throw new UserError(
      `${path}: its header claims ${length} bytes but only ${fileBytes - 8} follow; ` +
        `expected a whole safetensors file. ${AGAIN}`,
    );
  }
  return Number(length);
}

/** Checks a header's JSON against the size of its file. Throws UserError. */
export function parseHeader(header: Uint8Array, fileBytes: number, path: string): SafetensorsFile {
  const json = headerJson(header, path);
  const metadata = new Map<string, string>();
  const tensors: StoredTensor[] = [];
  const start = 8 + header.length;
  for (const [name, entry] of Object.entries(json)) {
    if (name === "__metadata__") {
      for (const [key, value] of metadataEntries(entry, path)) metadata.set(key, value);
    } else tensors.push(parseTensor(name, entry, start, path));
  }
  tensors.sort((a, b) => a.offset - b.offset || a.bytes - b.bytes);
  checkCover(tensors, start, fileBytes, path);
  return { path, bytes: fileBytes, metadata, tensors: new Map(tensors.map((t) => [t.name, t])) };
}

function headerJson(header: Uint8Array, path: string): Json {
  let json: unknown, text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(header);
    json = JSON.parse(text);
  } catch (cause) {
    throw new UserError(
      `${path}: its header is not valid JSON (${(cause as Error).message}); ` +
        `expected a safetensors header. Check that this is a safetensors file.`,
      { cause },
    );
  }
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    throw new UserError(
      `${path}: its header is not a JSON object; expected tensor names. ` +
        `Check that this is a safetensors file.`,
    );
  }
  const twice = repeatedKey(text, Object.keys(json).length);
  if (twice !== undefined) {
    throw new UserError(
      `${path}: tensor ${shownName(twice)} is listed twice; ` +
        `expected every name once. Write the file again with one of them.`,
    );
  }
  return json as Json;
}

/**
 * The first key that stands twice in the outermost object of valid JSON text, which JSON.parse would
 * silently merge; `distinct` is how many keys it kept.
 */
function repeatedKey(text: string, distinct: number): string | undefined {
  const keys: string[] = [];
  let depth = 0, from = 0, to = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (c === '"') {
      from = i;
      i = closingQuote(text, i);
      to = i + 1;
    } else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") depth--;
    else if (c === ":" && depth === 1) keys.push(text.slice(from, to));
  }
  if (keys.length === distinct) return undefined;
  const seen = new Set<string>();
  return keys.map((k) => JSON.parse(k) as string).find((k) => seen.size === seen.add(k).size);
}

function closingQuote(text: string, open: number): number {
  let at = open, escapes: number;
  do {
    at = text.indexOf('"', at + 1);
    escapes = 0;
    while (text[at - 1 - escapes] === "\\") escapes++;
  } while (escapes % 2);
  return at;
}

function metadataEntries(entry: unknown, path: string): [string, string][] {
  const entries = typeof entry === "object" && entry !== null ? Object.entries(entry) : undefined;
  if (!entries || Array.isArray(entry) || entries.some(([, v]) => typeof v !== "string")) {
    throw new UserError(
      `${path}: __metadata__ of its header is not an object of strings; expected names and texts. ` +
        `Write the file again without it.`,
    );
  }
  return entries as [string, string][];
}

function parseTensor(name: string, entry: unknown, start: number, path: string): StoredTensor {
  const refuse = (what: string, expected: string): never => {
    throw new UserError(
      `${path}: tensor ${shownName(name)} ${what}; expected ${expected}. ${AGAIN}`,
    );
  };
  if (typeof entry !== "object" || entry === null) {
    return refuse("is not an object", "dtype, shape and data_offsets");
  }
  const { dtype, shape, data_offsets: offsets } = entry as Json;
  if (typeof dtype !== "string" || !Object.hasOwn(DTYPE_BITS, dtype)) {
    const shown = typeof dtype === "string" ? shownName(dtype) : "missing";
    return refuse(`has dtype ${shown}`, "a safetensors type such as BF16 or U32");
  }
  if (!isCounts(shape)) return refuse("has a bad shape", "a list of non-negative integers");
  if (!isCounts(offsets) || offsets.length !== 2 || offsets[1] < offsets[0]) {
    return refuse("has bad data_offsets", "two integers, begin and end");
  }
  const bytes = shape.reduce((a, b) => a * b, 1) * DTYPE_BITS[dtype as StoredType] / 8;
  const found = offsets[1] - offsets[0];
  if (bytes !== found) {
    const size = Number.isSafeInteger(bytes) ? `${bytes} bytes` : "another size";
    return refuse(`has ${found} bytes`, `${size} for ${dtype} [${shape.join(", ")}]`);
  }
  return { name, dtype: dtype as StoredType, shape, offset: start + offsets[0], bytes };
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0);
}

/** The format's own rule: the tensors fill the rest of the file, with no gap and no overlap. */
function checkCover(tensors: StoredTensor[], start: number, fileBytes: number, path: string): void {
  let end = start, last = "the header";
  for (const t of tensors) {
    if (t.offset !== end) {
      const what = t.offset < end
        ? "overlaps"
        : `leaves ${counted(t.offset - end, "unused byte")} after`;
      throw new UserError(
        `${path}: tensor ${shownName(t.name)} ${what} ${last}; ` +
          `expected tensors one after the other. ${AGAIN}`,
      );
    }
    end = t.offset + t.bytes;
    last = `tensor ${shownName(t.name)}`;
  }
  if (end > fileBytes) {
    throw new UserError(
      `${path} is truncated: it has ${fileBytes} bytes; expected ${end} by its header. ${AGAIN}`,
    );
  }
  if (end < fileBytes) {
    throw new UserError(
      `${path} has ${
        counted(fileBytes - end, "byte")
      } after its last tensor; expected ${end} bytes in all. ` +
        `${AGAIN}`,
    );
  }
}
