/** Stored responses in Postgres, which several gateways share. Functions throw a `PostgresError`. */
import type { ResponseName, RunEvents, RunRequest, StoredResponse } from '../../core/stored-response.ts'
import type { PostgresPool, PostgresRow, PostgresSession } from '../sql/postgres/pool.ts'
import { isUnfinished, READ } from './database.ts'
import type { AddedEvents, EventsQuery, HoldingQuery, Limits } from './store-queries.ts'

/** Responses that a sweep deletes per statement. */
const SWEPT = 100
/** Fraction of the maximum size that remains after the oldest responses were deleted. */
const EASED = 0.9
const MIB = 1_048_576

const COLUMNS = `response.owner, response.id, response.previous, status, created, input, response.response, events, maker, users,
  (SELECT json_agg(item.id ORDER BY item.id)::text FROM item
    WHERE item.owner = response.owner AND item.response = response.id) AS items`
const FRESH = 'touched > now() - make_interval(days => $1)'

const SELECT = `SELECT ${COLUMNS} FROM response WHERE ${FRESH} AND owner = $2 AND id = $3`
const SELECT_HOLDING = `SELECT ${COLUMNS} FROM response
  JOIN item AS held ON held.owner = response.owner AND held.response = response.id
  WHERE ${FRESH} AND held.owner = $2 AND held.id = $3`
/** The response and those before it, newest first. `before`: bytes of the turns that are read before it. */
const SELECT_TURNS = `WITH RECURSIVE turn (id, previous, at, before) AS (
    SELECT id, previous, 1, 0::bigint FROM response WHERE ${FRESH} AND owner = $2 AND id = $3
    UNION ALL
    SELECT response.id, response.previous, turn.at + 1, turn.before + earlier.size
    FROM turn
    JOIN response AS earlier ON earlier.owner = $2 AND earlier.id = turn.id
    JOIN response ON response.owner = $2 AND response.id = turn.previous AND response.${FRESH}
    WHERE turn.at < ${READ.turns} AND turn.before + earlier.size < ${READ.characters}
  )
  SELECT ${COLUMNS} FROM turn JOIN response ON response.owner = $2 AND response.id = turn.id ORDER BY turn.at`

const INSERT = `INSERT INTO response
    (owner, id, previous, status, created, touched, size, input, response, events, maker, users, worker, request)
  VALUES ($1, $2, $3, $4, $5, now(), $6, $7, $8, $9, $10, $11, $12, $13)
  ON CONFLICT (owner, id) DO UPDATE
    SET (previous, status, created, touched, size, input, response, events, maker, users, worker, request)
    = (excluded.previous, excluded.status, excluded.created, excluded.touched, excluded.size, excluded.input, excluded.response,
       excluded.events, excluded.maker, excluded.users, excluded.worker, excluded.request)`
/**
 * The next state of a response that this process runs: nothing if it was deleted, or if another process has ended it or runs it.
 * With its end, its request is no longer needed.
 */
const UPDATE = `UPDATE response SET (previous, status, created, touched, size, input, response, events, maker, users, worker, request)
    = ($3, $4, $5, now(), $6, $7, $8, $9, $10, $11, $12, CASE WHEN $12::text IS NULL THEN NULL ELSE request END)
  WHERE owner = $1 AND id = $2 AND worker = $13`
const DELETE_ITEMS = 'DELETE FROM item WHERE owner = $1 AND response = $2'
const INSERT_ITEMS = `INSERT INTO item (owner, id, response)
  SELECT DISTINCT response.owner, item, response.id FROM response, unnest($3::text[]) AS item
  WHERE response.owner = $1 AND response.id = $2
  ORDER BY item
  ON CONFLICT (owner, id) DO UPDATE SET response = excluded.response`
const DELETE_EVENTS = 'DELETE FROM event WHERE owner = $1 AND id = $2'
/** Extends the retention of earlier turns whose own is older than an hour: all of them with each new one would be too slow. */
const PROLONG = `WITH RECURSIVE earlier (id) AS (
    VALUES ($2::text) UNION SELECT response.previous FROM response JOIN earlier USING (id) WHERE owner = $1
  ), old AS (
    SELECT owner, id FROM response WHERE owner = $1 AND id IN (SELECT id FROM earlier WHERE id IS NOT NULL)
      AND touched < now() - interval '1 hour'
    ORDER BY id FOR UPDATE SKIP LOCKED
  ) UPDATE response SET touched = now() FROM old WHERE response.owner = old.owner AND response.id = old.id`

const EXPIRE = `DELETE FROM response USING (
    SELECT owner, id FROM response WHERE touched <= now() - make_interval(days => $1)
    ORDER BY touched LIMIT ${SWEPT} FOR UPDATE SKIP LOCKED
  ) AS old WHERE response.owner = old.owner AND response.id = old.id`
const SIZES = 'SELECT owner, sum(size) AS size FROM response GROUP BY owner ORDER BY sum(size) DESC'
/** Deletes the oldest responses of an owner, until so many bytes are free. What is new or in progress stays. */
const MAKE_ROOM = `WITH old AS (
    SELECT owner, id, sum(size) OVER (ORDER BY touched, id) - size AS before FROM response
    WHERE owner = $1 AND worker IS NULL AND touched < now() - interval '1 minute'
  ) DELETE FROM response USING old
  WHERE response.owner = old.owner AND response.id = old.id AND old.before < $2`

export class ResponseRows {
  readonly #pool: PostgresPool
  readonly #worker: string
  limits: Limits

  constructor(pool: PostgresPool, { worker, limits }: { readonly worker: string; readonly limits: Limits }) {
    this.#pool = pool
    this.#worker = worker
    this.limits = limits
  }

  async get({ id, owner }: ResponseName): Promise<StoredResponse | undefined> {
    return (await this.#read(SELECT, owner, id))[0]
  }

  async holding({ item, owner }: HoldingQuery): Promise<StoredResponse | undefined> {
    return (await this.#read(SELECT_HOLDING, owner, item))[0]
  }

  turns({ id, owner }: ResponseName): Promise<readonly StoredResponse[]> {
    return this.#read(SELECT_TURNS, owner, id)
  }

  /** Adds the statements that store a response to a transaction. */
  async put(tx: PostgresSession, stored: StoredResponse): Promise<void> {
    const { owner, id, previous, items } = stored
    const isRunning = isUnfinished(stored.status)
    const continues = stored.isRun === true && stored.status !== 'queued'
    const values = [...columnsOf(stored), isRunning ? this.#worker : null]
    await Promise.all([
      continues
        ? tx.query(UPDATE, [...values, this.#worker])
        : tx.query(INSERT, [...values, stored.again === undefined ? null : Buffer.from(stored.again)]),
      ...(stored.isRun === true ? [tx.query(DELETE_ITEMS, [owner, id])] : []),
      ...(items.length === 0 ? [] : [tx.query(INSERT_ITEMS, [owner, id, items])]),
      ...(previous === null ? [] : [tx.query(PROLONG, [owner, previous])]),
      ...(continues && !isRunning ? [tx.query(DELETE_EVENTS, [owner, id])] : []),
    ])
  }

  async delete({ id, owner }: ResponseName): Promise<boolean> {
    return (await this.#pool.query('DELETE FROM response WHERE owner = $1 AND id = $2', [owner, id])).changes > 0
  }

  async ask({ id, owner }: ResponseName, asked: RunRequest): Promise<boolean> {
    const statement = `UPDATE response SET ${asked} = true WHERE owner = $1 AND id = $2 AND worker IS NOT NULL`
    return (await this.#pool.query(statement, [owner, id])).changes > 0
  }

  async events({ id, owner, from }: EventsQuery): Promise<RunEvents> {
    const { rows } = await this.#pool.query(
      `SELECT lines FROM response LEFT JOIN event ON event.owner = response.owner AND event.id = response.id AND first >= $3
       WHERE response.owner = $1 AND response.id = $2 AND worker IS NOT NULL ORDER BY first`,
      [owner, id, from],
    )
    const lines = rows.flatMap((row) => (row.lines === null ? [] : textIn(row.lines).split('\n')))
    return { isRunning: rows.length > 0, lines }
  }

  async addEvents({ id, owner, from, lines }: AddedEvents): Promise<void> {
    await this.#pool.query(
      `INSERT INTO event (owner, id, first, lines) SELECT owner, id, $3, $4 FROM response
       WHERE owner = $1 AND id = $2 AND worker = $5 ON CONFLICT DO NOTHING`,
      [owner, id, from, Buffer.from(lines), this.#worker],
    )
  }

  /** Deletes a batch of expired responses. Returns whether more are left. */
  async sweep(): Promise<boolean> {
    return (await this.#pool.query(EXPIRE, [this.limits.keepDays])).changes >= SWEPT
  }

  /** Deletes the oldest responses of the owners with the most data, so that one owner cannot displace the others. */
  async makeRoom(): Promise<void> {
    const { rows } = await this.#pool.query(SIZES)
    const sizes = rows.map(({ owner, size }) => ({ owner: String(owner), size: Number(size) }))
    const total = sizes.reduce((sum, { size }) => sum + size, 0)
    const most = this.limits.maxMegabytes * MIB
    if (total <= most) return
    const level = levelFor(
      sizes.map(({ size }) => size),
      most * EASED,
    )
    for (const { owner, size } of sizes) {
      if (size <= level) return
      await this.#pool.query(MAKE_ROOM, [owner, Math.ceil(size - level)])
    }
  }

  async #read(statement: string, owner: string, id: string): Promise<readonly StoredResponse[]> {
    const { rows } = await this.#pool.query(statement, [this.limits.keepDays, owner, id])
    return rows.map(readRow)
  }
}

/** The bytes that each owner may have at most, so that all together have `most`. `sizes`: the largest first. */
const levelFor = (sizes: readonly number[], most: number): number => {
  let rest = sizes.reduce((sum, size) => sum + size, 0)
  for (const [at, size] of sizes.entries()) {
    rest -= size
    const level = (most - rest) / (at + 1)
    if (level >= (sizes[at + 1] ?? 0)) return level
  }
  return 0
}

const columnsOf = ({ input, response, events, maker, users = [], ...stored }: StoredResponse) => {
  const bytes = [input, response, ...(events === null ? [] : [events])].map((text) => Buffer.from(text))
  const size = bytes.reduce((sum, { length }) => sum + length, 0)
  return [
    stored.owner,
    stored.id,
    stored.previous,
    stored.status,
    stored.created,
    size,
    bytes[0] ?? null,
    bytes[1] ?? null,
    bytes[2] ?? null,
    maker && JSON.stringify(maker),
    users.length === 0 ? null : JSON.stringify(users),
  ]
}

export const textIn = (value: PostgresRow[string] | undefined): string =>
  value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.length).toString() : String(value)

/** A row of the table; only this file writes it. */
export const readRow = (row: PostgresRow): StoredResponse => ({
  owner: String(row.owner),
  id: String(row.id),
  previous: typeof row.previous === 'string' ? row.previous : null,
  status: String(row.status) as StoredResponse['status'],
  created: Number(row.created),
  input: textIn(row.input),
  response: textIn(row.response),
  events: row.events === null ? null : textIn(row.events),
  items: typeof row.items === 'string' ? (JSON.parse(row.items) as string[]) : [],
  maker: typeof row.maker === 'string' ? (JSON.parse(row.maker) as StoredResponse['maker']) : null,
  users: typeof row.users === 'string' ? (JSON.parse(row.users) as StoredResponse['users']) : [],
})
