/** The built library against what TypeScript says about it. */
import assert from "node:assert/strict";
import { Device } from "../../ffi/abi/handle.ts";
import { defaultLibraryPath } from "../../ffi/abi/open.ts";
import { SYMBOLS } from "../../ffi/abi/symbols.ts";
import { generate } from "../../ffi/tape/gen.ts";
import { kernelTable } from "../../ffi/tape/op_ids.ts";
import { broken } from "../../kernels/define.ts";
import { isAffine } from "../../kernels/formats/affine.ts";
import { OPS } from "../../kernels/table.ts";
import { read } from "./tree.ts";

const levels = Array.from({ length: Device.count("cpu") }, (_, i) => Device.open("cpu", i, 1));

Deno.test("tidy: generated files are fresh", async () => {
  for (const [path, text] of Object.entries(await generate())) {
    assert.equal(read(path), text, `${path} is out of date: run make gen`);
  }
});

Deno.test("tidy: the library exports the symbols of symbols.ts and nothing else", async () => {
  const mac = Deno.build.os === "darwin";
  const args = mac ? ["-gUj"] : ["-D", "--defined-only", "--format=posix"];
  const { stdout } = await new Deno.Command("nm", { args: [...args, defaultLibraryPath()] })
    .output();
  const exported = new TextDecoder().decode(stdout).trim().split("\n")
    .map((line) => line.split(" ")[0].replace(mac ? /^_/ : /^$/, ""))
    // Mach-O keeps inline functions of the standard library visible.
    .filter((name) => !mac || name.startsWith("lw_"));
  const named = Object.entries(SYMBOLS).map(([key, s]) => "name" in s ? s.name : key);
  assert.deepEqual(exported.sort(), [...new Set(named)].sort());
});

Deno.test("tidy: symbols.ts and lapwing.h declare the same functions", () => {
  const declared = [...read("native/include/lapwing.h").matchAll(/^int32_t (lw_\w+)\(/gm)];
  const named = Object.keys(SYMBOLS).filter((key) => !key.endsWith("_async"));
  assert.deepEqual(declared.map((m) => m[1]), named);
});

Deno.test("tidy: every instruction set has every kernel, under the table's ids", () => {
  const names = kernelTable().map((k) => k.name);
  for (const level of levels) assert.deepEqual(level.kernels(), names, level.info.isa);
});

Deno.test("tidy: an affine weight is refused unless its rows are whole groups", () => {
  for (const op of OPS) {
    for (const [key, spec] of Object.entries(op.tensors)) {
      if (!spec.weight || !spec.dtypes.some((d) => isAffine(d))) continue;
      const row = spec.axes[spec.axes.length - 1];
      const sizes = new Proxy({ [row]: 72 } as Record<string, number>, {
        get: (all, name: string) => all[name] ?? 0,
      });
      const refuses = op.constraints.some((c) =>
        "multipleOf" in c && c.axis === row && broken(c, sizes, "q4g64_f16") !== null
      );
      assert.ok(refuses, `${op.name}: rows of ${key} need { axis: "${row}", multipleOf: "group" }`);
    }
  }
});

Deno.test("tidy: op names are the names of their folders, and no two ops share one", () => {
  const names = OPS.map((op) => op.name);
  assert.equal(new Set(names).size, names.length);
  for (const name of names) {
    assert.match(read(`kernels/ops/${name}/op.ts`), new RegExp(`"${name}"`));
  }
});
