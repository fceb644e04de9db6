/**
 * By hand, as packing takes minutes: what `make gpu-bundle` packs runs where nothing is but a shell, with no network
 * where the system can take it away. `deno run -A tests/long/gpu_bundle.ts`
 */
import { join } from "node:path";
import { defaultLibraryPath } from "../../ffi/abi/open.ts";
import { must, ROOT, sh, temporary } from "./trees.ts";

await using folder = await temporary();
const archive = join(folder.path, "lapwing-gpu.tar.xz");
console.log((await must(join(ROOT, "scripts/gpu_bundle"), [archive, defaultLibraryPath()])).trim());
await must("tar", ["-C", folder.path, "-xf", archive]);

// All that `run` itself needs; no deno, npm or node.
const tools = join(folder.path, "bin"), home = join(folder.path, "home");
for (const path of [tools, home]) await Deno.mkdir(path);
for (const name of ["sh", "dirname"]) {
  await Deno.symlink((await must("sh", ["-c", `command -v ${name}`])).trim(), join(tools, name));
}
const apart = (await sh("unshare", ["-n", "true"])).code === 0 ? ["unshare", "-n"] : [];
if (apart.length === 0) console.log("the network stays: unshare -n is not allowed here");

async function run(...args: string[]): Promise<string> {
  const inside = ["env", "-i", `PATH=${tools}`, `HOME=${home}`];
  const [command, ...rest] = [...apart, ...inside, join(folder.path, "lapwing/run"), ...args];
  return await must(command, rest);
}

const text = await run("generate", "-n", "12", "The old house stood on");
if (!/[a-z]{2}/.test(text)) throw new Error(`generate said ${JSON.stringify(text)}`);
const report = JSON.parse(await run("bench", "-p", "0", "-n", "8", "-r", "2", "--json", "-"));
if (report.rows[0].status !== "ok") throw new Error(report.rows[0].error);
if (!/^[0-9a-f]{40}$/.test(report.tool.commit)) throw new Error("the report names no commit");
const left = [...Deno.readDirSync(home)].map((e) => e.name);
if (left.length > 0) throw new Error(`it wrote ${left.join(", ")} into the home folder`);
console.log("the bundle runs by itself");
