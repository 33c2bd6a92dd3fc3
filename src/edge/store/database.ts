/**
 * The database of stored responses: one SQLite file in the data folder. Synchronous, so it is used by the store's thread
 * only (`thread.ts`). Functions throw the error of SQLite or of the file system.
 */
import { chmodSync, mkdirSync, type Stats, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { ResponseStatus, StoredResponse } from '../../core/stored-response.ts'

export type DatabaseOptions = {
  readonly folder: string
  /** ms since 1970. */
  readonly date: () => number
  /** The process that runs the unfinished response. */
  readonly worker: string
  readonly limits: () => Limits
}

/** Days until a response expires, and the maximum MiB on disk. */
export type Limits = { readonly keepDays: number; readonly maxMegabytes: number }

export type Database = {
  /** Runs it in one transaction. */
  readonly transaction: <T>(run: () => T) => T
  /** Adds or replaces a response. Returns the bytes added to the log, and whether the ID existed. Needs a transaction. */
  readonly put: (response: StoredResponse) => Put
  readonly get: (id: string, owner: string) => StoredResponse | undefined
  /** The response whose input or output contains this item. */
  readonly holding: (item: string, owner: string) => StoredResponse | undefined
  /** The response and those it continues, newest first, up to the limits of `READ`. */
  readonly turns: (id: string, owner: string) => readonly StoredResponse[]
  /** Returns whether there was one. Needs a transaction. */
  readonly delete: (id: string, owner: string) => boolean
  /** Marks unfinished responses of ended workers as failed; returns their number. */
  readonly abandon: (isGone: (worker: string) => boolean, restated: (response: StoredResponse) => string) => number
  /** Deletes a batch of expired responses; returns whether there are more. */
  readonly sweep: () => boolean
  /** Writes one page without changing anything, to check that writing works. Needs a transaction. */
  readonly probe: () => void
  /** Moves the write-ahead log into the file; waits for the disk. */
  readonly checkpoint: () => void
  /** Whether the path no longer leads to the open files: deleted, moved, or hidden by a mount. */
  readonly moved: () => boolean
  readonly close: () => void
}

export type Put = { readonly bytes: number; readonly replaced: boolean }

/** The file's name in the data folder. */
export const FILE = 'responses.db'

/** Limits for reading a conversation: turns, and characters after which it stops. */
const READ = { turns: 64, characters: 4 * 1_048_576 }
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
const VERSION = 1

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
  PRAGMA user_version = ${VERSION};
`

/**
 * Creates a folder and its parents. Node's `recursive` loops forever where the parent exists but reports ENOENT for new
 * entries: below /proc, or below an autofs mount point.
 */
const makeFolder = (folder: string): void => {
  if (isFolder(folder)) return
  const above = dirname(folder)
  if (above !== folder) makeFolder(above)
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    // Another process may have created it first.
    if (!isFolder(folder)) throw error
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

export const openDatabase = ({ folder, date, worker, limits }: DatabaseOptions): Database => {
  makeFolder(folder)
  const path = join(folder, FILE)
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
    if (version < VERSION) database.exec(SCHEMA)
    database.exec(`PRAGMA busy_timeout = ${BUSY.open}; PRAGMA wal_autocheckpoint = ${LOG_PAGES}`)
  } catch (error) {
    database.close()
    throw error
  }
  const opened = [path, `${path}-wal`].map((file) => ({ file, stats: statsOf(file) }))

  const insert = database.prepare(
    'INSERT INTO response (owner, id, previous, status, created, touched, size, input, response, events, maker, worker) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)',
  )
  const insertItem = database.prepare('INSERT OR REPLACE INTO item (owner, id, response) VALUES (?,?,?)')
  const itemsOf = database.prepare('SELECT id FROM item WHERE owner = ? AND response = ?')
  const selectHolding = database.prepare(
    'SELECT response.* FROM item JOIN response ON response.owner = item.owner AND response.id = item.response WHERE item.owner = ? AND item.id = ? AND touched > ?',
  )
  const select = database.prepare('SELECT * FROM response WHERE owner = ? AND id = ? AND touched > ?')
  const remove = database.prepare('DELETE FROM response WHERE owner = ? AND id = ?')
  const expire = database.prepare(
    'DELETE FROM response WHERE rowid IN (SELECT rowid FROM response WHERE touched <= ? ORDER BY touched LIMIT ?)',
  )
  const unfinished = database.prepare("SELECT * FROM response WHERE status IN ('queued', 'in_progress')")
  const total = database.prepare('SELECT sum(size) size FROM total')
  const largest = database.prepare('SELECT owner FROM total ORDER BY size DESC LIMIT 1')
  const oldest = database.prepare(
    'SELECT id, size FROM response WHERE owner = ? AND NOT (owner = ? AND id = ?) ORDER BY touched LIMIT 16',
  )
  // UNION instead of UNION ALL ends on a cycle.
  const prolong = database.prepare(`
    WITH RECURSIVE earlier (id) AS (
      VALUES (?1) UNION SELECT response.previous FROM response JOIN earlier USING (id) WHERE owner = ?2
    ) UPDATE response SET touched = ?3
      WHERE owner = ?2 AND id IN (SELECT id FROM earlier WHERE id IS NOT NULL) AND touched < ?3 - ${SLACK}`)
  /** Timestamp at or before which a response has expired, by the current setting. */
  const expired = (): number => date() - limits().keepDays * DAY

  const put = (one: StoredResponse): Put => {
    const { owner, id, previous, status, created, input, response, events, items, maker } = one
    const touched = date()
    const size = [input, response, events ?? ''].reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    const replaced = remove.run(owner, id).changes > 0
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
      status === 'queued' || status === 'in_progress' ? worker : null,
    )
    for (const item of items) insertItem.run(owner, item, id)
    if (previous !== null) prolong.run(previous, owner, touched)
    makeRoom(one)
    return { bytes: size + AROUND, replaced }
  }
  /** Deletes the oldest responses of the owner with the most data, so that one owner cannot displace the others. */
  const makeRoom = (fresh: StoredResponse): void => {
    const most = limits().maxMegabytes * MIB
    let size = Number(total.get()?.size ?? 0)
    if (size <= most) return
    while (size > most * EASED) {
      const owner = String(largest.get()?.owner ?? '')
      // The response just stored stays, whatever its size.
      const some = oldest.all(owner, fresh.owner, fresh.id)
      if (some.length === 0) return
      for (const row of some) {
        if (size <= most * EASED) return
        remove.run(owner, String(row.id))
        size -= Number(row.size)
      }
    }
  }
  const read = (row: Record<string, unknown>): StoredResponse => ({
    ...readRow(row),
    items: itemsOf.all(String(row.owner), String(row.id)).map(({ id }) => String(id)),
  })
  const get = (id: string, owner: string): StoredResponse | undefined => {
    const row = select.get(owner, id, expired())
    return row && read(row)
  }
  const transaction = <T>(run: () => T): T => {
    database.exec('BEGIN IMMEDIATE')
    try {
      const result = run()
      database.exec('COMMIT')
      return result
    } catch (error) {
      // On a full disk SQLite has rolled back already; another rollback would replace that error.
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
  }

  return {
    transaction,
    put,
    get,
    holding(item, owner) {
      const row = selectHolding.get(owner, item, expired())
      return row && read(row)
    },
    turns(id, owner) {
      const found: StoredResponse[] = []
      let size = 0
      for (let next: string | null = id; next !== null && found.length < READ.turns && size < READ.characters; ) {
        const turn = get(next, owner)
        if (!turn) break
        found.push(turn)
        size += turn.input.length + turn.response.length
        next = turn.previous
      }
      return found
    },
    delete: (id, owner) => remove.run(owner, id).changes > 0,
    abandon(isGone, restated) {
      const left = unfinished
        .all()
        .filter((row) => isGone(String(row.worker)))
        .map(read)
      if (left.length > 0)
        transaction(() => {
          for (const one of left) put({ ...one, status: 'failed', response: restated(one) })
        })
      return left.length
    },
    sweep: () => Number(expire.run(expired(), SWEPT).changes) >= SWEPT,
    probe: () => database.exec(`PRAGMA user_version = ${VERSION}`),
    checkpoint: () => database.exec('PRAGMA wal_checkpoint(PASSIVE)'),
    moved: () => opened.some(({ file, stats }) => !isSame(stats, statsOf(file))),
    close() {
      try {
        // So that a copy of the file alone is complete. Other processes may continue to write.
        database.exec('PRAGMA wal_checkpoint(PASSIVE)')
      } catch {
        // The disk is full or broken. The data stays in the log and is read from there.
      }
      database.close()
    },
  }
}

/** Undefined if the path leads to no file or cannot be followed. */
const statsOf = (file: string): Stats | undefined => {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

const isSame = (opened: Stats | undefined, now: Stats | undefined): boolean =>
  opened?.ino === now?.ino && opened?.dev === now?.dev

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
})
