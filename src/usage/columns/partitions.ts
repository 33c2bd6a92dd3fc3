/**
 * The days of the table `request` in Postgres: a partition for each, made ahead, and dropped when they are old. Rows without one,
 * such as those of a gateway that may create no table, are in `request_rest`.
 */
import type { PostgresPool, PostgresSession } from '../../storage/sql/postgres/pool.ts'
import { PostgresError } from '../../storage/sql/postgres/postgres-error.ts'

const DAY = 86_400_000
const MIB = 1_048_576
/** Days that are made ahead, and how old a day may be for which one is made. */
const DAYS = { ahead: 3, back: 400 }
/** ms to wait for a lock: those who need the table meanwhile wait too. */
const LOCK = 1_000
/** ms until a day that could not be made is tried again. */
const RETRY = 60_000
/** Rows deleted per transaction where no partition can be dropped. */
const DELETED = 2_000

/** SQLSTATE of a role that is not the owner. */
const NOT_PERMITTED = '42501'

type RowLimits = { readonly keepDays: number; readonly maxMegabytes: number }

type Partition = { readonly name: string; readonly day: number; readonly bytes: number }

export class Partitions {
  readonly #pool: PostgresPool
  /** The days that have a partition, or until when they are not tried again. */
  readonly #known = new Map<number, number>()

  constructor(pool: PostgresPool) {
    this.#pool = pool
  }

  /** Makes the partitions of rows that are to be inserted. Rows of a day that cannot be made are stored nevertheless. */
  async makeFor(times: Iterable<number>, now: number): Promise<void> {
    const days = new Set<number>()
    for (const time of times) days.add(dayOf(time))
    for (const day of days) await this.#make(day, now)
  }

  /** Makes the partitions of the next days. */
  async makeAhead(now: number, days = DAYS.ahead): Promise<void> {
    for (let ahead = 0; ahead <= days; ahead++) await this.#make(dayOf(now + ahead * DAY), now)
  }

  /** Drops a day that is too old or too much, and deletes old rows without a day. Returns whether more may be left. */
  async dropOld({ keepDays, maxMegabytes }: RowLimits, now: number): Promise<boolean> {
    const until = now - keepDays * DAY
    const partitions = await this.#all()
    const bytes = partitions.reduce((sum, one) => sum + one.bytes, 0)
    const [oldest] = partitions
    const isOver = oldest && (oldest.day + DAY <= until || (bytes > maxMegabytes * MIB && oldest.day < dayOf(now)))
    const isDropped = isOver === true && (await this.#drop(oldest, until))
    return (await this.#deleteIn('request_rest', until)) || isDropped
  }

  async #make(day: number, now: number): Promise<void> {
    const known = this.#known.get(day)
    if (known !== undefined && now < known) return
    if (Math.abs(day - now) > DAYS.back * DAY) return
    this.#known.set(day, Number.POSITIVE_INFINITY)
    const name = nameOf(day)
    try {
      await this.#locked(async (tx) => {
        const { rows } = await tx.query('SELECT to_regclass($1) IS NOT NULL AS found', [name])
        if (rows[0]?.found) return
        // Attached, because a table that is created as a part locks out those who read and write.
        await tx.query(`CREATE TABLE ${name} (LIKE request INCLUDING ALL)`)
        await tx.query(`ALTER TABLE request ATTACH PARTITION ${name} FOR VALUES FROM (${day}) TO (${day + DAY})`)
      })
    } catch (error) {
      if (!(error instanceof PostgresError) || error.isLost) throw error
      // No permission, a reader that takes long, or rows of the day in `request_rest`.
      this.#known.set(day, now + RETRY)
    }
  }

  /** The partitions of days, the oldest first. */
  async #all(): Promise<readonly Partition[]> {
    const { rows } = await this.#pool.query(
      `SELECT relname AS name, pg_total_relation_size(inhrelid) AS bytes FROM pg_inherits JOIN pg_class ON oid = inhrelid
        WHERE inhparent = 'request'::regclass AND relname ~ '^request_[0-9]{8}$' ORDER BY relname`,
      [],
      { readOnly: true },
    )
    return rows.map(({ name, bytes }) => ({ name: String(name), day: dayIn(String(name)), bytes: Number(bytes) }))
  }

  /** False: it is in use. Rows before `until` are deleted where the tables belong to another role. */
  async #drop({ name, day }: Partition, until: number): Promise<boolean> {
    try {
      await this.#locked((tx) => tx.query(`DROP TABLE IF EXISTS ${name}`))
      this.#known.delete(day)
      return true
    } catch (error) {
      if (!(error instanceof PostgresError) || error.isLost) throw error
      return error.code === NOT_PERMITTED && this.#deleteIn('request', until)
    }
  }

  /** Deletes a batch of rows. Returns whether more may be left. */
  async #deleteIn(table: string, until: number): Promise<boolean> {
    const { changes } = await this.#pool.query(
      `DELETE FROM ${table} WHERE (received, id) IN
        (SELECT received, id FROM ${table} WHERE received < $1 ORDER BY received LIMIT ${DELETED})`,
      [until],
    )
    return changes === DELETED
  }

  /** One gateway at a time. */
  #locked<T>(run: (tx: PostgresSession) => Promise<T>): Promise<T> {
    return this.#pool.transaction(async (tx) => {
      await tx.query(`SET LOCAL lock_timeout = ${LOCK}`)
      await tx.query("SELECT pg_advisory_xact_lock(hashtext('headgate partitions'))")
      return run(tx)
    })
  }
}

/** The start of the UTC day. */
const dayOf = (time: number): number => Math.floor(time / DAY) * DAY
const nameOf = (day: number): string => `request_${new Date(day).toISOString().slice(0, 10).replaceAll('-', '')}`
const dayIn = (name: string): number =>
  Date.parse(name.slice(-8).replace(/^(\d{4})(\d{2})(\d{2})$/, '$1-$2-$3T00:00:00Z'))
