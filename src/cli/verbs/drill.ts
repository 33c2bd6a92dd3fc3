/** `headgate drill`: what routes would lose if one of their providers, models, keys or regions failed. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { z } from 'zod'
import { nearest } from '../../core/nearest.ts'
import { ALLOWED_LOSS } from '../../core/route.ts'
import type { ShapeCount } from '../../gateway/drill/dry-drill.ts'
import { causeText, lossText, partText, percentText } from '../../policy/drill/report.ts'
import type { Shown } from '../../records/entities/shown.ts'
import { DRILL, DRILL_SHAPES, type DRILLED_ROUTE } from '../../server/answers/drill.ts'
import { type Cli, CliError, type DefineVerb, EXIT } from '../cli.ts'
import { gatewayOf } from '../gateway-client.ts'
import { readGiven } from '../given-file.ts'

const PATH = '/admin/api/v1/drill'

type DrillOptions = {
  readonly fail: string
  readonly allow?: string
  readonly strict?: true
  readonly live?: true
  readonly maxCost?: string
  readonly shapes?: string
  readonly config?: string
}
type RouteLosses = Pick<Shown<typeof DRILLED_ROUTE>, 'route' | 'requests' | 'allow' | 'units'>
type Unit = RouteLosses['units'][number]

const percentOf = (given: string | undefined): number | undefined => {
  if (given === undefined) return undefined
  const percent = Number(given)
  if (given.trim() !== '' && percent >= 0 && percent <= 100) return percent
  throw new CliError(EXIT.usage, `--allow ${given} is no percentage. Write a number from 0 to 100.`)
}

/** The one with this name. Otherwise an error with the nearest name. */
const named = <T>(all: readonly T[], name: string, nameOf: (one: T) => string, what: string): T => {
  const found = all.find((one) => nameOf(one) === name)
  if (found) return found
  const [near] = nearest(name, all.map(nameOf), 1)
  throw new CliError(EXIT.conflict, `There is no ${what} ${name}.${near === undefined ? '' : ` Did you mean ${near}?`}`)
}

const linesOf = ({ route, requests }: RouteLosses, unit: Unit): readonly string[] => {
  const { name, lost, unknown, lossy, causes } = unit
  if (lost === null) return [`${route}  without ${name}: unknown, because no request is known`]
  const count = Math.round(lost * requests).toLocaleString('en')
  const some = lost > 0 ? ` (${count} of ${requests.toLocaleString('en')} requests)` : ''
  const more = unknown ? `, ${percentText(unknown)} unknown` : ''
  const less = lossy ? `, ${percentText(lossy)} served without a part` : ''
  return [
    `${route}  without ${name}: loses ${percentText(lost)}${some}${more}${less}`,
    ...causes.map(({ share, targets }) => {
      const why = targets.map(({ provider, model, by, source }) => {
        const part = by === null ? 'unknown' : partText(by)
        return `${part} refused by ${provider}/${model} (${source})`
      })
      return `  ${percentText(share).padStart(13)}  ${why.join(', then ') || 'no target is left'}`
    }),
    ...(lost > 0 ? [`  ${unit.sentence}`] : []),
  ]
}

const drill = async (cli: Cli, name: string | undefined, options: DrillOptions): Promise<void> => {
  if (options.live && options.shapes !== undefined)
    throw new CliError(EXIT.usage, '--live needs a gateway, and --shapes plans without one. Leave one of them out.')
  const stated = percentOf(options.allow)
  if (options.live) await runLive(cli, name, options)
  const all =
    options.shapes === undefined ? await fromGateway(cli) : await fromFiles(cli, options.shapes, options.config)
  const routes = name === undefined ? all : [named(all, name, ({ route }) => route, 'route')]
  const shown = routes.map((route) => ({ ...route, units: unitsOf(route, options.fail, name !== undefined) }))
  cli.answer(shown, () => shown.flatMap((route) => route.units.flatMap((unit) => linesOf(route, unit))))
  for (const { route, allow, units } of shown) {
    const most = stated ?? allow ?? ALLOWED_LOSS
    if (units.some((unit) => exceeds(unit, most, options.strict === true)))
      throw new CliError(EXIT.broken, `More than ${most} % of the requests of the route ${route} would be lost.`)
  }
}

const exceeds = ({ lost, unknown }: Unit, most: number, isStrict: boolean): boolean =>
  lost === null ? isStrict : 100 * (lost + (isStrict ? (unknown ?? 0) : 0)) > most

/** `each`: all. A unit that a route has not is an error where that route is named. */
const unitsOf = ({ units }: RouteLosses, fail: string, isNamed: boolean): readonly Unit[] => {
  if (fail === 'each') return units
  const found = units.find(({ unit }) => unit === fail)
  return found ? [found] : isNamed ? [named(units, fail, ({ unit }) => unit, 'unit')] : []
}

/** Most that live checks are waited for, and the time between two looks (ms). */
const WAITS = { most: 900_000, pause: 2_000 }

/** Begins live checks, and waits until they have ended. */
const runLive = async (cli: Cli, name: string | undefined, { maxCost }: DrillOptions): Promise<void> => {
  const gateway = await gatewayOf(cli)
  const body = { live: true, ...(name !== undefined && { routes: [name] }), ...(maxCost !== undefined && { maxCost }) }
  let { live } = await gateway.read(DRILL, `${PATH}/run`, { method: 'POST', body })
  for (let waited = 0; live?.ended === null && waited < WAITS.most; waited += WAITS.pause) {
    await sleep(WAITS.pause)
    live = (await gateway.read(DRILL, PATH)).live
  }
  if (live?.ended === null) throw new CliError(EXIT.conflict, 'The live checks go on. Run headgate drill later.')
}

const fromGateway = async (cli: Cli): Promise<readonly RouteLosses[]> => {
  const { enabled, data } = await (await gatewayOf(cli)).read(DRILL, PATH)
  if (enabled) return data
  throw new CliError(EXIT.conflict, 'This gateway counts no shapes of requests. Set drill.shapes to true.')
}

/** Plans here, with the configuration of this folder or of a file, and the shapes that `drill export` has written. */
const fromFiles = async (
  cli: Cli,
  shapesFile: string,
  configFile: string | undefined,
): Promise<readonly RouteLosses[]> => {
  const { drillOffline } = await import('../offline-drill.ts')
  const shapes = shapesIn(await readGiven(cli, shapesFile), shapesFile)
  const reports = await drillOffline(cli, shapes, configFile)
  return reports.map(({ route, requests, allow, units }) => ({
    route,
    requests: Math.round(requests),
    allow,
    units: units.map((unit) => ({
      ...unit,
      causes: unit.causes.map((cause) => ({
        ...cause,
        text: causeText(cause),
        targets: cause.targets.map((target) => ({ ...target, at: null })),
      })),
      sentence: lossText(route, unit),
    })),
  }))
}

const SHAPE_LINE = z.object({ route: z.string(), access: z.string(), shape: z.string(), requests: z.number().min(0) })

const shapesIn = (source: string, file: string): readonly ShapeCount[] =>
  source.split('\n').flatMap((line, at) => {
    if (line.trim() === '') return []
    const read = SHAPE_LINE.safeParse(valueIn(line))
    if (!read.success)
      throw new CliError(EXIT.usage, `${file}:${at + 1} is no shape. Write the file with \`headgate drill export\`.`)
    const { requests: weight, ...shape } = read.data
    return [{ ...shape, weight }]
  })

const valueIn = (line: string): unknown => {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}

/** One shape a line, in a stable order, so that a file of them can be committed. */
const exportShapes = async (cli: Cli): Promise<void> => {
  const { data } = await (await gatewayOf(cli)).read(DRILL_SHAPES, `${PATH}/shapes`)
  if (data.length === 0)
    throw new CliError(EXIT.conflict, 'No shapes of requests are counted yet. Set drill.shapes to true.')
  const lines = data.map(({ route, access, shape, requests, features }) =>
    JSON.stringify({ route, access, shape, requests, features }),
  )
  for (const line of lines.sort()) cli.print(line)
}

const withDrillOptions = (command: Command): Command =>
  command
    .option('--fail <unit>', 'what fails: openai, openai/gpt-5-mini, openai#a1f3, region:eu, or each', 'each')
    .option('--allow <percent>', 'requests that a route may lose; default: as the route states it, otherwise 1')
    .option('--live', 'first send the smallest requests to the targets of routes with live checks, which costs money')
    .option('--max-cost <dollars>', 'with --live: at most this; default: what is left of the day')
    .option('--strict', 'requests of which nothing is known count as lost')
    .option('--shapes <file>', 'plan here, with the shapes that `drill export` has written, without a gateway')
    .option('--config <file>', 'with --shapes: this file instead of headgate.yaml')

export const define: DefineVerb = (command, cli) => {
  withDrillOptions(command)
    .argument('[route]', 'the name of a route; default: all')
    .addHelpText(
      'after',
      '\nWithout --live nothing is sent to a provider. Exits with 7 if a route would lose more than --allow.\n\nExample: headgate drill fast --fail openai',
    )
    .action((route: string | undefined, options: DrillOptions) => drill(cli(), route, options))
  command
    .command('export')
    .description('Write the shapes of requests as JSON lines. They have no text of a request.')
    .addHelpText('after', '\nExample: headgate drill export > shapes.jsonl')
    .action(() => exportShapes(cli()))
}
