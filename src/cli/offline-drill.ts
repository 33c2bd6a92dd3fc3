/** The drill without a gateway: the configuration of this folder, and shapes of requests from a file. */
import { resolve } from 'node:path'
import { loadTexts, readTexts } from '../config/load.ts'
import { problemLine } from '../config/problem.ts'
import { dryDrill, type ShapeCount } from '../gateway/drill/dry-drill.ts'
import { UpstreamHealth } from '../gateway/health/upstream-health.ts'
import { priceBook } from '../policy/accounts/price-book.ts'
import type { RouteReport } from '../policy/drill/report.ts'
import { realWorld } from '../runtime/world.ts'
import { type Cli, CliError, EXIT } from './cli.ts'
import { localSources } from './local.ts'

/** Nothing is sent. */
const NO_CALL = { abort() {}, resume() {} }

/** `file`: instead of headgate.yaml. `allow`: as the route states it; null: it states none. */
export const drillOffline = async (
  { host }: Cli,
  shapes: readonly ShapeCount[],
  file: string | undefined,
): Promise<readonly (RouteReport & { readonly allow: number | null })[]> => {
  const here = await localSources(host)
  const env = file === undefined ? here.env : { ...here.env, HEADGATE_CONFIG: resolve(here.folder, file) }
  const sources = { ...here, env }
  const loaded = loadTexts(await readTexts(sources), sources)
  if (!loaded.ok) {
    const problems = loaded.problems.map(problemLine).join('\n')
    throw new CliError(EXIT.invalidConfig, `The configuration is invalid.\n${problems}`)
  }
  const world = realWorld({ dial: () => NO_CALL })
  const catalogue = sources.catalogue ?? (() => undefined)
  const book = priceBook(catalogue, loaded.config.accounts.prices)
  const health = new UpstreamHealth(world, () => {})
  const planner = { world, health, catalogue, prices: () => book, lists: () => new Map() }
  const reports = await dryDrill({ planner, config: loaded.config, shapes, turn: async () => {} })
  return reports.map((report) => ({ ...report, allow: loaded.config.routes.get(report.route)?.drill?.allow ?? null }))
}
