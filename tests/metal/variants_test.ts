/**
 * A library of one variant has that variant and no other: LW_ONLY_VARIANT, which the player puts in front of a
 * kernel's text, goes through to what is instantiated. Seen with the host's preprocessor; needs no device.
 */
import assert from "node:assert/strict";
import { kernelNames } from "../../kernels/define.ts";
import { OPS } from "../../kernels/table.ts";
import { parse } from "../../native/msl/parse.ts";
import { bundle, expandMacros } from "../../native/msl/source.ts";

const root = new URL("../../", import.meta.url).pathname;

function exists(path: string): boolean {
  try {
    return Deno.statSync(root + path).isFile;
  } catch {
    return false;
  }
}

const withKernels = OPS.map((op) => ({ op, path: `kernels/ops/${op.name}/${op.name}.metal` }))
  .filter(({ path }) => exists(path));

Deno.test("metal: a library of one variant instantiates that one", async () => {
  for (const { op, path } of withKernels) {
    const text = bundle(root, path), names = kernelNames(op);
    for (const name of new Set([names[0], names[names.length - 1]])) {
      const variant = name.slice(op.name.length + 2);
      const only = variant ? [`-DLW_ONLY_VARIANT=${variant}`] : [];
      const { instances } = parse(await expandMacros(text, ["-DLW_TARGET_EMU", ...only]));
      assert.deepEqual(instances.map((i) => i.hostName), [name]);
    }
  }
});
