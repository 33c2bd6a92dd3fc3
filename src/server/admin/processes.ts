/** The state of all processes that serve the port. Each worker answers for itself; the supervisor collects the answers. */
import { fail } from '../../core/failure.ts'
import { isObject, type JsonObject, list } from '../../core/json.ts'
import { statusPage } from '../../gateway/handlers/pages.ts'
import { processView } from '../../observe/alerts/view.ts'
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
  /** Its start, and changes of circuits and keys from `from` until before `to` (ms since 1970). */
  | { readonly do: 'changes'; readonly from: number; readonly to: number }
  /** The outages of providers. */
  | { readonly do: 'incidents' }
  /** The alerts that were sent and are not over. Of several workers the first one sends them. */
  | { readonly do: 'alerts' }
  /** What it knows for alerts, with the failed requests of the last `window` ms. */
  | { readonly do: 'alert_view'; readonly window: number }
  /** Reads the teams, keys, budgets and prices that were written so far. */
  | { readonly do: 'refresh' }

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
  | 'minutes'
  | 'refresh'
  | 'alerts'
  | 'counts'
  | 'ledgerLag'
>

type ProcessAnswer = { readonly name: string | null; readonly value: JsonObject }
type ProcessAnswers = {
  /** The process that runs this comes first. */
  readonly answers: readonly ProcessAnswer[]
}

/** Changes of circuits and keys of one process in one answer. */
const MAX_TRANSITIONS = 1_000
const REVOKED = fail('unauthenticated', 'This API key was revoked. Send another client key of this gateway.')
/** ms for the workers to answer. A reload reads files, and the next request of a client may depend on a refresh. */
const WITHIN = { usual: 500, reload: 1_500, refresh: 1_500 }

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
    case 'changes':
      return {
        started: deps.process.startedAt,
        pid: process.pid,
        transitions: deps.transitions.between(query, MAX_TRANSITIONS).map((one) => ({ ...one })),
      }
    case 'incidents':
      return { incidents: deps.incidents.all().map((one) => ({ ...one })) }
    case 'alerts':
      return { state: deps.alerts() }
    case 'alert_view':
      return processView(gateway, {
        config: configuration.running(),
        problems: deps.process.problems(),
        ledgerLag: deps.ledgerLag(),
        counts: deps.counts.sums(query.window),
      })
    case 'refresh':
      await deps.refresh()
      return {}
    default:
      throw new Error(`unknown query ${JSON.stringify(query satisfies never)}`)
  }
}

/** Sends a query to all processes. */
export const askProcesses = async (deps: ProcessDeps, query: ProcessQuery): Promise<ProcessAnswers> => {
  const { processes, process } = deps
  const { worker } = process
  const within = query.do === 'reload' || query.do === 'refresh' ? WITHIN[query.do] : WITHIN.usual
  const found = processes && worker ? await processes(JSON.stringify(query), within) : null
  const others: ProcessAnswer[] = []
  let own: JsonObject | undefined
  for (const one of found?.replies ?? []) {
    // `answerHere` of the same program.
    const value = JSON.parse(one.reply) as JsonObject
    if (one.worker === worker?.number) own = value
    else others.push({ name: `${one.worker}/${found?.of}`, value })
  }
  own ??= await answerHere(deps, query)
  return { answers: [{ name: nameOf(process), value: own }, ...others] }
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

/** Returns the result of a write when all processes have read it, or after 1.5 s: a new key is valid in each of them. */
export const runInAllProcesses =
  (deps: ProcessDeps, run: RunOperation): RunOperation =>
  async (operation, context) => {
    const result = await run(operation, context)
    if (deps.processes && result.ok && WRITES.has(operation.do)) await askProcesses(deps, { do: 'refresh' })
    return result
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

const systemOf = ({ process: facts }: ProcessDeps): JsonObject => {
  const { rss, heapUsed, external } = process.memoryUsage()
  const problems = facts.problems()
  return {
    status: facts.draining() ? 'draining' : problems.length > 0 ? 'degraded' : 'ok',
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
