/**
 * Counts what was spent in a period before a budget with `countFrom: period` was created. It is stored as adjustments, once
 * for each budget and period, so that restarts and all workers have the same figures.
 */
import { DatabaseSync } from 'node:sqlite'
import { setImmediate } from 'node:timers/promises'
import type { Budget } from '../../core/accounts.ts'
import { isObject } from '../../core/json.ts'
import { budgetScope, counterOwner, countsClient } from '../../policy/accounts/budget-scope.ts'
import { countsTarget } from '../../policy/accounts/key-access.ts'
import { inTransaction } from '../../storage/sql/transaction.ts'
import { slicesOf, type TimeSlice } from '../columns/time-slices.ts'
import { IS_ALONE } from '../columns/usage-schema.ts'

/** A budget, and the start of the period that is counted (ms since 1970). */
export type CountedPeriodOf = { readonly budget: Budget; readonly start: number }

/** What a counter lacks. `owner`: whose counter of the budget it is. */
export type MissingSum = { readonly owner: string; readonly counter: string; readonly spent: number }

export const REASON = 'countFrom: period'
export const ACTOR = 'headgate'
/** ms after now that are read, because clocks of gateways differ. */
const AHEAD = 86_400_000
/** ms to wait for a lock, which readers need only while the file is recovered. */
const BUSY = 2_000

const COLUMNS = 'key, team, person, end_user, tags, asked, provider, model'

/** What requests of a part of a period have spent, by what decides which counters count it. `from`, `to`: placeholders. */
export const spentBetween = (from: string, to: string): string => `SELECT ${COLUMNS}, sum(charged) AS spent FROM (
    SELECT ${COLUMNS}, charged FROM request WHERE received >= ${from} AND received < ${to} AND ${IS_ALONE}
    UNION ALL SELECT ${COLUMNS}, charged FROM attempt WHERE received >= ${from} AND received < ${to} AND alone = 0
  ) AS charges GROUP BY ${COLUMNS}`

/** What counters of a period have been charged by requests, and what was added here before. Four placeholders. */
export const chargedIn = (start: string, reason: string, first: string, end: string): string =>
  `SELECT counter, spent - coalesce((SELECT sum(amount) FROM adjustment
      WHERE adjustment.counter = budget_sum.counter AND period_start = ${start} AND reason <> ${reason}), 0) AS charged
    FROM budget_sum WHERE period_start = ${start} AND counter >= ${first} AND counter < ${end}`

/** The first counter of a budget, and the end of its counters. */
export const countersOf = ({ id }: Budget): readonly [string, string] => [`${id}:`, `${id};`]

const INSERT = `INSERT INTO adjustment (id, at, budget, counter, period_start, key, amount, reason, actor)
  VALUES (?, ?, ?, ?, ?, NULL, ?, '${REASON}', '${ACTOR}')`

/** The parts of a period, as wide as a short statement can read. Others use the thread between two of them. */
export const partsOfPeriod = ({ start }: CountedPeriodOf, at: number): AsyncGenerator<TimeSlice> => {
  const reads = { time: () => performance.now(), turn: () => setImmediate() }
  return slicesOf(reads, { from: start, to: at + AHEAD }, 'oldest first')
}

/** What counters lack: `sums` by owner, of which `rows` are charged. */
export const missingOf = (
  { id }: Budget,
  sums: ReadonlyMap<string, number>,
  rows: readonly SpentRow[],
): readonly MissingSum[] => {
  const charged = new Map(rows.map((row) => [row.counter, Number(row.charged)]))
  return [...sums].flatMap(([owner, sum]) => {
    const counter = `${id}:${owner}`
    const spent = sum - (charged.get(counter) ?? 0)
    return spent > 0 ? [{ owner, counter, spent }] : []
  })
}

const add = (sums: Map<string, number>, owner: string, spent: number): void => {
  sums.set(owner, (sums.get(owner) ?? 0) + spent)
}

type SpentRow = { readonly [column: string]: unknown }

/** Adds what rows say, by the owner of the counter. */
export const addSpentBy = (sums: Map<string, number>, budget: Budget, rows: Iterable<SpentRow>): void => {
  const scope = budgetScope(budget)
  const text = (value: unknown) => (typeof value === 'string' ? value : '')
  for (const row of rows) {
    const tags: unknown = JSON.parse(text(row.tags) || '{}')
    const client = {
      id: text(row.key),
      team: { id: text(row.team) },
      user: row.person === null ? null : text(row.person),
      // The ledger has written texts.
      tags: isObject(tags) ? (tags as Readonly<Record<string, string>>) : {},
    }
    const target = { requested: text(row.asked), provider: text(row.provider), model: text(row.model) }
    // End users are recorded only with `usage.endUser`.
    const isUnknown = budget.per === 'end_user' && row.end_user === null
    if (isUnknown || !countsClient(budget, client) || !countsTarget(scope, target)) continue
    add(sums, counterOwner(budget, client, text(row.end_user)), Number(row.spent))
  }
}

/** The note that a period is counted. */
export const countedId = ({ budget, start }: CountedPeriodOf): string =>
  `adj_${budget.id.slice('bud_'.length)}_${budget.per}_${start}`

/** Counts that run: who asks for one of them again waits for it. */
export class RunningCounts {
  readonly #running = new Map<string, Promise<void>>()

  run(counted: CountedPeriodOf, count: () => Promise<void>): Promise<void> {
    const id = countedId(counted)
    const running = this.#running.get(id) ?? count().finally(() => this.#running.delete(id))
    this.#running.set(id, running)
    return running
  }
}

/** `addSpent`: adds to what no running process has spent of a counter. */
type CountedFile = {
  readonly database: DatabaseSync
  readonly addSpent: (counter: string, periodStart: number, spent: number) => void
}

/**
 * Adds what the counters of a budget lack in the period, unless it was done before. Rows and sums are read in one state by a
 * connection of its own, for which nothing waits, and what is missing is added, whatever was stored meanwhile. `at`: ms since
 * 1970.
 */
export const countPeriod = async (
  { database, addSpent }: CountedFile,
  counted: CountedPeriodOf,
  at: number,
): Promise<void> => {
  const { budget, start } = counted
  const id = countedId(counted)
  const isCounted = () => database.prepare('SELECT 1 FROM adjustment WHERE id = ?').get(id) !== undefined
  if (isCounted()) return
  const missing = await readMissing(database.location() ?? '', counted, at)
  inTransaction(database, () => {
    if (isCounted()) return
    const insert = database.prepare(INSERT)
    // Without a counter it only notes that the period is counted.
    insert.run(id, at, budget.id, null, null, 0)
    for (const { owner, counter, spent } of missing) {
      insert.run(`${id}_${owner}`, at, budget.id, counter, start, spent)
      addSpent(counter, start, spent)
    }
  })
}

const readMissing = async (path: string, counted: CountedPeriodOf, at: number): Promise<readonly MissingSum[]> => {
  const { budget, start } = counted
  const state = new DatabaseSync(path, { readOnly: true, timeout: BUSY })
  try {
    state.exec('BEGIN')
    const charged = state.prepare(chargedIn('?1', '?2', '?3', '?4')).all(start, REASON, ...countersOf(budget))
    const rows = state.prepare(spentBetween('?1', '?2'))
    const sums = new Map<string, number>()
    for await (const { from, to } of partsOfPeriod(counted, at)) addSpentBy(sums, budget, rows.iterate(from, to))
    return missingOf(budget, sums, charged)
  } finally {
    state.close()
  }
}
