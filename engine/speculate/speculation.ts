/** What the speculation that a caller asks for by name is made of. */
import type { Speculation } from "../api_types.ts";
import { UserError } from "../errors.ts";
import type { Session } from "../session.ts";
import { DRAFTS_MAX } from "../../kernels/step.ts";
import { type Drafter, fixedDrafts } from "./drafter.ts";
import { mtpDrafter } from "./mtp.ts";
import { ngramDrafter } from "./ngram.ts";
import { AutoDrafts } from "./policy.ts";
import { Rounds } from "./rounds.ts";

/** Drafts of a round where nobody says and nothing is measured; auto finds its own. */
const NGRAM_DRAFTS = 7;
const MTP_DRAFTS = 2;

/** Rounds over a session as asked for; null where decoding is to be plain. Throws UserError. */
export function roundsFor(session: Session, asked: Speculation | undefined): Rounds | null {
  if (!asked || asked.drafter === "off") return null;
  const { drafts = asked.drafter === "auto" ? "auto" : undefined } = asked;
  if (drafts === "auto") {
    const drafters = asked.drafter === "auto"
      ? [...session.draftHead ? [mtpDrafter()] : [], ngramDrafter()]
      : [drafterFor(session, asked.drafter)];
    return new Rounds(session, drafters, new AutoDrafts({ drafters: drafters.length }));
  }
  const drafter = drafterFor(session, asked.drafter);
  const fixed = drafts ?? (drafter.onDevice ? MTP_DRAFTS : NGRAM_DRAFTS);
  if (!Number.isInteger(fixed) || fixed < 1 || fixed > DRAFTS_MAX) {
    throw new UserError(`${fixed} draft tokens a round: give 1 to ${DRAFTS_MAX}.`);
  }
  return new Rounds(session, drafter, fixedDrafts(fixed));
}

function drafterFor(session: Session, drafter: Speculation["drafter"]): Drafter {
  if (typeof drafter !== "string") return drafter;
  if (drafter === "ngram") return ngramDrafter();
  if (session.draftHead) return mtpDrafter();
  if (drafter === "auto") return ngramDrafter();
  throw new UserError(
    `Drafts of the MTP head need a session that feeds it: open ${session.model.name} and the ` +
      `session with draftHead.`,
  );
}
