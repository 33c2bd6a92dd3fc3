/**
 * Counts what was spent in a period before a budget with `countFrom: period` was created. It is stored as adjustments, once
 * for each budget and period, so that restarts and all workers have the same figures.
 */
import type { Budget } from '../../core/accounts.ts'
import { parseCharge } from '../../core/journal.ts'
import { isObject } from '../../core/json.ts'
import { budgetScope, counterOwner, countsClient } from '../../policy/accounts/budget-scope.ts'
import { countsTarget } from '../../policy/accounts/key-access.ts'
import type { SqlDatabase } from '../../storage/sql/database.ts'
import { CHARGED, type OpenedColumn } from '../columns/usage-schema.ts'

/** A budget, and the start of the period that is counted (ms since 1970). */
export type CountedPeriodOf = { readonly budget: Budget; readonly start: number }

/** `at`: ms since 1970. */
type CountedBy = { readonly node: string; readonly at: number }

const REASON = 'countFrom: period'
const ACTOR = 'headgate'

/** Attempts of complete requests. */
const SPENT = `SELECT a.key, a.team, r.person, r.end_user, r.tags, r.asked, a.provider, a.model,
    sum(${CHARGED}) AS spent
  FROM attempt a JOIN request r ON r.id = a.request AND r.call = a.call
  WHERE a.started >= ?1 AND r.received >= ?1 AND a.opened IS NULL
  GROUP BY 1, 2, 3, 4, 5, 6, 7, 8`

/** Ended attempts of incomplete requests: their charges are counted, and their rows are not in `SPENT`. */
const UNFINISHED = `SELECT ${CHARGED} AS spent, a.opened FROM attempt a
  WHERE a.opened IS NOT NULL AND a.outcome <> 'open'`

/** What a counter has been charged by requests, and what was added here before. */
const COUNTED = `SELECT
  (SELECT coalesce(sum(spent), 0) FROM budget_sum WHERE counter = ?1 AND period_start = ?2)
    - (SELECT coalesce(sum(amount), 0) FROM adjustment WHERE counter = ?1 AND period_start = ?2 AND reason <> ?3) AS charged`

const INSERT = `INSERT INTO adjustment (id, at, budget, counter, period_start, key, amount, reason, actor)
  VALUES (?, ?, ?, ?, ?, NULL, ?, '${REASON}', '${ACTOR}')`
/** It belongs to no running process, whose counters would contain it. */
const ADD = `INSERT INTO budget_sum (counter, period_start, node, process, spent) VALUES (?, ?, ?, '', ?)
  ON CONFLICT (counter, period_start, node, process) DO UPDATE SET spent = budget_sum.spent + excluded.spent`

const add = (sums: Map<string, number>, owner: string, spent: number): void => {
  sums.set(owner, (sums.get(owner) ?? 0) + spent)
}

/** What the rows of the period say, by the owner of the counter. */
const spentByOwner = (database: SqlDatabase, { budget, start }: CountedPeriodOf): ReadonlyMap<string, number> => {
  const scope = budgetScope(budget)
  const sums = new Map<string, number>()
  const text = (value: unknown) => (typeof value === 'string' ? value : '')
  for (const row of database.prepare(SPENT).iterate(start)) {
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
  return sums
}

/** What incomplete requests have charged to counters of the budget in the period. */
const unfinishedByOwner = (database: SqlDatabase, { budget, start }: CountedPeriodOf): ReadonlyMap<string, number> => {
  const sums = new Map<string, number>()
  for (const { spent, opened } of database.prepare(UNFINISHED).iterate()) {
    // The ledger has written it.
    const { charges } = JSON.parse(String(opened)) as OpenedColumn
    for (const { counter, periodStart } of charges.map(parseCharge))
      if (periodStart === start && counter.startsWith(`${budget.id}:`))
        add(sums, counter.slice(budget.id.length + 1), Number(spent))
  }
  return sums
}

/** Adds what the counters of a budget lack in the period, unless it was done before. Within a transaction. */
export const countPeriod = (database: SqlDatabase, counted: CountedPeriodOf, { node, at }: CountedBy): void => {
  const { budget, start } = counted
  const id = `adj_${budget.id.slice('bud_'.length)}_${budget.per}_${start}`
  if (database.prepare('SELECT 1 FROM adjustment WHERE id = ?').get(id)) return
  const [insert, addSum, charged] = [database.prepare(INSERT), database.prepare(ADD), database.prepare(COUNTED)]
  // Without a counter it only notes that the period is counted.
  insert.run(id, at, budget.id, null, null, 0)
  const unfinished = unfinishedByOwner(database, counted)
  for (const [owner, spent] of spentByOwner(database, counted)) {
    const counter = `${budget.id}:${owner}`
    const known = Number(charged.get(counter, start, REASON)?.charged) - (unfinished.get(owner) ?? 0)
    const missing = spent - known
    if (missing <= 0) continue
    insert.run(`${id}_${owner}`, at, budget.id, counter, start, missing)
    addSum.run(counter, start, node, missing)
  }
}
