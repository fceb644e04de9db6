/** Where commands get the engine from. Loaded on demand: it opens the native library. */
import type { EngineApi } from "../engine/api_types.ts";

export async function loadEngine(): Promise<EngineApi> {
  return (await import("../engine/api.ts")).engineApi;
}
