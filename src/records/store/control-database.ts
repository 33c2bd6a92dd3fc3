/**
 * The database of keys and budgets for its thread: operations, and the changes that the serving processes apply. Several
 * processes may write it: its lock orders their transactions, and each reads the changes of the others.
 */

import { hash } from 'node:crypto'
import { Kysely } from 'kysely'
import type { JsonObject } from '../../core/json.ts'
import { runAll } from '../../storage/sql/database.ts'
import { dialectOf } from '../../storage/sql/dialect.ts'
import { createTables } from '../../storage/sql/migrate.ts'
import { openShared } from '../../storage/sql/open-shared.ts'
import { inTransaction } from '../../storage/sql/transaction.ts'
import { type AuditCheck, checkAudit, deleteAuditRows, listAudit } from './audit.ts'
import { overlapProblem } from './budget-overlap.ts'
import { openFileStorage } from './file-storage.ts'
import { deleteLogins, runLogin } from './logins.ts'
import { changesSince, lastSeq, storedAccounts } from './read-accounts.ts'
import { getRecord, listRecords } from './read-records.ts'
import type {
  AccountsChange,
  ControlContext,
  ControlOperation,
  ControlPlace,
  ControlResult,
  ControlSettings,
  ControlWrite,
  SharedControl,
  StoredAccounts,
} from './record-operations.ts'
import { fileRows } from './records.ts'
import { done, refused } from './results.ts'
import { type ControlTables, TEMPORARY } from './schema.ts'
import { type ControlStorage, SHARED_CONTROL } from './storage.ts'
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

const DAY = 86_400_000
/** ms for which answers to idempotency keys, and changes for other processes, are kept. */
const KEPT = { once: DAY, change: 7 * DAY }
/** Audit rows deleted per transaction. */
const SWEPT = 1_000
/** Uses of keys stored per transaction. */
const USES = 1_000

/** Functions throw the error of SQLite, of the file system or of Postgres. */
export class ControlDatabase {
  readonly #storage: ControlStorage
  readonly #database: ControlStorage['database']
  readonly #db: Kysely<ControlTables>
  #settings: ControlSettings
  /** The version of the storage whose changes were read. */
  #version = -1
  /** There may be changes in the log of the file. */
  #isWritten = false

  private constructor(storage: ControlStorage, settings: ControlSettings) {
    const { database } = storage
    this.#storage = storage
    this.#database = database
    this.#db = new Kysely<ControlTables>({ dialect: dialectOf(database) })
    this.#settings = settings
    createTables(database, TEMPORARY)
    this.apply(settings)
  }

  /** Opens the database, or creates it with its schema unless it was there before (`isKnown`). */
  static async open(
    { folder, database, isKnown = false }: ControlPlace & { readonly isKnown?: boolean },
    settings: ControlSettings,
  ): Promise<ControlDatabase> {
    const storage = database ? await openPostgresStorage(database, isKnown) : await openFileStorage(folder, isKnown)
    try {
      return new ControlDatabase(storage, settings)
    } catch (error) {
      storage.database.close()
      throw error
    }
  }

  /** Whether the database must be opened again. */
  get isLost(): boolean {
    return this.#storage.isLost()
  }

  /** Uses other settings from now on. */
  apply(settings: ControlSettings): void {
    this.#settings = settings
    const insert = this.#database.prepare(
      'INSERT INTO file_record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING',
    )
    const rows = fileRows(settings.file).map(
      ({ id, kind, team, name, status, expires, doc, rev, created, created_by, changed }) =>
        [id, kind, team, name, status, expires, doc, rev, created, created_by, changed] as const,
    )
    inTransaction(this.#database, () => {
      this.#database.exec('DELETE FROM file_record')
      runAll(insert, rows)
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
    const version = this.#storage.version()
    if (since !== null && version === this.#version) return null
    const change = this.#read((): AccountsChange | { readonly complete: StoredAccounts } | null => {
      const found = since === null ? 'complete' : changesSince(this.#database, since)
      return found === 'complete' ? { complete: storedAccounts(this.#database) } : found
    })
    this.#version = version
    return change
  }

  /** Stores when keys were used last, as IDs and the start of the hour. */
  storeUses(uses: readonly (readonly [id: string, hour: number])[]): void {
    const set = this.#database.prepare(
      'INSERT INTO key_use VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET hour = max(key_use.hour, excluded.hour)',
    )
    for (let at = 0; at < uses.length; at += USES)
      inTransaction(this.#database, () => runAll(set, uses.slice(at, at + USES)))
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
        // The newest row is the number of the last change.
        .where('seq', '<', (change) => change.selectFrom('change').select(({ fn }) => fn.max('seq').as('last')))
        .execute()
      await deleteLogins(db, now)
      return deleteAuditRows(db, now - this.#settings.auditDays * DAY, SWEPT)
    })
  }

  /** Moves changes into the main file, after they were stored. */
  settle(): void {
    if (!this.#isWritten) return
    this.#isWritten = false
    this.#storage.settle()
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
      const result = await write({ db, context, settings: this.#settings, now }, operation)
      const problem = result.ok ? this.#overlap(operation, result.value) : null
      if (problem !== null) throw new TooManyBudgets(problem)
      if (!once || !result.ok) return result
      const answer = JSON.stringify('secret' in result.value ? { ...result.value, secret: null } : result.value)
      const { key, ...row } = { ...once, status: result.status, answer, at: now }
      await db
        .insertInto('once')
        .values({ key, ...row })
        .onConflict((conflict) => conflict.column('key').doUpdateSet(row))
        .execute()
      return result
    })
    const result = await transaction.catch((error: unknown): ControlResult => {
      if (error instanceof TooManyBudgets) return refused(409, 'too_many_budgets', error.message)
      throw error
    })
    if (result.ok && operation.do === 'create' && operation.kind !== 'price') this.#storage.name()
    // This connection's own writes do not change the version in a file.
    this.#version = -1
    this.#isWritten = true
    return result
  }
}

/** Rolls the transaction back. */
class TooManyBudgets extends Error {}

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

/** Connects. If a schema that was there before is missing, its keys are lost: a new, empty one would open the gateway. */
const openPostgresStorage = async (shared: SharedControl, isKnown: boolean): Promise<ControlStorage> => {
  const database = await openShared(shared, { ...SHARED_CONTROL, mayCreate: !isKnown })
  return { database, isLost: () => database.isLost, version: () => lastSeq(database), name() {}, settle() {} }
}
