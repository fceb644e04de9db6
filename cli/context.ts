/** What every command is given: streams, environment, the engine, and where to leave its exit code. */
import type { EngineApi, Env } from "../engine/api_types.ts";
import { EXIT, type ExitCode } from "./exit.ts";
import { readEnv } from "./flags.ts";
import { loadEngine } from "./load_engine.ts";
import { type Paint, painter } from "./print.ts";
import { systemTerminal, type Terminal } from "./terminal.ts";

export interface Context {
  readonly terminal: Terminal;
  readonly env: Env;
  /** Colours for standard output and for standard error. */
  readonly outPaint: Paint;
  readonly errPaint: Paint;
  /** Loads the engine at the first call: help and completions need none. */
  readonly engine: () => Promise<EngineApi>;
  /** For results that are not errors but must not look like success. */
  exitCode: ExitCode;
}

/** A context around a terminal. */
export function makeContext(
  terminal: Terminal,
  env: Env,
  engine: () => Promise<EngineApi>,
): Context {
  return {
    terminal,
    env,
    outPaint: painter(terminal.outIsTty, env),
    errPaint: painter(terminal.errIsTty, env),
    engine,
    exitCode: EXIT.ok,
  };
}

/** The context of this process. */
export function systemContext(): Context {
  return makeContext(systemTerminal(), readEnv(), loadEngine);
}
