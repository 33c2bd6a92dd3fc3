/** Adds up what complete requests have used, for one transaction: totals of days and of hours. */
import {
  type DayUsage,
  ENDED_COLUMNS,
  type HourUsage,
  LISTED,
  NO_COUNTS,
  OTHER,
  type TotalCounts,
} from '../columns/usage-schema.ts'
import type { RecordValues } from '../journal/journal-record.ts'

/** Where the values of a request are that totals need (`ENDED_COLUMNS`), and those of an attempt (`LISTED`). */
const of = (name: (typeof ENDED_COLUMNS)[number]): number => ENDED_COLUMNS.indexOf(name)
const REQUEST = {
  received: of('received'),
  style: of('style'),
  route: of('route'),
  provider: of('provider'),
  model: of('model'),
  key: of('key'),
  team: of('team'),
  client: of('client'),
  tag: of('tag'),
  outcome: of('outcome'),
  status: of('status'),
  cache: of('cache'),
  firstContent: of('first_content_ms'),
  total: of('total_ms'),
  saved: of('saved'),
}
const at = (name: (typeof LISTED)[number]): number => LISTED.indexOf(name)
const ATTEMPT = {
  provider: at('provider'),
  model: at('model'),
  outcome: at('outcome'),
  input: at('input'),
  output: at('output'),
  cacheRead: at('cache_read'),
  cacheWrite: at('cache_write'),
  reasoning: at('reasoning'),
  source: at('usage_source'),
  cost: at('cost'),
  charged: at('charged'),
}

const HOUR = 3_600_000
/**
 * Most rows that this process adds to a day, and to an hour; what comes then is counted as `other`. Models, tags and clients are
 * named by clients.
 */
const MOST = { days: 50_000, hours: 5_000 }

type MutableRow<Row> = { -readonly [Name in keyof Row]: Row[Name] }

/** Sums of the attempts of a request. */
export type AttemptSums = Pick<
  TotalCounts,
  'input' | 'output' | 'cache_read' | 'cache_write' | 'reasoning' | 'cost' | 'lost' | 'estimated' | 'unpriced'
> & {
  readonly attempts: number
  readonly failed: number
  readonly charged: number
}

export const sumsOf = (attempts: readonly RecordValues[]): MutableRow<AttemptSums> => {
  const sums = { ...NO_SUMS }
  for (const values of attempts) {
    const outcome = values[ATTEMPT.outcome]
    const cost = Number(values[ATTEMPT.cost])
    sums.attempts++
    sums.input += Number(values[ATTEMPT.input])
    sums.output += Number(values[ATTEMPT.output])
    sums.cache_read += Number(values[ATTEMPT.cacheRead])
    sums.cache_write += Number(values[ATTEMPT.cacheWrite])
    sums.reasoning += Number(values[ATTEMPT.reasoning])
    sums.cost += cost
    sums.charged += Number(values[ATTEMPT.charged])
    if (values[ATTEMPT.cost] === null) sums.unpriced++
    if (values[ATTEMPT.source] === 'estimated') sums.estimated++
    if (outcome === 'failed' || outcome === 'interrupted') sums.failed++
    if (outcome !== 'ok' && outcome !== 'client_gone') sums.lost += cost
  }
  return sums
}

const NO_SUMS: AttemptSums = {
  attempts: 0,
  failed: 0,
  charged: 0,
  input: 0,
  output: 0,
  cache_read: 0,
  cache_write: 0,
  reasoning: 0,
  cost: 0,
  lost: 0,
  estimated: 0,
  unpriced: 0,
}

/** The row of a day and the row of an hour in which a request or an attempt is counted. */
type TotalRows = { readonly day: MutableRow<DayUsage>; readonly hour: MutableRow<HourUsage> }
type CountedTarget = Pick<DayUsage, 'day' | 'provider' | 'model'> & Pick<HourUsage, 'hour'>

export class BatchTotals {
  readonly #dayOf: (at: number) => string
  #rows = new Map<string, TotalRows>()
  #days = new Map<string, MutableRow<DayUsage>>()
  #hours = new Map<string, MutableRow<HourUsage>>()
  /** The rows that were used last: the next request often has the same. */
  #last: TotalRows | null = null
  readonly #knownDays: NamesOfPeriod<string>
  readonly #knownHours: NamesOfPeriod<number>

  /** `dayOf`: the date of a time (`2026-11-22`) in the zone of daily sums. */
  constructor(dayOf: (at: number) => string, most = MOST) {
    this.#dayOf = dayOf
    this.#knownDays = new NamesOfPeriod(most.days)
    this.#knownHours = new NamesOfPeriod(most.hours)
  }

  /** Counts a request (`ENDED_COLUMNS`) and its attempts (`LISTED`). */
  add(request: RecordValues, attempts: readonly RecordValues[], sums: AttemptSums): void {
    const received = Number(request[REQUEST.received])
    const [provider, model] = [text(request[REQUEST.provider]), text(request[REQUEST.model])]
    const period = { day: this.#dayOf(received), hour: Math.floor(received / HOUR) * HOUR }
    const own = this.#rowsOf({ ...period, provider, model }, request)
    addRequest(own.day, request, sums)
    addRequest(own.hour, request, sums)
    for (const attempt of attempts) {
      const [triedProvider, triedModel] = [text(attempt[ATTEMPT.provider]), text(attempt[ATTEMPT.model])]
      const isOwn = triedProvider === provider && triedModel === model
      const rows = isOwn ? own : this.#rowsOf({ ...period, provider: triedProvider, model: triedModel }, request)
      const added = attempts.length === 1 ? sums : sumsOf([attempt])
      addAttempts(rows.day, added)
      addAttempts(rows.hour, added)
    }
  }

  take(): { readonly days: readonly DayUsage[]; readonly hours: readonly HourUsage[] } {
    const taken = { days: [...this.#days.values()], hours: [...this.#hours.values()] }
    this.#rows = new Map()
    this.#days = new Map()
    this.#hours = new Map()
    this.#last = null
    return taken
  }

  #rowsOf(target: CountedTarget, request: RecordValues): TotalRows {
    const { day, hour, provider, model } = target
    const [team, key, tag] = [text(request[REQUEST.team]), text(request[REQUEST.key]), text(request[REQUEST.tag])]
    const [style, route] = [text(request[REQUEST.style]), text(request[REQUEST.route])]
    const client = text(request[REQUEST.client])
    const last = this.#last
    const known = last?.day
    const isTarget =
      known?.provider === provider && known.model === model && last?.hour.hour === hour && known.day === day
    const isOwner = isTarget && known.key === key && known.team === team && known.tag === tag
    if (last && isOwner && known.style === style && known.route === route && known.client === client) return last
    const name = `${hour}\0${day}\0${team}\0${key}\0${tag}\0${provider}\0${model}\0${style}\0${route}\0${client}`
    let rows = this.#rows.get(name)
    if (!rows) {
      const of = { provider, model, style, route, client }
      const names = { day, team, key, tag, ...of }
      rows = { day: this.#dayRow(name.slice(name.indexOf('\0') + 1), names), hour: this.#hourRow({ hour, ...of }) }
      this.#rows.set(name, rows)
    }
    this.#last = rows
    return rows
  }

  #dayRow(name: string, names: Omit<DayUsage, keyof TotalCounts>): MutableRow<DayUsage> {
    const known = this.#days.get(name)
    if (known) return known
    const { day, team, provider, style } = names
    if (this.#knownDays.add(day, name)) return added(this.#days, name, { ...names, ...NO_COUNTS })
    const others = { key: OTHER, tag: OTHER, model: OTHER, route: OTHER, client: OTHER }
    return added(this.#days, `${day}\0${team}\0${provider}\0${style}`, { ...names, ...others, ...NO_COUNTS })
  }

  #hourRow(names: Omit<HourUsage, keyof TotalCounts>): MutableRow<HourUsage> {
    const { hour, provider, model, style, route, client } = names
    const name = `${hour}\0${provider}\0${model}\0${style}\0${route}\0${client}`
    const known = this.#hours.get(name)
    if (known) return known
    if (this.#knownHours.add(hour, name)) return added(this.#hours, name, { ...names, ...NO_COUNTS })
    const others = { model: OTHER, route: OTHER, client: OTHER }
    return added(this.#hours, `${hour}\0${provider}\0${style}`, { ...names, ...others, ...NO_COUNTS })
  }
}

/** The names of the newest periods, of which each has at most a number. */
class NamesOfPeriod<Period extends string | number> {
  readonly #most: number
  readonly #periods = new Map<Period, Set<string>>()

  constructor(most: number) {
    this.#most = most
  }

  /** Whether the period has the name, which is added if there is room. */
  add(period: Period, name: string): boolean {
    let names = this.#periods.get(period)
    if (!names) {
      names = new Set()
      this.#periods.set(period, names)
      // Requests of two periods end at the same time, seldom those of more.
      const [oldest] = this.#periods.keys()
      if (this.#periods.size > 3 && oldest !== undefined) this.#periods.delete(oldest)
    }
    if (names.size >= this.#most) return names.has(name)
    names.add(name)
    return true
  }
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')

const added = <Row>(rows: Map<string, Row>, name: string, row: Row): Row => {
  const known = rows.get(name)
  if (known) return known
  rows.set(name, row)
  return row
}

const addRequest = (row: MutableRow<TotalCounts>, request: RecordValues, { failed, attempts }: AttemptSums): void => {
  row.requests++
  const cache = request[REQUEST.cache]
  const isCached = cache === 'hit' || cache === 'shared'
  switch (request[REQUEST.outcome]) {
    case 'answered':
      if (isCached) row.cached++
      else if (failed > 0 && attempts > 1) row.fell_back++
      break
    case 'refused':
      row.refused++
      if (Number(request[REQUEST.status]) >= 500) row.server_error++
      break
    case 'interrupted':
      row.interrupted++
      break
    case 'client_gone':
      row.client_gone++
      break
    default:
      row.unknown++
  }
  row.saved += Number(request[REQUEST.saved])
  const firstContent = request[REQUEST.firstContent]
  if (typeof firstContent === 'number') {
    row.first_content_sum += firstContent
    row.first_content_count++
  }
  row.total_sum += Number(request[REQUEST.total] ?? 0)
}

const addAttempts = (row: MutableRow<TotalCounts>, sums: AttemptSums): void => {
  row.attempts += sums.attempts
  row.input += sums.input
  row.output += sums.output
  row.cache_read += sums.cache_read
  row.cache_write += sums.cache_write
  row.reasoning += sums.reasoning
  row.cost += sums.cost
  row.lost += sums.lost
  row.estimated += sums.estimated
  row.unpriced += sums.unpriced
}
