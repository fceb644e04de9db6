/** The model's MTP head as a drafter: it drafts on the device, inside the round's own tape. */
import { type Drafter, NO_DRAFT } from "./drafter.ts";

export function mtpDrafter(): Drafter {
  return {
    name: "mtp",
    onDevice: true,
    propose: () => NO_DRAFT,
    observe: () => {},
    begin: () => {},
  };
}
