/**
 * Writes what a session of the built-in model plays on Metal, for tests/metal/model.cc, which no Deno stands around:
 * all memory as the first play finds it, the tapes of the prompt and of one token with what their slots are bound to,
 * and the golden tokens. Layout there. Usage: dump_model.ts FILE
 */
import { type Binding, Device, type LoadedTape } from "../../ffi/abi/handle.ts";
import { GREEDY } from "../../engine/generation_config.ts";
import { openDevice, openModel } from "../../engine/model.ts";
import { Session } from "../../engine/session.ts";
import { Output } from "../native/output.ts";
import { GOLDEN_TOKENS } from "./golden_tokens.ts";
import { LIBRARY } from "./rig.ts";

const MAGIC = 0x4c444d57, CTX = 64;

/** Memory of its own in the native program: a whole one of the session, or one range of a mapped file. */
class Pieces {
  readonly contents: Uint8Array<ArrayBuffer>[] = [];
  readonly #known = new Map<string, number>();

  /** Its number, and where the binding begins in it. */
  of({ memory, offset, bytes }: Binding): [piece: number, offset: number] {
    const at = memory.mapped ? offset : 0;
    const key = `${memory.id} ${at}`;
    const known = this.#known.get(key);
    if (known !== undefined) return [known, offset - at];
    const content = new Uint8Array(memory.mapped ? bytes : memory.bytes);
    memory.read(at, content);
    this.#known.set(key, this.contents.length);
    return [this.contents.push(content) - 1, offset - at];
  }
}

const bindings = new Map<LoadedTape, readonly Binding[]>();
const { load } = Device.prototype;
Device.prototype.load = function (encoded, bound, stepSlot) {
  const tape = load.call(this, encoded, bound, stepSlot);
  bindings.set(tape, bound as readonly Binding[]);
  return tape;
};

const [{ ids, tokens: all }] = GOLDEN_TOKENS, tokens = all.slice(0, CTX - ids.length);
using device = openDevice({ kind: "metal", library: LIBRARY });
using model = await openModel("tiny", { device, env: {} });
using session = new Session(model, { kv: "f32", ctx: CTX });
session.begin({ sampling: GREEDY, stopIds: [], limit: tokens.length });
// The prompt's needs more scratch memory: made after the other, it would make that one anew.
const tapes = [
  session.tapeFor(ids.length, ids.length, "sample"),
  session.tapeFor(1, ids.length + tokens.length, "sample"),
];

const pieces = new Pieces();
const placed = tapes.map(({ loaded }) =>
  bindings.get(loaded)!.map((b) => [...pieces.of(b), b.bytes])
);
const slotOf = (name: string, tape: number) =>
  tapes[tape].planned.slots.findIndex((s) => s.name === name);
const [history] = placed[0][slotOf("history", 0)];
pieces.contents[history].set(new Uint8Array(ids.buffer));

const out = new Output(Deno.args[0]);
out.words(MAGIC, pieces.contents.length);
for (const content of pieces.contents) {
  out.words(content.length);
  out.bytes(content);
}
tapes.forEach(({ encoded }, i) => {
  out.words(encoded.length);
  out.bytes(encoded);
  out.words(placed[i].length, slotOf("step", i), ...placed[i].flat());
});
out.words(history, ids.length, tokens.length, ...tokens);
out.close();
