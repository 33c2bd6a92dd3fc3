/**
 * `control.db` for its thread: operations, and the changes that the serving processes apply. Several processes may write
 * the file: SQLite's lock orders their transactions, and each reads the changes of the others.
 */
import { hash } from 'node:crypto'
import { chmodSync, existsSync, linkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Kysely } from 'kysely'
import type { JsonObject } from '../../core/json.ts'
import { dialectOf } from '../sql/dialect.ts'
import { migrateSchema } from '../sql/migrate.ts'
import { inTransaction } from '../sql/transaction.ts'
import { makeFolder } from '../sqlite/folder.ts'
import { watchMoved } from '../sqlite/opened-files.ts'
import { type AuditCheck, checkAudit, deleteAuditRows, listAudit } from './audit.ts'
import { overlapProblem } from './budget-overlap.ts'
import { deleteLogins, runLogin } from './logins.ts'
import type {
  AccountsChange,
  ControlContext,
  ControlOperation,
  ControlResult,
  ControlSettings,
  ControlWrite,
  StoredAccounts,
} from './messages.ts'
import { CONTROL_FILE, changesSince, NO_TABLES, storedAccounts } from './read-accounts.ts'
import { getRecord, listRecords } from './read-records.ts'
import { fileRows } from './records.ts'
import { done, refused } from './results.ts'
import { CONTROL_MIGRATIONS, type ControlTables, TEMPORARY } from './schema.ts'
import {
  blockRecord,
  bulkAction,
  createRecord,
  decide,
  deleteRecord,
  note,
  patchRecord,
  retireSecrets,
  rotateKey,
  type WriteScope,
} from './write-records.ts'

/** ms to wait for another process. */
const BUSY = 2_000
const DAY = 86_400_000
/** ms for which answers to idempotency keys, and changes for other processes, are kept. */
const KEPT = { once: DAY, change: 7 * DAY }
/** Audit rows deleted per transaction. */
const SWEPT = 1_000

const VERSIONS = { file: CONTROL_FILE, migrations: CONTROL_MIGRATIONS, oldestReader: 1 }

/** Functions throw the error of SQLite or of the file system. */
export class ControlDatabase {
  readonly #database: DatabaseSync
  readonly #db: Kysely<ControlTables>
  readonly #isMoved: () => boolean
  #settings: ControlSettings
  /** SQLite's counter of changes by other connections. */
  #dataVersion = -1

  private constructor(database: DatabaseSync, path: string, settings: ControlSettings) {
    this.#database = database
    this.#db = new Kysely<ControlTables>({ dialect: dialectOf(database) })
    this.#isMoved = watchMoved([path])
    this.#settings = settings
    database.exec(TEMPORARY)
    this.apply(settings)
  }

  /** Opens the file, or creates it with its schema. */
  static async open(folder: string, settings: ControlSettings): Promise<ControlDatabase> {
    makeFolder(folder)
    const path = join(folder, CONTROL_FILE)
    if (!existsSync(path)) await create(path)
    const database = openFile(path)
    try {
      await migrate(database)
      return new ControlDatabase(database, path, settings)
    } catch (error) {
      database.close()
      throw error
    }
  }

  /** Whether the path no longer leads to the open file: what is written would be lost. */
  get isMoved(): boolean {
    return this.#isMoved()
  }

  /** Uses other settings from now on. */
  apply(settings: ControlSettings): void {
    this.#settings = settings
    const insert = this.#database.prepare('INSERT OR REPLACE INTO file_record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
    inTransaction(this.#database, () => {
      this.#database.exec('DELETE FROM file_record')
      for (const row of fileRows(settings.file)) {
        const { id, kind, team, name, status, expires, doc, rev, created, created_by, changed } = row
        insert.run(id, kind, team, name, status, expires, doc, rev, created, created_by, changed)
      }
    })
  }

  /** A batch of the operation `verify`. */
  checkAudit(before: AuditCheck | null): ReturnType<typeof checkAudit> {
    return checkAudit(this.#db, before)
  }

  async #verify(): Promise<ControlResult> {
    let step = await this.checkAudit(null)
    while ('check' in step) step = await this.checkAudit(step.check)
    return step.result
  }

  /** Runs an operation. A write is on the disk when this resolves. */
  async run(operation: ControlOperation, context: ControlContext, now: number): Promise<ControlResult> {
    switch (operation.do) {
      case 'list':
        return listRecords(this.#db, operation, context.teams, now)
      case 'get':
        return getRecord(this.#db, operation, context.teams, now)
      case 'decisions':
        return done({ object: 'list', data: await this.#decisions(), has_more: false, next: null })
      case 'audit':
        return listAudit(this.#db, operation.query)
      case 'verify':
        return this.#verify()
      case 'refresh':
        return done({})
      case 'login_create':
      case 'login_use':
      case 'login_end':
        return runLogin(this.#db, operation, now)
      default:
        return this.#write(operation, context, now)
    }
  }

  /** The changes after `since`. Cheap if there are none. */
  changes(since: number | null): AccountsChange | { readonly complete: StoredAccounts } | null {
    const version = Number(this.#database.prepare('PRAGMA data_version').get()?.data_version)
    if (since !== null && version === this.#dataVersion) return null
    const change = this.#read((): AccountsChange | { readonly complete: StoredAccounts } | null => {
      const found = since === null ? 'complete' : changesSince(this.#database, since)
      return found === 'complete' ? { complete: storedAccounts(this.#database) } : found
    })
    this.#dataVersion = version
    return change
  }

  /** Stores when keys were used last, as IDs and the start of the hour. */
  storeUses(uses: readonly (readonly [id: string, hour: number])[]): void {
    const set = this.#database.prepare(
      'INSERT INTO key_use VALUES (?, ?) ON CONFLICT DO UPDATE SET hour = max(hour, excluded.hour)',
    )
    inTransaction(this.#database, () => {
      for (const [id, hour] of uses) set.run(id, hour)
    })
  }

  /** Deletes old audit rows, answers to idempotency keys, changes, ended secrets and sessions. Returns whether more may be left. */
  sweep(now: number): Promise<boolean> {
    return this.#db.transaction().execute(async (db) => {
      await db
        .deleteFrom('once')
        .where('at', '<', now - KEPT.once)
        .execute()
      await db
        .deleteFrom('change')
        .where('at', '<', now - KEPT.change)
        .execute()
      await deleteLogins(db, now)
      return deleteAuditRows(db, now - this.#settings.auditDays * DAY, SWEPT)
    })
  }

  close(): void {
    this.#database.close()
  }

  #overlap(operation: ControlWrite, { id }: JsonObject): string | null {
    if ((operation.do !== 'create' && operation.do !== 'patch') || typeof id !== 'string') return null
    const { kind } = operation
    return kind === 'price' || kind === 'token'
      ? null
      : overlapProblem(this.#database, this.#settings.file, { kind, id })
  }

  #decisions() {
    return this.#db.selectFrom('decision').selectAll().orderBy('kind').orderBy('id').execute()
  }

  #read<T>(run: () => T): T {
    this.#database.exec('BEGIN')
    try {
      return run()
    } finally {
      this.#database.exec('COMMIT')
    }
  }

  async #write(operation: ControlWrite, context: ControlContext, now: number): Promise<ControlResult> {
    const transaction = this.#db.transaction().execute(async (db) => {
      const once = onceOf(operation, context)
      const earlier = once && (await db.selectFrom('once').selectAll().where('key', '=', once.key).executeTakeFirst())
      if (earlier && earlier.at >= now - KEPT.once) return replay(earlier, once.print)
      const { pepper, file } = this.#settings
      const result = await write({ db, context, pepper, places: file.places, now }, operation)
      const problem = result.ok ? this.#overlap(operation, result.value) : null
      if (problem !== null) throw new TooManyBudgets(problem)
      if (!once || !result.ok) return result
      const answer = JSON.stringify('secret' in result.value ? { ...result.value, secret: null } : result.value)
      await db
        .replaceInto('once')
        .values({ ...once, status: result.status, answer, at: now })
        .execute()
      return result
    })
    const result = await transaction.catch((error: unknown): ControlResult => {
      if (error instanceof TooManyBudgets) return refused(409, 'too_many_budgets', error.message)
      throw error
    })
    // This connection's own writes do not change its data version.
    this.#dataVersion = -1
    return result
  }
}

/** Rolls the transaction back. */
class TooManyBudgets extends Error {}

const openFile = (path: string): DatabaseSync => {
  const database = new DatabaseSync(path)
  try {
    chmodSync(path, 0o600)
    database.exec(`PRAGMA busy_timeout = ${BUSY}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL`)
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

const migrate = (database: DatabaseSync): Promise<void> => {
  if (!database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'record'").get()) throw new Error(NO_TABLES)
  return migrateSchema(database, VERSIONS)
}

/**
 * Creates the file under another name first: an existing file without tables is never one that was just created, but one
 * that has lost its keys, and filling it would open the gateway.
 */
const create = async (path: string): Promise<void> => {
  const draft = `${path}.${process.pid}.new`
  rmSync(draft, { force: true })
  const database = openFile(draft)
  try {
    await migrateSchema(database, VERSIONS)
  } finally {
    // The last connection moves the log into the file.
    database.close()
  }
  try {
    linkSync(draft, path)
  } catch (error) {
    // Another process was faster.
    if (!existsSync(path)) throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

const write = (scope: WriteScope, operation: ControlWrite): Promise<ControlResult> => {
  switch (operation.do) {
    case 'create':
      return createRecord(scope, operation)
    case 'patch':
      return patchRecord(scope, operation)
    case 'delete':
      return deleteRecord(scope, operation)
    case 'rotate':
      return rotateKey(scope, operation)
    case 'retire':
      return retireSecrets(scope, operation)
    case 'block':
    case 'unblock':
      return blockRecord(scope, operation)
    case 'bulk':
      return bulkAction(scope, operation)
    case 'decide':
      return decide(scope, operation)
    case 'note':
      return note(scope, operation)
    default:
      throw new Error(`unknown operation ${JSON.stringify(operation satisfies never)}`)
  }
}

/** The key and the digest of a repeatable write. Actors do not share keys. The digest hides an imported secret. */
const onceOf = (operation: ControlWrite, { actor, idempotencyKey }: ControlContext) =>
  idempotencyKey === null
    ? null
    : {
        key: JSON.stringify([actor.kind, actor.id, idempotencyKey]),
        print: hash('sha256', JSON.stringify(operation), 'hex'),
      }

const replay = (
  { print, status, answer }: { readonly print: string; readonly status: number; readonly answer: string },
  expected: string,
): ControlResult =>
  print === expected
    ? { ok: true, status, value: JSON.parse(answer), replayed: true }
    : refused(422, 'idempotency_key_reused', 'This idempotency key was sent with another request. Send a new key.')
