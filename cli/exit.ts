/**
 * Exit codes, and what an error says to the user: one line and a code. Prints nothing and does not
 * exit; main.ts does both.
 */
import { SubjectError } from "../bench/subject.ts";
import { UserError } from "../engine/errors.ts";
import { NativeError } from "../ffi/abi/error.ts";
import { LibraryError } from "../ffi/abi/open.ts";

export const EXIT = {
  ok: 0,
  /** Proven by a gate or a comparison. */
  regression: 1,
  /** Usage, configuration or model: the caller can fix it. */
  usage: 2,
  device: 3,
  /** A check failed or output changed. */
  check: 4,
  inconclusive: 5,
  environment: 6,
  /** Not the caller's fault: sysexits' EX_SOFTWARE, so that it never reads as a regression. */
  bug: 70,
  interrupted: 130,
} as const;
export type ExitCode = typeof EXIT[keyof typeof EXIT];

export interface Complaint {
  readonly code: ExitCode;
  /** First the line after `error: `, then further lines that only list things. */
  readonly lines: readonly string[];
}

/** What to tell the user about anything that was thrown. */
export function complaintOf(error: unknown): Complaint {
  if (error instanceof UserError) {
    return { code: EXIT.usage, lines: [error.message, ...furtherDetails(error)] };
  }
  if (error instanceof NativeError) {
    const at = error.record === null ? "" : ` (record ${error.record})`;
    return { code: error.refused ? EXIT.usage : EXIT.device, lines: [firstLine(error) + at] };
  }
  if (error instanceof LibraryError) return { code: EXIT.device, lines: [firstLine(error)] };
  if (error instanceof SubjectError) {
    return { code: EXIT.device, lines: [`${error.side}: ${firstLine(error)}`] };
  }
  if (error instanceof Deno.errors.NotCapable) {
    return { code: EXIT.usage, lines: [`${firstLine(error)} (a Deno permission)`] };
  }
  return {
    code: EXIT.bug,
    lines: [`${firstLine(error)} (unexpected: please report it; --debug prints the stack)`],
  };
}

/** A short list stands in the message already, there without the kinds before its names. */
function furtherDetails({ message, details }: UserError): readonly string[] {
  const told = details.every((d) => message.includes(d.replace(/^[a-z ]+: /, "")));
  return told ? [] : details;
}

function firstLine(error: unknown): string {
  const text = error instanceof Error ? error.message || error.name : String(error);
  return text.split("\n", 1)[0];
}
