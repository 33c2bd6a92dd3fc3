/** Runs a verb: parses the arguments, loads the verb's module and converts errors to exit codes. */
import { Command, CommanderError } from 'commander'
import { colours, noPaint, wantsColour } from '../observe/colour.ts'
import { plain } from '../observe/line.ts'
import { type Cli, CliError, type CliHost, EXIT, type GlobalOptions } from './cli.ts'
import { VERBS } from './verbs.ts'

const ABOUT = 'One address for every text-generation model. Without a verb the gateway starts.'

const AFTER = `
Settings come from environment variables, .env or headgate.yaml in the working folder:

  PORT=4000 OPENAI_API_KEY=… ANTHROPIC_API_KEY=… headgate

Verbs that need a running gateway find the one of this folder, or the one at --url. Their admin token is --token,
HEADGATE_ADMIN_TOKEN or AUTH_ADMIN.

Exit codes: 0 done, 1 failed, 2 usage, 3 configuration invalid, 4 cannot reach the gateway, 5 not permitted,
6 not found or conflict.

Example: headgate status --json
`

/** The lines of a help text are at most this long, on every terminal. */
const HELP_WIDTH = 100

/** Options of the program that take a value. */
const WITH_VALUE = new Set(['--url', '--token'])

const nameOfVerb = (words: readonly string[]): string | undefined =>
  words.find((word, at) => !word.startsWith('-') && !WITH_VALUE.has(words[at - 1] ?? ''))

/** Builds the program. Only the verbs for which `isLoaded` is true have their options; the others have a name and a summary. */
export const buildProgram = async (
  host: CliHost,
  cli: (program: Command) => Cli,
  isLoaded: (name: string) => boolean,
): Promise<Command> => {
  const program = new Command('headgate')
    .description(ABOUT)
    .version(host.version, '-V, --version', 'print the version')
    .option('--json', 'print JSON: one object, or one line for each entry')
    .option('--no-color', 'print without colours')
    .option('-q, --quiet', 'print results and errors only')
    .option('--url <address>', 'address of the gateway instead of the one of this folder (HEADGATE_URL)')
    .option('--token <token>', 'admin token (HEADGATE_ADMIN_TOKEN, AUTH_ADMIN)')
    .helpOption('-h, --help', 'print help')
    .configureHelp({ showGlobalOptions: true, helpWidth: HELP_WIDTH })
    .configureOutput({
      writeOut: (text) => void host.stdout.write(text),
      writeErr: (text) => void host.stderr.write(text.replace(/^error: /, 'headgate: ')),
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride()
    .addHelpText('after', AFTER)
  for (const { name, summary, load } of VERBS) {
    const command = program
      .command(name)
      .description(`${summary[0]?.toUpperCase()}${summary.slice(1)}.`)
      .summary(summary)
    if (isLoaded(name)) (await load()).define(command, () => cli(program))
  }
  return program
}

/** Runs a verb and returns the exit code. */
export const runCli = async (words: readonly string[], host: CliHost): Promise<number> => {
  let code: number = EXIT.done
  const wanted = nameOfVerb(words)
  const names = wanted === 'help' ? words : [wanted]
  const program = await buildProgram(
    host,
    (built) => openCli(host, built.opts(), (set) => (code = set)),
    (name) => names.includes(name),
  )
  try {
    await program.parseAsync(words, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage
    if (!(error instanceof CliError)) throw error
    host.stderr.write(
      words.includes('--json')
        ? `${JSON.stringify({ error: { message: error.message, exit: error.code } })}\n`
        : `headgate: ${error.message}\n`,
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
    print,
    note: (line) => {
      if (!options.quiet) host.stderr.write(`${plain(line)}\n`)
    },
    answer: (value, lines) => {
      if (options.json) return print(JSON.stringify(value))
      for (const line of lines()) print(line)
    },
    exit,
  }
}
