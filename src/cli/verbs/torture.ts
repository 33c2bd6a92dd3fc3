/** `headgate torture`: runs the fault suite of `suite/`, a package of its own, against any gateway. */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'

const HOW_TO = `The fault suite is not part of this package. Run it from a clone:
  git clone https://github.com/headgate/headgate && cd headgate && npm run setup
  npm run headgate -- torture --target http://127.0.0.1:3000/v1 --system FILE`

/** Options of the suite that are passed on; its own help has them all. */
type TortureOptions = {
  readonly target?: string
  readonly system: string
  readonly only?: string
  readonly quick?: true
  readonly runs?: string
  readonly out?: string
  readonly expect?: string
}

const run = async (cli: Cli, options: TortureOptions): Promise<void> => {
  const program = fileURLToPath(new URL('suite/main.ts', cli.host.home))
  if (!existsSync(program)) throw new CliError(EXIT.failed, HOW_TO)
  const words = Object.entries(options).flatMap(([name, value]) =>
    value === true ? [`--${name}`] : [`--${name}`, value],
  )
  const child = spawn(process.execPath, [program, ...words], { stdio: 'inherit', cwd: cli.host.folder })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code === EXIT.usage) throw new CliError(EXIT.usage, 'The suite refused its options.')
  if (code === EXIT.worse) throw new CliError(EXIT.worse, 'A cell is worse than in the scorecard that was expected.')
  if (code !== 0) throw new CliError(EXIT.failed, 'The suite did not run.')
}

export const define: DefineVerb = (command, cli) => {
  command
    .requiredOption('--system <file>', 'how the gateway is configured: a file, or a name of suite/systems')
    .option('--target <url>', 'its base URL, in place of that of the file')
    .option('--only <ids>', 'families or scenarios, such as a,b03')
    .option('--quick', 'waits of a tenth: a check of a set-up, never published')
    .option('--runs <n>', 'runs of each cell; the worst counts (5)')
    .option('--out <folder>', 'for scorecard.json and scorecard.md (suite-results)')
    .option('--expect <file>', 'an earlier scorecard.json: exit 9 if a cell is worse')
    .addHelpText('after', '\nExample: headgate torture --system headgate --target http://127.0.0.1:3000/v1 --only a,b')
    .action((options: TortureOptions) => run(cli(), options))
}
