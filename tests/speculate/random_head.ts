/** A checkpoint folder with a random MTP head beside a fixture's own tensors. */
import { openCheckpoint } from "../../engine/checkpoint/folder.ts";
import { writeSafetensors } from "../../engine/checkpoint/safetensors_write.ts";
import { storedName } from "../../engine/checkpoint/names.ts";
import { numberToBf16 } from "../../kernels/formats/float.ts";
import { weightList } from "../../kernels/models/qwen35_weights.ts";

/** Writes into `folder`; norms are centred, as in the fixtures. */
export async function withRandomHead(fixture: string, folder: string): Promise<string> {
  const { config, files } = await openCheckpoint(`${fixture}/model.safetensors`);
  const like = [...files[0].tensors.keys()];
  let state = 12345;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const tensors = weightList(config, true).filter((w) => w.name.startsWith("mtp.")).map((w) => {
    const n = w.shape.reduce((a, b) => a * b, 1);
    const scale = w.role === "vector" ? 0.1 : Math.sqrt(3 / w.shape[w.shape.length - 1]);
    const values = Uint16Array.from({ length: n }, () => numberToBf16((2 * random() - 1) * scale));
    const data = () => [new Uint8Array(values.buffer)];
    return { name: storedName(w.name, like), dtype: "BF16", shape: w.shape, data };
  });
  for (const name of ["config.json", "model.safetensors"]) {
    await Deno.symlink(`${fixture}/${name}`, `${folder}/${name}`);
  }
  await writeSafetensors(`${folder}/mtp.safetensors`, tensors, { format: "pt" });
  return folder;
}
