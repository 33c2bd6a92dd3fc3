/** The program of the thread that stores the objects and batches of passed calls: a file in the data folder, or Postgres. */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { ClaimedBatch, PassBatch } from '../../core/pass-batches.ts'
import { makeFolder } from '../files/folder.ts'
import { watchMoved } from '../files/opened-files.ts'
import { migrateSchema } from '../sql/migrate.ts'
import { SHARED_CONNECTIONS } from '../sql/postgres/connections.ts'
import { openShared } from '../sql/postgres/shared-schema.ts'
import { PostgresStore } from '../sql/postgres/store.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import { SqliteStore } from '../sql/sqlite/store.ts'
import type { SqlStore } from '../sql/store.ts'
import type { ThreadService } from '../thread/thread-program.ts'
import {
  type AddedBatch,
  type AskedBatch,
  addBatch,
  claimBatch,
  type DueBatches,
  dueBatches,
  type EndedBatch,
  endBatch,
} from './batch-rows.ts'
import { PASS_FILE, type PassTables, SHARED_PASS } from './pass-schema.ts'

/** Rows, and ms for which one is kept. */
export type PassLimits = { readonly rows: number; readonly age: number }

/** `database`: null: a file in the folder. */
export type PassThreadOptions = {
  readonly folder: string
  readonly database: SharedDatabase | null
  readonly limits: PassLimits
}

export type KeptObjects = {
  readonly instance: string
  readonly ids: readonly string[]
  readonly team: string
  readonly key: string
  readonly at: number
}
export type AskedObjects = { readonly instance: string; readonly ids: readonly string[] }
export type FoundObject = { readonly id: string; readonly team: string; readonly key: string }

type PassMethods = {
  readonly keep: (objects: KeptObjects) => Promise<null>
  readonly owners: (asked: AskedObjects) => Promise<readonly FoundObject[]>
  readonly addBatch: (batch: AddedBatch) => Promise<null>
  readonly claimBatch: (asked: AskedBatch) => Promise<ClaimedBatch | null>
  /** Books it, or ends the claim. */
  readonly endBatch: (ended: EndedBatch) => Promise<null>
  readonly dueBatches: (asked: DueBatches) => Promise<readonly PassBatch[]>
}

/** ms between two deletions of what is too old. */
const SWEEP = 3_600_000
/** ms to wait for another process. */
const BUSY = 2_000
/** Share of the rows that stays when there are too many. */
const EASED = 0.9

export const program = (options: PassThreadOptions): ThreadService<PassMethods> => new PassThread(options)

class PassThread implements ThreadService<PassMethods> {
  readonly #options: PassThreadOptions
  #store: Promise<SqlStore<PassTables>> | null = null
  #isMoved: () => boolean = () => false
  #sweepAt = 0

  readonly methods: PassMethods = {
    keep: (objects) => this.#keep(objects),
    owners: (asked) => this.#owners(asked),
    addBatch: async (batch) => addBatch(await this.#opened(), batch),
    claimBatch: async (asked) => claimBatch(await this.#opened(), asked),
    endBatch: async (ended) => endBatch(await this.#opened(), ended),
    dueBatches: async (asked) => dueBatches(await this.#opened(), asked),
  }

  constructor(options: PassThreadOptions) {
    this.#options = options
  }

  async close(): Promise<void> {
    await (await this.#store?.catch(() => null))?.close()
  }

  async #keep({ instance, ids, team, key, at }: KeptObjects): Promise<null> {
    const store = await this.#opened()
    const rows = ids.map((id) => ({ instance, id, team, key, at }))
    if (rows.length > 0)
      await store.write((db) =>
        db
          .insertInto('pass_object')
          .values(rows)
          .onConflict((conflict) => conflict.columns(['instance', 'id']).doNothing())
          .execute(),
      )
    if (at >= this.#sweepAt) {
      this.#sweepAt = at + SWEEP
      await this.#sweep(store, at)
    }
    return null
  }

  async #owners({ instance, ids }: AskedObjects): Promise<readonly FoundObject[]> {
    const store = await this.#opened()
    const { syntax } = store
    return store.single
      .selectFrom('pass_object')
      .select(['id', 'team', 'key'])
      .where('instance', '=', instance)
      .where(({ ref }) => syntax.among(ref('id'), ids))
      .execute()
  }

  /** Deletes what is too old, and the oldest rows of too many. */
  async #sweep(store: SqlStore<PassTables>, now: number): Promise<void> {
    const { rows, age } = this.#options.limits
    await store.write(async (db) => {
      await db
        .deleteFrom('pass_object')
        .where('at', '<', now - age)
        .execute()
      await db
        .deleteFrom('pass_batch')
        .where('made', '<', now - age)
        .execute()
      const { count } = await db
        .selectFrom('pass_object')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow()
      if (Number(count) <= rows) return
      const oldest = await db
        .selectFrom('pass_object')
        .select('at')
        .orderBy('at', 'desc')
        .offset(Math.floor(rows * EASED))
        .limit(1)
        .executeTakeFirst()
      if (oldest) await db.deleteFrom('pass_object').where('at', '<=', Number(oldest.at)).execute()
    })
  }

  #opened(): Promise<SqlStore<PassTables>> {
    // A file that was deleted while in use would take rows that nothing can read.
    if (this.#store && this.#isMoved()) {
      void this.close()
      this.#store = null
    }
    const opening = this.#store ?? this.#open()
    this.#store = opening
    opening.catch(() => {
      this.#store = null
    })
    return opening
  }

  async #open(): Promise<SqlStore<PassTables>> {
    const { folder, database } = this.#options
    if (database)
      return new PostgresStore<PassTables>(
        await openShared(database, { ...SHARED_PASS, mayCreate: true }, SHARED_CONNECTIONS),
      )
    makeFolder(folder)
    const path = join(folder, PASS_FILE)
    const file = new DatabaseSync(path)
    try {
      chmodSync(path, 0o600)
      file.exec(`PRAGMA busy_timeout = ${BUSY}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL`)
      migrateSchema(file, SHARED_PASS.versions)
    } catch (error) {
      file.close()
      throw error
    }
    this.#isMoved = watchMoved([path])
    return new SqliteStore<PassTables>(file)
  }
}
