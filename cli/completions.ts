/**
 * `lapwing completions`: scripts for bash, zsh and fish, written from the program's own commands and
 * options, so that they cannot fall behind.
 */
import { Argument, type Command, type CommandUnknownOpts, type Option } from "commander";
import type { Context } from "./context.ts";
import { examples } from "./help.ts";

const SHELLS = ["bash", "zsh", "fish"] as const;
type Shell = typeof SHELLS[number];

interface FlagInfo {
  readonly long: string;
  readonly short: string | null;
  readonly about: string;
  /** Null for a switch; else the values to offer, empty when only a file name can help. */
  readonly values: readonly string[] | null;
}

interface CommandInfo {
  readonly name: string;
  readonly about: string;
  readonly flags: readonly FlagInfo[];
  /** Values of the first argument. */
  readonly values: readonly string[];
}

/** Adds the command to the program. */
export function addCompletions(program: Command, context: Context): void {
  program.command("completions")
    .description("Print a completion script for a shell")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .addHelpText(
      "after",
      examples([
        ["completions bash > ~/.local/share/bash-completion/completions/lapwing", "bash"],
        ["completions zsh > ~/.zfunc/_lapwing", "zsh, with ~/.zfunc in fpath"],
        ["completions fish > ~/.config/fish/completions/lapwing.fish", "fish"],
      ]),
    )
    .action((shell) => context.terminal.out(completionScript(program, shell)));
}

/** The script of one shell for a program and its commands. */
export function completionScript(program: CommandUnknownOpts, shell: Shell): string {
  const visible = program.createHelp().visibleCommands(program);
  const commands = program.commands.filter((c) => visible.includes(c)).map(describe);
  const global = describe(program).flags;
  const everywhere = global.filter((f) => f.long === "--debug");
  const all = commands.map((c) => ({ ...c, flags: [...c.flags, ...everywhere] }));
  const write = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell];
  return write(program.name(), all, global);
}

function describe(command: CommandUnknownOpts): CommandInfo {
  const options = command.createHelp().visibleOptions(command);
  return {
    name: command.name(),
    about: command.description(),
    flags: options.filter((o) => o.long).map(describeFlag),
    values: command.registeredArguments[0]?.argChoices ?? [],
  };
}

function describeFlag(o: Option): FlagInfo {
  return {
    long: o.long!,
    short: o.short ?? null,
    about: o.description,
    values: o.required || o.optional ? o.argChoices ?? [] : null,
  };
}

/** A single-quoted shell word. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function spellings(f: FlagInfo): string[] {
  return f.short ? [f.long, f.short] : [f.long];
}

function bashScript(
  name: string,
  commands: readonly CommandInfo[],
  global: readonly FlagInfo[],
): string {
  const values = commands.flatMap((c) =>
    c.flags.filter((f) => f.values?.length).map((f) => {
      const patterns = spellings(f).map((s) => `"${c.name} ${s}"`).join(" | ");
      return `    ${patterns}) words="${f.values!.join(" ")}" ;;`;
    })
  );
  const free = commands.flatMap((c) =>
    c.flags.filter((f) => f.values?.length === 0)
      .flatMap((f) => spellings(f).map((s) => `"${c.name} ${s}"`))
  );
  const words = commands.map((c) => {
    const offered = [...c.values, ...c.flags.map((f) => f.long)];
    return `    "${c.name}"*) words="${offered.join(" ")}" ;;`;
  });
  const names = commands.map((c) => c.name);
  const start = [...names, ...global.map((f) => f.long)].join(" ");
  return `# bash completion for ${name}
_${name}() {
  local word=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]}
  local command="" words="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      ${names.join(" | ")}) command=\${COMP_WORDS[i]}; break ;;
    esac
  done
  case "$command $previous" in
${values.join("\n")}
    ${free.join(" | ")}) COMPREPLY=(); return ;;
${words.join("\n")}
    *) words="${start}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _${name} ${name}
`;
}

/** One _arguments specification. */
function zshFlag(f: FlagInfo): string {
  const about = f.about.replace(/[[\]:\\]/g, "\\$&");
  const value = f.values === null
    ? ""
    : f.values.length > 0
    ? `:value:(${f.values.join(" ")})`
    : ":value:_files";
  return spellings(f).map((s) => `    ${quote(`*${s}[${about}]${value}`)}`).join(" \\\n");
}

function zshScript(name: string, commands: readonly CommandInfo[]): string {
  const list = commands.map((c) => `    ${quote(`${c.name}:${c.about.replaceAll(":", "\\:")}`)}`);
  const cases = commands.map((c) => {
    const argument = c.values.length > 0 ? `:value:(${c.values.join(" ")})` : ":file:_files";
    const specs = [...c.flags.map(zshFlag), `    ${quote(`*${argument}`)}`];
    return `  ${c.name})\n    _arguments \\\n${specs.join(" \\\n")} ;;`;
  });
  return `#compdef ${name}
_${name}() {
  local -a commands
  commands=(
${list.join("\n")}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT--))
  case $command in
${cases.join("\n")}
  esac
}
if [ "$funcstack[1]" = "_${name}" ]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function fishScript(name: string, commands: readonly CommandInfo[]): string {
  const lines = [
    `# fish completion for ${name}`,
    `complete -c ${name} -n __fish_use_subcommand -f`,
  ];
  for (const c of commands) {
    lines.push(
      `complete -c ${name} -n __fish_use_subcommand -a ${c.name} -d ${fishQuote(c.about)}`,
    );
    const seen = `complete -c ${name} -n '__fish_seen_subcommand_from ${c.name}'`;
    if (c.values.length > 0) lines.push(`${seen} -f -a ${fishQuote(c.values.join(" "))}`);
    for (const f of c.flags) {
      const short = f.short ? ` -s ${f.short.slice(1)}` : "";
      const value = f.values === null
        ? ""
        : f.values.length > 0
        ? ` -x -a ${fishQuote(f.values.join(" "))}`
        : " -r";
      lines.push(`${seen} -l ${f.long.slice(2)}${short}${value} -d ${fishQuote(f.about)}`);
    }
  }
  return lines.join("\n") + "\n";
}

function fishQuote(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&")}'`;
}
