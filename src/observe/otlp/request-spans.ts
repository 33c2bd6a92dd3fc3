/** The spans of a request, from its row in the ledger: one of the server, and one of a client for each attempt. */
import { attemptSpanId, callSpan, type Sampling } from '../../core/call-span.ts'
import type { SpanFacts, SpanNoted } from '../../core/journal.ts'
import { LISTED, REQUEST_COLUMNS, type RequestRow, type StoredEnd } from '../../usage/columns/usage-schema.ts'
import type { RecordValues } from '../../usage/journal/journal-record.ts'
import { EVENTS, operationName, outputType, providerName, routeOf } from './gen-ai.ts'
import { KIND, type SpanParts, type SpanValues } from './span.ts'

/** A complete request, and what its spans state beside its row. */
export type TracedRequest = {
  readonly row: RequestRow
  readonly attempts: readonly StoredEnd[]
  readonly facts: ReadonlyMap<number | null, SpanFacts>
}

export type SpanRules = {
  readonly sampling: Sampling
  /** Failed, fallen back and slow requests are exported whatever was decided. */
  readonly keepErrors: boolean
  readonly legacyNames: boolean
}

/** ms to the first content above which a request is slow. */
const SLOW = 10_000

/** `row`: in the order of `REQUEST_COLUMNS`. */
export const tracedRequest = (row: RecordValues, noted: readonly SpanNoted[]): TracedRequest => {
  // The ledger stores the same values.
  const values = Object.fromEntries(REQUEST_COLUMNS.map((name, at) => [name, row[at] ?? null])) as RequestRow
  const lists: readonly RecordValues[] = values.attempt_list === null ? [] : JSON.parse(values.attempt_list)
  const attempts = lists.map(
    (list) => Object.fromEntries(LISTED.map((name, at) => [name, list[at] ?? null])) as StoredEnd,
  )
  return { row: values, attempts, facts: new Map(noted.map(({ attempt, facts }) => [attempt, facts])) }
}

/** Whether the request is exported: it is sampled, or kept. */
export const isExported = ({ row }: TracedRequest, { sampling, keepErrors }: SpanRules): boolean =>
  callSpan(row.id, row.trace, sampling).isSampled || (keepErrors && isNotable(row))

/** The spans of a request, whether or not it is exported. */
export const requestSpans = (request: TracedRequest, rules: SpanRules): readonly SpanParts[] => {
  const { row, attempts, facts } = request
  const ofRequest = facts.get(null) ?? NOTHING
  const span = callSpan(row.id, row.trace, rules.sampling, ofRequest.state ?? null)
  const { traceId, spanId, parentId, state } = span
  const route = routeOf(row.style)
  const method = ofRequest.method ?? (route === undefined ? undefined : 'POST')
  const hasFailed = row.status >= 500 || row.outcome === 'interrupted' || row.outcome === 'unknown'
  const server: SpanParts = {
    name: [method ?? 'HTTP', ...(route === undefined ? [] : [route])].join(' '),
    kind: KIND.server,
    ...{ traceId, spanId, parentId, state },
    isParentRemote: true,
    from: row.received,
    to: row.ended ?? Math.max(row.received, ...attempts.map(endOf)),
    hasFailed,
    facts: serverFacts(row, { method, httpRoute: route, path: route }),
    events: [],
  }
  const last = Math.max(...attempts.map(({ n }) => n))
  return [
    server,
    ...attempts.map((attempt): SpanParts => {
      const own = { ...ofRequest, ...facts.get(attempt.n) }
      const operation = operationName(row.style, own)
      return {
        name: `${operation} ${attempt.model}`,
        kind: KIND.client,
        ...{ traceId, state },
        spanId: attemptSpanId(row.id, attempt.n),
        parentId: spanId,
        isParentRemote: false,
        from: attempt.started,
        to: endOf(attempt),
        hasFailed: FAILED.has(attempt.outcome),
        facts: {
          operation,
          ...attemptFacts(row, attempt, own),
          ...tokenFacts(attempt, rules.legacyNames),
        },
        events: eventsOf(attempt, attempt.n < last),
      }
    }),
  ]
}

const NOTHING: SpanFacts = {}
const FAILED: ReadonlySet<string> = new Set(['failed', 'interrupted', 'unknown'])

/** The end of an attempt whose process has ended is not known. */
const endOf = ({ started, ended }: StoredEnd): number => ended ?? started

const isNotable = ({ outcome, failed_attempts, status, first_content_ms }: RequestRow): boolean =>
  outcome === 'interrupted' ||
  outcome === 'unknown' ||
  status >= 500 ||
  failed_attempts > 0 ||
  (first_content_ms ?? 0) > SLOW

const serverFacts = (row: RequestRow, http: Pick<SpanValues, 'method' | 'httpRoute' | 'path'>): SpanValues => ({
  ...http,
  scheme: 'http',
  status: row.status || undefined,
  errorType: row.outcome === 'answered' ? undefined : (row.code ?? row.outcome),
  requestId: row.id,
  clientRequestId: row.client_request_id,
  team: row.team,
  key: row.key,
  route: row.route,
  cache: row.cache,
  attempts: row.attempts,
  cost: row.cost,
  overhead: row.overhead_us,
  session: row.session,
  agent: row.agent,
  outcome: row.outcome,
})

const attemptFacts = (row: RequestRow, attempt: StoredEnd, own: SpanFacts): SpanValues => {
  const isStream = row.stream === 1
  const { choices = 1 } = own
  return {
    provider: providerName(own.vendor ?? attempt.provider),
    instance: attempt.provider,
    model: attempt.model,
    stream: isStream || undefined,
    maxTokens: own.maxTokens,
    temperature: own.temperature,
    topP: own.topP,
    topK: own.topK,
    seed: own.seed,
    choices: choices === 1 ? undefined : choices,
    effort: own.effort,
    outputType: outputType(row.style, own.format),
    conversation: own.session,
    responseId: own.id,
    responseModel: own.model,
    finishReasons: finishOf(attempt, own),
    firstChunk: isStream && attempt.first_content_ms !== null ? attempt.first_content_ms / 1_000 : undefined,
    ...addressOf(own.origin),
    errorType: FAILED.has(attempt.outcome) ? (attempt.kind ?? attempt.outcome) : undefined,
    attempt: attempt.n,
    attemptOutcome: attempt.outcome,
    credential: attempt.credential,
    hedge: attempt.hedge === 1 || undefined,
  }
}

/** An answer that broke off ends with `error`, as the registry states. */
const finishOf = ({ outcome }: StoredEnd, { finish }: SpanFacts): readonly string[] | undefined => {
  if (finish) return [finish]
  return outcome === 'interrupted' ? ['error'] : undefined
}

/** Tokens that were estimated are no usage, and without any it is unknown. */
const tokenFacts = (attempt: StoredEnd, legacyNames: boolean): SpanValues => {
  const { input, output, cache_read, cache_write, reasoning, usage_source } = attempt
  if (input === 0 && output === 0) return {}
  if (usage_source !== 'exact') return { estimatedInput: input, estimatedOutput: output }
  return {
    inputTokens: input,
    outputTokens: output,
    cacheRead: cache_read || undefined,
    cacheWrite: cache_write || undefined,
    cacheCreation: (legacyNames && cache_write) || undefined,
    reasoning: reasoning || undefined,
  }
}

const PORTS: ReadonlyMap<string, number> = new Map([
  ['http:', 80],
  ['https:', 443],
])

const addressOf = (origin: string | undefined): SpanValues => {
  const url = origin === undefined ? null : URL.parse(origin)
  if (!url || url.hostname === '') return {}
  return { serverAddress: url.hostname, serverPort: url.port === '' ? PORTS.get(url.protocol) : Number(url.port) }
}

const eventsOf = ({ started, first_content_ms, outcome, ...attempt }: StoredEnd, isFollowed: boolean) => {
  const end = endOf({ started, first_content_ms, outcome, ...attempt })
  return [
    ...(first_content_ms === null ? [] : [{ name: EVENTS.firstChunk, at: started + first_content_ms }]),
    ...(isFollowed && outcome === 'failed' ? [{ name: EVENTS.retry, at: end }] : []),
    ...(isFollowed && outcome === 'interrupted' ? [{ name: EVENTS.continued, at: end }] : []),
  ]
}
