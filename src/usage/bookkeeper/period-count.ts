/**
 * Counts what was spent in a period before a budget with `countFrom: period` was created. It is stored as adjustments, once
 * for each budget and period, so that restarts and all workers have the same figures.
 */
import { setImmediate } from 'node:timers/promises'
import type { Budget } from '../../core/accounts.ts'
import { isObject } from '../../core/json.ts'
import { isGuessed } from '../../core/session.ts'
import { budgetScope, counterOwner, countsClient } from '../../policy/accounts/budget-scope.ts'
import { countsTarget } from '../../policy/accounts/key-access.ts'
import { slicesOf } from '../columns/time-slices.ts'
import { IS_ALONE } from '../columns/usage-schema.ts'
import {
  addSum,
  insertAdjustment,
  type LedgerRow,
  type LedgerStatement,
  type LedgerSteps,
  type StatementResult,
  statement,
} from './ledger-steps.ts'
import type { CountedPeriodOf } from './ledger-store.ts'

/** What a counter lacks. `owner`: whose counter of the budget it is. */
type MissingSum = { readonly owner: string; readonly counter: string; readonly spent: number }

const REASON = 'countFrom: period'
/** ms after now that are read, because clocks of gateways differ. */
const AHEAD = 86_400_000

const COLUMNS = 'key, team, person, end_user, session, tags, asked, provider, model'

/** What requests of a part of a period have spent, by what decides which counters count it. */
const spentBetween = (isInState: string): string => `SELECT ${COLUMNS}, sum(charged) AS spent FROM (
    SELECT ${COLUMNS}, charged FROM request WHERE received >= $1 AND received < $2 AND ${IS_ALONE} AND ${isInState}
    UNION ALL SELECT ${COLUMNS}, charged FROM attempt WHERE received >= $1 AND received < $2 AND alone = 0 AND EXISTS
      (SELECT 1 FROM request WHERE request.received = attempt.received AND request.id = attempt.request AND ${isInState})
  ) AS charges GROUP BY ${COLUMNS}`

/** What counters of a period have been charged by requests: without what was added here before. */
const CHARGED = `SELECT counter, spent - coalesce((SELECT sum(amount) FROM adjustment
      WHERE adjustment.counter = budget_sum.counter AND period_start = $1 AND reason <> $2), 0) AS charged
    FROM budget_sum WHERE period_start = $1 AND counter >= $3 AND counter < $4`

/** What counters lack: `sums` by owner, of which `rows` are charged. */
const missingOf = (
  { id }: Budget,
  sums: ReadonlyMap<string, number>,
  rows: readonly LedgerRow[],
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

/** Adds what rows say, by the owner of the counter. */
const addSpentBy = (sums: Map<string, number>, budget: Budget, rows: readonly LedgerRow[]): void => {
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
    const session = text(row.session)
    const named = { endUser: text(row.end_user), session: session === '' || isGuessed(session) ? null : session }
    const owner = counterOwner(budget, client, named)
    if (owner !== null) add(sums, owner, Number(row.spent))
  }
}

/** The note that a period is counted. */
const countedId = ({ budget, start }: CountedPeriodOf): string =>
  `adj_${budget.id.slice('bud_'.length)}_${budget.per}_${start}`

/** A database in which periods are counted. */
export type CountedDatabase = {
  /** Runs steps in a transaction. */
  readonly run: <T>(steps: () => LedgerSteps<T>) => Promise<T>
  /** Reads one state of it. Nothing waits for that. */
  readonly inState: <T>(read: (query: StateQuery) => Promise<T>) => Promise<T>
}
/** `isInState`: a condition for rows of `request` in all statements but the first. */
export type StateQuery = {
  readonly isInState: string
  readonly run: (statement: LedgerStatement) => Promise<StatementResult>
}

export class PeriodCounts {
  readonly #database: CountedDatabase
  /** Counts that run. */
  readonly #running = new Map<string, Promise<void>>()

  constructor(database: CountedDatabase) {
    this.#database = database
  }

  /**
   * Adds what the counters of a budget lack in the period, unless it was done before: rows and sums are read in one state, and what
   * is missing is added, whatever was stored meanwhile. `at`: ms since 1970. Those who ask for the same count wait for it.
   */
  count(counted: CountedPeriodOf, at: number): Promise<void> {
    const id = countedId(counted)
    const running = this.#running.get(id) ?? this.#count(counted, at).finally(() => this.#running.delete(id))
    this.#running.set(id, running)
    return running
  }

  async #count(counted: CountedPeriodOf, at: number): Promise<void> {
    const { run, inState } = this.#database
    const id = countedId(counted)
    const known = await run(() => statement('SELECT 1 FROM adjustment WHERE id = $1', id))
    if (known.rows.length > 0) return
    const missing = await inState((query) => readMissing(query, counted, at))
    await run(() => addMissing(missing, counted, at))
  }
}

function* addMissing(missing: readonly MissingSum[], counted: CountedPeriodOf, at: number): LedgerSteps<void> {
  const { budget, start } = counted
  const row = { at, budget: budget.id, period_start: null, key: null, reason: REASON, actor: 'headgate' }
  const id = countedId(counted)
  // Without a counter it only notes that the period is counted. Another gateway may have done it meanwhile.
  if (!(yield* insertAdjustment({ ...row, id, counter: null, amount: 0 }))) return
  for (const { owner, counter, spent } of missing) {
    yield* insertAdjustment({ ...row, id: `${id}_${owner}`, counter, period_start: start, amount: spent })
    yield* addSum({ process: null, counter, periodStart: start, spent })
  }
}

const readMissing = async (
  { isInState, run }: StateQuery,
  { budget, start }: CountedPeriodOf,
  at: number,
): Promise<readonly MissingSum[]> => {
  const charged = await run({ text: CHARGED, values: [start, REASON, `${budget.id}:`, `${budget.id};`] })
  const text = spentBetween(isInState)
  const sums = new Map<string, number>()
  // Others use the thread between two parts of the period.
  const clock = { time: () => performance.now(), turn: () => setImmediate() }
  for await (const { from, to } of slicesOf(clock, { from: start, to: at + AHEAD }, 'oldest first'))
    addSpentBy(sums, budget, (await run({ text, values: [from, to] })).rows)
  return missingOf(budget, sums, charged.rows)
}
