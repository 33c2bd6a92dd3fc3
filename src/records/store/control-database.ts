/**
 * The database of keys and budgets for its thread: operations, and the changes that the serving processes apply. Several
 * processes may write it: its lock orders their transactions, and each reads the changes of the others.
 */

import { hash } from 'node:crypto'
import type { Kysely } from 'kysely'
import type { JsonObject } from '../../core/json.ts'
import { type AuditCheck, checkAudit, deleteAuditRows, listAudit } from './audit.ts'
import { overlapProblem } from './budget-overlap.ts'
import { openFileStorage } from './file-storage.ts'
import { deleteLogins, runLogin } from './logins.ts'
import { listPeople, patchPerson, readPerson, signOutPerson } from './people.ts'
import { type ChangeMark, changesSince, storedAccounts } from './read-changes.ts'
import { getRecord, listRecords, type RecordSource } from './read-records.ts'
import type {
  AccountsChange,
  ControlContext,
  ControlOperation,
  ControlPlace,
  ControlResult,
  ControlSettings,
  ControlWrite,
  StoredAccounts,
} from './record-operations.ts'
import { fileRows } from './records.ts'
import { done, refused } from './results.ts'
import type { ControlTables } from './schema.ts'
import { deleteSignIn, listSignIns } from './sign-in-list.ts'
import { deleteSignIns, runSignIn } from './sign-ins.ts'
import type { ControlStorage } from './storage.ts'
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
  #settings: ControlSettings
  /** Records of headgate.yaml; see `RecordSource`. */
  #file: string
  /** The version of the storage whose changes were read. */
  #version: number | null = null
  /** The last change that was read; null: none by this connection. */
  #mark: ChangeMark | null = null
  /** There may be changes in the log of the file. */
  #isWritten = false

  private constructor(storage: ControlStorage, settings: ControlSettings) {
    this.#storage = storage
    this.#settings = settings
    this.#file = JSON.stringify(fileRows(settings.file))
  }

  /** Opens the database, or creates it with its schema unless it was there before (`isKnown`). `onNotice`: another process has written. */
  static async open(
    { folder, database, isKnown = false }: ControlPlace & { readonly isKnown?: boolean },
    settings: ControlSettings,
    onNotice: () => void = () => {},
  ): Promise<ControlDatabase> {
    if (!database) return new ControlDatabase(openFileStorage(folder, isKnown), settings)
    // Loads the client of Postgres only where it is used.
    const { openSharedStorage } = await import('./shared-storage.ts')
    return new ControlDatabase(await openSharedStorage(database, isKnown, onNotice), settings)
  }

  /** Whether the database must be opened again. */
  get isLost(): boolean {
    return this.#storage.isLost()
  }

  /** Uses other settings from now on. */
  apply(settings: ControlSettings): void {
    this.#settings = settings
    this.#file = JSON.stringify(fileRows(settings.file))
  }

  /** A batch of the operation `verify`. */
  checkAudit(before: AuditCheck | null): ReturnType<typeof checkAudit> {
    return this.#storage.read((db) => checkAudit(db, before))
  }

  async #verify(): Promise<ControlResult> {
    let step = await this.checkAudit(null)
    while ('check' in step) step = await this.checkAudit(step.check)
    return step.result
  }

  /** Runs an operation. A write is on the disk when this resolves. */
  async run(operation: ControlOperation, context: ControlContext, now: number): Promise<ControlResult> {
    const { teams } = context
    const read = <T>(run: (source: RecordSource) => Promise<T>): Promise<T> =>
      this.#storage.read((db) => run(this.#source(db, now)))
    switch (operation.do) {
      case 'list':
        return read((source) => listRecords(source, operation, teams))
      case 'get':
        return read((source) => getRecord(source, operation, teams))
      case 'decisions':
        return done({ object: 'list', data: await read(({ db }) => decisionsOf(db)), has_more: false, next: null })
      case 'people':
        return read((source) => listPeople(source, operation.query))
      case 'person':
        return read(({ db }) => readPerson(db, operation.id))
      case 'sign_ins':
        return read((source) => listSignIns(source, operation.query))
      case 'audit':
        return read((source) => listAudit(source, operation.query))
      case 'verify':
        return this.#verify()
      case 'refresh':
        return done({})
      case 'login_create':
      case 'login_use':
      case 'login_person':
      case 'login_checked':
      case 'login_end_by_issuer':
      case 'login_end':
        return this.#storage.write((db) => runLogin(db, operation, now))
      case 'device_find':
      case 'sign_in_person':
        return this.#storage.read((db) => runSignIn(db, operation, now))
      case 'device_create':
      case 'device_claim':
      case 'device_decide':
      case 'device_poll':
      case 'sign_in_use':
      case 'sign_in_rotate':
      case 'sign_in_unchecked':
      case 'sign_in_end':
        return this.#storage.write((db) => runSignIn(db, operation, now))
      default:
        return this.#write(operation, context, now)
    }
  }

  /** The changes after `since`. Cheap if there are none. */
  async changes(since: number | null): Promise<AccountsChange | { readonly complete: StoredAccounts } | null> {
    const version = this.#storage.version()
    if (since !== null && version !== null && version === this.#version) return null
    const known = since === null ? null : this.#mark?.seq === since ? this.#mark : { seq: since }
    const result = await this.#storage.read(async (db) => {
      const found = known === null ? 'complete' : await changesSince(db, known)
      return found === 'complete' ? storedAccounts(db) : found
    })
    this.#version = version
    if (result === null) return null
    this.#mark = result.mark
    return 'stored' in result ? { complete: result.stored } : result.change
  }

  /** Stores when keys were used last, as IDs and the start of the hour. */
  async storeUses(uses: readonly (readonly [id: string, hour: number])[]): Promise<void> {
    const { greater } = this.#storage.syntax
    // In one order: gateways that store the same keys do not wait for each other's rows in a circle.
    const rows = uses.map(([id, hour]) => ({ id, hour })).sort((one, other) => (one.id < other.id ? -1 : 1))
    for (let at = 0; at < rows.length; at += USES)
      await this.#storage.write((db) =>
        db
          .insertInto('key_use')
          .values(rows.slice(at, at + USES))
          .onConflict((conflict) =>
            conflict
              .column('id')
              .doUpdateSet({ hour: ({ ref }) => greater(ref('key_use.hour'), ref('excluded.hour')) }),
          )
          .execute(),
      )
  }

  /** Deletes old audit rows, answers to idempotency keys, changes, ended secrets and sessions. Returns whether more may be left. */
  sweep(now: number): Promise<boolean> {
    return this.#storage.write(async (db) => {
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
      await deleteSignIns(db, now)
      return deleteAuditRows(db, now - this.#settings.auditDays * DAY, SWEPT)
    })
  }

  /** Moves changes into the main file, after they were stored. */
  settle(): void {
    if (!this.#isWritten) return
    this.#isWritten = false
    this.#storage.settle()
  }

  close(): Promise<void> {
    return this.#storage.close()
  }

  #source(db: Kysely<ControlTables>, now: number): RecordSource {
    return { db, syntax: this.#storage.syntax, file: this.#file, now }
  }

  async #overlap(source: RecordSource, operation: ControlWrite, { id }: JsonObject): Promise<string | null> {
    if ((operation.do !== 'create' && operation.do !== 'patch') || typeof id !== 'string') return null
    const { kind } = operation
    return kind === 'price' || kind === 'token' || kind === 'route'
      ? null
      : overlapProblem(source, this.#settings.file, { kind, id })
  }

  async #write(operation: ControlWrite, context: ControlContext, now: number): Promise<ControlResult> {
    const transaction = this.#storage.write(async (db) => {
      const source = this.#source(db, now)
      const once = onceOf(operation, context)
      const earlier = once && (await db.selectFrom('once').selectAll().where('key', '=', once.key).executeTakeFirst())
      if (earlier && earlier.at >= now - KEPT.once) return replay(earlier, once.print)
      const result = await write({ ...source, context, settings: this.#settings }, operation)
      const problem = result.ok ? await this.#overlap(source, operation, result.value) : null
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
    if (result.ok && operation.do === 'create' && operation.kind !== 'price' && operation.kind !== 'route')
      this.#storage.name()
    // This connection's own writes do not change the version in a file.
    this.#version = null
    this.#isWritten = true
    return result
  }
}

const decisionsOf = (db: Kysely<ControlTables>) =>
  db.selectFrom('decision').selectAll().orderBy('kind').orderBy('id').execute()

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
    case 'person_patch':
      return patchPerson(scope, operation)
    case 'person_sign_out':
      return signOutPerson(scope, operation)
    case 'sign_in_delete':
      return deleteSignIn(scope, operation)
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
