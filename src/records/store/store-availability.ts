/** Whether the database of keys can be used, and whether the process knows its keys. */
import type { ControlPlace } from './record-operations.ts'

/** What was read: `unread`, nothing so far; `absent`, there is no file; `read`, the records of a file or a snapshot. */
export type StoreContent = 'unread' | 'absent' | 'read'

export type StoreAvailabilityOptions = Pick<ControlPlace, 'database'> & {
  /** The only keys that clients can have are stored: a database that is missing cannot be distinguished from one that never was. */
  readonly needsStore: () => boolean
  /**
   * Whether the process is ready although its database is missing: the operator has stated that keys are required, so a new
   * installation behind a balancer must be reachable for its first key. Calls are refused as in every other case.
   */
  readonly isReadyWithoutStore?: () => boolean
  /** ms since 1970. */
  readonly date: () => number
  /** The database cannot be used, or works again (null). The text contains no path. */
  readonly onState: (problem: string | null) => void
}

/** The problem of a file that is needed. */
const MISSING =
  'there is no control.db in the data folder, so no client key is known. If its folder is not mounted or not the right one, correct that. In a new installation, create the first key: headgate keys create NAME'

export class StoreAvailability {
  readonly #options: StoreAvailabilityOptions
  readonly #load = Promise.withResolvers<void>()
  #content: StoreContent = 'unread'
  /** The database itself was read. */
  #isLoaded = false
  /** The file is missing or cannot be opened, though it could be before. */
  #isLost = false
  #problem: { readonly reason: string; readonly since: number } | null = null

  constructor(options: StoreAvailabilityOptions) {
    this.#options = options
  }

  get content(): StoreContent {
    return this.#content
  }

  /** The current problem, or null. */
  get problem(): { readonly reason: string; readonly since: number } | null {
    return this.#problem
  }

  /** Resolves once the database was read. */
  get loaded(): Promise<void> {
    return this.#load.promise
  }

  /** The database could not be found, opened or read: a key that is unknown may be one of its keys. */
  get isUnavailable(): boolean {
    return !this.#isLoaded || this.#isLost || this.#isMissing()
  }

  /** The keys are unknown, also from a snapshot of a shared database: the process cannot serve their clients. */
  get isLoading(): boolean {
    const { database, isReadyWithoutStore } = this.#options
    if (database !== null) return this.#content === 'unread'
    return this.isUnavailable && !(this.#isMissing() && this.#isLoaded && isReadyWithoutStore?.())
  }

  /** The first reading has ended: of the file, or of the snapshot of a shared database. */
  started(content: StoreContent): void {
    this.#content = content
    this.#isLoaded = this.#options.database === null && content !== 'unread'
    // No report: the connection has not been tried yet.
    if (this.#options.database && content === 'unread')
      this.#problem = { reason: 'the keys have not been read so far', since: this.#options.date() }
  }

  /** The database itself was read. */
  read(): void {
    this.#content = 'read'
    this.#isLoaded = true
    this.#isLost = false
    this.#load.resolve()
  }

  /** The thread's report. `isLost`: see `ControlEvents`. */
  lost(problem: string | null, isLost: boolean): void {
    this.#isLost = isLost
    this.report(problem)
  }

  /** Reports that a file is missing that the configuration needs, or no longer is. */
  checkMissing(): void {
    if (this.#isMissing()) this.report(MISSING)
    else if (this.#problem?.reason === MISSING) this.report(null)
  }

  report(reason: string | null): void {
    if (reason === (this.#problem?.reason ?? null)) return
    this.#problem = reason === null ? null : { reason, since: this.#problem?.since ?? this.#options.date() }
    this.#options.onState(reason)
  }

  #isMissing(): boolean {
    return this.#content === 'absent' && this.#options.needsStore()
  }
}
