/** Runs operations on the database in a thread, and reports changes. */
import { isBusy, problemOf } from '../../storage/sql/sqlite/errors.ts'
import type { Emit } from '../../storage/thread/thread-program.ts'
import type { AuditCheck } from './audit.ts'
import { ControlDatabase } from './control-database.ts'
import type {
  AskedOperation,
  ControlEvents,
  ControlPlace,
  ControlResult,
  ControlSettings,
  ControlThreadOptions,
  KeyUse,
  StoredAccounts,
} from './messages.ts'
import { refused } from './results.ts'
import { readSnapshot } from './snapshot.ts'
import { SnapshotKeeper } from './snapshot-keeper.ts'

/** ms between two looks for changes of other processes: in a file, in Postgres, and after an error. */
const INTERVAL = { file: 250, shared: 1_000, failed: 1_000 }
/** ms for which Postgres is not tried again. Operations that wait would each wait for the connection. */
const RETRY = 500
/** ms between two batches of a sweep, and between two sweeps. */
const SWEEP = { pause: 50, next: 3_600_000 }

export const program = (options: ControlThreadOptions, emit: Emit<ControlEvents>) => new ControlThread(options, emit)

const LOST_KEYS = {
  file: 'control.db has lost its client keys. Restore a backup of it. To begin without keys instead, stop the gateway and delete control.db',
  shared:
    'the schema headgate_control has lost its client keys. Restore a backup of it. To begin without keys instead, stop all gateways and delete control-snapshot.json in their data folders',
}

class ControlThread {
  readonly #emit: Emit<ControlEvents>
  readonly #place: ControlPlace
  readonly #usual: number
  readonly #snapshot: SnapshotKeeper | null
  #settings: ControlSettings
  /** The last change that was reported. */
  #seq: number | null
  #database: ControlDatabase | null = null
  /** Ends when earlier calls are complete: they run one after the other. */
  #last: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #sweepAt = 0
  /** The database was there before: opened by this process or an earlier one. */
  #isKnown: boolean
  /** It has had client keys. */
  #hasKeys: boolean
  /** Until this time of the monotonic clock the database is not opened, because of the error. */
  #retry: { readonly at: number; readonly error: unknown } | null = null
  #problem: string | null | undefined
  #snapshotProblem: string | null = null
  #isClosing = false

  readonly methods = {
    run: ({ operation, context }: AskedOperation): Promise<ControlResult> =>
      operation.do === 'verify'
        ? this.#verify()
        : this.#answer((database) => database.run(operation, context, Date.now())),
    settings: (settings: ControlSettings) => {
      void this.#queue(async () => {
        this.#settings = settings
        this.#sweepAt = 0
        this.#database?.apply(settings)
      })
    },
    used: (uses: readonly KeyUse[]) => void this.#queue(async () => void this.#database?.storeUses(uses)),
  }

  constructor(options: ControlThreadOptions, emit: Emit<ControlEvents>) {
    const { folder, database, settings, since, isKnown, hasKeys } = options
    this.#emit = emit
    // Of a shared database the snapshot states it, later.
    this.#isKnown = database === null && isKnown
    this.#hasKeys = hasKeys
    this.#place = { folder, database }
    this.#usual = database ? INTERVAL.shared : INTERVAL.file
    this.#snapshot = database?.snapshot
      ? new SnapshotKeeper({ folder, url: database.url, onProblem: (problem) => this.#snapshotState(problem) })
      : null
    this.#settings = settings
    this.#seq = since
    void this.#queue(() => this.#look())
  }

  /** After the calls before. */
  close(): Promise<void> {
    return this.#queue(async () => {
      clearTimeout(this.#timer)
      this.#isClosing = true
      this.#snapshot?.close()
      this.#close()
    })
  }

  /** Runs after the calls before. An error is the state of the database. */
  #queue(run: () => Promise<void>): Promise<void> {
    this.#last = this.#last.then(run).catch((error: unknown) => void this.#failed(error))
    return this.#last
  }

  /** Runs an operation, or a part of one, after the calls before. */
  #answer<Result>(run: (database: ControlDatabase) => Promise<Result>): Promise<Result | ControlResult> {
    const { promise, resolve } = Promise.withResolvers<Result | ControlResult>()
    void this.#queue(async () => resolve(await this.#run(run)))
    return promise
  }

  /** Checks the audit rows in batches. The next batch follows the calls that have arrived meanwhile. */
  async #verify(): Promise<ControlResult> {
    let check: AuditCheck | null = null
    for (;;) {
      const step: { readonly check: AuditCheck } | { readonly result: ControlResult } | ControlResult =
        await this.#answer((database) => database.checkAudit(check))
      if ('ok' in step) return step
      if ('result' in step) return step.result
      check = step.check
      await new Promise(setImmediate)
      if (this.#isClosing) throw new Error('the gateway is shutting down')
    }
  }

  async #run<Result>(run: (database: ControlDatabase) => Promise<Result>): Promise<Result | ControlResult> {
    try {
      const database = await this.#open()
      // A database that has lost its keys must not be written.
      this.#report(database)
      const result = await run(database)
      // Before the answer: a client that has created a key may use it at once.
      this.#report(database)
      return result
    } catch (error) {
      const message = `The database of keys and budgets cannot be used: ${this.#failed(error)}. Try again later.`
      return refused(503, 'control_unavailable', message)
    }
  }

  /** Reports changes, also of other processes, and again after an interval. */
  async #look(): Promise<void> {
    let pause = INTERVAL.failed
    try {
      const database = await this.#open()
      this.#report(database)
      database.settle()
      pause = await this.#sweep(database)
    } catch (error) {
      this.#failed(error)
    }
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#queue(() => this.#look()), pause)
  }

  async #sweep(database: ControlDatabase): Promise<number> {
    const now = Date.now()
    if (now < this.#sweepAt) return this.#usual
    const hasMore = await database.sweep(now)
    this.#sweepAt = hasMore ? now : now + SWEEP.next
    return hasMore ? SWEEP.pause : this.#usual
  }

  async #open(): Promise<ControlDatabase> {
    const { database } = this.#place
    if (this.#database?.isLost) {
      this.#close()
      // A restored file, or the database after a failover, may have other changes.
      this.#seq = null
    }
    if (this.#database) return this.#database
    if (this.#retry && performance.now() < this.#retry.at) throw this.#retry.error
    try {
      this.#database = await ControlDatabase.open(this.#knownPlace(), this.#settings)
      this.#isKnown = true
      return this.#database
    } catch (error) {
      if (database) this.#retry = { at: performance.now() + RETRY, error }
      throw error
    }
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

  #report(database: ControlDatabase): void {
    const change = database.changes(this.#seq)
    if (change && 'complete' in change) {
      this.#checkKeys(change.complete)
      this.#seq = change.complete.seq
      this.#snapshot?.replace(change.complete)
      this.#emit('complete', change.complete)
    } else if (change) {
      this.#seq = change.seq
      this.#hasKeys ||= change.records.keys.length > 0
      this.#snapshot?.apply(change)
      this.#emit('changed', change)
    }
    this.#state(null)
  }

  /** Keys are revoked, never deleted: a database without any has lost them, and would refuse every key. */
  #checkKeys({ records }: StoredAccounts): void {
    const hasKeys = records.keys.length > 0
    if (!hasKeys && this.#hasKeys) {
      if (this.#place.database) throw new Error(LOST_KEYS.shared)
      this.#close()
      throw new Error(LOST_KEYS.file)
    }
    this.#hasKeys = hasKeys
  }

  /** Returns the reason. */
  #failed(error: unknown): string {
    const problem = problemOf(error)
    this.#state(problem, this.#place.database === null && this.#database === null && !isBusy(error))
    return problem
  }

  #state(problem: string | null, isLost = false): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#emit('state', { problem, isLost })
  }

  #snapshotState(problem: string | null): void {
    if (problem === this.#snapshotProblem) return
    this.#snapshotProblem = problem
    this.#emit('snapshot', problem)
  }

  #close(): void {
    this.#database?.close()
    this.#database = null
  }
}
