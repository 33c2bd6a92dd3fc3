/**
 * Parameters of the queries, as they are in a URL: texts, or lists of texts where a name is repeated. The schemas are strict
 * and have a JSON Schema of their input (`z.toJSONSchema(schema, { io: 'input' })`). Ranges without `from` or `to` are
 * completed by `rangeOf`.
 */
import { z } from 'zod'
import { parseDollars } from '../../core/money.ts'
import { decodeCursor } from './cursor.ts'
import { ATTEMPT_FILTER } from './export-rows.ts'
import {
  type CursorValues,
  type EndUsersQuery,
  type ExportQuery,
  REQUEST_SORTS,
  RESULTS,
  type RequestFilter,
  type RequestsQuery,
  ROW_DIMENSIONS,
  SESSION_SORTS,
  type SessionsQuery,
  type SummaryQuery,
  type TimeRange,
  type UsageFilter,
  type UsageQuery,
} from './queries.ts'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** The default length of a range, in ms. */
const DEFAULT_RANGE = {
  requests: DAY,
  usage: 30 * DAY,
  export: DAY,
  summary: HOUR,
  lanes: HOUR,
  changes: DAY,
  incidents: 7 * DAY,
  sessions: DAY,
} as const
/** The most values of a filter, and characters of one. */
const MOST = { values: 200, characters: 600 }

const isZone = (zone: string): boolean => {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone })
    return true
  } catch {
    return false
  }
}

// ── Values ───────────────────────────────────────────────────────────────────────────────────────────────────────────

/** ISO 8601 with a zone, or a date (its beginning in UTC); ms since 1970. */
const TIME = z
  .string()
  .regex(
    /^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:Z|[+-][0-9]{2}:[0-9]{2}))?$/,
    'is not a time. Write ISO 8601 with a zone, such as 2026-11-22T10:00:00Z, or a date',
  )
  .refine((text) => Number.isFinite(Date.parse(text)), 'is a time that does not exist')
  .transform((text) => Date.parse(text))
  .describe('ISO 8601 with a zone, or a date in UTC')

const integer = (least: number, most: number) =>
  z
    .string()
    .regex(/^[0-9]{1,15}$/, `is not a whole number (${least} to ${most})`)
    .transform(Number)
    .refine((value) => value >= least && value <= most, `is not between ${least} and ${most}`)

const BOOLEAN = z.enum(['true', 'false']).transform((text) => text === 'true')
const SHARED = {
  shared: BOOLEAN.default(false).describe(
    'Whether the answer may be one that another reader received: at most 300 times as long ago as reading it took, and 10 s. A range that ends now may then differ by 1 %, and requests that began earlier and ended since may be missing',
  ),
}
const TEXT = z.string().max(MOST.characters)
/** Repeated for any of the values. */
const anyOf = <Value extends z.ZodType<string, string>>(value: Value) =>
  z
    .union([value, z.array(value).min(1).max(MOST.values)])
    .transform((found): readonly string[] => (typeof found === 'string' ? [found] : found))
const TEXTS = anyOf(TEXT)

const cursor = (isKey: (values: CursorValues) => boolean) =>
  z
    .string()
    .max(8_192)
    .transform((text, context): CursorValues => {
      const values = decodeCursor(text)
      if (values && isKey(values)) return values
      context.addIssue({ code: 'custom', message: NOT_A_CURSOR })
      return z.NEVER
    })
    .describe('`next` of the previous page')

const RANGE = { from: TIME.optional(), to: TIME.optional() }

const isSessionKey = ([value, id, ...more]: CursorValues): boolean =>
  typeof value === 'number' && typeof id === 'string' && more.length === 0

// ── Filters ──────────────────────────────────────────────────────────────────────────────────────────────────────────

const CLIENT = TEXTS.optional().describe('kinds of clients, such as `claude-code`, `openai-sdk` or `other`')

const DEMO_FILTER = BOOLEAN.optional().describe(
  'whether requests of the built-in demo count; in sums by default only while no provider is configured, or with `provider=demo`',
)

const USAGE_FILTER = {
  team: TEXTS.optional().describe('IDs or names'),
  key: TEXTS.optional().describe('IDs or names'),
  model: TEXTS.optional(),
  provider: TEXTS.optional(),
  tag: TEXTS.optional().describe('values of the tag in `usage.rollupTag`'),
  style: TEXTS.optional(),
  route: TEXTS.optional(),
  client: CLIENT,
  session: TEXTS.optional().describe(
    'IDs of sessions; their usage is added up from requests, as far back as those are kept',
  ),
  demo: DEMO_FILTER,
}

const REQUEST_FILTER = {
  team: TEXTS.optional().describe('IDs or names'),
  key: TEXTS.optional().describe('IDs or names'),
  provider: TEXTS.optional(),
  model: TEXTS.optional().describe('the model that answered'),
  asked: TEXTS.optional().describe('the model as the client named it'),
  any_model: TEXTS.optional().describe('the model as the client named it, or the model that answered'),
  route: TEXTS.optional(),
  style: TEXTS.optional(),
  request_id: TEXTS.optional().describe('the ID of the gateway, or the one that the client gave in `x-request-id`'),
  end_user: TEXTS.optional(),
  session: TEXTS.optional().describe('IDs of sessions'),
  agent: TEXTS.optional().describe('agents of sessions'),
  guard: TEXTS.optional().describe('names of guards that found something'),
  client: CLIENT,
  outcome: anyOf(z.enum(['answered', 'refused', 'interrupted', 'client_gone', 'unknown'])).optional(),
  code: TEXTS.optional(),
  cache: anyOf(z.enum(['off', 'bypass', 'miss', 'hit', 'shared'])).optional(),
  status: anyOf(z.string().regex(/^[1-5](?:[0-9]{2}|xx)$/, 'is not a status such as 404 or 5xx')).optional(),
  result: anyOf(z.enum(RESULTS)).optional().describe('what became of it; several: any of them'),
  tag: anyOf(TEXT.regex(/^[^:]+:/, 'is not of the form name:value')).optional(),
  fell_back: BOOLEAN.optional(),
  demo: DEMO_FILTER,
  min_ms: integer(0, 86_400_000).optional(),
  min_cost: z
    .string()
    .transform((text, context): number => {
      const amount = parseDollars(text)
      if (amount.ok) return amount.value
      context.addIssue({ code: 'custom', message: amount.failure.message })
      return z.NEVER
    })
    .optional()
    .describe('in US dollars'),
  q: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('text in an ID, model names, end user, error code, message or trail, or in the error of an attempt'),
}

const SESSION_FILTER = { team: null, key: null, client: null, name: null }

/** Members of the schemas whose values are filters. */
const pick = <Shape extends object>(shape: Shape, values: { readonly [name: string]: unknown }) =>
  Object.fromEntries(Object.keys(shape).flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])))

// The members have the types of their schemas.
const usageFilter = (values: object): UsageFilter => pick(USAGE_FILTER, { ...values })
const requestFilter = (values: object): RequestFilter => pick(REQUEST_FILTER, { ...values })

// ── Queries ──────────────────────────────────────────────────────────────────────────────────────────────────────────

/** A query whose range may be incomplete. */
type Unbounded<Query extends TimeRange> = Omit<Query, 'from' | 'to'> & Partial<TimeRange>

const DIMENSION = z.enum(ROW_DIMENSIONS)

/** `by=team,key`, or repeated. */
const BY = z
  .union([z.string(), z.array(z.string())])
  .transform((found) => [found].flat().flatMap((names) => names.split(',').filter((name) => name !== '')))
  .pipe(z.array(DIMENSION).max(3, 'has more than 3 dimensions'))
  .refine((names) => new Set(names).size === names.length, 'names a dimension twice')

const ZONE = z.string().refine(isZone, 'is not a time zone. Write an IANA name, such as Europe/Berlin')

/** `GET /usage`. */
export const USAGE_PARAMETERS = z
  .strictObject({
    ...RANGE,
    ...USAGE_FILTER,
    by: BY.default([]),
    bucket: z
      .enum(['5m', 'hour', 'day', 'none'])
      .default('day')
      .describe('`5m`, of five minutes, from the requests that are kept'),
    tz: ZONE.optional(),
    limit: integer(1, 10_000).default(1_000),
    after: cursor(() => true).optional(),
    sort: z
      .enum(['-cost'])
      .optional()
      .describe(
        'only with `bucket=none`: the groups that cost most, without further pages, of exactly the range as far as its requests are kept',
      ),
  })
  .superRefine(({ sort, bucket }, context) => {
    if (sort && bucket !== 'none') context.addIssue({ code: 'custom', path: ['sort'], message: 'needs bucket=none' })
  })
  .transform(
    ({ from, to, by, bucket, tz, limit, after, sort, ...filter }): Unbounded<UsageQuery> => ({
      ...bounds(from, to),
      by,
      bucket,
      ...(sort && { sort }),
      tz: tz ?? null,
      limit,
      after: after ?? null,
      filter: usageFilter(filter),
    }),
  )

/** `GET /usage/end-users`. */
export const END_USERS_PARAMETERS = z
  .strictObject({ ...RANGE, team: USAGE_FILTER.team, key: USAGE_FILTER.key, limit: integer(1, 1_000).default(100) })
  .transform(
    ({ from, to, limit, ...filter }): Unbounded<EndUsersQuery> => ({
      ...bounds(from, to),
      limit,
      filter: usageFilter(filter),
    }),
  )

/** `GET /sessions`. */
export const SESSIONS_PARAMETERS = z
  .strictObject({
    ...RANGE,
    team: USAGE_FILTER.team,
    key: USAGE_FILTER.key,
    client: CLIENT,
    name: TEXTS.optional().describe('as clients name them'),
    sort: z.enum(SESSION_SORTS).default('-last_at'),
    limit: integer(1, 200).default(50),
    after: cursor(isSessionKey).optional(),
  })
  .transform(
    ({ from, to, sort, limit, after, ...filter }): Unbounded<SessionsQuery> => ({
      ...bounds(from, to),
      sort,
      limit,
      after: after ?? null,
      filter: pick(SESSION_FILTER, filter),
    }),
  )

/** `GET /v1/usage`: a client's own use by model. */
export const CLIENT_USAGE_PARAMETERS = z
  .strictObject({
    ...RANGE,
    session: TEXT.min(1).optional().describe('only a session of the key: its ID, or its name as the client gives it'),
    bucket: z.enum(['hour', 'day', 'none']).default('day'),
    tz: ZONE.optional(),
    limit: integer(1, 10_000).default(1_000),
    after: cursor(() => true).optional(),
  })
  .transform(({ from, to, tz, after, ...rest }) => ({
    ...bounds(from, to),
    ...rest,
    tz: tz ?? null,
    after: after ?? null,
  }))
export type ClientUsageQuery = z.output<typeof CLIENT_USAGE_PARAMETERS>

const NOT_A_CURSOR = 'is not a cursor of this list. Copy `next` of the previous page'
const isRequestKey = ([received, id, ...more]: CursorValues): boolean =>
  typeof received === 'number' && typeof id === 'string' && more.length === 0

/** With the value that requests are sorted by, and the beginning of the part that was searched if that was not all. */
const isSortedKey = ([value, received, id, searched = 0, ...more]: CursorValues): boolean =>
  typeof value === 'number' && typeof searched === 'number' && isRequestKey([received ?? '', id ?? '', ...more])

const REQUESTS = {
  ...RANGE,
  ...REQUEST_FILTER,
  limit: integer(1, 200).default(50),
}

/** `GET /requests`. */
export const REQUESTS_PARAMETERS = z
  .strictObject({
    ...REQUESTS,
    sort: z
      .enum(REQUEST_SORTS)
      .default('-received_at')
      .describe(
        '`-` is descending; requests without a value are last. To sort them by another value than their time, all requests of the range are read, the newest first, until a second is over; then `searched_until` states which ones were',
      ),
    after: cursor((values) => isRequestKey(values) || isSortedKey(values)).optional(),
    ...SHARED,
    histogram: integer(1, 200).optional().describe('the most buckets of a histogram'),
    count: BOOLEAN.default(false),
    bodies: z.enum(['kept']).optional().describe('only requests whose bodies this gateway has kept'),
  })
  .superRefine(({ sort, after }, context) => {
    const isKey = sort.endsWith('received_at') ? isRequestKey : isSortedKey
    if (after && !isKey(after)) context.addIssue({ code: 'custom', path: ['after'], message: NOT_A_CURSOR })
  })
  .transform(
    ({ from, to, sort, limit, after, shared, histogram, count, bodies, ...filter }): Unbounded<RequestsQuery> => ({
      ...bounds(from, to),
      sort,
      limit,
      after: after ?? null,
      shared,
      histogram: histogram ?? null,
      count,
      ...(bodies && { bodies }),
      filter: requestFilter(filter),
    }),
  )

/** `GET /requests/search`. */
export const SEARCH_PARAMETERS = z
  .strictObject({
    ...REQUESTS,
    after: cursor(isRequestKey).optional(),
    text: z
      .string()
      .trim()
      .min(2)
      .max(200)
      .describe('in the request of the client or the answer of a provider, in any case'),
  })
  .transform(({ from, to, limit, after, text, ...filter }): Unbounded<RequestsQuery> & { readonly text: string } => ({
    ...bounds(from, to),
    limit,
    after: after ?? null,
    shared: false,
    histogram: null,
    count: false,
    filter: requestFilter(filter),
    text,
  }))

/** `GET /usage/adjustments`. */
export const ADJUSTMENTS_PARAMETERS = z
  .strictObject({
    ...RANGE,
    budget: TEXTS.optional().describe('IDs of budgets'),
    limit: integer(1, 200).default(50),
    after: cursor(isRequestKey).optional(),
  })
  .transform(({ from, to, budget, limit, after }) => ({
    ...bounds(from, to),
    budget: budget ?? null,
    limit,
    after: after ?? null,
  }))

/** `GET /summary`. */
export const SUMMARY_PARAMETERS = z
  .strictObject({ ...RANGE, ...REQUEST_FILTER, ...SHARED, compare: BOOLEAN.default(false) })
  .transform(
    ({ from, to, compare, shared, ...filter }): Unbounded<SummaryQuery> => ({
      ...bounds(from, to),
      compare,
      shared,
      filter: requestFilter(filter),
    }),
  )

/** What the filter of each level of an export may contain. */
const EXPORT_FILTERS: { readonly [level in ExportQuery['level']]: readonly string[] } = {
  request: Object.keys(REQUEST_FILTER),
  attempt: ATTEMPT_FILTER,
  day: Object.keys(USAGE_FILTER).filter((name) => name !== 'session'),
}

/** `GET /usage/export`. */
export const EXPORT_PARAMETERS = z
  .strictObject({
    ...RANGE,
    ...REQUEST_FILTER,
    outcome: TEXTS.optional().describe('of requests or attempts, by level'),
    tag: TEXTS.optional().describe('`name:value`; for days the values of the tag in `usage.rollupTag`'),
    format: z.enum(['csv', 'jsonl']).default('csv'),
    level: z.enum(['request', 'attempt', 'day']).default('request'),
    bodies: z.enum(['kept']).optional().describe('only requests whose bodies this gateway has kept (level=request)'),
  })
  .superRefine(({ from: _from, to: _to, format: _format, level, bodies, ...filter }, context) => {
    if (bodies && level !== 'request')
      context.addIssue({ code: 'custom', path: ['bodies'], message: `does not filter level=${level}` })
    for (const name of Object.keys(filter))
      if (!EXPORT_FILTERS[level].includes(name))
        context.addIssue({
          code: 'custom',
          path: [name],
          message: `does not filter level=${level}, which has ${EXPORT_FILTERS[level].join(', ')}`,
        })
    if (level === 'request' && filter.tag?.some((tag) => !/^[^:]+:/.test(tag)))
      context.addIssue({ code: 'custom', path: ['tag'], message: 'is not of the form name:value' })
  })
  .transform(
    ({ from, to, format, level, bodies, ...filter }): Unbounded<Omit<ExportQuery, 'after'>> => ({
      ...bounds(from, to),
      format,
      level,
      ...(bodies && { bodies }),
      filter: requestFilter(filter),
    }),
  )

/** `GET /providers/activity`. */
export const ACTIVITY_PARAMETERS = z
  .strictObject({ ...RANGE, ...SHARED, cells: integer(1, 240).default(60) })
  .transform(({ from, to, ...rest }) => ({ ...bounds(from, to), ...rest }))

/** `GET /routes/activity`. */
export const ROUTE_TRAFFIC_PARAMETERS = z
  .strictObject({ ...RANGE, ...SHARED, team: USAGE_FILTER.team })
  .transform(({ from, to, shared, team }) => ({ ...bounds(from, to), shared, filter: { ...(team && { team }) } }))

/** `GET /requests/running`. */
export const RUNNING_PARAMETERS = z.strictObject(SHARED)

/** `GET /providers/{id}/lanes`, without the provider. */
export const LANES_PARAMETERS = z
  .strictObject({ ...RANGE, ...SHARED, cells: integer(1, 240).default(60) })
  .transform(({ from, to, ...rest }) => ({ ...bounds(from, to), ...rest }))

/** `/changes`, which reads other sources than the ledger. */
export const CHANGES_PARAMETERS = z
  .strictObject({ ...RANGE, limit: integer(1, 200).default(50), after: TEXT.optional() })
  .transform(({ from, to, limit, after }) => ({ ...bounds(from, to), limit, after }))
export type ChangesQuery = z.output<typeof CHANGES_PARAMETERS>

/** `/incidents`, of which processes have a list. */
export const INCIDENTS_PARAMETERS = z
  .strictObject({ ...RANGE, provider: TEXTS.optional(), limit: integer(1, 200).default(50), after: TEXT.optional() })
  .transform(({ from, to, ...rest }) => ({ ...bounds(from, to), ...rest }))

const bounds = (from: number | undefined, to: number | undefined): Partial<TimeRange> => ({
  ...(from !== undefined && { from }),
  ...(to !== undefined && { to }),
})

/**
 * Completes a range: until now, and of the default length of a query. Null: `from` is not before `to`.
 */
export const rangeOf = (
  { from, to }: Partial<TimeRange>,
  query: keyof typeof DEFAULT_RANGE,
  now: number,
): TimeRange | null => {
  const end = to ?? now
  const range = { from: from ?? end - DEFAULT_RANGE[query], to: end }
  return range.from < range.to ? range : null
}
