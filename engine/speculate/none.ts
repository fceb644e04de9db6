/** The drafter that never drafts: rounds of one row, which show what the rounds themselves cost. */
import { type Drafter, NO_DRAFT } from "./drafter.ts";

export function noDrafter(): Drafter {
  return {
    name: "none",
    onDevice: false,
    propose: () => NO_DRAFT,
    observe: () => {},
    begin: () => {},
  };
}
