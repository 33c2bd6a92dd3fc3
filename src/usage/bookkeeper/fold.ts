/**
 * Folds the lines of journals into rows of the ledger and increments of its sums. Pure: the state is rebuilt from the database
 * after a restart (`restore`), and `take` returns what the next transaction must store. A request is counted when it is
 * complete: its own end and those of all its attempts are recorded, or its process has ended.
 */
import type { Incident } from '../../core/incident.ts'
import {
  type AttemptOpened,
  type BudgetCharge,
  type ChargeList,
  type CounterSpend,
  chargesIn,
  parseCharge,
  type RequestOutcome,
  type SpanNoted,
} from '../../core/journal.ts'
import {
  type DayUsage,
  ENDED_COLUMNS,
  type EndedRow,
  type HourUsage,
  type IncidentRow,
  type OpenCallRow,
  type ProcessSumRow,
  type SessionRow,
  type ShapeDayRow,
} from '../columns/usage-schema.ts'
import {
  type ClosedLine,
  decodeLine,
  decodeOpened,
  type EndedLine,
  type JournalLine,
  lostEnd,
  type OpenedLine,
  type RecordValues,
  type Spends,
} from '../journal/journal-record.ts'
import { BatchSessions } from './batch-sessions.ts'
import { BatchShapes } from './batch-shapes.ts'
import { BatchTotals, sumsOf } from './batch-totals.ts'

export type FoldOptions = {
  readonly node: string
  /** Receives complete requests, in the order of `REQUEST_COLUMNS`. They are part of the next transaction. */
  readonly addRow: (row: RecordValues) => void
  /** Receives what spans of requests state that are not complete yet. Absent: it is ignored. */
  readonly addSpan?: (noted: SpanNoted) => void
  /** The date of a time (`2026-11-22`) in the zone of daily sums. */
  readonly dayOf: (at: number) => string
}

/** What one transaction stores beside the rows of requests. */
export type LedgerBatch = {
  /** Numbers of complete requests, and of their attempts. */
  readonly counts: { readonly requests: number; readonly attempts: number }
  /** Calls that are open, to insert or replace. */
  readonly open: readonly OpenCallRow[]
  /** Calls that were stored as open, and are complete. */
  readonly complete: readonly CallName[]
  readonly days: readonly DayUsage[]
  readonly hours: readonly HourUsage[]
  /** What processes have spent. */
  readonly sums: readonly ProcessSumRow[]
  readonly incidents: readonly IncidentRow[]
  readonly sessions: readonly SessionRow[]
  readonly shapes: readonly ShapeDayRow[]
  /** Processes that have ended: what they had under way ends with them. */
  readonly ended: readonly string[]
}

export type CallName = Pick<OpenCallRow, 'process' | 'call'>

type FoldedCall = CallName & {
  /** Its records so far, as lines of the journal. */
  records: string
  /** Lines of attempts in progress. */
  readonly running: OpenedLine[]
  /** Attempts that have ended, in the order of `LISTED`, and their texts between commas. */
  ends: readonly RecordValues[]
  list: string
  spends: Spends
  ended: EndedLine | null
  /** It is in the database; it has records since the last batch. */
  isStored: boolean
  isChanged: boolean
}

export class LedgerFold {
  readonly #options: FoldOptions
  readonly #totals: BatchTotals
  readonly #sessions = new BatchSessions()
  readonly #shapes: BatchShapes
  /** By process and number. */
  readonly #calls = new Map<string, Map<number, FoldedCall>>()
  #counts = { requests: 0, attempts: 0 }
  #complete: CallName[] = []
  /** Nano-dollars, by process. */
  #sums = new Map<string, Map<ChargeList, number>>()
  /** By ID. */
  #incidents = new Map<string, IncidentRow>()
  #ended = new Set<string>()
  /** Records of attempts whose beginning is unknown, or which began or ended before. */
  orphans = 0

  constructor(options: FoldOptions) {
    this.#options = options
    this.#totals = new BatchTotals(options.dayOf)
    this.#shapes = new BatchShapes(options.dayOf)
  }

  /** Adds a call from the database. */
  restore({ process, call, records }: Pick<OpenCallRow, 'process' | 'call' | 'records'>): void {
    for (const text of records.split('\n')) {
      const line = decodeLine(text)
      if (line) this.add(line, process)
    }
    const restored = this.#calls.get(process)?.get(call)
    if (!restored) return
    restored.isStored = true
    restored.isChanged = false
  }

  /** Processes with calls that are not complete. */
  processes(): ReadonlySet<string> {
    return new Set([...this.#calls].flatMap(([process, calls]) => (calls.size > 0 ? [process] : [])))
  }

  add(line: JournalLine, process: string): void {
    switch (line.type) {
      case 'opened':
        return this.#open(line, process)
      case 'closed':
        return this.#close(line, process)
      case 'ended':
        return this.#end(line, process)
      case 'incident':
        this.#incidents.set(line.incident.id, incidentRow(line.incident, this.#options.node, process))
        return
      case 'span':
        this.#options.addSpan?.(line)
        return
      case 'shape':
        this.#shapes.add(line)
        return
      default:
        throw new Error(`unknown record ${JSON.stringify(line satisfies never)}`)
    }
  }

  /**
   * Completes the requests of a process that has ended. Attempts in progress may be billed by their providers, so they
   * cost their reservation.
   */
  endProcess(process: string): void {
    this.#ended.add(process)
    for (const call of this.#calls.get(process)?.values() ?? [])
      try {
        const ended = call.ended ?? { values: unendedRow(call), sessionName: null }
        for (const { text } of call.running) addEnd(call, lostEnd(text))
        this.#store(call, ended)
      } catch {
        this.#drop(call)
      }
    this.#calls.delete(process)
  }

  /** Returns what was added since the last call. */
  take(): LedgerBatch {
    const open = this.#openRows()
    const batch: LedgerBatch = {
      counts: this.#counts,
      open,
      complete: this.#complete,
      ...this.#totals.take(),
      sums: [...this.#sums].flatMap(([process, sums]) =>
        byCounter(sums).map(({ counter, periodStart, spent }) => ({
          process,
          counter,
          period_start: periodStart,
          spent,
        })),
      ),
      incidents: [...this.#incidents.values()],
      sessions: this.#sessions.take(),
      shapes: this.#shapes.take(),
      ended: [...this.#ended],
    }
    this.#counts = { requests: 0, attempts: 0 }
    this.#complete = []
    this.#sums = new Map()
    this.#incidents = new Map()
    this.#ended = new Set()
    return batch
  }

  // ── Calls ──────────────────────────────────────────────────────────────────────────────────────────────────────

  #open(line: OpenedLine, process: string): void {
    const calls = this.#calls.get(process) ?? new Map<number, FoldedCall>()
    const { call: number, attempt } = line
    const known = calls.get(number)
    if (!known) {
      this.#calls.set(process, calls)
      calls.set(number, beganCall(line, process))
    } else if (known.running.some((one) => one.attempt === attempt) || known.ends.some(([n]) => n === attempt)) {
      this.orphans++
    } else {
      addRecord(known, line.text)
      known.running.push(line)
    }
  }

  #close(line: ClosedLine, process: string): void {
    const call = this.#calls.get(process)?.get(line.call)
    if (!call || !stopped(call, line.attempt)) {
      this.orphans++
      return
    }
    addEnd(call, line)
    addRecord(call, line.text)
    if (call.ended && call.running.length === 0) this.#store(call, call.ended)
  }

  #end(line: EndedLine, process: string): void {
    const call = this.#calls.get(process)?.get(line.call)
    // Without its attempts it was completed before, by another gateway.
    if (call ? call.ended !== null : line.attempts.length > 0) {
      this.orphans++
      return
    }
    if (!call) return this.#count(line, process)
    for (const [n] of line.attempts) stopped(call, Number(n))
    if (call.ends.length === 0) {
      call.ends = line.attempts
      call.list = line.list
      call.spends = line.spends
    } else {
      call.ends = [...call.ends, ...line.attempts]
      if (line.list !== '') call.list += `,${line.list}`
      call.spends = [...call.spends, ...line.spends]
    }
    call.ended = line
    if (call.running.length === 0) return this.#store(call, line)
    addRecord(call, line.text)
  }

  /** Open calls with records since the last batch. */
  #openRows(): readonly OpenCallRow[] {
    const rows: OpenCallRow[] = []
    for (const calls of this.#calls.values())
      for (const call of calls.values())
        try {
          if (!call.isChanged) continue
          const { process, call: number, records, running } = call
          const { at, team } = firstOpened(call)
          call.isStored = true
          call.isChanged = false
          rows.push({ process, call: number, started: at, team, running: running.length, records })
        } catch {
          this.#drop(call)
        }
    return rows
  }

  /** A record of it cannot be decoded. */
  #drop(call: FoldedCall): void {
    this.orphans++
    this.#forget(call)
  }

  #store(call: FoldedCall, { values, sessionName }: Pick<EndedLine, 'values' | 'sessionName'>): void {
    const { ends: attempts, list, spends } = call
    this.#count({ values, sessionName, attempts, list, spends }, call.process)
    this.#forget(call)
  }

  /** A map keeps what was deleted from it until a full collection, so the call refers to nothing afterwards. */
  #forget(call: FoldedCall): void {
    this.#calls.get(call.process)?.delete(call.call)
    if (call.isStored) this.#complete.push({ process: call.process, call: call.call })
    call.records = ''
    call.ends = NO_ENDS
    call.list = ''
    call.spends = NO_SPENDS
    call.ended = null
  }

  // ── Sums ───────────────────────────────────────────────────────────────────────────────────────────────────────

  /** `values`: in the order of `ENDED_COLUMNS`. */
  #count(
    { values, sessionName, attempts, list, spends }: Omit<EndedLine, 'type' | 'call' | 'at' | 'text'>,
    process: string,
  ): void {
    const sums = sumsOf(attempts)
    this.#counts.requests++
    this.#counts.attempts += sums.attempts
    this.#options.addRow([
      ...values,
      this.#options.node,
      sums.attempts,
      sums.failed,
      sums.input,
      sums.output,
      sums.cache_read,
      sums.cache_write,
      sums.reasoning,
      sums.estimated > 0 ? 'estimated' : 'exact',
      sums.cost === 0 && sums.unpriced > 0 ? null : sums.cost,
      sums.charged,
      list === '' ? null : `[${list}]`,
    ])
    this.#totals.add(values, attempts, sums)
    this.#sessions.add(values, sums, sessionName)
    for (let at = 0; at < spends.length; at += 2) this.#charge(process, String(spends[at]), Number(spends[at + 1]))
  }

  #charge(process: string, charges: ChargeList, cost: number): void {
    const sums = this.#sums.get(process) ?? new Map<ChargeList, number>()
    this.#sums.set(process, sums)
    addAmount(sums, charges, cost)
  }
}

const NO_ENDS: readonly RecordValues[] = []
const NO_SPENDS: Spends = []

const beganCall = (line: OpenedLine, process: string): FoldedCall => ({
  process,
  call: line.call,
  records: line.text,
  running: [line],
  ends: NO_ENDS,
  list: '',
  spends: NO_SPENDS,
  ended: null,
  isStored: false,
  isChanged: true,
})

const addRecord = (call: FoldedCall, text: string): void => {
  call.records += `\n${text}`
  call.isChanged = true
}

/** The beginning of its first attempt. Throws if its record is malformed. */
const firstOpened = ({ records }: FoldedCall): AttemptOpened => {
  const end = records.indexOf('\n')
  return decodeOpened(end === -1 ? records : records.slice(0, end))
}

/** Removes an attempt in progress. Returns whether there was one. */
const stopped = ({ running }: FoldedCall, attempt: number): boolean => {
  const at = running.findIndex((one) => one.attempt === attempt)
  if (at >= 0) running.splice(at, 1)
  return at >= 0
}

const addEnd = (call: FoldedCall, { end, spends }: Pick<ClosedLine, 'end' | 'spends'>): void => {
  call.ends = [...call.ends, end]
  call.list += `${call.list === '' ? '' : ','}${JSON.stringify(end)}`
  call.spends = [...call.spends, ...spends]
}

const addAmount = (sums: Map<string, number>, name: ChargeList | BudgetCharge, cost: number): void => {
  sums.set(name, (sums.get(name) ?? 0) + cost)
}

const byCounter = (sums: ReadonlyMap<ChargeList, number>): readonly CounterSpend[] => {
  const spends = new Map<BudgetCharge, number>()
  for (const [list, spent] of sums) for (const charge of chargesIn(list)) addAmount(spends, charge, spent)
  return [...spends].map(([charge, spent]) => ({ ...parseCharge(charge), spent }))
}

const incidentRow = (
  { id, begin, end, ended_by, ...details }: Incident,
  node: string,
  process: string,
): IncidentRow => ({ id, began: begin, ended: end, ended_by, node, process, details: JSON.stringify(details) })

/** The process ended before the request: its row is derived from its first attempt. In the order of `ENDED_COLUMNS`. */
const unendedRow = (call: FoldedCall): RecordValues => {
  const { request, clientRequestId, at, style, model, route, key, team, client, tag } = firstOpened(call)
  const outcome: RequestOutcome = 'unknown'
  const row: EndedRow = {
    ...UNKNOWN_END,
    ...{ id: request, client_request_id: clientRequestId, received: at, style, asked: model, route, key, team, client },
    ...{ tag, outcome },
  }
  return ENDED_COLUMNS.map((name) => row[name])
}

type NotOpened = Omit<
  EndedRow,
  | ('id' | 'client_request_id' | 'received' | 'style' | 'asked')
  | ('route' | 'key' | 'team' | 'client' | 'tag' | 'outcome')
>
const UNKNOWN_END: NotOpened = {
  ended: null,
  stream: 0,
  provider: null,
  model: null,
  person: null,
  end_user: null,
  tags: null,
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
  require: null,
  session: null,
  agent: null,
  guards: null,
}
