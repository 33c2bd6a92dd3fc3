/**
 * Folds journal records into rows of the ledger and increments of its sums. Pure: the state is rebuilt from the database
 * after a restart (`restore`), and `take` returns what the next transaction must store.
 */
import type { Incident } from '../../core/incident.ts'
import {
  type AttemptClosed,
  type AttemptOpened,
  type BudgetCharge,
  type CounterSpend,
  type JournalRecord,
  NO_TOKENS,
  parseCharge,
  type RequestEnded,
  type RequestOutcome,
} from '../../core/journal.ts'
import { chargedCost } from '../../policy/accounts/charge.ts'
import {
  type AttemptRow,
  type BudgetSumRow,
  type FacetRow,
  type IncidentRow,
  NO_COUNTS,
  type OpenedColumn,
  type RequestRow,
  type RollupKey,
  type RollupRow,
} from '../columns/usage-schema.ts'
import { callNumber } from '../journal/segment-files.ts'

export type FoldOptions = {
  readonly node: string
  /** The date of a time (`2026-11-22`) in the zone of daily sums. */
  readonly dayOf: (at: number) => string
  /** Added to the numbers of calls (`callOffset`). */
  readonly callOffset: number
}

/** An attempt in the fold. `isComplete`: its request is. `stored`: its row is in the database. */
export type FoldedAttempt = {
  row: AttemptColumns
  opened: OpenedColumn
  isComplete: boolean
  stored: boolean
}

/** A row without the column that is written only while its request is not complete. */
export type AttemptColumns = Omit<AttemptRow, 'opened'>

/** What one transaction stores. */
export type LedgerBatch = {
  /** Attempts to insert or, if `stored`, to replace. */
  readonly attempts: ReadonlySet<FoldedAttempt>
  readonly requests: readonly RequestRow[]
  /** Usage of attempts that were closed after their request was stored. */
  readonly additions: readonly RequestAddition[]
  readonly hours: readonly RollupRow<number>[]
  readonly days: readonly RollupRow<string>[]
  readonly sums: readonly BudgetSumRow[]
  readonly facets: readonly FacetRow[]
  readonly incidents: readonly IncidentRow[]
  /** Processes that have ended: what they had under way ends with them. */
  readonly ended: readonly string[]
}

export type RequestAddition = Pick<RequestRow, 'id' | 'call' | 'received'> & Pick<RequestRow, (typeof SUMMED)[number]>

const SUMMED = ['input', 'output', 'cache_read', 'cache_write', 'reasoning', 'cost', 'usage_source'] as const

/** A row without what its attempts give it. */
type EndedColumns = Omit<RequestRow, 'attempts' | (typeof SUMMED)[number]>

type UnfinishedRequest = {
  readonly process: string
  readonly attempts: Map<number, FoldedAttempt>
  /** Time of receipt, after the end of the request. */
  ended: number | null
}

export class LedgerFold {
  readonly #options: FoldOptions
  /** By process and call number. */
  readonly #requests = new Map<string, UnfinishedRequest>()
  #attempts = new Set<FoldedAttempt>()
  #rows: RequestRow[] = []
  #additions: RequestAddition[] = []
  #hours = new Map<string, RollupRow<number>>()
  #days = new Map<string, RollupRow<string>>()
  /** Nano-dollars, by process. */
  #sums = new Map<string, Map<BudgetCharge, number>>()
  #facets = new Map<string, FacetRow>()
  /** By ID. */
  #incidents = new Map<string, IncidentRow>()
  #ended = new Set<string>()
  /** Nano-dollars, by process. */
  readonly #spends = new Map<string, Map<BudgetCharge, number>>()
  /** Records of attempts whose beginning is unknown: it was dropped, or they were closed before. */
  orphans = 0

  constructor(options: FoldOptions) {
    this.#options = options
  }

  /** Adds an attempt of an unfinished request from the database. */
  restore(row: AttemptColumns, opened: OpenedColumn): void {
    const request = this.#requestOf(opened.process, opened.call)
    request.attempts.set(row.n, { row, opened, isComplete: false, stored: true })
    request.ended = opened.ended
  }

  /** Processes with requests that are not complete. */
  processes(): ReadonlySet<string> {
    return new Set([...this.#requests.values()].map(({ process }) => process))
  }

  add(record: JournalRecord, process: string): void {
    switch (record.type) {
      case 'attempt_opened':
        return this.#open(record, process)
      case 'attempt_closed':
        return this.#closeRecorded(record, process)
      case 'request_ended':
        return this.#end(record, process)
      case 'incident':
        this.#incidents.set(record.incident.id, incidentRow(record.incident, this.#options.node, process))
        return
      default:
        throw new Error(`unknown record ${JSON.stringify(record satisfies never)}`)
    }
  }

  /**
   * Completes the requests of a process that has ended. Attempts in progress may be billed by their providers, so they
   * cost their reservation.
   */
  endProcess(process: string): void {
    this.#ended.add(process)
    for (const [name, request] of this.#requests) {
      if (request.process !== process) continue
      for (const attempt of request.attempts.values())
        if (attempt.row.outcome === 'open') this.#close(request, attempt, lost(attempt))
      if (request.ended === null) this.#endUnrecorded(request)
      this.#complete(name, request)
    }
  }

  /** Counts what a process spends, from now on. Call before its first record. */
  countSpending(process: string): void {
    this.#spends.set(process, new Map())
  }

  /** What a process has spent of budget counters, and stops counting; null: it was not counted from its first record. */
  spentBy(process: string): readonly CounterSpend[] | null {
    const spends = this.#spends.get(process)
    this.#spends.delete(process)
    return spends ? [...spends].map(([charge, spent]) => ({ ...parseCharge(charge), spent })) : null
  }

  /** Returns what was added since the last call. */
  take(): LedgerBatch {
    const batch: LedgerBatch = {
      attempts: this.#attempts,
      requests: this.#rows,
      additions: this.#additions,
      hours: [...this.#hours.values()],
      days: [...this.#days.values()],
      sums: [...this.#sums].flatMap(([process, sums]) =>
        [...sums].map(([charge, spent]) => this.#sumRow(process, charge, spent)),
      ),
      facets: [...this.#facets.values()],
      incidents: [...this.#incidents.values()],
      ended: [...this.#ended],
    }
    this.#attempts = new Set()
    this.#rows = []
    this.#additions = []
    this.#hours = new Map()
    this.#days = new Map()
    this.#sums = new Map()
    this.#facets = new Map()
    this.#incidents = new Map()
    this.#ended = new Set()
    return batch
  }

  // ── Attempts ───────────────────────────────────────────────────────────────────────────────────────────────────

  #open(record: AttemptOpened, process: string): void {
    const { call, key, team, style, tag, route, client, charges, clientRequestId } = record
    const request = this.#requestOf(process, call)
    if (request.attempts.has(record.attempt)) {
      this.orphans++
      return
    }
    const opened = { process, call, key, team, style, tag, route, client, charges, clientRequestId, ended: null }
    const attempt = {
      row: openRow(record, this.#callOf(process, record.call)),
      opened,
      isComplete: false,
      stored: false,
    }
    request.attempts.set(record.attempt, attempt)
    this.#attempts.add(attempt)
  }

  #closeRecorded(record: AttemptClosed, process: string): void {
    const name = nameOf(process, record.call)
    const request = this.#requests.get(name)
    const attempt = request?.attempts.get(record.attempt)
    if (!request || attempt?.row.outcome !== 'open') {
      this.orphans++
      return
    }
    this.#close(request, attempt, closedMembers(record))
    if (request.ended !== null) this.#complete(name, request)
  }

  #close(request: UnfinishedRequest, attempt: FoldedAttempt, closed: ClosedMembers): void {
    const row: AttemptColumns = { ...attempt.row, ...closed }
    attempt.row = row
    this.#attempts.add(attempt)
    if (request.ended !== null)
      this.#additions.push({ id: row.request, call: row.call, received: request.ended, ...usageOf([row]) })
    const { key, team, style, tag, route, client, charges } = attempt.opened
    const cost = row.cost ?? 0
    const charged = chargedCost(row.cost, row.reserved)
    for (const charge of charges) this.#charge(request.process, charge, charged)
    this.#count(
      row.started,
      { key, team, style, tag, route, client, provider: row.provider, model: row.model, outcome: row.outcome },
      {
        attempts: 1,
        input: row.input ?? 0,
        output: row.output ?? 0,
        cache_read: row.cache_read ?? 0,
        cache_write: row.cache_write ?? 0,
        reasoning: row.reasoning ?? 0,
        cost,
        estimated: row.usage_source === 'estimated' ? 1 : 0,
        unpriced: row.cost === null ? 1 : 0,
      },
    )
  }

  // ── Requests ───────────────────────────────────────────────────────────────────────────────────────────────────

  #end(record: RequestEnded, process: string): void {
    const name = nameOf(process, record.call)
    const request = this.#requests.get(name) ?? { process, attempts: new Map(), ended: null }
    if (request.ended !== null) {
      this.orphans++
      return
    }
    this.#endWith(request, endedRow(record, this.#callOf(process, record.call), this.#options.node), record.tag)
    if (!this.#complete(name, request))
      for (const attempt of request.attempts.values()) this.#markEnded(attempt, record)
  }

  /** Attempts are still open, such as the loser of a hedge. */
  #markEnded(attempt: FoldedAttempt, { received }: RequestEnded): void {
    attempt.opened = { ...attempt.opened, ended: received }
    this.#attempts.add(attempt)
  }

  /** The process ended before the request: its row is derived from the attempts. */
  #endUnrecorded(request: UnfinishedRequest): void {
    const [first] = request.attempts.values()
    if (!first) return
    const { row, opened } = first
    const { key, team, style, tag, route, client, clientRequestId = null } = opened
    this.#endWith(
      request,
      {
        ...NO_REQUEST,
        id: row.request,
        client_request_id: clientRequestId,
        call: row.call,
        received: row.started,
        style,
        asked: row.model,
        route,
        key,
        team,
        client,
        node: this.#options.node,
      },
      tag,
    )
  }

  #endWith(request: UnfinishedRequest, row: EndedColumns, tag: string | null): void {
    request.ended = row.received
    const closed = [...request.attempts.values()]
      .map((attempt) => attempt.row)
      .filter(({ outcome }) => outcome !== 'open')
    this.#rows.push({ ...row, attempts: request.attempts.size, ...usageOf(closed) })
    const { key, team, style, route, client, provider, model, outcome, received } = row
    this.#count(
      received,
      { key, team, style, tag, route, client, provider, model, outcome },
      {
        requests: 1,
        saved: row.saved,
        first_content_sum: row.first_content_ms ?? 0,
        first_content_count: row.first_content_ms === null ? 0 : 1,
        total_sum: row.total_ms ?? 0,
      },
    )
    const at = row.ended ?? received
    for (const facet of FACETS) this.#seen(facet, row[facet], at)
    this.#seen('tag', tag, at)
  }

  /** Forgets an ended request if no attempt is open. Returns whether it did. */
  #complete(name: string, request: UnfinishedRequest): boolean {
    for (const { row } of request.attempts.values()) if (row.outcome === 'open') return false
    this.#requests.delete(name)
    for (const attempt of request.attempts.values()) {
      attempt.isComplete = true
      this.#attempts.add(attempt)
    }
    return true
  }

  #callOf(process: string, call: number): number {
    return callNumber(process, call) + this.#options.callOffset
  }

  #requestOf(process: string, call: number): UnfinishedRequest {
    const name = nameOf(process, call)
    const known = this.#requests.get(name)
    if (known) return known
    const request: UnfinishedRequest = { process, attempts: new Map(), ended: null }
    this.#requests.set(name, request)
    return request
  }

  // ── Sums ───────────────────────────────────────────────────────────────────────────────────────────────────────

  #charge(process: string, charge: BudgetCharge, cost: number): void {
    const spends = this.#spends.get(process)
    if (spends) addCharge(spends, charge, cost)
    const sums = this.#sums.get(process) ?? new Map<BudgetCharge, number>()
    this.#sums.set(process, sums)
    addCharge(sums, charge, cost)
  }

  #sumRow(process: string, charge: BudgetCharge, spent: number): BudgetSumRow {
    const { counter, periodStart } = parseCharge(charge)
    return { counter, period_start: periodStart, node: this.#options.node, process, spent }
  }

  #count(at: number, dimensions: Dimensions, counts: Partial<Counts>): void {
    const { key, team, style, tag, route, client, provider, model, outcome } = dimensions
    const name = `${team}\0${key}\0${provider}\0${model}\0${style}\0${tag}\0${route}\0${client}\0${outcome}`
    const hour = Math.floor(at / HOUR) * HOUR
    const day = this.#options.dayOf(at)
    add(this.#hours, `${hour}\0${name}`, () => this.#rollup(hour, dimensions), counts)
    add(this.#days, `${day}\0${name}`, () => this.#rollup(day, dimensions), counts)
  }

  #rollup<Period>(period: Period, dimensions: Dimensions): RollupRow<Period> {
    return { period, ...rollupKey(dimensions, this.#options.node), ...NO_COUNTS }
  }

  #seen(name: string, value: string | null, last_seen: number): void {
    if (value === null || value === '') return
    this.#facets.set(`${name}\0${value}`, { name, value, last_seen })
  }
}

const incidentRow = (
  { id, begin, end, ended_by, ...details }: Incident,
  node: string,
  process: string,
): IncidentRow => ({ id, began: begin, ended: end, ended_by, node, process, details: JSON.stringify(details) })

const HOUR = 3_600_000

/** Columns of requests whose values are listed in menus. */
const FACETS = ['team', 'key', 'provider', 'model', 'route', 'client', 'style', 'outcome', 'code'] as const

const nameOf = (process: string, call: number): string => `${process} ${call}`

type Dimensions = {
  readonly [name in 'key' | 'team' | 'style' | 'tag' | 'route' | 'client' | 'provider' | 'model']: string | null
} & {
  readonly outcome: string
}

const rollupKey = (of: Dimensions, node: string): RollupKey => ({
  node,
  team: of.team ?? '',
  key: of.key ?? '',
  provider: of.provider ?? '',
  model: of.model ?? '',
  style: of.style ?? '',
  tag: of.tag ?? '',
  route: of.route ?? '',
  client: of.client ?? '',
  outcome: of.outcome,
})

const addCharge = (sums: Map<BudgetCharge, number>, charge: BudgetCharge, cost: number): void => {
  sums.set(charge, (sums.get(charge) ?? 0) + cost)
}

type Counts = typeof NO_COUNTS

/** Adds counts to the row of that name, which `create` returns if it is the first. */
const add = <Period>(
  rows: Map<string, RollupRow<Period>>,
  name: string,
  create: () => RollupRow<Period>,
  counts: Partial<Counts>,
): void => {
  let row: { -readonly [column in keyof RollupRow<Period>]: RollupRow<Period>[column] } | undefined = rows.get(name)
  if (!row) {
    row = create()
    rows.set(name, row)
  }
  for (const column in counts) row[column as keyof Counts] += counts[column as keyof Counts] ?? 0
}

const openRow = (record: AttemptOpened, call: number): AttemptColumns => ({
  request: record.request,
  call,
  n: record.attempt,
  started: record.at,
  ended: null,
  key: record.key,
  team: record.team,
  provider: record.provider,
  model: record.model,
  credential: record.credential,
  hedge: record.hedge ? 1 : 0,
  outcome: 'open',
  kind: null,
  status: null,
  message: null,
  first_content_ms: null,
  input: null,
  output: null,
  cache_read: null,
  cache_write: null,
  cache_write_1h: null,
  reasoning: null,
  audio_input: null,
  audio_output: null,
  reserved: record.reserved,
  cost: null,
  usage_source: 'estimated',
  price_source: 'none',
  price_version: null,
})

type ClosedMembers = Omit<
  AttemptColumns,
  'request' | 'call' | 'n' | 'started' | 'key' | 'team' | 'provider' | 'model' | 'credential' | 'hedge' | 'reserved'
>

const closedMembers = ({
  tokens,
  ...record
}: Omit<AttemptClosed, 'type' | 'call' | 'attempt' | 'at'> & { readonly at: number | null }): ClosedMembers => ({
  ended: record.at,
  outcome: record.outcome,
  kind: record.kind,
  status: record.status,
  message: record.message,
  first_content_ms: record.firstContentMs,
  input: tokens.input,
  output: tokens.output,
  cache_read: tokens.cacheRead,
  cache_write: tokens.cacheWrite,
  cache_write_1h: tokens.cacheWrite1h,
  reasoning: tokens.reasoning,
  audio_input: tokens.audioInput,
  audio_output: tokens.audioOutput,
  cost: record.cost,
  usage_source: record.usageSource,
  price_source: record.priceSource,
  price_version: record.priceVersion,
})

/** An attempt whose process ended: when is unknown. */
const lost = ({ row }: FoldedAttempt): ClosedMembers =>
  closedMembers({
    at: null,
    outcome: 'unknown',
    kind: null,
    status: null,
    message: null,
    firstContentMs: null,
    tokens: NO_TOKENS,
    usageSource: 'estimated',
    cost: chargedCost(null, row.reserved),
    priceSource: 'none',
    priceVersion: null,
  })

/** Usage of a request: the sum of its attempts. The cost is null if that of an attempt is unknown and the others cost nothing. */
const usageOf = (rows: readonly AttemptColumns[]): Pick<RequestRow, (typeof SUMMED)[number]> => {
  const sum = (of: (row: AttemptColumns) => number | null) => rows.reduce((total, row) => total + (of(row) ?? 0), 0)
  const cost = sum((row) => row.cost)
  return {
    input: sum(({ input }) => input),
    output: sum(({ output }) => output),
    cache_read: sum(({ cache_read }) => cache_read),
    cache_write: sum(({ cache_write }) => cache_write),
    reasoning: sum(({ reasoning }) => reasoning),
    cost: cost === 0 && rows.some((row) => row.cost === null) ? null : cost,
    usage_source: rows.some(({ usage_source }) => usage_source === 'estimated') ? 'estimated' : 'exact',
  }
}

/** What the attempts of a request do not say about it. */
const NO_REQUEST = {
  ended: null,
  stream: 0,
  provider: null,
  model: null,
  person: null,
  end_user: null,
  tags: null,
  outcome: 'unknown' satisfies RequestOutcome,
  status: 0,
  code: null,
  message: null,
  trail: null,
  decision: null,
  cache: 'off',
  first_content_ms: null,
  total_ms: null,
  overhead_us: null,
  saved: 0,
  trace: null,
} as const

const endedRow = (record: RequestEnded, call: number, node: string): EndedColumns => ({
  id: record.request,
  client_request_id: record.clientRequestId,
  call,
  received: record.received,
  ended: record.at,
  style: record.style,
  stream: record.stream ? 1 : 0,
  asked: record.asked,
  route: record.route,
  provider: record.provider,
  model: record.model,
  key: record.key,
  team: record.team,
  person: record.person,
  end_user: record.endUser,
  tags: record.tags,
  outcome: record.outcome,
  status: record.status,
  code: record.code,
  message: record.message,
  trail: record.trail,
  decision: record.decision,
  cache: record.cache,
  first_content_ms: record.firstContentMs,
  total_ms: Math.max(0, record.at - record.received),
  overhead_us: record.overheadUs,
  saved: record.saved,
  trace: record.trace,
  client: record.client,
  node,
})
