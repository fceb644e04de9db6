/** Notes: what a user should know although it stops nothing. One line each on standard error, each once. */
import { usableProcessors } from "../engine/processors.ts";
import { counted } from "../engine/wording.ts";
import type { Context } from "./context.ts";

/** Prints each note the first time that it is told. */
export function noteTo({ terminal, errPaint }: Context): (line: string) => void {
  const told = new Set<string>();
  return (line) => {
    if (told.has(line)) return;
    told.add(line);
    terminal.err(`${errPaint("yellow", "note:")} ${line}\n`);
  };
}

/** What there is to say about a number of threads: nothing unless it is more than can run at once. */
export function threadsNotes(device: string, threads: number | undefined): string[] {
  const usable = usableProcessors();
  if (device !== "cpu" || threads === undefined || threads <= usable) return [];
  return [
    `${threads} threads share the ${counted(usable, "processor")} that this process may use: ` +
    `more than ${usable} only slow it down`,
  ];
}
