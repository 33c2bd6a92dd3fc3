/**
 * The state of all processes: of those that serve the port, and of those of other gateways that share a store. Each process
 * answers for itself; the supervisor, or the store, collects the answers.
 */

import { fail } from '../../core/failure.ts'
import type { ListedGateway } from '../../core/fleet.ts'
import { isObject, type JsonObject, list } from '../../core/json.ts'
import { statusPage } from '../../gateway/handlers/pages.ts'
import { processView, reachedBudgets, sharedView } from '../../observe/alerts/view.ts'
import type { ControlOperation, RunOperation } from '../../records/store/record-operations.ts'
import type { AdminDeps } from './deps.ts'

/** A query to a process. Plain JSON data. */
export type ProcessQuery =
  | { readonly do: 'providers' }
  | { readonly do: 'system' }
  | { readonly do: 'cache' }
  | { readonly do: 'purge'; readonly which: PurgedAnswers }
  | { readonly do: 'reload' }
  /** Closes the circuits of a provider and ends the rests of its keys, or lets open circuits admit a probe now. */
  | { readonly do: 'circuits'; readonly provider: string; readonly action: 'close' | 'probe' }
  /** Ends the rests of a provider's key that its errors have caused. */
  | { readonly do: 'use_key'; readonly provider: string; readonly key: string }
  /** Ends the requests of a client key in progress. */
  | { readonly do: 'cut'; readonly key: string }
  /** The kinds of clients that have called. */
  | { readonly do: 'clients' }
  /** The subjects of signed tokens that have called. */
  | { readonly do: 'identities' }
  /** Its start, and changes of circuits and keys from `from` until before `to` (ms since 1970). */
  | { readonly do: 'changes'; readonly from: number; readonly to: number }
  /** The outages of providers. */
  | { readonly do: 'incidents' }
  /** What it has compared of the shadows of routes. */
  | { readonly do: 'shadows' }
  /** The alerts that were sent and are not over. Of several workers the first one sends them. */
  | { readonly do: 'alerts' }
  /**
   * What it knows for alerts, with the failed requests of the last `window` ms. `thresholds`: of budgets, in percent; null: those
   * of other gateways are not needed.
   */
  | { readonly do: 'alert_view'; readonly window: number; readonly thresholds: readonly number[] | null }
  /** Reads the teams, keys, budgets and prices that were written so far. */
  | { readonly do: 'refresh' }
  /** Begins live checks, in the one process that sends them. `routes` null: all; `maxCost` in nano-dollars; null: what is left of the day. */
  | { readonly do: 'drill'; readonly routes: readonly string[] | null; readonly maxCost: number | null }
  /** The live checks that it has sent last. */
  | { readonly do: 'drill_state' }
  /** Its state for the list of gateways. */
  | { readonly do: 'beat' }

type PurgedAnswers = { readonly team?: string; readonly key?: string; readonly model?: string }

export type ProcessDeps = Pick<
  AdminDeps,
  | 'gateway'
  | 'process'
  | 'configuration'
  | 'processes'
  | 'transitions'
  | 'incidents'
  | 'clients'
  | 'identities'
  | 'shadows'
  | 'minutes'
  | 'refresh'
  | 'alerts'
  | 'counts'
  | 'directory'
  | 'ledgerLag'
  | 'liveDrill'
  | 'drilled'
>

type ProcessAnswer = { readonly name: string | null; readonly value: JsonObject }
type ProcessAnswers = {
  /** The process that runs this comes first. */
  readonly answers: readonly ProcessAnswer[]
  /** How many processes there should be. */
  readonly of: number
  /** The gateways that share a store, this one first; null: this one shares none. */
  readonly gateways: readonly ListedGateway[] | null
}

/** Subjects of one process in one answer, the latest first. */
const MAX_IDENTITIES = 1_000
/** Changes of circuits and keys of one process in one answer. */
const MAX_TRANSITIONS = 1_000
const REVOKED = fail('unauthenticated', 'This API key was revoked. Send another client key of this gateway.')
/** ms to answer, if not the usual time: a reload reads files, and the next request of a client may depend on a refresh. */
const WITHIN: { readonly [query in ProcessQuery['do']]?: number } = {
  reload: 1_500,
  refresh: 1_500,
  cut: 1_500,
  purge: 1_500,
  drill: 5_000,
}
const USUAL = 800
/** Queries that a gateway runs also if it reads them minutes later, because its connection to the store was lost. */
const KEPT: ReadonlySet<ProcessQuery['do']> = new Set(['cut', 'purge'])

/** The name of a process: `1/2`; null: it is the only one. */
const nameOf = ({ worker }: AdminDeps['process']): string | null => (worker ? `${worker.number}/${worker.of}` : null)

/** What this process answers to a query. */
export const answerHere = async (deps: ProcessDeps, query: ProcessQuery): Promise<JsonObject> => {
  const { gateway, configuration } = deps
  switch (query.do) {
    case 'providers':
      return providersOf(deps)
    case 'system':
      return systemOf(deps)
    case 'cache':
      return { answers: gateway.cache.size, bytes: gateway.cache.bytes, limit_bytes: gateway.cache.limit }
    case 'purge':
      return { removed: gateway.cache.purge(query.which) }
    case 'reload': {
      const before = configuration.reloads()[0]
      await configuration.reload()
      const [latest] = configuration.reloads()
      return { outcome: latest && latest !== before ? latest.outcome : 'unchanged' }
    }
    case 'circuits': {
      const instance = gateway.config().instances.find(({ id }) => id === query.provider)
      const { circuits, cooldowns } = gateway.health
      if (!instance) return { changed: 0 }
      const rests = query.action === 'close' ? cooldowns.end(instance) : 0
      return { changed: circuits.override(instance, query.action) + rests }
    }
    case 'use_key': {
      const instance = gateway.config().instances.find(({ id }) => id === query.provider)
      const key = instance?.keys.find(({ id }) => id === query.key)
      return { changed: instance && key ? gateway.health.cooldowns.end(instance, key) : 0 }
    }
    case 'cut':
      return { ended: gateway.activeCalls.cancelOf(query.key, REVOKED) }
    case 'clients':
      return { clients: deps.clients.all().map((one) => ({ ...one, wrong: one.wrong && { ...one.wrong } })) }
    case 'identities':
      return {
        identities: deps
          .identities()
          .slice(0, MAX_IDENTITIES)
          .map((one) => ({ ...one })),
      }
    case 'changes':
      return {
        started: deps.process.startedAt,
        pid: process.pid,
        transitions: deps.transitions.between(query, MAX_TRANSITIONS).map((one) => ({ ...one })),
      }
    case 'incidents':
      return { incidents: deps.incidents.all().map((one) => ({ ...one })) }
    case 'shadows':
      return { shadows: deps.shadows() }
    case 'alerts':
      return { state: deps.alerts() }
    case 'alert_view':
      return {
        ...processView(gateway, {
          config: configuration.running(),
          problems: deps.process.problems(),
          ledgerLag: deps.ledgerLag(),
          counts: deps.counts.sums(query.window),
          certificates: deps.process.certificates(),
          drilled: deps.drilled(),
        }),
        ...(await reachedBy(deps, query.thresholds)),
      }
    case 'drill': {
      const live = deps.liveDrill()
      if (!live?.isSender) return {}
      const begun = await live.begin(query.routes, query.maxCost)
      return begun.ok ? { run: { ...begun.value } } : { failure: { ...begun.failure } }
    }
    case 'drill_state': {
      const run = deps.liveDrill()?.state()
      return run ? { run: { ...run } } : {}
    }
    case 'refresh':
      await deps.refresh()
      return {}
    case 'beat': {
      const { status, problems, started_at, requests_in_progress } = systemOf(deps)
      const { version } = deps.process
      const components = problems.map(({ component }) => component)
      return { version, status, problems: components, lag_ms: deps.ledgerLag(), started_at, requests_in_progress }
    }
    default:
      throw new Error(`unknown query ${JSON.stringify(query satisfies never)}`)
  }
}

/** The budgets that have reached a threshold; of several workers one states them for all. */
const reachedBy = async ({ gateway, directory, process }: ProcessDeps, thresholds: readonly number[] | null) => {
  if (thresholds === null || (process.worker && process.worker.number !== 1)) return {}
  const { budgets } = await sharedView(gateway, directory())
  return { reached: reachedBudgets(budgets, thresholds).map((one) => ({ ...one })) }
}

/** Sends a query to all processes. */
export const askProcesses = async (deps: ProcessDeps, query: ProcessQuery): Promise<ProcessAnswers> => {
  const options = { within: WITHIN[query.do] ?? USUAL, isKept: KEPT.has(query.do) }
  const [own, found] = await Promise.all([
    answerHere(deps, query),
    deps.processes?.(JSON.stringify(query), options) ?? null,
  ])
  // `answerHere` of the same program.
  const others = found?.others.map(({ name, reply }) => ({ name, value: JSON.parse(reply) as JsonObject })) ?? []
  return {
    answers: [{ name: found?.own ?? nameOf(deps.process), value: own }, ...others],
    of: found?.of ?? deps.process.worker?.of ?? 1,
    gateways: found?.gateways ?? null,
  }
}

/** Operations whose effect the next request of a client may depend on. */
const WRITES: ReadonlySet<ControlOperation['do']> = new Set([
  'create',
  'patch',
  'delete',
  'rotate',
  'retire',
  'block',
  'unblock',
  'bulk',
  'decide',
])

/**
 * Returns the result of a write when all processes have read it, or after 1.5 s: a new key is valid in each of them. Writes that
 * come while the processes read wait for the next time together.
 */
export const runInAllProcesses = (deps: ProcessDeps, run: RunOperation): RunOperation => {
  let reading: Promise<unknown> = Promise.resolve()
  let next: Promise<unknown> | null = null
  const refreshed = (): Promise<unknown> => {
    next ??= reading.then(() => {
      next = null
      reading = askProcesses(deps, { do: 'refresh' }).catch(() => {})
      return reading
    })
    return next
  }
  return async (operation, context) => {
    const result = await run(operation, context)
    if (deps.processes && result.ok && WRITES.has(operation.do)) await refreshed()
    return result
  }
}

/** `/providers/status`, with the last 60 minutes of each provider. */
const providersOf = ({ gateway, minutes }: ProcessDeps): JsonObject => {
  const page = statusPage(gateway)
  const data = list(page.data)
    .filter(isObject)
    .map((entry) => ({
      ...entry,
      minutes: minutes
        .of(String(entry.id))
        .map(({ start, ...cell }) => ({ start: new Date(start).toISOString(), ...cell })),
    }))
  return { ...page, data }
}

const systemOf = ({ process: facts }: ProcessDeps) => {
  const { rss, heapUsed, external } = process.memoryUsage()
  const problems = facts.problems()
  const status = facts.draining() ? 'draining' : problems.length > 0 ? 'degraded' : 'ok'
  return {
    status,
    pid: process.pid,
    started_at: new Date(facts.startedAt).toISOString(),
    uptime_ms: Math.round(facts.uptime()),
    requests_in_progress: facts.live(),
    connections: facts.connections(),
    memory: { rss, heap_used: heapUsed, external },
    problems: problems.map(({ component, reason, since }) => ({
      component,
      reason,
      since: new Date(since).toISOString(),
    })),
  }
}
