/**
 * The processes that run responses or have claimed answers in Postgres. Each counts its beats there while it has any. One whose
 * count stands still is gone: another one ends what it had in progress. Counts are compared, no clocks: what this process has
 * seen before it lost its own connection does not count.
 */
import type { LostRun, ResponseName, RunNews } from '../../core/stored-response.ts'
import type { PostgresPool, PostgresSession } from '../sql/postgres/pool.ts'
import { abandoned, cancelled } from './abandoned.ts'
import { readRow, textIn } from './response-rows.ts'

/** A row that was deleted and is there again must not have a count that others have seen: it begins at another time. */
const BEAT = `INSERT INTO process (id, beat) VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
  ON CONFLICT (id) DO UPDATE SET beat = process.beat + 1`
const RUNNING = 'SELECT owner, id, stop, follow FROM response WHERE worker = $1'
/** No process can beat in a standby: until it has taken over, counts that stand still mean nothing. */
const OTHERS = 'SELECT id, beat FROM process WHERE id <> $1 AND NOT pg_is_in_recovery()'
/** One that has beaten since, or that another gateway ends now, is left alone. */
const CLAIM_GONE = `DELETE FROM process WHERE id IN
  (SELECT id FROM process WHERE id = $1 AND beat = $2 FOR UPDATE SKIP LOCKED)`
/**
 * Those that may run again wait for a process, unless a client has seen events of them, which would be others the second time. One
 * whose processes are lost again and again may be the reason.
 */
const HAND_OVER = `UPDATE response SET worker = '', losses = losses + $2
  WHERE worker = $1 AND request IS NOT NULL AND NOT stop AND NOT follow AND losses < 2`
const TAKE = `WITH free AS (
    SELECT owner, id FROM response WHERE worker = '' ORDER BY touched LIMIT $2 FOR UPDATE SKIP LOCKED
  ) UPDATE response SET worker = $1 FROM free WHERE response.owner = free.owner AND response.id = free.id
  RETURNING response.*, (SELECT json_agg(item.id)::text FROM item
    WHERE item.owner = response.owner AND item.response = response.id) AS items`
const UNFINISHED = `SELECT response.*, (SELECT json_agg(item.id)::text FROM item
    WHERE item.owner = response.owner AND item.response = response.id) AS items
  FROM response WHERE worker = $1 FOR UPDATE`
const END_RUN = `UPDATE response SET status = $3, response = $4, worker = NULL, request = NULL, touched = now() WHERE owner = $1 AND id = $2`
const RELEASE_ALL = 'DELETE FROM claim WHERE worker = $1'

/** ms for which the count of a process stands still until it is gone. */
const GONE_AFTER = 10_000
/** Responses that a process takes over at a time: the others get some of many, too. */
const MOST_TAKEN = 16

export class SharedProcesses {
  readonly #pool: PostgresPool
  readonly #worker: string
  /** What this process runs, by owner and ID. */
  readonly #running = new Map<string, ResponseName>()
  readonly #claimed = new Set<string>()
  /** It takes over nothing more. */
  isRetired = false
  /** Counts of the others, and since when they are the same, in ms of the monotonic clock. */
  #seen = new Map<string, { readonly beat: number; readonly since: number }>()

  constructor(pool: PostgresPool, worker: string) {
    this.#pool = pool
    this.#worker = worker
  }

  /** Something is in progress. */
  get isBusy(): boolean {
    return this.#running.size + this.#claimed.size > 0
  }

  /** Counts a beat in the transaction that begins something: before it, so that no other process ends it unseen. */
  beatIn(tx: PostgresSession): Promise<unknown> {
    return tx.query(BEAT, [this.#worker])
  }

  started(run: ResponseName): void {
    this.#running.set(keyOf(run), { id: run.id, owner: run.owner })
  }

  ended(run: ResponseName): void {
    this.#running.delete(keyOf(run))
  }

  claimed(name: string): void {
    this.#claimed.add(name)
  }

  released(name: string): void {
    this.#claimed.delete(name)
  }

  /** Counts a beat, and reads what others ask. */
  async beat(): Promise<RunNews> {
    const { running, rows } = await this.#pool.transaction(async (tx) => {
      const before = [...this.#running.values()]
      const [, found] = await Promise.all([this.beatIn(tx), tx.query(RUNNING, [this.#worker])])
      return { running: before, rows: found.rows }
    })
    const found = new Map(rows.map((row) => [keyOf({ owner: String(row.owner), id: String(row.id) }), row]))
    const known = running.filter((run) => this.#running.has(keyOf(run)))
    return {
      stop: known.filter((run) => found.get(keyOf(run))?.stop !== false),
      follow: known.filter((run) => found.get(keyOf(run))?.follow === true),
    }
  }

  /** Looks for processes that are gone, and hands over or ends what they had in progress. Returns the number of those that ended. */
  async endGone(now: number): Promise<number> {
    try {
      const { rows } = await this.#pool.query(OTHERS, [this.#worker])
      const seen = new Map<string, { readonly beat: number; readonly since: number }>()
      for (const row of rows) {
        const [id, beat] = [String(row.id), Number(row.beat)]
        const before = this.#seen.get(id)
        seen.set(id, before?.beat === beat ? before : { beat, since: now })
      }
      this.#seen = seen
      let ended = 0
      for (const [id, { beat, since }] of seen) if (now - since >= GONE_AFTER) ended += await this.#end(id, beat)
      return ended
    } catch (error) {
      this.#seen = new Map()
      throw error
    }
  }

  /** Takes responses that wait for a process: this one runs them from now on. */
  async take(): Promise<readonly LostRun[]> {
    if (this.isRetired) return []
    // Most looks find none, and a process that has nothing in progress does not beat.
    if ((await this.#pool.query("SELECT 1 FROM response WHERE worker = '' LIMIT 1")).rows.length === 0) return []
    const rows = await this.#pool.transaction(async (tx) => {
      const [, found] = await Promise.all([this.beatIn(tx), tx.query(TAKE, [this.#worker, MOST_TAKEN])])
      return found.rows
    })
    const lost = rows.map((row) => ({ stored: { ...readRow(row), isRun: true as const }, again: textIn(row.request) }))
    for (const { stored } of lost) this.started(stored)
    return lost
  }

  /** At the end of this process: others run again what it still has in progress, or else it ends. */
  async leave(): Promise<void> {
    if (!this.isBusy) return
    await this.#pool.transaction(async (tx) => {
      await tx.query('DELETE FROM process WHERE id = $1', [this.#worker])
      await leaveAll(tx, this.#worker, 0)
    })
  }

  #end(worker: string, beat: number): Promise<number> {
    return this.#pool.transaction(async (tx) =>
      (await tx.query(CLAIM_GONE, [worker, beat])).changes === 0 ? 0 : leaveAll(tx, worker, 1),
    )
  }
}

/** Hands over what a process had in progress, and ends the rest. `losses`: 1 if it was lost. Returns how many have ended. */
const leaveAll = async (tx: PostgresSession, worker: string, losses: number): Promise<number> => {
  await tx.query(HAND_OVER, [worker, losses])
  const { rows } = await tx.query(UNFINISHED, [worker])
  await Promise.all([
    ...rows.map((row) => {
      const stored = readRow(row)
      const [status, text] = row.stop === true ? ['cancelled', cancelled(stored)] : ['failed', abandoned(stored)]
      return tx.query(END_RUN, [stored.owner, stored.id, status ?? '', Buffer.from(text ?? '')])
    }),
    tx.query(RELEASE_ALL, [worker]),
  ])
  return rows.length
}

const keyOf = ({ owner, id }: ResponseName): string => `${owner} ${id}`
