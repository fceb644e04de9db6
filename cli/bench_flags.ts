/** The flags of `lapwing bench`, and the spec that they make. Names are llama-bench's where the meaning is. */
import { type Command, InvalidArgumentError, Option } from "commander";
import { parseCounts, parsePairs } from "../bench/grid.ts";
import { type KvType, ROUTINGS, type Spec, TOKEN_SOURCES } from "../bench/report.ts";
import { UserError } from "../engine/errors.ts";
import { decimal, FLAGS, type ModelFlags, whole } from "./flags.ts";

export interface BenchFlags extends Omit<ModelFlags, "threads"> {
  readonly threads: readonly number[];
  readonly prompt?: readonly number[];
  readonly gen?: readonly number[];
  readonly depth: readonly number[];
  readonly pg: readonly [number, number][];
  readonly verify: readonly number[];
  readonly long?: readonly [number, number] | true;
  readonly load?: true;
  readonly perplexity?: string;
  readonly window: number;
  readonly perplexityTokens?: number;
  readonly kv: readonly KvType[];
  readonly ub: readonly number[];
  readonly tokens: Spec["tokens"];
  readonly text?: string;
  readonly seed: number;
  readonly repetitions: number;
  readonly minTime: number;
  readonly warmup: number;
  readonly tokenTimes?: true;
  readonly synthetic?: true;
  readonly layers?: number;
  readonly experts?: number;
  readonly vocab?: number;
  readonly routing?: NonNullable<Spec["synthetic"]>["routing"];
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
const one = (parsed: [number, number][]) => parsed[0];

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

const KV_HELP = "element types of the KV cache, by commas (-ctk)";
const LONG_DEFAULT: [number, number] = [32768, 128];

function kvTypes(text: string): KvType[] {
  return text.split(",").map((name) => {
    const known = FLAGS.kv.argChoices!.find((k) => k === name.trim());
    if (known) return known as KvType;
    throw new InvalidArgumentError(`Allowed choices are ${FLAGS.kv.argChoices!.join(", ")}.`);
  });
}

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

/** Adds all flags of a benchmark. */
export function addBenchFlags(command: Command) {
  return command
    .optionsGroup("Model:")
    .addOption(FLAGS.model)
    .addOption(FLAGS.device)
    .option("-t, --threads <list>", "CPU threads (default: all)", counts("--threads"), [0])
    .addOption(FLAGS.quantize)
    .addOption(FLAGS.plan)
    .option("--synthetic", "random weights for the architecture: no checkpoint is needed")
    .addOption(SYNTHETIC_FLAGS.layers)
    .addOption(SYNTHETIC_FLAGS.experts)
    .addOption(SYNTHETIC_FLAGS.vocab)
    .addOption(SYNTHETIC_FLAGS.routing)
    .option("--library <file>", "native library (default: the one that make built)")
    .optionsGroup("Work (lists 512,1024 and ranges 1-4, 0-8192+1024, 512-8192*2 make a grid):")
    .option(
      "-p, --prompt <list>",
      "prompt tokens (default: 512 unless other work is asked for)",
      counts("-p"),
    )
    .option("-n, --gen <list>", "tokens to decode (default: 128 likewise)", counts("-n"))
    .option("-d, --depth <list>", "tokens in the context before", counts("-d"), [0])
    .option("--pg <p,n>", "prompt, then decode; several by semicolons (-pg)", pairs("-pg"), [])
    .option("--verify <list>", "rows of one verification", counts("--verify"), [])
    .option(
      "--long [p,n]",
      "a long prompt, then decode (32768,128)",
      refusing((t) => one(parsePairs(t, "--long"))),
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
    .option("--kv <types>", KV_HELP, kvTypes, ["f16" as KvType])
    .option("--ub <list>", "tokens of one prefill play (-ub)", counts("-ub"), [512])
    .addOption(
      new Option("--tokens <kind>", "what prompts are").choices(TOKEN_SOURCES).default(
        "random" as const,
      ),
    )
    .option("--text <file>", "the text of --tokens text")
    .addOption(FLAGS.seed)
    .optionsGroup("Sampling:")
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
      "runs before the samples; the first is the cold one",
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
      new Option("-o, --output <format>", "print this instead of the table").choices([
        "json",
        "jsonl",
        "md",
        "csv",
      ]),
    )
    .option("--resume <file>", "finish the report of an interrupted run");
}

/** Everything that was asked for, defaults resolved. Throws UserError. */
export function specOf(flags: BenchFlags): Spec {
  const other = flags.pg.length > 0 || flags.verify.length > 0 || flags.long !== undefined ||
    flags.load === true || flags.perplexity !== undefined;
  const alone = other && flags.prompt === undefined && flags.gen === undefined;
  refuseStray(flags);
  return {
    model: flags.model,
    synthetic: flags.synthetic
      ? {
        seed: flags.seed,
        layers: flags.layers ?? null,
        experts: flags.experts ?? null,
        vocab: flags.vocab ?? null,
        routing: flags.routing ?? "model",
      }
      : null,
    device: flags.device,
    threads: [...flags.threads],
    kv: [...flags.kv],
    prefill_rows: [...flags.ub],
    quantize: flags.quantize ?? null,
    plan: { ...flags.plan },
    n_prompt: alone ? [] : [...flags.prompt ?? [512]],
    n_gen: alone ? [] : [...flags.gen ?? [128]],
    n_depth: [...flags.depth],
    prompt_gen: flags.pg.map(([p, n]) => [p, n]),
    verify_rows: [...flags.verify],
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

function refuseStray(flags: BenchFlags): void {
  const only = (["layers", "experts", "vocab", "routing"] as const)
    .find((name) => flags[name] !== undefined);
  if (only && !flags.synthetic) {
    throw new UserError(`--${only} is for --synthetic models: add --synthetic.`);
  }
  if (flags.text !== undefined && flags.tokens !== "text") {
    throw new UserError(
      `--text is the source of --tokens text, not of ${flags.tokens} ids: add --tokens text.`,
    );
  }
  const rows = flags.verify.find((n) => n < 1 || n > 16);
  if (rows !== undefined) throw new UserError(`--verify ${rows}: a verification has 1 to 16 rows.`);
  if (flags.ub.some((n) => n < 1)) {
    throw new UserError("-ub 0: a prefill play has at least one token.");
  }
}
