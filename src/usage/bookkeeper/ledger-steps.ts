/**
 * What the ledger does in a transaction, the same in both databases. A step is a statement, and continues with its result: SQLite
 * runs all steps at once, so that nothing comes between them, and Postgres waits for each. Statements contain what both understand.
 */
import type { CounterSpend } from '../../core/journal.ts'
import type { RecordedPart } from '../../policy/accounts/lease.ts'
import type { AdjustmentRow, OpenCallRow } from '../columns/usage-schema.ts'
import type { StoredNames } from '../journal/node-name.ts'
import { endedProcesses, isOfRun, type JournalProcess } from '../journal/segment-files.ts'
import type { Adjusted, Adjustment, LedgerSum, StoredState, UsageLimits } from './ledger-store.ts'

/** Placeholders are `$1`, in any order. */
export type LedgerStatement = { readonly text: string; readonly values: readonly (string | number | null)[] }
export type LedgerRow = { readonly [column: string]: unknown }
/** `changes`: number of rows that were changed, or returned. */
export type StatementResult = { readonly rows: readonly LedgerRow[]; readonly changes: number }
export type LedgerSteps<T> = Generator<LedgerStatement, T, StatementResult>

/** Runs one statement. */
export function* statement(
  text: string,
  ...values: LedgerStatement['values']
): Generator<LedgerStatement, StatementResult, StatementResult> {
  return yield { text, values }
}

const DAY = 86_400_000
/** Rows of sums that are deleted per transaction, and incidents that are kept. */
const DELETED = 2_000
const INCIDENTS = 10_000
/** Days after its last request for which a session is kept, and the most of them. */
const SESSIONS = { days: 30, most: 1_000_000 }
/** Days for which shapes of requests are kept. */
const SHAPE_DAYS = 30
/**
 * ms after its start from which a process deletes what earlier ones of its gateway have spent. Before that, shared counters may still
 * need their parts: such a process has stated less than it has spent, until its lease lapses, after an hour.
 */
export const MERGE_AFTER = 7_200_000

/** What a bookkeeper continues from. */
export function* storedState({ own, range }: StoredNames): LedgerSteps<StoredState> {
  const positions = yield* statement(
    'SELECT segment, position, malformed FROM journal WHERE segment >= $1 AND segment < $2',
    ...range,
  )
  const open = yield* statement(
    'SELECT process, call, started, team, running, records FROM open_call WHERE process >= $1 AND process < $2',
    ...range,
  )
  return {
    positions: positions.rows.map(({ segment, position, malformed }) => ({
      segment: own(String(segment)) ?? '',
      position: Number(position),
      malformed: Number(malformed),
    })),
    open: open.rows.map((found) => {
      // Only this program writes the table.
      const row = found as OpenCallRow
      return { ...row, process: own(row.process) ?? '' }
    }),
  }
}

// ── Sums ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/** `process`: as stored; null: no running process has spent it. */
export function* addSum({ process, ...sum }: CounterSpend & { readonly process: string | null }): LedgerSteps<void> {
  const { counter, periodStart, spent } = sum
  if (process !== null)
    yield* statement(
      `INSERT INTO process_sum (process, counter, period_start, spent) VALUES ($1, $2, $3, $4)
        ON CONFLICT (process, counter, period_start) DO UPDATE SET spent = process_sum.spent + excluded.spent`,
      ...[process, counter, periodStart, spent],
    )
  yield* statement(
    `INSERT INTO budget_sum (counter, period_start, spent) VALUES ($1, $2, $3)
      ON CONFLICT (counter, period_start) DO UPDATE SET spent = budget_sum.spent + excluded.spent`,
    ...[counter, periodStart, spent],
  )
}

/** What counters have spent, with the parts of processes. `isOwn`: whether a name in the database is of this run of the gateway. */
export function* sumsSince(since: number, isOwn: (stored: string) => boolean): LedgerSteps<readonly LedgerSum[]> {
  const sums = yield* statement(
    'SELECT counter, period_start, spent FROM budget_sum WHERE period_start >= $1 ORDER BY counter, period_start',
    since,
  )
  const parts = yield* statement(
    'SELECT process, counter, period_start, spent FROM process_sum WHERE period_start >= $1',
    since,
  )
  const byCounter = new Map<string, RecordedPart[]>()
  for (const { process, counter, period_start, spent } of parts.rows) {
    const name = nameOf(period_start, counter)
    const part = { run: String(process), spent: Number(spent) }
    const known = byCounter.get(name)
    if (known) known.push(part)
    else byCounter.set(name, [part])
  }
  return sums.rows.map(({ counter, period_start, spent }) => {
    const recorded = byCounter.get(nameOf(period_start, counter)) ?? []
    const own = recorded.reduce((sum, part) => sum + (isOwn(part.run) ? part.spent : 0), 0)
    const earlier = Number(spent) - own
    return { counter: String(counter), period_start: Number(period_start), spent: Number(spent), earlier, recorded }
  })
}

const nameOf = (start: unknown, counter: unknown): string => `${start} ${counter}`

/** What a process has spent of budget counters. */
export function* spentBy(process: string): LedgerSteps<readonly CounterSpend[]> {
  const { rows } = yield* statement('SELECT counter, period_start, spent FROM process_sum WHERE process = $1', process)
  return rows.map(({ counter, period_start, spent }) => ({
    counter: String(counter),
    periodStart: Number(period_start),
    spent: Number(spent),
  }))
}

const ADJUSTMENT = ['id', 'at', 'budget', 'counter', 'period_start', 'key', 'amount', 'reason', 'actor'] as const

/** Returns whether it was stored. One with a known ID is not. */
export function* insertAdjustment(row: AdjustmentRow): LedgerSteps<boolean> {
  const { changes } = yield* statement(
    `INSERT INTO adjustment (${ADJUSTMENT.join(', ')}) VALUES (${ADJUSTMENT.map((_, at) => `$${at + 1}`).join(', ')})
      ON CONFLICT DO NOTHING`,
    ...ADJUSTMENT.map((column) => row[column]),
  )
  return changes > 0
}

/** Stores an adjustment, and adds it to the sum of its counter. `process`: as stored; null: none. */
export function* adjust(given: Omit<Adjustment, 'process'>, process: string | null): LedgerSteps<Adjusted> {
  const { id, counter, period_start: periodStart } = given
  const amount = given.amount === 'reset' ? -(yield* lockedSum(counter, periodStart)) : given.amount
  if (!(yield* insertAdjustment({ ...given, amount }))) {
    const known = yield* statement('SELECT amount FROM adjustment WHERE id = $1', id)
    return { amount: Number(known.rows[0]?.amount), isNew: false }
  }
  if (counter !== null && periodStart !== null) yield* addSum({ process, counter, periodStart, spent: amount })
  return { amount, isNew: true }
}

/** The update keeps other gateways from changing the sum until the end of the transaction. */
function* lockedSum(counter: string | null, start: number | null): LedgerSteps<number> {
  const text = 'UPDATE budget_sum SET spent = spent WHERE counter = $1 AND period_start = $2 RETURNING spent'
  const { rows } = yield* statement(text, counter, start)
  return Number(rows[0]?.spent ?? 0)
}

// ── Retention ────────────────────────────────────────────────────────────────────────────────────────────────────────

/** Deletes old incidents and sessions, and the oldest hour that is too old. Returns whether more may be left. */
export function* sweepTotals({ keepHours }: UsageLimits, now: number): LedgerSteps<boolean> {
  const until = now - keepHours * DAY
  yield* statement(
    `DELETE FROM incident WHERE began < $1 OR began <
      (SELECT min(began) FROM (SELECT began FROM incident ORDER BY began DESC LIMIT ${INCIDENTS}) AS newest)`,
    until,
  )
  const sessions = yield* statement(
    `DELETE FROM session WHERE id IN (SELECT id FROM session WHERE last < $1 OR last <
      (SELECT last FROM session ORDER BY last DESC LIMIT 1 OFFSET ${SESSIONS.most}) ORDER BY last LIMIT ${DELETED})`,
    now - SESSIONS.days * DAY,
  )
  const firstDay = new Date(now - SHAPE_DAYS * DAY).toISOString().slice(0, 10)
  yield* statement('DELETE FROM shape_day WHERE day < $1', firstDay)
  const { changes } = yield* statement(
    'DELETE FROM usage_hour WHERE hour = (SELECT hour FROM usage_hour WHERE hour < $1 ORDER BY hour LIMIT 1)',
    until,
  )
  return changes > 0 || sessions.changes === DELETED
}

/** The parts of processes of this gateway that had ended before the first sweep: no counters contain them any more. */
export class EndedSums {
  readonly #names: StoredNames
  readonly #process: JournalProcess
  /** Null: not known yet. */
  #ended: string[] | null = null

  constructor(names: StoredNames, process: JournalProcess) {
    this.#names = names
    this.#process = process
  }

  /** Deletes a batch. Returns whether more is left. */
  *remove(now: number): LedgerSteps<boolean> {
    if (now - this.#process.start <= MERGE_AFTER) return false
    const { stored, own, range } = this.#names
    if (this.#ended === null) {
      const text = 'SELECT DISTINCT process FROM process_sum WHERE process >= $1 AND process < $2'
      const names = (yield* statement(text, ...range)).rows.flatMap(({ process }) => own(String(process)) || [])
      // Counters of this process contain what its own workers have spent, also of those that have ended.
      const others = new Set(names.filter((name) => !isOfRun(name, this.#process)))
      this.#ended = [...endedProcesses(others, this.#process)]
    }
    const [process] = this.#ended
    if (process === undefined) return false
    const { changes } = yield* statement(
      `DELETE FROM process_sum WHERE process = $1 AND (counter, period_start) IN
        (SELECT counter, period_start FROM process_sum WHERE process = $1 ORDER BY counter, period_start LIMIT ${DELETED})`,
      stored(process),
    )
    if (changes === 0) this.#ended.shift()
    return this.#ended.length > 0
  }
}
