/** Rows of requests and attempts as the admin API shows them. */
import { columnVerdicts } from '../../core/guard-verdict.ts'
import type { RoutingDecision } from '../../core/journal.ts'
import { formatDollars } from '../../core/money.ts'
import { LISTED, type RequestRow, type StoredEnd } from '../columns/usage-schema.ts'
import type { AttemptEntry, RequestEntry } from './queries.ts'

export const isoTime = (at: number): string => new Date(at).toISOString()
export const dollars = (nano: number | null): string | null => (nano === null ? null : formatDollars(nano))

/** `full`: with what only operators may see. */
export const requestEntry = (row: RequestRow, full = true): RequestEntry => ({
  object: 'request',
  id: row.id,
  client_request_id: row.client_request_id,
  received_at: isoTime(row.received),
  ended_at: row.ended === null ? null : isoTime(row.ended),
  style: row.style,
  stream: row.stream === 1,
  asked: row.asked,
  route: row.route,
  provider: row.provider,
  model: row.model,
  key: namedId(row.key),
  team: namedId(row.team),
  end_user: row.end_user,
  client: row.client,
  tags: tagsOf(row.tags),
  outcome: row.outcome,
  status: row.status,
  code: row.code,
  message: row.message,
  trail: full ? row.trail : null,
  cache: row.cache,
  first_content_ms: row.first_content_ms,
  total_ms: row.total_ms,
  overhead_us: row.overhead_us,
  usage: {
    input: row.input,
    output: row.output,
    cache_read: row.cache_read,
    cache_write: row.cache_write,
    reasoning: row.reasoning,
    source: row.usage_source,
  },
  cost: dollars(row.cost),
  saved: formatDollars(row.saved),
  require: row.require,
  session: row.session,
  agent: row.agent,
  ...guardsOf(row.guards),
  trace: row.trace,
  ...(full && { node: row.node }),
  decision: decisionOf(row.decision, full),
  attempts: attemptsOf(row).map((attempt) => attemptEntry(attempt, row.received, full)),
})

const guardsOf = (column: string | null): Pick<RequestEntry, 'guards' | 'more_guards'> => {
  const { verdicts, more } = columnVerdicts(column)
  return { guards: verdicts, more_guards: more }
}

/** Attempts of one request in a result. */
const ATTEMPTS = 64

/** In the order of their starts. */
const attemptsOf = ({ attempt_list }: RequestRow): readonly StoredEnd[] => {
  // Only the ledger writes the column.
  const lists = JSON.parse(attempt_list ?? '[]') as readonly (readonly unknown[])[]
  const attempts = lists.map(
    (values) => Object.fromEntries(LISTED.map((name, at) => [name, values[at]])) as unknown as StoredEnd,
  )
  return attempts.sort((one, other) => one.started - other.started || one.n - other.n).slice(0, ATTEMPTS)
}

const attemptEntry = (row: StoredEnd, received: number, full: boolean): AttemptEntry => ({
  n: row.n,
  provider: row.provider,
  model: row.model,
  ...(full && { credential: row.credential }),
  hedge: row.hedge === 1,
  outcome: row.outcome,
  kind: row.kind,
  status: row.status,
  message: row.message,
  started_ms: Math.max(0, row.started - received),
  first_content_ms: row.first_content_ms,
  ended_ms: row.ended === null ? null : Math.max(0, row.ended - received),
  reserved: formatDollars(row.reserved),
  cost: dollars(row.cost),
  usage: {
    input: row.input,
    output: row.output,
    cache_read: row.cache_read,
    cache_write: row.cache_write,
    cache_write_1h: row.cache_write_1h,
    reasoning: row.reasoning,
    audio_input: row.audio_input,
    audio_output: row.audio_output,
    unit: row.unit ?? null,
    units: row.units ?? null,
    source: row.usage_source,
  },
  price: { source: row.price_source, version: row.price_version },
})

export const namedId = (id: string | null) => (id === null ? null : { id, name: null })

const decisionOf = (text: string | null, full: boolean): RoutingDecision | null => {
  if (text === null) return null
  // Only the gateway writes this column, from a `RoutingDecision`.
  const decision = JSON.parse(text) as RoutingDecision
  return full ? decision : { ...decision, skipped: decision.skipped.map((skip) => ({ ...skip, key: null })) }
}

/** Tags longer than the journal's limit are cut and no longer JSON. */
const tagsOf = (text: string | null): { readonly [name: string]: string } => {
  try {
    const value: unknown = JSON.parse(text ?? '{}')
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return {}
    return Object.fromEntries(Object.entries(value).map(([name, tag]) => [name, String(tag)]))
  } catch {
    return {}
  }
}
