/**
 * Sorts rows into series, and finds the words that tell one series from another and those that hold for
 * all of them. Knows settings, not pictures.
 */
import { countText, dateText, tokensText } from "./numbers.ts";
import type { SourceRow } from "./source.ts";

/** What a row ran with, by name, as words for a reader. The order is that of a label. */
export type Facts = ReadonlyMap<string, string>;

export interface Series {
  readonly label: string;
  readonly rows: readonly SourceRow[];
}

/** Facts that name a run rather than describe it; they label a series only where nothing else differs. */
const IDENTITY = ["commit", "file", "started"];
/** Said wherever they differ. */
const ALWAYS = ["model", "backend"];

/** Settings of a row that the axes of a picture do not show. */
export type Setting =
  | "gen"
  | "calls"
  | "depth"
  | "prompt"
  | "chunk"
  | "threads"
  | "tokens"
  | "seed";

const SETTINGS: Readonly<Record<Setting, (p: SourceRow["row"]["params"]) => string>> = {
  gen: (p) => `${tokensText(p.n_gen)} tokens a sample`,
  calls: (p) => p.call_tokens === null ? "" : `${countText(p.call_tokens, "token")} a call`,
  depth: (p) => `depth ${tokensText(p.n_depth)}`,
  prompt: (p) => `${tokensText(p.n_prompt)} prompt tokens`,
  chunk: (p) => `prefill chunks of ${tokensText(p.prefill_rows)}`,
  threads: (p) => countText(p.threads, "thread"),
  tokens: (p) => p.tokens === "text" ? "tokens of a text" : `${p.tokens} tokens`,
  seed: (p) => `seed ${p.seed}`,
};

/** The model's name with its quantisation, marked when its weights are random. */
export function modelText({ report }: SourceRow["source"]): string {
  const { model, spec } = report;
  if (!model) return spec.synthetic ? `${spec.model} (synthetic weights)` : spec.model;
  const name = model.alias ?? model.path?.split(/[/\\]/).findLast((part) => part !== "") ??
    model.arch;
  return `${name} ${model.quant}${model.synthetic ? " (synthetic weights)" : ""}`;
}

function machineText({ report: { env } }: SourceRow["source"]): string {
  const onGpu = env.library.backend === "cuda" || env.library.backend === "metal";
  return onGpu && env.gpus.length > 0 ? env.gpus.map((g) => g.name).join(", ") : env.cpu;
}

/** What a row ran with; `settings` are the parameters that matter to the picture. */
export function factsOf(entry: SourceRow, settings: readonly Setting[]): Facts {
  const { source, row } = entry;
  const { env, spec, tool, started_at } = source.report;
  const plan = row.dispatch?.plan ?? spec.plan;
  return new Map([
    ["model", modelText(source)],
    ["machine", machineText(source)],
    ["backend", [env.library.backend, env.library.isa].filter((s) => s !== "").join(" ")],
    ["kv", `KV ${row.params.kv_type}`],
    ...settings.map((name) => [name, SETTINGS[name](row.params)] as const)
      .filter(([, words]) => words !== ""),
    ...Object.keys(plan).sort().map((k) =>
      [`plan.${k}`, `${k}=${plan[k] ? "on" : "off"}`] as const
    ),
    ["commit", tool.commit ? tool.commit.slice(0, 9) + (tool.dirty ? "+dirty" : "") : tool.version],
    ["file", source.name],
    ["started", dateText(started_at)],
  ]);
}

/** Rows with equal facts form a series; series come in the order of their first rows. */
export function group(rows: readonly SourceRow[], settings: readonly Setting[]): Series[] {
  const groups = new Map<string, { facts: Facts; rows: SourceRow[] }>();
  for (const entry of rows) {
    const facts = factsOf(entry, settings);
    const key = JSON.stringify([...facts]);
    const found = groups.get(key);
    if (found) found.rows.push(entry);
    else groups.set(key, { facts, rows: [entry] });
  }
  const list = [...groups.values()];
  const labels = labelsOf(list.map((g) => g.facts));
  return list.map((g, i) => ({ label: labels[i], rows: g.rows }));
}

/**
 * Labels that tell facts apart: the model and the backend where they differ, then what still splits two
 * series, then what names a run.
 */
export function labelsOf(all: readonly Facts[]): string[] {
  const names = labelNames(all);
  const plain = (facts: Facts) => `${facts.get("model")}, ${facts.get("backend")}`;
  return all.map((facts) => names.flatMap((n) => facts.get(n) ?? []).join(", ") || plain(facts));
}

function labelNames(all: readonly Facts[]): string[] {
  const chosen: string[] = [];
  const kinds = (names: readonly string[]) =>
    new Set(all.map((f) => JSON.stringify(names.map((n) => f.get(n))))).size;
  const differing = namesOf(all).filter((n) => kinds([n]) > 1);
  const order = [...differing.filter(describes), ...differing.filter((n) => !describes(n))];
  for (const name of order) {
    const splits = kinds([...chosen, name]) > kinds(chosen);
    if (splits || ALWAYS.includes(name)) chosen.push(name);
  }
  return chosen;
}

function describes(name: string): boolean {
  return !IDENTITY.includes(name);
}

export interface FactTexts {
  /** What holds for every row. */
  readonly shared: readonly string[];
  /** What series have besides their labels; series that have the same stand together. */
  readonly own: readonly {
    readonly labels: readonly string[];
    readonly facts: readonly string[];
  }[];
}

/** The facts of series as words. */
export function factTexts(series: readonly Series[], settings: readonly Setting[]): FactTexts {
  const all = series.map((s) => factsOf(s.rows[0], settings));
  const labelled = labelNames(all);
  const names = namesOf(all).filter(describes);
  const shared = names.filter((n) => all.every((f) => f.get(n) === all[0].get(n)));
  const own = names.filter((n) => !shared.includes(n) && !labelled.includes(n));
  const texts = (facts: Facts, which: readonly string[]) =>
    which.flatMap((n) => facts.get(n) ?? []);
  const groups = Map.groupBy(series.keys(), (i) => JSON.stringify(texts(all[i], own)));
  return {
    shared: texts(all[0], shared),
    own: own.length === 0 ? [] : [...groups.values()].map((members) => ({
      labels: members.map((i) => series[i].label),
      facts: texts(all[members[0]], own),
    })),
  };
}

function namesOf(all: readonly Facts[]): string[] {
  return [...new Set(all.flatMap((f) => [...f.keys()]))];
}
