/** How many tokens of a prompt one play takes when nobody says, by the kind of its device. */
export function prefillRowsDefault(kind: string): number {
  // Matrix units of a large GPU are idle for half of a shorter play.
  return kind === "cuda" ? 2048 : 512;
}
