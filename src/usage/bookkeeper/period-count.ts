/**
 * Counts what was spent in a period before a budget with `countFrom: period` was created. It is stored as adjustments, once
 * for each budget and period, so that restarts and all workers have the same figures.
 */

import type { DatabaseSync } from 'node:sqlite'
import type { Budget } from '../../core/accounts.ts'
import { isObject } from '../../core/json.ts'
import { budgetScope, counterOwner, countsClient } from '../../policy/accounts/budget-scope.ts'
import { countsTarget } from '../../policy/accounts/key-access.ts'

/** A budget, and the start of the period that is counted (ms since 1970). */
export type CountedPeriodOf = { readonly budget: Budget; readonly start: number }

/** `at`: ms since 1970. `addSpent`: adds to what no running process has spent of a counter. */
type CountedBy = {
  readonly at: number
  readonly addSpent: (counter: string, periodStart: number, spent: number) => void
}

export const REASON = 'countFrom: period'
export const ACTOR = 'headgate'
/** ms of a period that one statement reads, because statements have a time limit. */
export const PART = 86_400_000

const SPENT = `SELECT key, team, person, end_user, tags, asked, provider, model, sum(charged) AS spent
  FROM attempt WHERE received >= ? AND received < ? GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`

/** What a counter has been charged by requests, and what was added here before. */
const COUNTED = `SELECT
  (SELECT coalesce(sum(spent), 0) FROM budget_sum WHERE counter = ?1 AND period_start = ?2)
    - (SELECT coalesce(sum(amount), 0) FROM adjustment WHERE counter = ?1 AND period_start = ?2 AND reason <> ?3) AS charged`

const INSERT = `INSERT INTO adjustment (id, at, budget, counter, period_start, key, amount, reason, actor)
  VALUES (?, ?, ?, ?, ?, NULL, ?, '${REASON}', '${ACTOR}')`
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

/** Adds what the counters of a budget lack in the period, unless it was done before. Within a transaction. */
export const countPeriod = (database: DatabaseSync, counted: CountedPeriodOf, { addSpent, at }: CountedBy): void => {
  const { budget, start } = counted
  const id = countedId(counted)
  if (database.prepare('SELECT 1 FROM adjustment WHERE id = ?').get(id)) return
  const [insert, charged] = [database.prepare(INSERT), database.prepare(COUNTED)]
  // Without a counter it only notes that the period is counted.
  insert.run(id, at, budget.id, null, null, 0)
  const sums = new Map<string, number>()
  const rows = database.prepare(SPENT)
  for (let from = start; from <= at + PART; from += PART) addSpentBy(sums, budget, rows.iterate(from, from + PART))
  for (const [owner, spent] of sums) {
    const counter = `${budget.id}:${owner}`
    const missing = spent - Number(charged.get(counter, start, REASON)?.charged)
    if (missing <= 0) continue
    insert.run(`${id}_${owner}`, at, budget.id, counter, start, missing)
    addSpent(counter, start, missing)
  }
}
