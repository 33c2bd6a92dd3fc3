/**
 * `bodies.db`: the kept bodies of calls, compressed. Several processes may write it. Functions throw the error of SQLite or
 * of the file system.
 */
import type { DatabaseSync } from 'node:sqlite'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { openSizedFile, type SizedFile } from '../../storage/files/sized-file.ts'
import type { SchemaVersions } from '../../storage/sql/migrate.ts'
import { inTransaction } from '../../storage/sql/transaction.ts'
import { contains, searchable } from './body-texts.ts'
import { BODIES_FILE } from './file.ts'
import type {
  BodiesLimits,
  BodiesQuery,
  FoundTexts,
  KeptIds,
  MarkedQuery,
  RawCall,
  StoredBodies,
  TextQuery,
} from './recorded-calls.ts'

/** A call to be stored. */
export type StoredCall = Pick<RawCall, 'id' | 'received' | 'team' | 'key'> & { readonly bodies: StoredBodies }

/** Pages of the log (4 MB) at which SQLite moves it into the file. */
const LOG_PAGES = 1_000
const DAY = 86_400_000
const MIB = 1_048_576
/** Rows deleted per transaction, and pages returned to the file system per step. */
const DELETED = { rows: 200, pages: 2_000 }
/** Fraction of the maximum size that remains after rows were deleted. */
const EASED = 0.9

/** Clients choose request IDs, so an ID may occur several times. */
const FIRST = [
  `CREATE TABLE body (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, received INTEGER NOT NULL, team TEXT NOT NULL,
    key TEXT NOT NULL, content BLOB NOT NULL)`,
  'CREATE INDEX body_id ON body (id)',
  'CREATE INDEX body_received ON body (received)',
]

const SCHEMA: SchemaVersions = {
  file: BODIES_FILE,
  migrations: [() => FIRST],
  oldestReader: 1,
}

const prepareStatements = (database: DatabaseSync) => ({
  insert: database.prepare('INSERT INTO body (id, received, team, key, content) VALUES (?, ?, ?, ?, ?)'),
  find: database.prepare('SELECT content FROM body WHERE id = ? AND team = ? ORDER BY seq DESC LIMIT 1'),
  among: database.prepare('SELECT id, received FROM body WHERE id IN (SELECT value FROM json_each(?))'),
  between: database.prepare(
    'SELECT id, received FROM body WHERE received >= ? AND received < ? ORDER BY received DESC LIMIT ?',
  ),
  betweenUp: database.prepare(
    'SELECT id, received FROM body WHERE received >= ? AND received < ? ORDER BY received LIMIT ?',
  ),
  newest: database.prepare(
    'SELECT id, received, team, content FROM body WHERE received >= ? AND received < ? ORDER BY received DESC',
  ),
  old: database.prepare(
    `DELETE FROM body WHERE seq IN (SELECT seq FROM body WHERE received < ? ORDER BY received LIMIT ${DELETED.rows})`,
  ),
  oldest: database.prepare(`DELETE FROM body WHERE seq IN (SELECT seq FROM body ORDER BY seq LIMIT ${DELETED.rows})`),
})

/** Only this file writes the table. */
const unpacked = (content: Uint8Array): StoredBodies =>
  JSON.parse(zstdDecompressSync(content).toString()) as StoredBodies

export class BodiesDatabase {
  readonly #database: DatabaseSync
  readonly #statements: ReturnType<typeof prepareStatements>
  #isShrinking = false
  readonly #size: SizedFile['size']
  /** Whether the path no longer leads to the open file. */
  readonly moved: () => boolean

  private constructor({ database, moved, size }: SizedFile) {
    this.#database = database
    this.#statements = prepareStatements(database)
    this.#size = size
    this.moved = moved
  }

  /** Opens the file in a folder. Both are created if missing. */
  static open(folder: string): Promise<BodiesDatabase> {
    return openSizedFile(folder, SCHEMA, LOG_PAGES, (file) => new BodiesDatabase(file))
  }

  /** Stores calls in one transaction. */
  store(calls: readonly StoredCall[]): void {
    const rows = calls.map((call) => ({ ...call, content: zstdCompressSync(JSON.stringify(call.bodies)) }))
    inTransaction(this.#database, () => {
      for (const { id, received, team, key, content } of rows)
        this.#statements.insert.run(id, received, team, key, content)
    })
  }

  /** The bodies of the last request of a team with this ID, or null. */
  find({ id, team }: BodiesQuery): StoredBodies | null {
    const row = this.#statements.find.get(id, team)
    return row?.content instanceof Uint8Array ? unpacked(row.content) : null
  }

  /** Searches the newest bodies of a range, until `isOver`: a few at least. */
  search({ text, from, to, teams, limit }: TextQuery, isOver: () => boolean): FoundTexts {
    const wanted = searchable(text)
    const ids: string[] = []
    let searched = 0
    let until: number | null = null
    for (const { id, received, team, content } of this.#statements.newest.iterate(from, to)) {
      // The next search begins before this time, so all that were received at the same are in this one.
      if (until !== null && Number(received) < until && (ids.length >= limit || isOver()))
        return { ids, until, searched }
      until = Number(received)
      if (!(content instanceof Uint8Array) || (teams && !teams.includes(String(team)))) continue
      searched++
      if (contains(unpacked(content), wanted)) ids.push(String(id))
    }
    return { ids, until: null, searched }
  }

  /** The IDs of requests with bodies, of a range the newest or the oldest first. */
  kept(query: MarkedQuery): KeptIds {
    const { among, between, betweenUp } = this.#statements
    const inRange = 'isOldestFirst' in query && query.isOldestFirst ? betweenUp : between
    const rows = 'ids' in query ? among.all(JSON.stringify(query.ids)) : inRange.all(query.from, query.to, query.limit)
    const last = rows.at(-1)?.received
    return { ids: rows.map(({ id }) => String(id)), last: last === undefined ? null : Number(last) }
  }

  /** Deletes a batch of old bodies and returns free pages to the file system. Returns whether more may be left. */
  sweep({ keepDays, maxMegabytes }: BodiesLimits, now: number): boolean {
    const { used } = this.#size()
    this.#isShrinking = used > maxMegabytes * MIB * (this.#isShrinking ? EASED : 1)
    const { old, oldest } = this.#statements
    const rows = inTransaction(this.#database, () => {
      const deleted = Number(old.run(now - keepDays * DAY).changes)
      return this.#isShrinking ? deleted + Number(oldest.run().changes) : deleted
    })
    // `exec` runs all steps of the pragma; a prepared statement would run one.
    this.#database.exec(`PRAGMA incremental_vacuum(${DELETED.pages})`)
    if (rows >= DELETED.rows || (rows > 0 && this.#isShrinking) || this.#size().free > 0) return true
    // Deleted bodies leave the log too.
    if (rows > 0) this.#database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    return false
  }

  /** Whether bodies exceed the maximum size. */
  isFull({ maxMegabytes }: BodiesLimits): boolean {
    return this.#size().used > maxMegabytes * MIB
  }

  close(): void {
    this.#database.close()
  }
}
