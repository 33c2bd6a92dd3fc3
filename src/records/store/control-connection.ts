/** The connection of the thread to the database: opened when it is needed, and again after the file was lost. */
import { ControlDatabase } from './control-database.ts'
import type { ControlPlace, ControlSettings, ControlThreadOptions, StoredAccounts } from './record-operations.ts'
import { readSnapshot } from './snapshot.ts'

/** ms for which Postgres is not tried again. Operations that wait would each wait for the connection. */
const RETRY = 500

const LOST_KEYS = {
  file: 'control.db has lost its client keys. Restore a backup of it. To begin without keys instead, stop the gateway and delete control.db',
  shared:
    'the schema headgate_control has lost its client keys. Restore a backup of it. To begin without keys instead, stop all gateways and delete control-snapshot.json in their data folders',
}

export class ControlConnection {
  readonly #place: ControlPlace
  #settings: ControlSettings
  /** The last change that was reported of this database; null: none. */
  seq: number | null
  #database: ControlDatabase | null = null
  /** The database was there before: opened by this process or an earlier one. */
  #isKnown: boolean
  /** It has had client keys. */
  #hasKeys: boolean
  /** Until this time of the monotonic clock the database is not opened, because of the error. */
  #retry: { readonly at: number; readonly error: unknown } | null = null

  readonly #onNotice: () => void

  /** `onNotice`: another process has written, which not all databases report. */
  constructor({ folder, database, settings, since, isKnown, hasKeys }: ControlThreadOptions, onNotice: () => void) {
    this.#onNotice = onNotice
    this.#place = { folder, database }
    this.#settings = settings
    this.seq = since
    // Of a shared database the snapshot states it, later.
    this.#isKnown = database === null && isKnown
    this.#hasKeys = hasKeys
  }

  /** The open database; null: it is not open. */
  get database(): ControlDatabase | null {
    return this.#database
  }

  apply(settings: ControlSettings): void {
    this.#settings = settings
    this.#database?.apply(settings)
  }

  async open(): Promise<ControlDatabase> {
    const { database } = this.#place
    if (this.#database?.isLost) {
      await this.close()
      // A restored file, or the database after a failover, may have other changes.
      this.seq = null
    }
    if (this.#database) return this.#database
    if (this.#retry && performance.now() < this.#retry.at) throw this.#retry.error
    try {
      this.#database = await ControlDatabase.open(this.#knownPlace(), this.#settings, this.#onNotice)
      this.#isKnown = true
      return this.#database
    } catch (error) {
      if (database) this.#retry = { at: performance.now() + RETRY, error }
      throw error
    }
  }

  /** Keys are revoked, never deleted: a database without any has lost them, and would refuse every key. Throws if it has. */
  async checkKeys({ records }: StoredAccounts): Promise<void> {
    const hasKeys = records.keys.length > 0
    if (!hasKeys && this.#hasKeys) {
      if (this.#place.database) throw new Error(LOST_KEYS.shared)
      await this.close()
      throw new Error(LOST_KEYS.file)
    }
    this.#hasKeys = hasKeys
  }

  /** Notes that keys were added. */
  addedKeys(count: number): void {
    this.#hasKeys ||= count > 0
  }

  async close(): Promise<void> {
    const database = this.#database
    this.#database = null
    await database?.close()
  }

  /** The place, with whether its database was there before. */
  #knownPlace(): ControlPlace & { readonly isKnown: boolean } {
    const { folder, database } = this.#place
    if (!database) return { ...this.#place, isKnown: this.#isKnown }
    const earlier = this.#isKnown || !database.snapshot ? null : readSnapshot(folder, database.url)
    if (earlier) {
      this.#isKnown = true
      this.#hasKeys = earlier.records.keys.length > 0
    }
    return { folder, database, isKnown: this.#isKnown }
  }
}
