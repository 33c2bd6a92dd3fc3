/**
 * The counters of several gateways in Postgres, for the thread that has the connection. One short transaction answers all
 * questions that have come during the one before: it locks their counters in the order of their names, answers by `lease`, and
 * writes them together with the commit. So it waits for the server twice, and there are no deadlocks.
 */
import { randomUUID } from 'node:crypto'
import type { CounterTotals, LeaseReply } from '../gateway/accounts/counter-store.ts'
import {
  type LeaseAnswer,
  type LeaseAsk,
  type LeasedSum,
  type LeaseHolder,
  leaseOrBegin,
} from '../policy/accounts/lease.ts'
import { POSTGRES_TYPES } from '../storage/sql/column-types.ts'
import { SHARED_CONNECTIONS } from '../storage/sql/postgres/connections.ts'
import type { PostgresPool, PostgresSession } from '../storage/sql/postgres/pool.ts'
import { PostgresError } from '../storage/sql/postgres/postgres-error.ts'
import { openShared } from '../storage/sql/postgres/shared-schema.ts'
import type { SharedDatabase } from '../storage/sql/shared-database.ts'
import type { CommonCounters } from './common-counters.ts'
import { counterKeys, digestOf } from './counter-keys.ts'
import { GONE } from './counter-memory.ts'
import { CREATE_LIMIT_TABLES, LIMIT_TABLES, SHARED_LIMITS } from './postgres-schema.ts'

/** `timeout`: ms for a statement. `now`: ms of a clock in place of the server's, for tests. */
export type PostgresStoreOptions = {
  readonly database: SharedDatabase
  readonly timeout: number
  readonly now?: () => number
}

/** ms between two looks for counters that are over, up to twice that; one gateway in each such time deletes them. */
const SWEEP = 60_000
/** Counters that are deleted at a time. */
const SWEPT = 5_000
/** A table is missing: the schema is another one now. */
const OTHER_SCHEMA = /^(?:3F000|42P01)$/

const NOW = `coalesce($1::bigint, ${POSTGRES_TYPES.now})`

const SQL = {
  epoch: 'INSERT INTO epoch VALUES (1, $1, 0) ON CONFLICT DO NOTHING',
  beat: `INSERT INTO process AS known (name, at) SELECT name, ${NOW} FROM unnest($2::text[]) AS one (name) ORDER BY name
    ON CONFLICT (name) DO UPDATE SET at = excluded.at WHERE known.at < excluded.at - 1000`,
  // Rows of others that are not committed are waited for here.
  begin: `INSERT INTO counter (name, state, until) SELECT name, '', 0 FROM unnest($1::text[]) AS one (name) ORDER BY name
    ON CONFLICT DO NOTHING`,
  lock: 'SELECT name, state, until FROM counter WHERE name = ANY($1::text[]) ORDER BY name FOR UPDATE',
  // After the counters are locked: the time of one that waits is not earlier than that of the one before it.
  state: `SELECT now, id, (SELECT count(*) FROM process WHERE at >= now - ${GONE}) AS peers
    FROM (SELECT ${NOW} AS now, id FROM epoch) AS read`,
  write: `UPDATE counter SET state = one.state, until = one.until
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS one (name, state, until) WHERE counter.name = one.name`,
  read: 'SELECT name, state, until FROM counter WHERE name = ANY($1::text[])',
  // It waits for no lock, so that nothing can wait for it forever.
  sweep: `WITH turn AS (UPDATE epoch SET swept = ${NOW} WHERE swept < ${NOW} - ${SWEEP} * 0.9 RETURNING swept AS now),
      gone AS (DELETE FROM process WHERE name IN
        (SELECT name FROM process, turn WHERE at < now - ${GONE} FOR UPDATE OF process SKIP LOCKED))
    DELETE FROM counter WHERE name IN
      (SELECT name FROM counter, turn WHERE until < now LIMIT ${SWEPT} FOR UPDATE OF counter SKIP LOCKED)`,
} as const

type Question = {
  readonly holder: LeaseHolder
  readonly asks: readonly (LeaseAsk & { readonly name: string })[]
  readonly answer: (reply: LeaseReply) => void
}

/** A counter as it is answered from. `text`: as it is stored. */
type LockedCounter = { counter: LeasedSum | null; readonly text: string; until: number }

export class PostgresCounterStore implements CommonCounters {
  readonly #options: PostgresStoreOptions
  /** Null: the tables are looked for with the next call. */
  #opening: Promise<PostgresPool> | null = null
  #waiting: Question[] = []
  #running: Promise<void> | null = null
  #sweeping: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(options: PostgresStoreOptions) {
    this.#options = options
    this.#sweepLater()
  }

  lease(holder: LeaseHolder, asks: readonly LeaseAsk[]): Promise<LeaseReply> {
    return new Promise((answer) => {
      const named = asks.map((ask) => ({ ...ask, name: nameOf(ask.counter) }))
      this.#waiting.push({ holder: { ...holder, process: digestOf(holder.process) }, asks: named, answer })
      this.#running ??= this.#answerAll()
    })
  }

  async read(counters: readonly string[]): Promise<readonly (CounterTotals | null)[] | null> {
    const names = counters.map(nameOf)
    try {
      const { rows } = await this.#use((pool) => pool.query(SQL.read, [names], { readOnly: true }))
      const found = new Map(rows.map(({ name, state }) => [String(name), counterIn(String(state))]))
      return names.map((name) => {
        const counter = found.get(name)
        return counter ? { used: counter.used, held: counter.held } : null
      })
    } catch {
      return null
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#sweeping)
    await this.#running
    await (await this.#opening?.catch(() => null))?.close()
  }

  async #answerAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const questions = this.#waiting.splice(0)
      try {
        const replies = await this.#use((pool) => pool.transaction((tx) => this.#exchange(tx, questions)))
        for (const [at, { answer }] of questions.entries()) answer(replies[at] ?? lostWith('no answer'))
      } catch (error) {
        const reply = lostWith(error instanceof Error ? error.message : String(error))
        for (const { answer } of questions) answer(reply)
      }
    }
    // In the same turn: the next question starts it again.
    this.#running = null
  }

  async #exchange(tx: PostgresSession, questions: readonly Question[]): Promise<readonly LeaseReply[]> {
    const clock = this.#clock()
    const asks = questions.flatMap((question) => question.asks)
    const names = [...new Set(asks.map(({ name }) => name))]
    const begun = [...new Set(asks.flatMap(({ name, seed }) => (seed ? [name] : [])))]
    const [, , , locked, state] = await Promise.all([
      tx.query(SQL.epoch, [randomUUID()]),
      tx.query(SQL.beat, [clock, [...new Set(questions.map(({ holder }) => holder.process))]]),
      begun.length > 0 ? tx.query(SQL.begin, [begun]) : null,
      tx.query(SQL.lock, [names]),
      tx.query(SQL.state, [clock]),
    ])
    const { now, id, peers } = state.rows[0] ?? {}
    const counters = new Map(
      locked.rows.map(({ name, state, until }): [string, LockedCounter] => {
        const text = Number(until) < Number(now) ? '' : String(state)
        return [String(name), { text, counter: counterIn(text), until: Number(until) }]
      }),
    )
    const reply = { problem: null, epoch: String(id), peers: Number(peers) }
    const replies = questions.map((question) => ({
      ...reply,
      answers: question.asks.map((ask) => answerOf(counters.get(ask.name), question.holder, ask, Number(now))),
    }))
    const changed = [...counters].flatMap(([name, { counter, text, until }]) => {
      const next = counter === null ? '' : textOf(counter)
      return next === text ? [] : [{ name, next, until }]
    })
    // It is sent with the commit: the rows are locked, so it waits for nothing.
    if (changed.length > 0)
      void tx.query(SQL.write, [
        changed.map(({ name }) => name),
        changed.map(({ next }) => next),
        changed.map(({ until }) => until),
      ])
    return replies
  }

  async #use<T>(run: (pool: PostgresPool) => Promise<T>): Promise<T> {
    this.#opening ??= this.#open()
    const opening = this.#opening
    try {
      return await run(await opening)
    } catch (error) {
      const isOther = error instanceof PostgresError && OTHER_SCHEMA.test(error.code ?? '')
      if (isOther && this.#opening === opening) {
        this.#opening = null
        void opening.then((pool) => pool.close())
      }
      throw error
    }
  }

  async #open(): Promise<PostgresPool> {
    const { database, timeout } = this.#options
    try {
      const options = { ...SHARED_CONNECTIONS, max: 2, statementTimeout: timeout }
      const pool = await openShared(database, { ...SHARED_LIMITS, mayCreate: true }, options)
      await createMissing(pool, database).catch(async (error: unknown) => {
        await pool.close()
        throw error
      })
      return pool
    } catch (error) {
      this.#opening = null
      throw error
    }
  }

  #sweepLater(): void {
    if (this.#isClosed) return
    const sweep = () =>
      this.sweep()
        .catch(() => {})
        .finally(() => this.#sweepLater())
    this.#sweeping = setTimeout(sweep, SWEEP * (1 + Math.random())).unref()
  }

  /** Deletes what is over, unless a gateway has done so in the last minute. */
  async sweep(): Promise<void> {
    await this.#use((pool) => pool.query(SQL.sweep, [this.#clock()]))
  }

  #clock(): number | null {
    return this.#options.now?.() ?? null
  }
}

const createMissing = async (pool: PostgresPool, { migrate }: SharedDatabase): Promise<void> => {
  const text = 'SELECT name FROM unnest($1::text[]) AS one (name) WHERE to_regclass(name) IS NULL'
  const { rows } = await pool.query(text, [LIMIT_TABLES])
  if (rows.length > 0 && migrate === 'auto') await pool.batch(CREATE_LIMIT_TABLES.map((text) => ({ text })))
}

/** Only IDs and digests, as in Redis: a name may be that of a user. */
const nameOf = (counter: string): string => counterKeys(counter)[0]

const answerOf = (locked: LockedCounter | undefined, holder: LeaseHolder, ask: LeaseAsk, now: number): LeaseAnswer => {
  const leased = locked && leaseOrBegin(locked.counter, { holder, ask, now }, randomUUID)
  if (!leased) return { status: 'unseeded' }
  locked.until = now + ask.life
  locked.counter = leased.counter
  return leased.answer
}

const lostWith = (problem: string): LeaseReply => ({ problem, peers: 0, epoch: '', answers: [] })

/** JSON has no maps. */
type MapText = { readonly map: readonly (readonly [string, unknown])[] }

const textOf = (counter: LeasedSum): string =>
  JSON.stringify(counter, (_, value: unknown) => (value instanceof Map ? { map: [...value] } : value))

/** Null: it has not begun. Only this program writes the texts. */
const counterIn = (text: string): LeasedSum | null =>
  text === '' ? null : JSON.parse(text, (_, value: MapText | unknown) => (isMap(value) ? new Map(value.map) : value))

const isMap = (value: unknown): value is MapText =>
  value !== null && typeof value === 'object' && Object.hasOwn(value, 'map')
