/** Runs a verb: parses the arguments, loads the verb's module and converts errors to exit codes. */
import { Command, CommanderError } from 'commander'
import { nearest } from '../core/nearest.ts'
import { colours, noPaint, wantsColour } from '../observe/colour.ts'
import { plain } from '../observe/line.ts'
import { type Cli, CliError, type CliHost, EXIT, type GlobalOptions } from './cli.ts'
import { filled, helpWidth } from './help-text.ts'
import { VERBS } from './verbs.ts'

const ABOUT = 'One address for every text-generation model. Without a verb the gateway starts.'

const AFTER = `
Settings come from environment variables, .env or headgate.yaml in the working folder:

  PORT=4000 OPENAI_API_KEY=… ANTHROPIC_API_KEY=… headgate

Verbs that need a running gateway find the one of this folder, or the one at --url. Their admin token is --token,
HEADGATE_ADMIN_TOKEN or AUTH_ADMIN. HEADGATE_CLIENT_CERT and HEADGATE_CLIENT_KEY are files with the certificate that
they show a gateway, and its key.

Exit codes: 0 done, 1 failed, 2 usage, 3 configuration invalid, 4 cannot reach the gateway, 5 not permitted,
6 not found or conflict.

Example: headgate status --json
`

/** Options of the program that take a value, and those that take none. */
const WITH_VALUE = new Set(['--url', '--token'])
const WITHOUT_VALUE = new Set(['--json', '--no-color', '-q', '--quiet', '-V', '--version'])

/** Moves the options of the program to the front, because they may be anywhere. Options of verbs belong where they are. */
const separated = (
  words: readonly string[],
): { readonly globals: readonly string[]; readonly rest: readonly string[] } => {
  const [globals, rest]: [string[], string[]] = [[], []]
  const end = words.includes('--') ? words.indexOf('--') : words.length
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    const name = word.split('=')[0] ?? ''
    if (at >= end) rest.push(word)
    else if (WITHOUT_VALUE.has(word) || (WITH_VALUE.has(name) && name !== word)) globals.push(word)
    else if (WITH_VALUE.has(word)) globals.push(word, ...words.slice(++at, at + 1))
    else rest.push(word)
  }
  return { globals, rest }
}

/** Characters of a line of the terminal: of a pipe only what COLUMNS says. */
const widthOf = ({ stdout, env }: CliHost): number | null => {
  const given = /^[1-9][0-9]{1,4}$/.test(env.COLUMNS ?? '') ? Number(env.COLUMNS) : null
  return stdout.columns ?? given
}

/**
 * The options after the name of a subcommand are those of the subcommand, also where its verb has options of the same name.
 * Options of the verb before that name have no effect on the subcommand, so they are refused.
 */
const separateOptions = (command: Command): void => {
  command.enablePositionalOptions().hook('preSubcommand', (verb, sub) => {
    const [early] = verb.options.filter((option) => verb.getOptionValueSource(option.attributeName()) === 'cli')
    if (!early) return
    const isShared = sub.options.some(({ long }) => long === early.long)
    const name = `${verb.name()} ${sub.name()}`
    throw new CliError(
      EXIT.usage,
      isShared
        ? `Write ${early.long} after the subcommand: headgate ${name} ${early.flags}`
        : `${early.long} is an option of headgate ${verb.name()} and has no effect on ${name}.`,
    )
  })
}

const rootOf = (command: Command): Command => (command.parent ? rootOf(command.parent) : command)

/** A word that is not known, and the known ones: of an option of the program, which no verb knows, or of a choice. */
const unknownIn = (text: string): readonly [unknown: string, known: readonly string[]] | null => {
  const [, option] = /unknown option '(--[^']{1,40})'\n$/.exec(text) ?? []
  if (option !== undefined) return [option, [...WITH_VALUE, ...WITHOUT_VALUE]]
  const [, value, choices] =
    /'([^']{1,40})' is invalid[^.]{0,60}\. Allowed choices are (.{1,500})\.\n$/.exec(text) ?? []
  return value === undefined || choices === undefined ? null : [value, choices.split(', ')]
}

/** The text of a wrong use with the word that may be meant; with `--json` an object. */
const usageText = (text: string, isJson: boolean): string => {
  const [unknown, known] = unknownIn(text) ?? ['', []]
  const [near] = nearest(unknown, known)
  const whole = near === undefined ? text : `${text}(Did you mean ${near}?)\n`
  const message = whole.replace(/^error: /, '').trimEnd()
  return isJson ? `${JSON.stringify({ error: { message, exit: EXIT.usage } })}\n` : whole
}

/** Builds the program. Only the verbs for which `isLoaded` is true have their options; the others have a name and a summary. */
export const buildProgram = async (
  host: CliHost,
  cli: (program: Command) => Cli,
  isLoaded: (name: string) => boolean,
): Promise<Command> => {
  const width = helpWidth(widthOf(host))
  const program = new Command('headgate')
    .description(ABOUT)
    .version(host.version, '-V, --version', 'print the version')
    .option('--json', 'print JSON: one object, or one line for each entry')
    .option('--no-color', 'print without colours')
    .option('-q, --quiet', 'print results and errors only')
    .option('--url <address>', 'address of the gateway instead of the one of this folder (HEADGATE_URL)')
    .option('--token <token>', 'admin token (HEADGATE_ADMIN_TOKEN, AUTH_ADMIN)')
    .helpOption('-h, --help', 'print help')
    .configureHelp({
      showGlobalOptions: true,
      helpWidth: width,
      minWidthToWrap: 12,
      // Those of a verb are not options of its subcommands.
      visibleGlobalOptions: (command) => (command.parent ? [...rootOf(command).options] : []),
    })
    .configureOutput({
      writeOut: (text) => void host.stdout.write(filled(text, width)),
      writeErr: (text) => void host.stderr.write(text.replace(/^error: /, 'headgate: ')),
      outputError: (text, write) => write(usageText(text, program.opts().json === true)),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride()
    .enablePositionalOptions()
    .addHelpText('after', AFTER)
  for (const { name, summary, load } of VERBS) {
    const command = program
      .command(name)
      .description(`${summary[0]?.toUpperCase()}${summary.slice(1)}.`)
      .summary(summary)
    separateOptions(command)
    if (isLoaded(name)) (await load()).define(command, () => cli(program))
  }
  return program
}

/** Runs a verb and returns the exit code. */
export const runCli = async (words: readonly string[], host: CliHost): Promise<number> => {
  let code: number = EXIT.done
  const { globals, rest } = separated(words)
  const wanted = rest.find((word) => !word.startsWith('-'))
  const names = wanted === 'help' ? rest : [wanted]
  const program = await buildProgram(
    host,
    (built) => openCli(host, built.opts(), (set) => (code = set)),
    (name) => names.includes(name),
  )
  try {
    await program.parseAsync([...globals, ...rest], { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
    if (!(error instanceof CliError)) throw error
    host.stderr.write(
      words.includes('--json')
        ? `${JSON.stringify({ error: { message: error.message, exit: error.code } })}\n`
        : `headgate: ${error.message.split('\n').map(plain).join('\n')}\n`,
    )
    return error.code
  }
}

const openCli = (host: CliHost, given: Partial<GlobalOptions>, exit: Cli['exit']): Cli => {
  const options: GlobalOptions = {
    json: given.json === true,
    color: given.color !== false,
    quiet: given.quiet === true,
    url: given.url,
    token: given.token,
  }
  const isColoured = options.color && !options.json && wantsColour(host.env, host.stdout.isTTY === true)
  const print = (line: string) => void host.stdout.write(`${line}\n`)
  return {
    host,
    options,
    paint: isColoured ? colours : noPaint,
    width: widthOf(host),
    print,
    note: (line) => {
      if (!options.quiet) host.stderr.write(`${plain(line)}\n`)
    },
    answer: (value, lines) => {
      if (options.json) return print(JSON.stringify(value))
      for (const line of lines()) print(line)
    },
    wholeProgram: () =>
      buildProgram(
        host,
        () => openCli(host, given, exit),
        () => true,
      ),
    exit,
  }
}
