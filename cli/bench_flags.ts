/** The flags of `lapwing bench`, and the spec that they make. Names are llama-bench's where the meaning is. */
import { type Command, InvalidArgumentError, Option, type OptionValues } from "commander";
import { CALL_TOKENS, parseCounts, parsePairs } from "../bench/grid.ts";
import { type KvType, ROUTINGS, type Spec, TOKEN_SOURCES } from "../bench/report.ts";
import { prefillRowsDefault } from "../engine/prefill_rows.ts";
import { UserError } from "../engine/errors.ts";
import type { SyntheticOptions } from "../engine/synthetic/load.ts";
import { decimal, FLAGS, type ModelFlags, whole } from "./flags.ts";
import { addSweepFlags, type SweepFlags, sweepOf } from "./sweep_flags.ts";

/** The values of SYNTHETIC and of the flags beside it. */
export interface SyntheticFlags {
  /** The seed of the weights where one was given. */
  readonly synthetic?: number | true;
  readonly layers?: number;
  readonly experts?: number;
  readonly vocab?: number;
  readonly routing?: NonNullable<Spec["synthetic"]>["routing"];
}

export interface BenchFlags extends Omit<ModelFlags, "threads">, SyntheticFlags, SweepFlags {
  readonly threads: readonly number[];
  readonly prompt?: readonly number[];
  readonly gen?: readonly number[];
  readonly calls?: readonly number[];
  readonly depth: readonly number[];
  readonly pg: readonly [number, number][];
  readonly verify: readonly number[];
  readonly long?: readonly [number, number] | true;
  readonly load?: true;
  readonly perplexity?: string;
  readonly window: number;
  readonly perplexityTokens?: number;
  readonly kv: readonly KvType[];
  readonly ub?: readonly number[];
  readonly tokens: Spec["tokens"];
  readonly text?: string;
  readonly seed: number;
  readonly repetitions: number;
  readonly minTime: number;
  readonly warmup: number;
  readonly tokenTimes?: true;
  readonly library?: string;
  readonly json?: string;
  readonly output?: string;
  readonly resume?: string;
}

/** A parser that throws UserError, as commander wants it. */
export function refusing<T>(parse: (text: string) => T): (text: string) => T {
  return (text) => {
    try {
      return parse(text);
    } catch (e) {
      if (e instanceof UserError) throw new InvalidArgumentError(e.message);
      throw e;
    }
  };
}

const counts = (what: string) => refusing((text) => parseCounts(text, what));
const pairs = (what: string) => refusing((text) => parsePairs(text, what));

/** Flags whose short forms commander does not take: `-pg` is `--pg`. */
const LONG_FORM: Readonly<Record<string, string>> = {
  "-pg": "--pg",
  "-ub": "--ub",
  "-ctk": "--kv",
  "-ctv": "--kv",
};

export function expandShortFlags(argv: readonly string[]): string[] {
  if (argv[0] !== "bench") return [...argv];
  return argv.map((word) => LONG_FORM[word] ?? word);
}

const LONG_DEFAULT: [number, number] = [32768, 128];

function kvTypes(text: string): KvType[] {
  return text.split(",").map((name) => {
    const known = FLAGS.kv.argChoices!.find((k) => k === name.trim());
    if (known) return known as KvType;
    throw new InvalidArgumentError(`Allowed choices are ${FLAGS.kv.argChoices!.join(", ")}.`);
  });
}

/** Random weights in the place of a checkpoint. */
export const SYNTHETIC = new Option(
  "--synthetic [seed]",
  "random weights for the architecture: needs no checkpoint",
).argParser(whole({ min: 0, max: 2 ** 32 - 1, example: "42" }));

/** Flags that make a synthetic model, shared with `lapwing synth`. */
export const SYNTHETIC_FLAGS = {
  layers: new Option("--layers <n>", "synthetic: so many layers")
    .argParser(whole({ min: 1, max: 512, example: "8" })),
  experts: new Option("--experts <n>", "synthetic: so many experts")
    .argParser(whole({ min: 1, max: 1024, example: "64" })),
  vocab: new Option("--vocab <n>", "synthetic: so many token ids")
    .argParser(whole({ min: 16, max: 1 << 22, example: "4096" })),
  routing: new Option("--routing <how>", "synthetic: how often experts are chosen")
    .choices(ROUTINGS),
} as const;

function counted(flags: string, about: string, shown: string) {
  const option = new Option(flags, about).argParser(counts(flags.split(/,? /)[0]));
  return shown === "none"
    ? option.default([], "none")
    : option.default(parseCounts(shown, flags), shown);
}

const WORK = "Work (by lists and ranges: 512,1024 or 1-4 or 0-8192+1024 or 512-8192*2):";

/** Adds all flags of a benchmark. */
export function addBenchFlags(command: Command) {
  const model = command.optionsGroup("Model:")
    .addOption(FLAGS.model)
    .addOption(FLAGS.device)
    .addOption(counted("-t, --threads <list>", "CPU threads; 0: all", "0"))
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .addOption(SYNTHETIC)
    .addOption(SYNTHETIC_FLAGS.layers)
    .addOption(SYNTHETIC_FLAGS.experts)
    .addOption(SYNTHETIC_FLAGS.vocab)
    .addOption(SYNTHETIC_FLAGS.routing)
    .option("--library <file>", "native library (default: the one that make built)");
  const work = addWorkFlags(model);
  addSweepFlags(work as unknown as Command);
  return work.optionsGroup("Samples:")
    .option(
      "-r, --repetitions <n>",
      "samples at least",
      whole({ min: 1, max: 1000, example: "10" }),
      5,
    )
    .option(
      "--min-time <s>",
      "seconds of samples at least",
      decimal({ min: 0, max: 3600, example: "2" }),
      0,
    )
    .option(
      "--warmup <n>",
      "runs before; the first is the cold one",
      whole({ min: 1, max: 100, example: "1" }),
      1,
    )
    .option("--token-times", "time every token by itself")
    .optionsGroup("Output:")
    .option(
      "--json <file>",
      "write the report, row by row; .jsonl for lines, - for standard output",
    )
    .addOption(
      new Option("-o, --output <format>", "print this instead of the table")
        .choices(["json", "jsonl", "md", "csv"] as const),
    )
    .option("--resume <file>", "finish the report of an interrupted run");
}

function addWorkFlags<
  A extends unknown[],
  O extends Record<string, unknown>,
  G extends OptionValues,
>(
  command: Command<A, O, G>,
) {
  return command.optionsGroup(WORK)
    .addOption(
      new Option("-p, --prompt <list>", "prompt tokens (512, if no other work is given)").argParser(
        counts("-p"),
      ),
    )
    .addOption(
      new Option("-n, --gen <list>", "tokens to decode (128, likewise)").argParser(counts("-n")),
    )
    .addOption(
      new Option("--calls <list>", "tokens of one native call of a decode (32)").argParser(
        counts("--calls"),
      ),
    )
    .addOption(counted("-d, --depth <list>", "tokens in the context before", "0"))
    .addOption(
      new Option("--pg <p,n>", "prompt, then decode; several by semicolons (-pg)")
        .argParser(pairs("-pg")).default([] as [number, number][], "none"),
    )
    .addOption(counted("--verify <list>", "rows of one verification", "none"))
    .addOption(
      new Option("--long [p,n]", "a long prompt, then decode (32768,128)")
        .argParser(refusing((text) => parsePairs(text, "--long")[0])),
    )
    .option("--load", "time to open the model")
    .option("--perplexity <file>", "how well a text is predicted")
    .option(
      "--window <tokens>",
      "context of --perplexity",
      whole({ min: 2, example: "1024" }),
      1024,
    )
    .option(
      "--perplexity-tokens <n>",
      "only the text's first tokens",
      whole({ min: 2, example: "4096" }),
    )
    .addOption(
      new Option("--kv <types>", "element types of the KV cache, by commas (-ctk)")
        .argParser(kvTypes).default(["f16" as KvType], "f16"),
    )
    .addOption(
      new Option("--ub <list>", "tokens of one prefill play (-ub) (512, on CUDA 2048)").argParser(
        counts("--ub"),
      ),
    )
    .addOption(
      new Option("--tokens <kind>", "what prompts are").choices(TOKEN_SOURCES)
        .default("random" as const),
    )
    .option("--text <file>", "the text of --tokens text")
    .option(
      "--seed <n>",
      "of random prompts",
      whole({ min: 0, max: 2 ** 32 - 1, example: "42" }),
      0,
    );
}

/** Everything that was asked for, defaults resolved. Throws UserError. */
export function specOf(flags: BenchFlags): Spec {
  const verifySweep = sweepOf(flags);
  if (verifySweep && flags.device === "null") {
    throw new UserError(
      "--verify-sweep is not for the null device: it computes no tokens to accept.",
    );
  }
  const other = verifySweep !== null || flags.pg.length > 0 || flags.verify.length > 0 ||
    flags.long !== undefined ||
    flags.load === true || flags.perplexity !== undefined;
  const alone = other && flags.prompt === undefined && flags.gen === undefined;
  refuseStray(flags);
  return {
    model: flags.model,
    synthetic: syntheticOf(flags),
    device: flags.device,
    threads: [...flags.threads],
    kv: [...flags.kv],
    prefill_rows: [...flags.ub ?? [prefillRowsDefault(flags.device)]],
    quantize: flags.quantize ?? null,
    plan: { ...flags.plan },
    n_prompt: alone ? [] : [...flags.prompt ?? [512]],
    n_gen: alone ? [] : [...flags.gen ?? [128]],
    call_tokens: [...flags.calls ?? [CALL_TOKENS]],
    n_depth: [...flags.depth],
    prompt_gen: flags.pg.map(([p, n]) => [p, n]),
    verify_rows: [...flags.verify],
    verify_sweep: verifySweep,
    long: flags.long === undefined ? null : flags.long === true ? LONG_DEFAULT : [...flags.long],
    load: flags.load ?? false,
    perplexity: flags.perplexity === undefined ? null : {
      file: flags.perplexity,
      window: flags.window,
      tokens: flags.perplexityTokens ?? null,
    },
    tokens: flags.tokens,
    text_file: flags.text ?? null,
    seed: flags.seed,
    repetitions: flags.repetitions,
    min_time_ns: Math.round(flags.minTime * 1e9),
    warmup: flags.warmup,
    token_times: flags.tokenTimes ?? false,
  };
}

/** Null for a model that is read. Throws UserError. */
export function syntheticOf(flags: SyntheticFlags): Spec["synthetic"] {
  const { synthetic, layers = null, experts = null, vocab = null, routing = "model" } = flags;
  if (synthetic !== undefined) {
    return { seed: synthetic === true ? 0 : synthetic, layers, experts, vocab, routing };
  }
  const only = (["layers", "experts", "vocab", "routing"] as const)
    .find((name) => flags[name] !== undefined);
  if (only === undefined) return null;
  throw new UserError(`--${only} is for --synthetic models: add --synthetic.`);
}

/** The same for a model that is opened right here; undefined for one that is read. Throws UserError. */
export function syntheticOptionsOf(flags: SyntheticFlags): SyntheticOptions | undefined {
  const spec = syntheticOf(flags);
  if (spec === null) return undefined;
  const { layers, experts, vocab } = flags;
  return { seed: spec.seed, routing: spec.routing, layers, experts, vocab };
}

function refuseStray(flags: BenchFlags): void {
  if (flags.text !== undefined && flags.tokens !== "text") {
    throw new UserError(
      `--text is the source of --tokens text, not of ${flags.tokens} ids: add --tokens text.`,
    );
  }
  const rows = flags.verify.find((n) => n < 1 || n > 16);
  if (rows !== undefined) throw new UserError(`--verify ${rows}: a verification has 1 to 16 rows.`);
  if (flags.calls?.some((n) => n < 1)) {
    throw new UserError("--calls 0: a call decodes at least one token.");
  }
  if (flags.calls && flags.tokenTimes) {
    throw new UserError("--token-times makes a call for every token: leave out --calls.");
  }
  if (flags.ub?.some((n) => n < 1)) {
    throw new UserError("-ub 0: a prefill play has at least one token.");
  }
}
