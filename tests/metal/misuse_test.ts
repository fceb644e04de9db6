/** Every misuse of Metal that the fake is there to find, planted: it finds it, and finds nothing in what is right. */
import assert from "node:assert/strict";
import { built, fake, live } from "./rig.ts";

/** What is tried, and what the fake says of it. */
const TRIES: Readonly<Record<string, RegExp | null>> = {
  "nothing wrong": null,
  "fence": null,
  "offset past the end": /offset 4096 of a buffer of 4096 bytes/,
  "odd offset": /offset 2 is not a multiple of 4/,
  "buffer index": /buffer index 31/,
  "large bytes": /setBytes of 4097 bytes/,
  "nil pipeline": /a nil pipeline/,
  "no pipeline": /a dispatch without a pipeline/,
  "empty grid": /an empty grid/,
  "indirect past the end": /an indirect grid at 4088 of 4096 bytes/,
  "too many threads": /rms_norm with 288 threads: 256 at most/,
  "unset buffer": /rms_norm needs buffer 2, which is not set/,
  "rebinding": /rms_norm needs buffer 0, which is not set/,
  "second encoder": /a second encoder while one is open/,
  "ended encoder": /a call on an encoder that has ended/,
  "wait before commit": /wait for a command buffer that was not committed/,
  "open encoder": /commit with an open encoder/,
  "no endEncoding": /an encoder was released without endEncoding/,
  "released": /a buffer was released while a command buffer in flight uses it/,
  "double commit": /a command buffer was committed twice/,
  "no fence": /an encoder uses what one in flight writes, and no fence is between them/,
  "unset constant": /Function rms_norm has function constants that were not set/,
  "not whole pages": /a buffer without a copy .* not whole pages or too long/,
  "fast mathematics": /a library with unsafe mathematics/,
  "not resident": /a buffer of 4096 bytes is used but not resident/,
  "no pool": /NSString autoreleased with no pool in place/,
};

for (const [name, finds] of Object.entries(TRIES)) {
  Deno.test({
    name: `fake Metal: ${finds ? "sees" : "accepts"} ${name}`,
    ignore: !built,
    fn: () => {
      fake.reset();
      const before = live();
      fake.try(name);
      const found = fake.misuses();
      if (finds) assert.match(found.join("\n"), finds);
      else assert.deepEqual(found, []);
      // The fake leaves alone what the GPU still uses.
      if (name !== "released") assert.deepEqual(live(), before);
    },
  });
}
