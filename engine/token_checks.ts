/** Refusals of token ids that a session cannot take. */
import { UserError } from "./errors.ts";
import type { LoadedModel } from "./model.ts";
import { counted } from "./wording.ts";

/** Refuses `tokens` behind `pos` others where they do not fit. */
export function refuseOverflow(
  model: LoadedModel,
  ctx: number,
  pos: number,
  tokens: number,
): void {
  if (tokens < 1) throw new UserError("The prompt has no tokens. Give some text.");
  const end = pos + tokens, { contextMax } = model.config;
  if (end <= ctx) return;
  throw new UserError(
    `${counted(end, "token does", "tokens do")} not fit into a context of ${ctx}. ` +
      (end < contextMax
        ? `Give --ctx at least ${end + 1} (the model's maximum is ${contextMax}).`
        : `Give a shorter text: the model's maximum is ${contextMax}.`),
  );
}

/** A tokenizer of another model may name rows that the embedding does not have. */
export function refuseUnknown(model: LoadedModel, ids: Uint32Array): void {
  const { vocab } = model.config;
  const id = ids.find((n) => n >= vocab);
  if (id === undefined) return;
  throw new UserError(
    `Token ${id} is not one of ${model.name}, which has ${vocab}. ` +
      `Use the tokenizer.json that was published with the tensors.`,
  );
}
