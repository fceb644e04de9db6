/** A library that is closed stays in the process: threads and drivers know addresses in it. */
import assert from "node:assert/strict";
import { defaultLibraryPath } from "../../ffi/abi/open.ts";

const PROGRAM = `
const [path] = Deno.args;
const library = Deno.dlopen(path, { lw_abi: { parameters: ["buffer"], result: "i32" } });
library.symbols.lw_abi(new BigUint64Array(2));
library.close();
console.log(Deno.readTextFileSync("/proc/self/maps").includes(path));
`;

Deno.test({
  name: "a closed library stays loaded (needs Linux)",
  ignore: Deno.build.os !== "linux",
  async fn() {
    const script = await Deno.makeTempFile({ suffix: ".ts" });
    await Deno.writeTextFile(script, PROGRAM);
    const path = await Deno.realPath(defaultLibraryPath());
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--quiet", script, path],
    }).output();
    assert.equal(new TextDecoder().decode(stdout), "true\n");
  },
});
