/** Requests as rows: what became of them, their path and its geometry, and whether a filter finds them. Pure. */
import type { AttemptEntry, RequestEntry, ResultName } from '../../src/usage/reading/queries.ts'
import { type Place, valuesOf } from './address.ts'

/** An attempt in a list, also of a live event. */
export type ListedAttempt = Pick<
  AttemptEntry,
  'n' | 'provider' | 'model' | 'credential' | 'hedge' | 'outcome' | 'kind' | 'status' | 'started_ms' | 'ended_ms'
> & { readonly first_content_ms: number | null; readonly message?: string | null }

/** A request in a list. Live events do not have the optional members. */
export type ListedRequest = Pick<
  RequestEntry,
  | 'id'
  | 'received_at'
  | 'style'
  | 'stream'
  | 'client'
  | 'asked'
  | 'provider'
  | 'model'
  | 'key'
  | 'team'
  | 'outcome'
  | 'status'
  | 'code'
  | 'cache'
  | 'first_content_ms'
  | 'total_ms'
  | 'overhead_us'
  | 'usage'
  | 'cost'
> &
  Partial<Pick<RequestEntry, 'route' | 'tags' | 'message' | 'end_user' | 'bodies'>> & {
    readonly attempts: readonly ListedAttempt[]
  }

/** What became of a request, as the filter `result` of the API counts it. */
export const resultOf = ({ outcome, cache, status, attempts }: ListedRequest): ResultName => {
  switch (outcome) {
    case 'answered':
      if (cache === 'hit' || cache === 'shared') return 'cached'
      return attempts.some(hasFailed) ? 'fell_back' : 'answered'
    case 'refused':
      return status < 500 ? 'refused' : 'failed'
    case 'interrupted':
      return 'broke_off'
    case 'client_gone':
      return 'client_left'
    default:
      return 'unknown'
  }
}

const hasFailed = ({ outcome }: Pick<ListedAttempt, 'outcome'>): boolean =>
  outcome === 'failed' || outcome === 'interrupted'

/** Whether this attempt ran beside another, which answered first. */
export const isBeside = ({ outcome }: Pick<ListedAttempt, 'outcome'>): boolean => outcome === 'abandoned'

/** Whether this attempt delivered the answer, or a part of it. */
export const isOk = ({ outcome }: Pick<ListedAttempt, 'outcome'>): boolean => outcome === 'ok'

/** A phase of an attempt; `from` and `to` are shares of the whole, 0 to 1. A phase that was not recorded is not there. */
export type Segment = {
  readonly kind: 'lost' | 'beside' | 'waiting' | 'answer'
  readonly attempt: number
  readonly from: number
  readonly to: number
}

/** The length of the time axis of a request, in ms. */
export const spanOf = ({ total_ms, attempts }: ListedRequest): number =>
  Math.max(total_ms ?? 0, ...attempts.map(({ started_ms, ended_ms }) => ended_ms ?? started_ms), 1)

/** When an attempt ended, in ms after the request was received. */
const endOf = (attempt: ListedAttempt, span: number): number =>
  Math.min(span, Math.max(attempt.started_ms, attempt.ended_ms ?? span))

/** The phases of each attempt, in the order of the attempts. */
export const segmentsOf = (request: ListedRequest): readonly Segment[] => {
  const span = spanOf(request)
  const share = (ms: number) => Math.max(0, Math.min(1, ms / span))
  return request.attempts.flatMap((attempt, index): readonly Segment[] => {
    const begin = attempt.started_ms
    const end = endOf(attempt, span)
    if (!isOk(attempt))
      return [{ kind: isBeside(attempt) ? 'beside' : 'lost', attempt: index, from: share(begin), to: share(end) }]
    const first = attempt.first_content_ms
    if (first === null) return [{ kind: 'answer', attempt: index, from: share(begin), to: share(end) }]
    const content = Math.max(begin, Math.min(end, begin + first))
    return [
      { kind: 'waiting', attempt: index, from: share(begin), to: share(content) },
      { kind: 'answer', attempt: index, from: share(content), to: share(end) },
    ]
  })
}

/**
 * The phases on one line, without overlaps: where two attempts ran at a time, what the client received is shown. Attempts of
 * a hedge that were not needed are not on it: they are `besideOf`.
 */
export const barOf = (request: ListedRequest): readonly Segment[] => {
  const all = segmentsOf(request)
  const kept = all.filter(({ kind }) => kind === 'waiting' || kind === 'answer')
  const lost = all.filter(({ kind }) => kind === 'lost')
  const free = kept.reduce<readonly Segment[]>(
    (segments, { from, to }) => segments.flatMap((one) => without(one, from, to)),
    lost,
  )
  let end = 0
  return [...free, ...kept]
    .toSorted((a, b) => a.from - b.from || a.to - b.to)
    .flatMap((segment) => {
      const from = Math.max(segment.from, end)
      if (segment.to <= from) return []
      end = segment.to
      return [{ ...segment, from }]
    })
}

/** The attempts that ran beside the one that answered. */
export const besideOf = (request: ListedRequest): readonly Segment[] =>
  segmentsOf(request).filter(({ kind }) => kind === 'beside')

/** The parts of a segment outside a range. */
const without = (segment: Segment, from: number, to: number): readonly Segment[] => [
  ...(segment.from < from ? [{ ...segment, to: Math.min(segment.to, from) }] : []),
  ...(segment.to > to ? [{ ...segment, from: Math.max(segment.from, to) }] : []),
]

/** Round values for the ticks of an axis of this length in ms; about five. */
export const ticksOf = (span: number): readonly number[] => {
  const rough = span / 5
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-3)))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, n) => Math.round(n * step * 1_000) / 1_000)
}

/** Names of the filters of the list in the address, and of the API's parameter for each. */
export const REQUEST_FILTERS = {
  status: 'result',
  provider: 'provider',
  model: 'model',
  asked: 'asked',
  route: 'route',
  key: 'key',
  team: 'team',
  tag: 'tag',
  client: 'client',
  style: 'style',
  end_user: 'end_user',
  session: 'session',
  code: 'code',
  http: 'status',
  bodies: 'bodies',
  text: 'text',
  min_ms: 'min_ms',
  cost_over: 'min_cost',
  q: 'q',
} as const

/** The filters of the address as parameters of the API. */
export const queryOf = (place: Place): { readonly [name: string]: readonly string[] } =>
  Object.fromEntries(
    Object.entries(REQUEST_FILTERS).flatMap(([name, parameter]) => {
      const values = valuesOf(place, name)
      return values.length === 0 ? [] : [[parameter, values]]
    }),
  )

/** What the list can be sorted by: in the address, and in the API. */
const SORTS = { time: 'received_at', first: 'first_content_ms', total: 'total_ms', cost: 'cost' } as const
export const NEWEST_FIRST = '-time'

/** The order of the list in the address; `-` is descending. */
export const sortOf = (place: Place): string => {
  const [sort = NEWEST_FIRST] = valuesOf(place, 'sort')
  return Object.hasOwn(SORTS, sort.replace('-', '')) ? sort : NEWEST_FIRST
}

/** The order of the list as a parameter of the API. */
export const sortParameter = (sort: string): string =>
  sort.replace(/[a-z]+/, (name) => new Map<string, string>(Object.entries(SORTS)).get(name) ?? name)

/** The rows of both, each once. */
export const appended = (rows: readonly ListedRequest[], more: readonly ListedRequest[]): readonly ListedRequest[] =>
  [...new Map([...rows, ...more].map((row) => [`${row.id} ${row.received_at}`, row])).values()].slice(0, MAX_ROWS)

/** The most rows that are kept. */
export const MAX_ROWS = 5_000

/**
 * The rows of both, each once, in the order of the API: the last one received first. Requests end in another order. A request
 * that a list and an event have is that of the list.
 */
export const merged = (newer: readonly ListedRequest[], older: readonly ListedRequest[]): readonly ListedRequest[] => {
  const known = new Set(older.map(({ id, received_at }) => `${id} ${received_at}`))
  return [...newer.filter(({ id, received_at }) => !known.has(`${id} ${received_at}`)), ...older]
    .toSorted((a, b) => (a.received_at === b.received_at ? 0 : a.received_at < b.received_at ? 1 : -1))
    .slice(0, MAX_ROWS)
}
