/** Events of the stream `/admin/api/v1/live`, made from events of the gateway. They contain no text of prompts or answers. */
import { DEFAULT_TEAM } from '../../core/accounts.ts'
import { rowOf } from '../../core/failure.ts'
import { formatDollars } from '../../core/money.ts'
import type { GatewayEvent, Trace } from '../../core/trace.ts'
import {
  type AttemptRecord,
  recordedCache,
  recordedTarget,
  summaryOf,
  type TraceSummary,
} from '../../core/trace-summary.ts'

export const LIVE_TOPICS = ['requests', 'circuits', 'keys', 'budgets', 'log', 'config', 'audit'] as const
export type LiveTopic = (typeof LIVE_TOPICS)[number]

/** One event. Plain JSON data, since workers exchange them. */
export type LiveEvent = {
  /** `time-worker-number`; unique. Empty: no cursor, because it is a state that is sent again when it changes. */
  readonly id: string
  readonly topic: LiveTopic
  /** Name of the event in the stream: `request`, `circuit`, `key`, `budget`, `log`, `config` or `audit`. */
  readonly name: string
  /** IDs of the teams whose viewers receive it; null: all viewers. Empty: only viewers of all teams. */
  readonly teams: readonly string[] | null
  /** JSON on one line. */
  readonly data: string
  /** The same for viewers of single teams, where it differs. */
  readonly dataForTeams?: string
  /** A request that is not in the sample. */
  readonly isExtra?: true
}

/** The clocks and names that an event needs. */
export type LiveView = {
  /** ms since 1970. */
  readonly date: () => number
  /** The name of a key and the ID of its team; undefined: unknown. */
  readonly keyOf: (id: string) => { readonly name: string; readonly team: string } | undefined
  /** Where several processes serve the port: `1/2`. */
  readonly process: string | undefined
}

/** Characters of a name that a client can choose. */
const MAX_TEXT = 200
/** Attempts of a row. */
const MAX_ATTEMPTS = 32

/** Whether a request was answered by its first attempt, as most are. */
export const isUsual = (trace: Trace): boolean => {
  const { outcome, attempts } = summaryOf(trace)
  return outcome === 'answered' && attempts.length < 2
}

/** Copies of requests are no live events: their pairs are in the admin API. */
export type SentEvent = Exclude<GatewayEvent, { readonly event: 'shadow' }>

/** The live event for an event of the gateway. */
export const liveEventOf = (event: SentEvent, view: LiveView): Omit<LiveEvent, 'id'> => {
  const at = iso(view.date())
  switch (event.event) {
    case 'request':
      return requestEvent(event.trace, view)
    case 'circuit': {
      const { what, name, from, to, why, request = null } = event
      return transition('circuits', 'circuit', { at, what, name, from, to, why, request, ...processOf(view) })
    }
    case 'key': {
      const { provider, key, from, to, until, why = null, request = null } = event
      return transition('keys', 'key', { at, provider, key, from, to, until, why, request, ...processOf(view) })
    }
    case 'fallback': {
      const { id, client, from, to, kind } = event
      const teams = [teamIdOf(client, view)]
      return made('log', 'log', teams, { at, level: 'warn', event: 'fallback', request: id, from, to, kind })
    }
    case 'policy_breach': {
      const { id, provider, model, lack } = event
      return made('log', 'log', [], { at, level: 'error', event: 'policy_breach', request: id, provider, model, lack })
    }
    case 'guard_error': {
      const { id, guard, reason } = event
      return made('log', 'log', [], { at, level: 'warn', event: 'guard_error', request: id, guard, reason })
    }
    case 'loop': {
      const { id, client, session, found, isStopped } = event
      const teams = [teamIdOf(client, view)]
      const { level: found_level, detector, times } = found
      const seen = { found: found_level, detector, tool: found.tool.slice(0, 100), times, session, stopped: isStopped }
      return made('log', 'log', teams, { at, level: 'warn', event: 'loop', request: id, ...seen })
    }
    case 'break_glass': {
      const { id, address } = event
      return made('log', 'log', [], { at, level: 'warn', event: 'break_glass', request: id, address })
    }
    case 'error': {
      const { id = null, error } = event
      const name = error instanceof Error ? error.name : typeof error
      return made('log', 'log', [], { at, level: 'error', event: 'error', request: id, name })
    }
    default:
      throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
  }
}

/** The event of a reload, for viewers of all teams. `at`: ms since 1970. */
export const configEvent = ({
  at,
  outcome,
  changes,
}: {
  readonly at: number
  readonly outcome: string
  readonly changes: readonly string[]
}) => made('config', 'config', [], { at: iso(at), outcome, changes })

/** The event of a written record, without its content. */
export const auditEvent = (
  { kind, id, team }: { readonly kind: string | null; readonly id: string; readonly team: string | null },
  at: number,
) => made('audit', 'audit', team === null ? [] : [team], { at: iso(at), kind, id: id === '' ? null : id })

const made = (
  topic: LiveTopic,
  name: string,
  teams: readonly string[] | null,
  data: object,
): Omit<LiveEvent, 'id'> => ({
  topic,
  name,
  teams,
  data: JSON.stringify(data),
})

/** A change that concerns every team. The request that caused it may be of another team than the viewer's. */
const transition = <Data extends { readonly request: string | null }>(topic: LiveTopic, name: string, data: Data) => ({
  ...made(topic, name, null, data),
  ...(data.request !== null && { dataForTeams: JSON.stringify({ ...data, request: null }) }),
})

/** The row of a request as in `/admin/api/v1/requests`, without what only the ledger has. */
const requestEvent = (trace: Trace, view: LiveView): Omit<LiveEvent, 'id'> => {
  const summary = summaryOf(trace)
  const { client, failure, cost } = summary
  const { provider, model } = recordedTarget(summary)
  const known = cost ?? (summary.attempts.length === 0 ? 0 : undefined)
  const team = teamIdOf(client, view)
  const [first] = trace
  const { at: received, date, family } = first?.type === 'received' ? first : { at: 0, date: 0, family: '' }
  return made('requests', 'request', [team], {
    object: 'request',
    id: clip(summary.ownId),
    client_request_id: summary.ownId === summary.id ? null : clip(summary.id),
    received_at: iso(date),
    ended_at: iso(date + summary.totalMs),
    style: summary.style,
    stream: summary.stream,
    client: family,
    asked: clip(summary.model),
    provider,
    model: model === null ? null : clip(model),
    key: client === undefined ? null : { id: client, name: view.keyOf(client)?.name ?? null },
    team: { id: team, name: summary.team ?? (team === DEFAULT_TEAM.id ? DEFAULT_TEAM.name : null) },
    outcome: summary.outcome,
    status: summary.status,
    code: failure ? rowOf(failure).code : null,
    cache: recordedCache(summary),
    first_content_ms: rounded(summary.firstContentMs),
    total_ms: Math.round(summary.totalMs),
    overhead_us: Math.round(summary.overheadMs * 1_000),
    usage: usageRow(summary),
    cost: known === undefined ? null : formatDollars(known),
    ...processOf(view),
    attempts: summary.attempts.slice(0, MAX_ATTEMPTS).map((attempt, n) => attemptRow(attempt, n, received)),
  })
}

/** Without an attempt nothing was used. What a provider did not report is 0, as in the ledger. */
const usageRow = ({ usage, estimated, attempts }: TraceSummary) => {
  const known = usage ?? (attempts.length === 0 ? { input: 0, output: 0 } : undefined)
  return {
    input: known?.input ?? null,
    output: known?.output ?? null,
    cache_read: known ? (known.cacheRead ?? 0) : null,
    cache_write: known ? (known.cacheWrite ?? 0) : null,
    reasoning: known ? (known.reasoning ?? 0) : null,
    source: known ? (estimated ? 'estimated' : 'exact') : null,
  }
}

const OUTCOMES = {
  committed: 'ok',
  broken: 'interrupted',
  failed: 'failed',
  abandoned: 'abandoned',
  pending: 'unknown',
}

const attemptRow = (attempt: AttemptRecord, n: number, received: number) => {
  const { provider, model, key, hedge, end, failure, status, began, settled, broke } = attempt
  const ended = broke ?? (end === 'committed' ? undefined : settled)
  return {
    n,
    provider,
    model: clip(model),
    credential: key,
    hedge,
    outcome: OUTCOMES[end],
    kind: failure?.kind ?? null,
    status,
    started_ms: Math.round(began - received),
    first_content_ms: end === 'committed' && settled !== undefined ? Math.round(settled - began) : null,
    ended_ms: ended === undefined ? null : Math.round(ended - received),
  }
}

/** Requests without a key, and those of `auth.keys`, belong to the default team. */
const teamIdOf = (client: string | undefined, { keyOf }: LiveView): string =>
  (client === undefined ? undefined : keyOf(client)?.team) ?? DEFAULT_TEAM.id

/** The API names it `node`. */
const processOf = ({ process }: LiveView) => (process === undefined ? {} : { node: process })
const rounded = (ms: number | null): number | null => (ms === null ? null : Math.round(ms))
const iso = (at: number): string => new Date(at).toISOString()
const clip = (text: string): string => text.slice(0, MAX_TEXT)
