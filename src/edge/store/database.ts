/**
 * The database of stored responses: one SQLite file in the data folder. Synchronous, so it is used by the store's thread
 * only (`thread.ts`). Functions throw the error of SQLite or of the file system.
 */
import { chmodSync, mkdirSync, type Stats, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { ResponseStatus, StoredResponse } from '../../core/stored.ts'

export type DatabaseOptions = {
  readonly folder: string
  /** ms since 1970. */
  readonly date: () => number
  /** The process that answers what is stored unfinished, among those that share the folder. */
  readonly worker: string
  readonly limits: () => Limits
}

/** As configured now: days a response is stored, and MiB of disk for all. */
export type Limits = { readonly keepDays: number; readonly maxMegabytes: number }

export type Database = {
  /** Runs it in one transaction: all of it is committed, or nothing. */
  readonly transaction: <T>(run: () => T) => T
  /** Adds or replaces; returns the bytes added to the log, and whether there was a record of this id. In a transaction. */
  readonly put: (response: StoredResponse) => Put
  readonly get: (id: string, owner: string) => StoredResponse | undefined
  /** The response whose input or output contains this item. */
  readonly holding: (item: string, owner: string) => StoredResponse | undefined
  /** The response and those it continues, newest first, up to `READ` turns and characters. */
  readonly turns: (id: string, owner: string) => readonly StoredResponse[]
  /** True: there was one. In a transaction. */
  readonly delete: (id: string, owner: string) => boolean
  /** Marks what a worker that is gone had in progress as failed; returns the number. */
  readonly abandon: (isGone: (worker: string) => boolean, restated: (response: StoredResponse) => string) => number
  /** Deletes some of what has expired; true: there is more. */
  readonly sweep: () => boolean
  /** Writes one page without changing anything, to find out whether writing works. In a transaction. */
  readonly probe: () => void
  /** Moves the log into the file; waits for the disk. */
  readonly checkpoint: () => void
  /** The path no longer leads to the files that are open: deleted, moved, or hidden by a mount. */
  readonly moved: () => boolean
  readonly close: () => void
}

export type Put = { readonly bytes: number; readonly replaced: boolean }

/** The file's name in the data folder. */
export const FILE = 'responses.db'

/** One read of a conversation returns at most so many turns, and stops after so many characters. */
const READ = { turns: 64, characters: 4 * 1_048_576 }
/** ms to wait for another process: while opening, when it may be creating the file, and in a transaction, which is tried again. */
const BUSY = { opening: 2_000, open: 5 }
const DAY = 86_400_000
const MIB = 1_048_576
/** So full (of the most allowed) it is left when the oldest had to make room. */
const EASED = 0.9
/** ms a turn may seem older than the last that continued it: writing every earlier turn anew with each would cost more than all else. */
const SLACK = 3_600_000
/** Responses deleted at a time. */
const SWEPT = 100
/** Bytes of the log that a put takes besides the record: the pages of every index. */
const AROUND = 40 * 1024
/** Pages of the log (64 MB) at which SQLite moves it at a commit, in case `checkpoint` could not. */
const LOG_PAGES = 16_000
/** Of the tables below; a file of a later version is left alone. */
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
 * A folder and those above it. Node's own way (`recursive`) tries for ever where the one above is there and nothing can be
 * made in it, which some file systems say as ENOENT: below /proc, below a mount point of autofs.
 */
const makeFolder = (folder: string): void => {
  if (isFolder(folder)) return
  const above = dirname(folder)
  if (above !== folder) makeFolder(above)
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (error) {
    // Another process may have been quicker.
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
    if (version > VERSION) throw new Error(`${FILE} was written by a newer Headgate (version ${version} of its tables)`)
    // Not for nothing: it needs the lock that another process may have.
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
  // UNION, not UNION ALL: a circle, which nobody makes, would still end.
  const prolong = database.prepare(`
    WITH RECURSIVE earlier (id) AS (
      VALUES (?1) UNION SELECT response.previous FROM response JOIN earlier USING (id) WHERE owner = ?2
    ) UPDATE response SET touched = ?3
      WHERE owner = ?2 AND id IN (SELECT id FROM earlier WHERE id IS NOT NULL) AND touched < ?3 - ${SLACK}`)
  /** What was touched then or before has expired: by the days as they are configured now, whatever they were when it was kept. */
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
  /** Whoever keeps the most lets go of the oldest: nobody's answers make room for another's flood. */
  const makeRoom = (fresh: StoredResponse): void => {
    const most = limits().maxMegabytes * MIB
    let size = Number(total.get()?.size ?? 0)
    if (size <= most) return
    while (size > most * EASED) {
      const owner = String(largest.get()?.owner ?? '')
      // What has just been put stays, however large it is: it has just been asked for.
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
      // A full disk has rolled back already; doing it again would hide that error.
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
        // A copy of the file alone is then complete. Other processes may go on writing.
        database.exec('PRAGMA wal_checkpoint(PASSIVE)')
      } catch {
        // The disk is full or broken. What is in the log stays there, and is read from there.
      }
      database.close()
    },
  }
}

/** Undefined: the path leads to no file, or cannot be followed. */
const statsOf = (file: string): Stats | undefined => {
  try {
    return statSync(file, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

const isSame = (opened: Stats | undefined, now: Stats | undefined): boolean =>
  opened?.ino === now?.ino && opened?.dev === now?.dev

/** A row of the table above, which only this file writes. */
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
