/** Opens the device and the model that the flags name, with a progress bar. */
import type { Device, EngineApi, Model, OpenModelOptions } from "../engine/api_types.ts";
import type { Context } from "./context.ts";
import type { ModelFlags } from "./flags.ts";
import { UserError } from "../engine/errors.ts";
import { noteTo, threadsNotes } from "./notes.ts";
import { ProgressBar } from "./progress.ts";

export interface Opened extends Disposable {
  readonly engine: EngineApi;
  readonly device: Device;
  readonly model: Model;
}

/** For commands that show what a model computes. */
export function refuseNullDevice({ device }: ModelFlags): void {
  if (device !== "null") return;
  throw new UserError("--device null computes nothing: give cpu, or emu for the Metal kernels.");
}

/** The model goes before the device when the result is disposed. */
export async function openModel(
  context: Context,
  flags: ModelFlags,
  more: Pick<OpenModelOptions, "draftHead" | "synthetic" | "outline"> = {},
): Promise<Opened> {
  const engine = await context.engine(), note = noteTo(context);
  for (const line of threadsNotes(flags.device, flags.threads)) note(line);
  using opening = new DisposableStack();
  const device = opening.use(
    engine.openDevice({ kind: flags.device, threads: flags.threads }),
  );
  using bar = new ProgressBar(context.terminal);
  const model = opening.use(
    await engine.openModel(flags.model, {
      device,
      env: context.env,
      quantize: flags.quantize,
      plan: flags.plan,
      ...more,
      onProgress: (p) => bar.update(p),
      onNote: (line) => {
        bar[Symbol.dispose]();
        note(line);
      },
    }),
  );
  const owned = opening.move();
  return { engine, device, model, [Symbol.dispose]: () => owned.dispose() };
}
