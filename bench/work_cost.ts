/** What pieces of work cost, token by token, and which play they mostly consist of. Plays nothing. */
import { type Coster, type DistinctExperts, movedBytes } from "../engine/cost.ts";
import type { Cost } from "../ffi/tape/cost.ts";
import type { Work, WorkCost } from "./port.ts";

interface Play {
  readonly rows: number;
  readonly cost: Cost;
}

/** `at` is the number of tokens before. */
export function costOfWork(
  coster: Coster,
  work: Work,
  at: number,
  distinct: DistinctExperts,
): WorkCost {
  const decode = (tokens: number, pos: number): Play => ({
    rows: 1,
    cost: coster.decode(tokens, pos, distinct),
  });
  if (work.kind === "prefill") return perToken(coster.prefill(work.prompt, at, distinct));
  if (work.kind === "decode") return perToken([decode(work.gen, at)]);
  if (work.kind === "prompt_decode") {
    return perToken([decode(Math.max(1, work.gen - 1), at + work.prompt)]);
  }
  // A run of rounds as if every draft were accepted: the bound that none can pass.
  const { rows, output } = playOf(work, 0);
  return perToken([{ rows, cost: coster.play(rows, at, at + rows, output, distinct) }]);
}

/** The play that a piece of work consists of: its largest one. */
export function playOf(work: Work, prefillRows: number) {
  switch (work.kind) {
    case "verify":
      return { rows: work.rows, output: "logits" } as const;
    case "round":
      return { rows: work.rows, output: "round" } as const;
    case "speculate":
      return { rows: work.drafts + 1, output: "round" } as const;
    case "prefill": {
      const rows = Math.min(work.prompt, prefillRows);
      return { rows, output: rows === work.prompt ? "sample" : "none" } as const;
    }
    default:
      return { rows: 1, output: "sample" } as const;
  }
}

function perToken(plays: readonly Play[]): WorkCost {
  const tokens = plays.reduce((sum, p) => sum + p.rows, 0);
  const mean = (of: (c: Cost) => number) => plays.reduce((sum, p) => sum + of(p.cost), 0) / tokens;
  return {
    weights: mean((c) => c.bytes.weights),
    kv: mean((c) => c.bytes.kv),
    state: mean((c) => c.bytes.recurrent),
    flops: mean((c) => c.flops),
    playBytes: Math.round(Math.max(...plays.map((p) => movedBytes(p.cost)))),
  };
}
