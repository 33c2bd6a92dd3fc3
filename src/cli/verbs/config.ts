/** `headgate config`: checks the configuration, and shows the effective one with the origin of each value. */
import { resolve } from 'node:path'
import { effectiveConfig } from '../../config/effective.ts'
import { loadConfig, readTexts } from '../../config/load.ts'
import { type Problem, problemLine } from '../../config/problem.ts'
import { type Cli, type DefineVerb, EXIT } from '../cli.ts'
import { localSources, readLocal, validConfig } from '../local.ts'
import { table } from '../table.ts'

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`

const check = async (cli: Cli, file: string | undefined): Promise<void> => {
  const { env, folder } = cli.host
  const named = file === undefined ? env : { ...env, HEADGATE_CONFIG: resolve(folder, file) }
  const loaded = await loadConfig({ ...(await localSources(cli.host)), env: named })
  const problems: readonly Problem[] = loaded.ok ? [] : loaded.problems
  if (!loaded.ok) cli.exit(EXIT.invalidConfig)
  cli.answer({ valid: loaded.ok, problems, warnings: loaded.warnings }, () => [
    ...problems.map((problem) => cli.paint.bad(problemLine(problem))),
    ...loaded.warnings.map((warning) => cli.paint.warn(`warning: ${warning}`)),
    loaded.ok
      ? `valid: ${loaded.sources.file ?? 'environment only'}, ${counted(loaded.config.instances.length, 'provider')}, ${counted(loaded.config.routes.size, 'route')}`
      : `invalid: ${counted(problems.length, 'problem')}`,
  ])
}

const show = async (cli: Cli, origins: boolean): Promise<void> => {
  const valid = validConfig(await readLocal(cli.host))
  const { launch, sources } = valid
  const { settings, providers, routes, accounts } = effectiveConfig(valid, await readTexts(cli.host), cli.host.env)
  const { port, host, production, workers } = launch
  cli.answer(
    {
      object: 'config',
      file: sources.file,
      port,
      host: host ?? null,
      production,
      workers,
      settings,
      providers,
      routes,
      accounts,
    },
    () => [
      ...table(
        ['SETTING', 'VALUE', ...(origins ? ['ORIGIN'] : [])],
        settings.map(({ name, value, origin }) => [
          name,
          value === null ? '–' : typeof value === 'object' ? JSON.stringify(value) : String(value),
          ...(origins ? [origin] : []),
        ]),
        cli,
      ),
      '',
      ...table(
        ['PROVIDER', 'KIND', 'BASE URL', 'KEYS', 'MODELS'],
        providers.map((one) => [one.id, one.kind, one.base_url, String(one.keys.length), one.models.join(', ') || '–']),
        cli,
      ),
      ...(routes.length > 0 ? ['', `Routes: ${routes.map(({ name }) => name).join(', ')}`] : []),
    ],
  )
}

export const define: DefineVerb = (command, cli) => {
  command.addHelpText('after', '\nExample: headgate config check headgate.yaml')
  command
    .command('check [file]')
    .description('Check the configuration. Prints one line for each problem: location, value found, values allowed.')
    .addHelpText('after', '\nExits with 3 if it is invalid.\n\nExample: headgate config check headgate.yaml')
    .action((file: string | undefined) => check(cli(), file))
  command
    .command('show')
    .description('Show the effective configuration of this folder. Secrets are shown as counts.')
    .option('--origins', 'also show where each value comes from')
    .addHelpText('after', '\nExample: headgate config show --origins')
    .action(({ origins }: { origins?: true }) => show(cli(), origins === true))
}
