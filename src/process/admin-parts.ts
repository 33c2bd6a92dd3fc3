/** The parts that are loaded when they are used: the admin API, the dashboard, the documentation, the pages of clients, live events. */

import { fileURLToPath } from 'node:url'
import type { AskProcesses } from '../core/fleet.ts'
import type { DrillRuns } from '../gateway/drill/drill-runs.ts'
import { budgetReadings } from '../observe/account-metrics.ts'
import type { ProcessView } from '../observe/alerts/view.ts'
import type { LiveHub } from '../observe/live/hub.ts'
import { readingsText } from '../observe/registry.ts'
import { DASHBOARD } from '../server/admin/dashboard-client.ts'
import type { ProcessDeps, ProcessQuery } from '../server/admin/processes.ts'
import type { ClientPages } from '../server/client-pages.ts'
import type { Pages } from '../server/page-request.ts'
import type { PageOptions } from '../server/pages/source.ts'
import type { Handlers } from '../server/routes.ts'
import { sharedDatabase } from '../storage/sql/shared-database.ts'
import type { UsageReader } from '../usage/reading/usage-reader.ts'
import { drilledRoutes } from './drilled.ts'
import { fleetOf, gatewayNumber, processName } from './fleet/fleet-place.ts'
import { isKeyed, type Runtime } from './runtime.ts'
import type { WorkerLink } from './workers/worker.ts'

/** Loads the live events. */
const openLive = async (runtime: Runtime): Promise<LiveHub> => {
  const { current, gateway, keys, worker, started } = runtime
  const { LiveHub } = await import('../observe/live/hub.ts')
  const node = fleetOf(runtime)?.node
  const name = worker ? `${worker.number}/${worker.of}` : null
  current.live ??= new LiveHub({
    date: gateway.world.date,
    keyOf: (id) => keys.directory().keys.get(id),
    process: (node === undefined ? name : processName(node, name)) ?? undefined,
    worker: (node === undefined ? 0 : gatewayNumber(node)) + (worker?.number ?? 1),
    instance: worker?.instance ?? `${process.pid}-${started}`,
    others: worker?.live ?? current.fleetLive,
  })
  return current.live
}

/** Loads the admin API. */
export const openAdmin = async (runtime: Runtime, handlers: Handlers) => {
  const { bodies, keys, ledger } = runtime
  const { openAdminApi } = await import('../server/admin/index.ts')
  const { runInAllProcesses } = await import('../server/admin/processes.ts')
  const own = processDeps(runtime)
  return openAdminApi({
    ...own,
    tape: { mode: runtime.loaded.launch.tape?.mode ?? null, state: () => runtime.current.tape?.state() ?? null },
    control: {
      run: runInAllProcesses(own, keys.run),
      isStored: keys.isStored,
      lookUp: keys.lookUp,
      isOpen: () => !isKeyed(runtime),
      directory: keys.directory,
    },
    tokens: keys.tokens,
    usage: await openReader(runtime),
    ledger,
    bodies,
    handlers,
    drill: () => openDrill(runtime),
    live: () => openLive(runtime),
    onSignInProblem: ({ id, provider, reason }) =>
      runtime.log.warn('sso', {
        ...(id !== null && { id }),
        provider,
        message: `Sign-in: ${reason.replace(/\.$/, '')}.`,
      }),
  })
}

const pageOptions = ({ home, loaded, log }: Runtime, name: 'dashboard' | 'docs'): PageOptions => ({
  home: fileURLToPath(home),
  production: loaded.launch.production,
  now: () => performance.now(),
  onBuilt: (result) => {
    if (result.done) return log.info(name, { status: 'built' })
    const message = `The build failed (${result.problem}). "npm run build:${name}" shows the problem.`
    log.warn(name, { status: result.problem, message })
  },
})

/** Loads the dashboard. */
export const openDashboard = async (runtime: Runtime): Promise<Pages> => {
  const dashboard = await import('../server/pages/dashboard/index.ts')
  return dashboard.openDashboard(pageOptions(runtime, 'dashboard'))
}

/** Loads the documentation. */
export const openDocs = async (runtime: Runtime): Promise<Pages> => {
  const docs = await import('../server/pages/docs/index.ts')
  return docs.openDocs(pageOptions(runtime, 'docs'))
}

/** What the admin API reads of this process. */
const processDeps = (runtime: Runtime): ProcessDeps => {
  const {
    version,
    current,
    gateway,
    loaded,
    sources,
    reload,
    transitions,
    incidents,
    clients,
    issuers,
    minutes,
    problems,
    worker,
    started,
    keys,
  } = runtime
  return {
    gateway,
    processes: worker?.processes ?? askFleet(runtime),
    refresh: keys.refresh,
    transitions,
    incidents,
    clients,
    identities: issuers.seen,
    shadows: () => current.shadows?.states() ?? [],
    minutes,
    alerts: () => current.alerting?.state() ?? null,
    counts: runtime.counts,
    directory: keys.directory,
    ledgerLag: () => runtime.ledger.state().lagMs,
    drilled: () => drilledRoutes(runtime),
    liveDrill: () => current.liveDrill ?? null,
    process: {
      version,
      startedAt: started * 1000,
      uptime: () => process.uptime() * 1000,
      production: loaded.launch.production,
      draining: () => current.server?.draining() === true,
      live: () => current.server?.live() ?? 0,
      connections: () => current.server?.connections() ?? 0,
      problems,
      certificates: () => current.tls?.certificates() ?? [],
      worker: worker ? { number: worker.number, of: worker.of } : null,
    },
    configuration: {
      sources,
      running: () => current.config,
      warnings: () => current.warnings,
      reloads: reload.history,
      reload: async () => {
        await current.watching?.reload()
        // A hard budget that has appeared refuses calls until the ledger has said what is spent of it.
        await runtime.budgets.changed()
      },
    },
  }
}

/** Asks the other gateways; null: this one shares no store. */
const askFleet = ({ current }: Runtime): AskProcesses | null => {
  const { fleet } = current
  if (!fleet) return null
  return async (ask, options) => {
    const { of, replies } = await fleet.ask(ask, options)
    return { own: fleet.node, of: of + 1, others: replies, gateways: fleet.gateways() }
  }
}

/** The parts that the reader of the ledger needs. */
type ReadParts = Pick<Runtime, 'current' | 'gateway' | 'keys' | 'ledger' | 'issuers'>

export const openReader = async ({ current, gateway, keys, ledger, issuers }: ReadParts): Promise<UsageReader> => {
  const { UsageReader } = await import('../usage/reading/usage-reader.ts')
  current.reader ??= new UsageReader({
    folder: current.config.settings.data.dir,
    database: sharedDatabase(current.config.settings),
    timezone: current.config.settings.usage.timezone,
    keepHours: () => current.config.settings.usage.keepHours,
    date: gateway.world.date,
    flush: () => ledger.flush(),
    names: {
      key: (id) => keys.directory().keys.get(id)?.name ?? issuers.nameOf(id) ?? (id === DASHBOARD ? id : null),
      team: (id) => keys.directory().teams.get(id)?.name ?? null,
    },
  })
  return current.reader
}

/** Loads the drill of routes. */
export const openDrill = async (runtime: Runtime): Promise<DrillRuns> => {
  const { current, gateway } = runtime
  const [{ DrillRuns }, reader] = await Promise.all([import('../gateway/drill/drill-runs.ts'), openReader(runtime)])
  current.drill ??= new DrillRuns({
    planner: gateway,
    config: () => current.config,
    async shapes(range) {
      await current.liveDrill?.refresh()
      return reader.drillShapes(range)
    },
    live: (shape, candidate) => current.liveDrill?.resultOf(shape, candidate),
  })
  return current.drill
}

/** Loads the pages about a client's own usage and requests. */
export const openClientPages = async (runtime: Runtime): Promise<ClientPages> => {
  const pages = await import('../server/admin/client-pages.ts')
  return pages.openClientPages(runtime.gateway, await openReader(runtime))
}

/** Answers a query of the admin API of another worker. */
export const answerQuery = async (runtime: Runtime, ask: string): Promise<string> => {
  const { answerHere } = await import('../server/admin/processes.ts')
  // Another worker of the same program has sent it.
  return JSON.stringify(await answerHere(processDeps(runtime), JSON.parse(ask) as ProcessQuery))
}

/** What each process knows for alerts. `window`: ms in which failed requests are counted. */
export const processViews = async (
  runtime: Runtime,
  window: number,
  thresholds: readonly number[] | null,
): Promise<readonly ProcessView[]> => {
  const { askProcesses } = await import('../server/admin/processes.ts')
  const { answers } = await askProcesses(processDeps(runtime), { do: 'alert_view', window, thresholds })
  // See `answerHere`.
  return answers.map(({ value }) => value as ProcessView)
}

/** The metrics page of all workers, with the budgets that they share. Null: it is not available. */
export const sharedMetrics = async (runtime: Runtime, worker: WorkerLink): Promise<string | null> => {
  const budgets = [...runtime.keys.directory().budgets.values()]
  if (budgets.length === 0) return worker.metrics()
  const [page, { states }] = await Promise.all([worker.metrics(), runtime.gateway.accounts.budgetFigures()])
  const { perKey } = runtime.current.config.settings.metrics
  return page === null ? null : page + readingsText(budgetReadings(states, perKey))
}

/** Sends live events to the other workers, or ends that. */
export const followLive = async (runtime: Runtime, on: boolean): Promise<void> => {
  if (!on) return runtime.current.live?.follow(false)
  const live = await openLive(runtime)
  live.follow(true)
}
