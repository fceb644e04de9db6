/** The engine as one object, for commands that load it late. */
import type { EngineApi } from "./api_types.ts";
import { explainModel } from "./explain.ts";
import { generate } from "./generate.ts";
import { inspectCheckpoint } from "./inspect.ts";
import { listDevices, openDevice, openModel } from "./model.ts";
import { perplexity } from "./perplexity.ts";
import { Session } from "./session.ts";

export const engineApi: EngineApi = {
  listDevices,
  openDevice,
  openModel,
  createSession: (model, options) => new Session(model, options),
  generate,
  explainModel,
  inspectCheckpoint,
  perplexity,
};
