/**
 * Answers that can be asked for again, in the embedded database: one file in the data folder, readable by its owner
 * only. WAL with `synchronous = NORMAL`: a committed answer survives the end of the process, however it comes; a loss of
 * power may take the last ones.
 */
import { chmodSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fail } from '../../core/failure.ts'
import type { ResponseStatus, ResponseStore, StoredResponse } from '../../core/stored.ts'
import { checkpoints } from './checkpoints.ts'

export type StoreOptions = {
  readonly folder: string
  /** ms since 1970. */
  readonly date: () => number
  /** Who answers what is kept unfinished: this process, among those that share the folder. */
  readonly worker: string
  /** As configured at this moment: days an answer is kept, and MiB of disk for all. */
  readonly limits: () => { readonly keepDays: number; readonly maxMegabytes: number }
}

export type OpenStore = ResponseStore & {
  /** Ends what a worker that is gone had under way: nobody is going to answer it any more. Gives the number. */
  abandon(isGone: (worker: string) => boolean, restated: (response: StoredResponse) => string): number
  /** Lets go of some of what has expired; true: there is more. All at once would keep every request waiting meanwhile. */
  sweep(): boolean
  close(): void
}

/** The file's name in the data folder. */
export const FILE = 'responses.db'

const DAY = 86_400_000
const MIB = 1_048_576
/** So full (of the most allowed) it is left when the oldest had to make room. */
const EASED = 0.9
/** ms a turn may seem older than the last that continued it: writing every earlier turn anew with each would cost more than all else. */
const SLACK = 3_600_000
/** Answers let go at a time. */
const SWEPT = 100
/** Bytes of the log that a put takes besides what is put: the pages of every index it stands in. */
const AROUND = 40 * 1024
/** Pages of the log before SQLite moves them by itself: without a thread that does so, and with one. */
const PAGES = { alone: 1_000, most: 16_000 }
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

/** Throws what SQLite or the file system throws; the caller says where the folder is set. */
export const openResponses = ({ folder, date, worker, limits }: StoreOptions): OpenStore => {
  makeFolder(folder)
  const path = join(folder, FILE)
  // Asked for here and not imported: whoever keeps nothing does not load it.
  const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  const database = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    database.exec('PRAGMA busy_timeout = 2000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
    const version = Number(database.prepare('PRAGMA user_version').get()?.user_version)
    if (version > VERSION) throw new Error(`${FILE} is of a newer Headgate (version ${version} of its tables)`)
    database.exec(SCHEMA)
  } catch (error) {
    database.close()
    throw error
  }

  const limitLog = (pages: number): void => database.exec(`PRAGMA wal_autocheckpoint = ${pages}`)
  limitLog(PAGES.most)
  const log = checkpoints(path, { most: PAGES.most, failed: () => limitLog(PAGES.alone) })

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

  /** Gives its size. */
  const write = (one: StoredResponse): number => {
    const { owner, id, previous, status, created, input, response, events, items, maker } = one
    const touched = date()
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
      status === 'queued' || status === 'in_progress' ? worker : null,
    )
    for (const item of items) insertItem.run(owner, item, id)
    if (previous !== null) prolong.run(previous, owner, touched)
    makeRoom(one)
    return size
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
  /** All of it or nothing. */
  const keep = (one: StoredResponse): void => {
    database.exec('BEGIN IMMEDIATE')
    let size = 0
    try {
      size = write(one)
      database.exec('COMMIT')
    } catch (error) {
      // A full disk has rolled back by itself, and doing so again would hide what was wrong.
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
    // Not before: the thread would find nothing of it in the log.
    log.wrote(size + AROUND)
  }

  return {
    put(response) {
      try {
        keep(response)
        return null
      } catch (error) {
        return fail('internal', `The answer could not be kept: ${error instanceof Error ? error.message : 'unknown'}.`)
      }
    },
    get(id, owner) {
      const row = select.get(owner, id, expired())
      return row && read(row)
    },
    holding(item, owner) {
      const row = selectHolding.get(owner, item, expired())
      return row && read(row)
    },
    delete: (id, owner) => remove.run(owner, id).changes > 0,
    abandon(isGone, restated) {
      const left = unfinished
        .all()
        .filter((row) => isGone(String(row.worker)))
        .map(read)
      for (const one of left) keep({ ...one, status: 'failed', response: restated(one) })
      return left.length
    },
    sweep: () => Number(expire.run(expired(), SWEPT).changes) >= SWEPT,
    close() {
      void log.close()
      try {
        // Nobody waits here any more, and whoever copies the file has all of it. Other processes write meanwhile.
        database.exec('PRAGMA wal_checkpoint(PASSIVE)')
      } catch {
        // The disk is full, or broken. What is in the log stays there, and is read from there.
      }
      database.close()
    },
  }
}

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
