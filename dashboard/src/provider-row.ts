/** Providers as rows: their state in one word, why, what is next, and the geometry of strips and lanes. Pure. */
import type { ProviderActivity } from '../../src/usage/reading/queries.ts'
import type { Range } from './address.ts'

type CircuitName = 'closed' | 'open' | 'half_open'

/** An entry of `/providers`; with WORKERS there is one for each process. */
export type ListedProvider = {
  readonly id: string
  readonly node: string | null
  readonly kind: string
  readonly status: 'available' | 'degraded' | 'unavailable'
  readonly circuit: {
    readonly state: CircuitName
    readonly failures: number
    readonly successes: number
    readonly opened_at: string | null
    readonly retry_at: string | null
  }
  readonly resting: { readonly until: string | null; readonly reason: string } | null
  readonly endpoint: { readonly status: string }
  readonly keys: readonly {
    readonly id: string
    readonly status: string
    readonly in_flight: number
    readonly requests: number
    readonly until: string | null
    readonly reason?: string
  }[]
  readonly models: readonly {
    readonly id: string
    readonly status: string
    readonly circuit: { readonly state: CircuitName; readonly retry_at?: string | null }
    /** One for each key. */
    readonly keys?: readonly { readonly id: string; readonly status: string; readonly until: string | null }[]
  }[]
  readonly latency_ms: { readonly first_content_p50: number | null; readonly first_content_p95: number | null }
  readonly last_error: {
    readonly at: string
    readonly kind: string
    readonly code: string
    readonly status: number | null
    readonly message: string
  } | null
}

/** An entry of `/changes`. */
export type ListedChange = {
  readonly id: string
  readonly at: string
  readonly kind: 'start' | 'config' | 'account' | 'circuit' | 'credential'
  readonly action: string
  readonly object: { readonly id: string; readonly name: string | null } | null
  readonly providers: readonly string[]
  readonly credential: string | null
  readonly model: string | null
  readonly actor: { readonly kind: string; readonly name: string } | null
  readonly details: readonly string[]
  readonly request: string | null
  readonly node: string | null
}

/** `keyless`: the circuit is closed, but no key is usable. */
export type ProviderStateName = 'closed' | 'half_open' | 'keyless' | 'open' | 'resting'

/** A key, a model, or a key at a model that is not in use. `until`: ms since 1970. */
export type Waiting = {
  readonly key: string | null
  readonly model: string | null
  readonly status: string
  readonly until: number | null
}

export type ProviderRow = {
  readonly id: string
  readonly kind: string
  readonly state: ProviderStateName
  /** When the state is expected to change, in ms since 1970; null: not known. */
  readonly until: number | null
  /** When the circuit opened. */
  readonly since: number | null
  /** Processes that are in this state, and all. */
  readonly processes: { readonly here: number; readonly of: number }
  readonly inFlight: number
  readonly keys: { readonly active: number; readonly of: number }
  /** Keys and models that are not in use, of the process in this state. */
  readonly waiting: readonly Waiting[]
  readonly restReason: string | null
  readonly lastError: ListedProvider['last_error']
  /** Null: no attempt in the range, or not readable. */
  readonly activity: ProviderActivity | null
  /** Share of attempts that failed, 0 to 1; null: there were none. */
  readonly failedShare: number | null
}

const timeOf = (text: string | null | undefined): number | null =>
  text === null || text === undefined ? null : Date.parse(text)

/** The worst first. */
const RANK: { readonly [name in ProviderStateName]: number } = {
  open: 0,
  keyless: 1,
  half_open: 2,
  resting: 3,
  closed: 4,
}

export const stateOf = ({ resting, circuit, keys }: ListedProvider): ProviderStateName => {
  if (resting) return 'resting'
  if (circuit.state !== 'closed') return circuit.state
  return keys.length > 0 && keys.every(({ status }) => status !== 'active') ? 'keyless' : 'closed'
}

const untilOf = (provider: ListedProvider): number | null => {
  const state = stateOf(provider)
  if (state === 'resting') return timeOf(provider.resting?.until)
  if (state === 'open') return timeOf(provider.circuit.retry_at)
  if (state !== 'keyless') return null
  const times = provider.keys.flatMap(({ until }) => timeOf(until) ?? [])
  return times.length === 0 ? null : Math.min(...times)
}

/** Keys, models, and keys at one model that are not in use. */
const waitingIn = ({ keys, models }: ListedProvider): readonly Waiting[] => [
  ...keys.flatMap(({ id, status, until }) =>
    status === 'active' ? [] : [{ key: id, model: null, status, until: timeOf(until) }],
  ),
  ...models.flatMap(({ id: model, circuit, keys: own = [] }): readonly Waiting[] =>
    circuit.state === 'closed'
      ? own.flatMap(({ id, status, until }) =>
          status === 'active' || keys.some((key) => key.id === id && key.status !== 'active')
            ? []
            : [{ key: id, model, status, until: timeOf(until) }],
        )
      : [{ key: null, model, status: circuit.state, until: timeOf(circuit.retry_at) }],
  ),
]

/** One row for the entries of a provider; the process in the worst state decides. */
const rowOf = (entries: readonly ListedProvider[], activity: ProviderActivity | null): ProviderRow | null => {
  const [worst] = entries.toSorted((a, b) => RANK[stateOf(a)] - RANK[stateOf(b)])
  if (!worst) return null
  const state = stateOf(worst)
  const active = worst.keys.filter(({ status }) => status === 'active').length
  const errors = entries.flatMap(({ last_error }) => last_error ?? [])
  return {
    id: worst.id,
    kind: worst.kind,
    state,
    until: untilOf(worst),
    since: timeOf(worst.circuit.opened_at),
    processes: { here: entries.filter((one) => stateOf(one) === state).length, of: entries.length },
    inFlight: entries.reduce((sum, { keys }) => sum + keys.reduce((own, key) => own + key.in_flight, 0), 0),
    keys: { active, of: worst.keys.length },
    waiting: waitingIn(worst),
    restReason: worst.resting?.reason ?? null,
    lastError: errors.toSorted((a, b) => (a.at < b.at ? 1 : -1))[0] ?? null,
    activity,
    failedShare: activity && activity.attempts > 0 ? activity.failed / activity.attempts : null,
  }
}

/** Trouble first, then in the order in which the gateway tries them. */
export const rowsOf = (
  providers: readonly ListedProvider[],
  activity: readonly ProviderActivity[],
): readonly ProviderRow[] =>
  [...new Set(providers.map(({ id }) => id))]
    .flatMap((id) => {
      const found = activity.find((one) => one.provider === id) ?? null
      const row = rowOf(
        providers.filter((one) => one.id === id),
        found,
      )
      return row ? [row] : []
    })
    .map((row, at) => ({ row, at }))
    .toSorted((a, b) => RANK[a.row.state] - RANK[b.row.state] || a.at - b.at)
    .map(({ row }) => row)

/** Columns by which rows can be sorted, with the value of each. */
export const SORTS = {
  provider: ({ id }: ProviderRow) => id,
  now: ({ inFlight }: ProviderRow) => inFlight,
  p50: ({ activity }: ProviderRow) => activity?.p50_ms ?? -1,
  p95: ({ activity }: ProviderRow) => activity?.p95_ms ?? -1,
  first: ({ activity }: ProviderRow) => activity?.first_content_p50_ms ?? -1,
  failed: ({ failedShare }: ProviderRow) => failedShare ?? -1,
} as const

/** `by`: a name of SORTS, `-` is descending; anything else leaves the order. */
export const sortedRows = (rows: readonly ProviderRow[], by: string): readonly ProviderRow[] => {
  const name = by.replace(/^-/, '')
  if (!(name in SORTS)) return rows
  // The line above has established it.
  const value = SORTS[name as keyof typeof SORTS]
  const sign = by.startsWith('-') ? -1 : 1
  return rows.toSorted((a, b) => {
    const [one, other] = [value(a), value(b)]
    return one === other ? 0 : sign * (one < other ? -1 : 1)
  })
}

/** A time in which a circuit was open or half-open, a key limited, or a provider resting. */
export type LaneSpan = {
  readonly from: number
  readonly to: number
  readonly state: string
  readonly why: string | null
}

const USUAL_STATES: ReadonlySet<string> = new Set(['closed', 'active', 'release', 'close', 'probe'])

/**
 * The times between transitions, the oldest first. A state before the first transition begins with the range, and the last one
 * lasts until its end. Changes of several processes are one.
 */
export const spansOf = (changes: readonly ListedChange[], range: Range): readonly LaneSpan[] => {
  const sorted = changes
    .map(({ at, action, details }) => ({ at: Date.parse(at), action, details }))
    .toSorted((a, b) => a.at - b.at)
  const spans: LaneSpan[] = []
  let open: { readonly from: number; readonly state: string; readonly why: string | null } | null = null
  for (const [index, { at, action, details }] of sorted.entries()) {
    const [change = '', why = null] = details
    const [before = ''] = change.includes(' → ') ? change.split(' → ') : []
    if (index === 0 && before !== '' && !USUAL_STATES.has(before)) open = { from: range.from, state: before, why: null }
    if (open && at > open.from) spans.push({ ...open, to: Math.min(at, range.to) })
    const state = action.slice(action.indexOf('.') + 1)
    open = USUAL_STATES.has(state) ? null : { from: at, state, why }
  }
  if (open && open.from < range.to) spans.push({ ...open, to: range.to })
  return spans
}

/** Changes that one lane shows. `credential` and `model` null: those of the base URL, and what operators decide. */
export const changesOf = (
  changes: readonly ListedChange[],
  {
    provider,
    credential,
    model,
  }: { readonly provider: string; readonly credential: string | null; readonly model: string | null },
): readonly ListedChange[] =>
  changes.filter((change) => {
    if (!change.providers.includes(provider)) return false
    if (credential === null) return change.credential === null && change.model === null
    if (change.credential === null) return change.model !== null && change.model === model
    return change.credential === credential && (change.model === null || change.model === model)
  })

export type StripCell = {
  readonly start: number
  readonly end: number
  readonly attempts: number
  readonly failed: number
  readonly limited: number
  /** The worst that happened. `open`: no attempt while a circuit was open. */
  readonly fill: 'none' | 'answered' | 'slow' | 'limited' | 'failed' | 'open'
  /** Share of the fullest cell, 0 to 1. */
  readonly height: number
}

/** Answers that took this many times the 95th percentile count as slow: one of twenty is slower than that by definition. */
const SLOW = 2

/** The cells of a strip, from the start of the range to its end; at most 60, the newest. */
export const stripOf = (
  activity: ProviderActivity | null,
  {
    range,
    seconds,
    closedOff,
  }: { readonly range: Range; readonly seconds: number; readonly closedOff: readonly LaneSpan[] },
): readonly StripCell[] => {
  const width = seconds * 1_000
  const known = new Map(activity?.cells.map((cell) => [Date.parse(cell.start), cell]))
  const most = Math.max(1, ...(activity?.cells ?? []).map(({ attempts }) => attempts))
  const last = Math.floor((range.to - 1) / width) * width
  const first = Math.max(Math.floor(range.from / width) * width, last - 59 * width)
  const slow = (activity?.p95_ms ?? Number.POSITIVE_INFINITY) * SLOW
  return Array.from({ length: Math.round((last - first) / width) + 1 }, (_, index): StripCell => {
    const start = first + index * width
    const cell = known.get(start)
    const { attempts = 0, failed = 0, limited = 0, slowest_ms = null } = cell ?? {}
    const isOff = closedOff.some(({ from, to, state }) => state !== 'half_open' && from < start + width && to > start)
    const fill =
      attempts === 0
        ? isOff
          ? 'open'
          : 'none'
        : failed > 0
          ? 'failed'
          : limited > 0
            ? 'limited'
            : (slowest_ms ?? 0) > slow
              ? 'slow'
              : 'answered'
    return { start, end: start + width, attempts, failed, limited, fill, height: attempts / most }
  })
}

/** The position of a time in a range, in percent. */
export const percentAt = (at: number, { from, to }: Range): number =>
  Math.round(Math.max(0, Math.min(100, ((at - from) / (to - from)) * 100)) * 100) / 100
