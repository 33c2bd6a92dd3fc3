/**
 * What gateways have stored about their usage, read from `usage.db` as another process reads it, or from Postgres. Functions
 * take the data folder or the URL of the database.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { LISTED, SHARED_USAGE } from '../../../src/usage/columns/usage-schema.ts'
import { decodeLine, decodeOpened } from '../../../src/usage/journal/journal-record.ts'
import { openPostgresRows } from '../../support/postgres-rows.ts'

/** An attempt; `open` until its end is known. Times in ms since 1970, amounts in nano-dollars. */
export type StoredAttempt = {
  readonly request: string
  readonly n: number
  readonly started: number
  readonly ended: number | null
  readonly provider: string
  readonly hedge: number
  readonly outcome: string
  readonly kind: string | null
  readonly status: number | null
  readonly input: number | null
  readonly output: number | null
  readonly reserved: number
  readonly cost: number | null
  readonly usage_source: string
}

/** A row of the table `request`. */
export type StoredRequest = {
  readonly id: string
  /** `x-request-id` of the client. Absent: an earlier version has stored it. */
  readonly client_request_id?: string | null
  readonly received: number
  readonly ended: number | null
  readonly outcome: string
  readonly status: number
  readonly attempts: number
  readonly cache: string
  readonly cost: number | null
  readonly saved: number
}

/** `openCalls`: calls that are not complete, whose attempts are among the others. */
export type StoredUsage = {
  readonly attempts: readonly StoredAttempt[]
  readonly requests: readonly StoredRequest[]
  readonly openCalls: number
}

const isUrl = (place: string): boolean => place.startsWith('postgres://')

/** All statements of one call read the same snapshot, so that a request is never read without its attempts. */
const reading = <T>(place: string, read: (all: (sql: string) => readonly unknown[]) => T): T => {
  if (isUrl(place)) {
    const { all, close } = openPostgresRows(place, SHARED_USAGE.name)
    try {
      all('BEGIN ISOLATION LEVEL REPEATABLE READ')
      return read(all)
    } finally {
      close()
    }
  }
  const database = new DatabaseSync(join(place, 'usage.db'), { readOnly: true, timeout: 5_000 })
  try {
    database.exec('BEGIN')
    return read((sql) =>
      database
        .prepare(sql)
        .all()
        .map((row) => ({ ...row })),
    )
  } finally {
    database.close()
  }
}

/** What all budgets have spent, in nano-dollars. */
export const spentOfBudgets = (place: string): number =>
  reading(place, (all) => {
    const [sum] = all('SELECT sum(spent) spent FROM budget_sum') as readonly { spent: number | null }[]
    return sum?.spent ?? 0
  })

/**
 * All attempts and requests, by the IDs that tests have given them. Before the first one is stored there is no database, and they
 * are empty.
 */
export const storedUsage = (place: string): StoredUsage => {
  try {
    return reading(place, (all) => {
      // The columns are those of the schema.
      const attempts = all('SELECT * FROM attempt ORDER BY started, request, n') as readonly StoredAttempt[]
      const requests = all('SELECT * FROM request ORDER BY received, id') as readonly StoredRequest[]
      const calls = all('SELECT records FROM open_call ORDER BY started') as readonly { readonly records: string }[]
      const given = new Map(requests.map(({ id, client_request_id }) => [id, client_request_id ?? id]))
      const nameOf = (id: string) => given.get(id) ?? id
      return {
        attempts: [
          ...attempts.map((attempt) => ({ ...attempt, request: nameOf(attempt.request) })),
          ...calls.flatMap(({ records }) => openAttempts(records)),
        ],
        requests: requests.map((request) => ({ ...request, id: nameOf(request.id) })),
        openCalls: calls.length,
      }
    })
  } catch {
    return { attempts: [], requests: [], openCalls: 0 }
  }
}

/** The attempts of a call that is not complete. */
const openAttempts = (records: string): readonly StoredAttempt[] => {
  const attempts = new Map<number, StoredAttempt>()
  for (const text of records.split('\n')) {
    const line = decodeLine(text)
    if (line?.type === 'opened') {
      const { request, clientRequestId, attempt: n, at: started, provider, hedge, reserved } = decodeOpened(text)
      const id = { request: clientRequestId ?? request, n, started, provider, hedge: Number(hedge), reserved }
      const open = { ended: null, kind: null, status: null, input: null, output: null, cost: null }
      attempts.set(n, { ...id, ...open, outcome: 'open', usage_source: 'estimated' })
    }
    for (const end of line?.type === 'closed' ? [line.end] : line?.type === 'ended' ? line.attempts : []) {
      const row = Object.fromEntries(LISTED.map((name, at) => [name, end[at]]))
      const known = attempts.get(Number(row.n))
      if (known) attempts.set(known.n, { ...known, ...row })
    }
  }
  return [...attempts.values()]
}

const ATTEMPTS =
  'count(*) attempts, coalesce(sum(input), 0) input, coalesce(sum(output), 0) output, coalesce(sum(cost), 0) cost'
const SUMS =
  'coalesce(sum(attempts), 0) attempts, coalesce(sum(input), 0) input, coalesce(sum(output), 0) output, coalesce(sum(cost), 0) cost'

/** Checks that no row is doubled, that every sum equals that of the rows, and that the file is intact. Returns the cost. */
export const checkStoredUsage = (place: string, { budgets = false } = {}): number =>
  reading(place, (all) => {
    const [attempts] = all(`SELECT ${ATTEMPTS} FROM attempt`) as readonly { cost: number }[]
    const [requests] = all('SELECT count(*) requests, coalesce(sum(saved), 0) saved FROM request')
    for (const table of ['usage_day', 'usage_hour']) {
      assert.deepEqual(all(`SELECT ${SUMS} FROM ${table}`)[0], attempts, table)
      const sums = 'coalesce(sum(requests), 0) requests, coalesce(sum(saved), 0) saved'
      assert.deepEqual(all(`SELECT ${sums} FROM ${table}`)[0], requests, table)
    }
    assert.deepEqual(all('SELECT request, n FROM attempt GROUP BY request, n HAVING count(*) > 1'), [])
    assert.deepEqual(all('SELECT id FROM request GROUP BY id HAVING count(*) > 1'), [])
    if (!isUrl(place)) assert.deepEqual(all('PRAGMA integrity_check'), [{ integrity_check: 'ok' }])
    assert.ok(attempts)
    const spent = [{ cost: attempts.cost }]
    assert.deepEqual(
      all('SELECT coalesce(sum(cost), 0) cost FROM request'),
      spent,
      'requests cost what their attempts cost',
    )
    if (budgets) assert.deepEqual(all('SELECT coalesce(sum(spent), 0) cost FROM budget_sum'), spent, 'budgets')
    return attempts.cost
  })

/** Waits at most a minute until what is stored is as wanted, and returns it. */
export const untilStored = async (
  place: string,
  what: string,
  isComplete: (usage: StoredUsage) => boolean,
): Promise<StoredUsage> => {
  for (const end = performance.now() + 120_000; ; await sleep(50)) {
    const usage = storedUsage(place)
    if (isComplete(usage)) return usage
    assert.ok(
      performance.now() < end,
      `not stored: ${what}; ${usage.requests.length} requests, ${usage.attempts.length} attempts`,
    )
  }
}

/** Waits until no stored attempt is open or waits for the end of its request, and returns what is stored. */
export const untilComplete = (place: string): Promise<StoredUsage> =>
  untilStored(place, 'every request is complete', ({ openCalls }) => openCalls === 0)
