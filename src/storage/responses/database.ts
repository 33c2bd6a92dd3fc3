/**
 * The database of stored responses: one SQLite file in the data folder. Synchronous, so it is used by the store's thread
 * only (`thread.ts`). Functions throw the error of SQLite or of the file system.
 */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { ResponseStatus, StoredResponse } from '../../core/stored-response.ts'
import { makeFolder } from '../files/folder.ts'
import { watchMoved } from '../files/opened-files.ts'
import { inTransaction } from '../sql/transaction.ts'
import { CLAIMS, ClaimTable } from './claim-table.ts'
import { RUNS, RunTable } from './run-table.ts'
import type { Limits } from './store-queries.ts'

export type DatabaseOptions = {
  readonly folder: string
  /** ms since 1970. */
  readonly date: () => number
  /** The process that runs the response in progress. */
  readonly worker: string
  readonly limits: () => Limits
  /** Whether another process has ended; by default none has. */
  readonly isGone?: (worker: string) => boolean
}

export type Database = {
  /** Runs it in one transaction. */
  readonly transaction: <T>(run: () => T) => T
  /** Adds or replaces a response. Returns the bytes added to the log. Needs a transaction. */
  readonly put: (response: StoredResponse) => number
  readonly get: (id: string, owner: string) => StoredResponse | undefined
  /** The response whose input or output contains this item. */
  readonly holding: (item: string, owner: string) => StoredResponse | undefined
  /** The response and those it continues, newest first, up to the limits of `READ`. */
  readonly turns: (id: string, owner: string) => readonly StoredResponse[]
  /** Returns whether there was one. Needs a transaction. */
  readonly delete: (id: string, owner: string) => boolean
  /** Responses in progress. */
  readonly runs: RunTable
  /** Answers for an `Idempotency-Key`. */
  readonly claims: ClaimTable
  /** Marks unfinished responses of ended workers as failed; returns their number. */
  readonly abandon: (isGone: (worker: string) => boolean, restated: (response: StoredResponse) => string) => number
  /** Deletes a batch of expired responses. Returns whether more are left. */
  readonly sweep: () => boolean
  /** Writes one page without changing anything, to check that writing works. Needs a transaction. */
  readonly probe: () => void
  /** Moves the write-ahead log into the file; waits for the disk. */
  readonly checkpoint: () => void
  /** Whether the path no longer leads to the open files: deleted, moved, or hidden by a mount. */
  readonly moved: () => boolean
  readonly close: () => void
}

/** The file's name in the data folder. */
export const FILE = 'responses.db'

/** Limits for reading a conversation: turns, and characters after which it stops. */
export const READ = { turns: 64, characters: 4 * 1_048_576 }
/** ms to wait for another process: while opening, when it may be creating the file, and in a transaction, which is retried. */
const BUSY = { opening: 2_000, open: 5 }
const DAY = 86_400_000
const MIB = 1_048_576
/** Fraction of the maximum size that remains after the oldest responses were deleted. */
const EASED = 0.9
/** ms by which the timestamp of an earlier turn may lag. Updating every earlier turn with each new one would be too slow. */
const SLACK = 3_600_000
/** Responses deleted per batch. */
const SWEPT = 100
/** Bytes of the log that a put takes besides the record: pages of the indexes. */
const AROUND = 40 * 1024
/** Pages of the log (64 MB) at which SQLite checkpoints at a commit, in case `checkpoint` could not. */
const LOG_PAGES = 16_000
/** Schema version; a file of a later version is not touched. */
const VERSION = 3

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS response (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    previous TEXT,
    status TEXT NOT NULL,
    created INTEGER NOT NULL,
    touched INTEGER NOT NULL,
    size INTEGER NOT NULL,
    input TEXT NOT NULL,
    response TEXT NOT NULL,
    events TEXT,
    maker TEXT,
    worker TEXT,
    users TEXT,
    stop INTEGER NOT NULL DEFAULT 0,
    follow INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, id)
  );
  CREATE INDEX IF NOT EXISTS response_touched ON response (touched);
  CREATE INDEX IF NOT EXISTS response_owner ON response (owner, touched);
  CREATE INDEX IF NOT EXISTS response_unfinished ON response (status) WHERE status IN ('queued', 'in_progress');
  CREATE TABLE IF NOT EXISTS item (
    owner TEXT NOT NULL,
    id TEXT NOT NULL,
    response TEXT NOT NULL,
    PRIMARY KEY (owner, id)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS item_response ON item (owner, response);
  CREATE TABLE IF NOT EXISTS total (owner TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TRIGGER IF NOT EXISTS response_added AFTER INSERT ON response
    BEGIN
      INSERT INTO total VALUES (NEW.owner, NEW.size)
        ON CONFLICT DO UPDATE SET size = size + excluded.size;
    END;
  CREATE TRIGGER IF NOT EXISTS response_removed AFTER DELETE ON response
    BEGIN
      UPDATE total SET size = size - OLD.size WHERE owner = OLD.owner;
      DELETE FROM total WHERE owner = OLD.owner AND size <= 0;
      DELETE FROM item WHERE owner = OLD.owner AND response = OLD.id;
    END;
  ${RUNS}
  ${CLAIMS}
  PRAGMA user_version = ${VERSION};
`

/** Columns that earlier versions lack. */
const ADDED = [
  ['users', 'TEXT'],
  ['stop', 'INTEGER NOT NULL DEFAULT 0'],
  ['follow', 'INTEGER NOT NULL DEFAULT 0'],
] as const

/** Opens the file and creates or checks its schema. Closes it again on an error. */
const openFile = (path: string): DatabaseSync => {
  const database = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    database.exec(`PRAGMA busy_timeout = ${BUSY.opening}; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL`)
    const version = Number(database.prepare('PRAGMA user_version').get()?.user_version)
    if (version > VERSION)
      throw new Error(
        `${FILE} was written by a newer version of Headgate (schema version ${version}, supported: ${VERSION})`,
      )
    // Only if needed: this takes the lock, which another process may hold.
    if (version < VERSION) upgrade(database)
    database.exec(`PRAGMA busy_timeout = ${BUSY.open}; PRAGMA wal_autocheckpoint = ${LOG_PAGES}`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

/** In one transaction, since other processes may open the file at the same time. */
const upgrade = (database: DatabaseSync): void =>
  inTransaction(database, () => {
    const columns = database.prepare("SELECT name FROM pragma_table_info('response')").all()
    for (const [column, type] of ADDED)
      if (columns.length > 0 && !columns.some(({ name }) => name === column))
        database.exec(`ALTER TABLE response ADD COLUMN ${column} ${type}`)
    database.exec(SCHEMA)
  })

const prepareStatements = (database: DatabaseSync) => ({
  insert: database.prepare(
    'INSERT INTO response (owner, id, previous, status, created, touched, size, input, response, events, maker, worker, users) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)',
  ),
  insertItem: database.prepare('INSERT OR REPLACE INTO item (owner, id, response) VALUES (?,?,?)'),
  itemsOf: database.prepare('SELECT id FROM item WHERE owner = ? AND response = ?'),
  selectHolding: database.prepare(
    'SELECT response.* FROM item JOIN response ON response.owner = item.owner AND response.id = item.response WHERE item.owner = ? AND item.id = ? AND touched > ?',
  ),
  select: database.prepare('SELECT * FROM response WHERE owner = ? AND id = ? AND touched > ?'),
  remove: database.prepare('DELETE FROM response WHERE owner = ? AND id = ?'),
  expire: database.prepare(
    'DELETE FROM response WHERE rowid IN (SELECT rowid FROM response WHERE touched <= ? ORDER BY touched LIMIT ?)',
  ),
  unfinished: database.prepare("SELECT * FROM response WHERE status IN ('queued', 'in_progress')"),
  total: database.prepare('SELECT sum(size) size FROM total'),
  largest: database.prepare('SELECT owner FROM total ORDER BY size DESC LIMIT 1'),
  oldest: database.prepare(
    'SELECT id, size FROM response WHERE owner = ? AND NOT (owner = ? AND id = ?) ORDER BY touched LIMIT 16',
  ),
  // UNION instead of UNION ALL ends on a cycle.
  prolong: database.prepare(`
    WITH RECURSIVE earlier (id) AS (
      VALUES (?1) UNION SELECT response.previous FROM response JOIN earlier USING (id) WHERE owner = ?2
    ) UPDATE response SET touched = ?3
      WHERE owner = ?2 AND id IN (SELECT id FROM earlier WHERE id IS NOT NULL) AND touched < ?3 - ${SLACK}`),
})

/** Opens the database in a folder, which is created if missing. */
export const openDatabase = (options: DatabaseOptions): Database => {
  makeFolder(options.folder)
  const path = join(options.folder, FILE)
  return new ResponseDatabase(openFile(path), path, options)
}

class ResponseDatabase implements Database {
  readonly #database: DatabaseSync
  readonly #options: DatabaseOptions
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #isMoved: () => boolean
  readonly runs: RunTable
  readonly claims: ClaimTable

  constructor(database: DatabaseSync, path: string, options: DatabaseOptions) {
    this.#database = database
    this.#options = options
    this.#isMoved = watchMoved([path, `${path}-wal`])
    this.#statements = prepareStatements(database)
    this.runs = new RunTable(database, options.worker)
    this.claims = new ClaimTable(database, { isGone: () => false, ...options })
  }

  transaction<T>(run: () => T): T {
    return inTransaction(this.#database, run)
  }

  put(stored: StoredResponse): number {
    const { owner, id, previous, status, created, input, response, events, items, maker, users = [] } = stored
    const { insert, insertItem, prolong, remove } = this.#statements
    const run = stored.isRun === true && status !== 'queued' ? this.runs.asked(stored) : undefined
    // It was deleted, or another process has ended it.
    if (run === null) return 0
    const touched = this.#options.date()
    const size = [input, response, events ?? ''].reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    remove.run(owner, id)
    insert.run(
      owner,
      id,
      previous,
      status,
      created,
      touched,
      size,
      input,
      response,
      events,
      maker && JSON.stringify(maker),
      isUnfinished(status) ? this.#options.worker : null,
      users.length === 0 ? null : JSON.stringify(users),
    )
    if (run) this.runs.keep(stored, run)
    for (const item of items) insertItem.run(owner, item, id)
    if (previous !== null) prolong.run(previous, owner, touched)
    this.#makeRoom(stored)
    return size + AROUND
  }

  get(id: string, owner: string): StoredResponse | undefined {
    const row = this.#statements.select.get(owner, id, this.#expired())
    return row && this.#read(row)
  }

  holding(item: string, owner: string): StoredResponse | undefined {
    const row = this.#statements.selectHolding.get(owner, item, this.#expired())
    return row && this.#read(row)
  }

  turns(id: string, owner: string): readonly StoredResponse[] {
    const found: StoredResponse[] = []
    let size = 0
    for (let next: string | null = id; next !== null && found.length < READ.turns && size < READ.characters; ) {
      const turn = this.get(next, owner)
      if (!turn) break
      found.push(turn)
      size += turn.input.length + turn.response.length
      next = turn.previous
    }
    return found
  }

  delete(id: string, owner: string): boolean {
    return this.#statements.remove.run(owner, id).changes > 0
  }

  abandon(isGone: (worker: string) => boolean, restated: (response: StoredResponse) => string): number {
    const left = this.#statements.unfinished
      .all()
      .filter((row) => isGone(String(row.worker)))
      .map((row) => this.#read(row))
    if (left.length > 0)
      this.transaction(() => {
        for (const stored of left) this.put({ ...stored, status: 'failed', response: restated(stored) })
      })
    return left.length
  }

  sweep(): boolean {
    return Number(this.#statements.expire.run(this.#expired(), SWEPT).changes) >= SWEPT
  }

  probe(): void {
    this.#database.exec(`PRAGMA user_version = ${VERSION}`)
  }

  checkpoint(): void {
    this.#database.exec('PRAGMA wal_checkpoint(PASSIVE)')
  }

  moved(): boolean {
    return this.#isMoved()
  }

  close(): void {
    try {
      // So that a copy of the file alone is complete. Other processes may continue to write.
      this.checkpoint()
    } catch {
      // The disk is full or broken. The data stays in the log and is read from there.
    }
    this.#database.close()
  }

  /** Timestamp at or before which a response has expired, by the current setting. */
  #expired(): number {
    return this.#options.date() - this.#options.limits().keepDays * DAY
  }

  /** Deletes the oldest responses of the owner with the most data, so that one owner cannot displace the others. */
  #makeRoom(fresh: StoredResponse): void {
    const { largest, oldest, remove, total } = this.#statements
    const most = this.#options.limits().maxMegabytes * MIB
    let size = Number(total.get()?.size ?? 0)
    if (size <= most) return
    while (size > most * EASED) {
      const owner = String(largest.get()?.owner ?? '')
      // The response that was just stored is kept, whatever its size.
      const rows = oldest.all(owner, fresh.owner, fresh.id)
      if (rows.length === 0) return
      for (const row of rows) {
        if (size <= most * EASED) return
        remove.run(owner, String(row.id))
        size -= Number(row.size)
      }
    }
  }

  #read(row: Record<string, unknown>): StoredResponse {
    const items = this.#statements.itemsOf.all(String(row.owner), String(row.id))
    return { ...readRow(row), items: items.map(({ id }) => String(id)) }
  }
}

export const isUnfinished = (status: ResponseStatus): boolean => status === 'queued' || status === 'in_progress'

/** A row of the table above; only this file writes it. */
const readRow = (row: Record<string, unknown>): Omit<StoredResponse, 'items'> => ({
  owner: String(row.owner),
  id: String(row.id),
  previous: row.previous === null ? null : String(row.previous),
  status: String(row.status) as ResponseStatus,
  created: Number(row.created),
  input: String(row.input),
  response: String(row.response),
  events: row.events === null ? null : String(row.events),
  maker: row.maker === null ? null : (JSON.parse(String(row.maker)) as StoredResponse['maker']),
  users: row.users === null ? [] : (JSON.parse(String(row.users)) as StoredResponse['users']),
})
