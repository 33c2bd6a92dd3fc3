/** Runs operations on the database in a thread, and reports changes. Loaded by `control-thread.mjs`. */
import type { MessagePort } from 'node:worker_threads'
import { isBusy, problemOf } from '../../storage/sql/sqlite/errors.ts'
import type { AuditCheck } from './audit.ts'
import { ControlDatabase } from './control-database.ts'
import type {
  ControlPlace,
  ControlResult,
  ControlSettings,
  ControlThreadOptions,
  FromControlThread,
  StoredAccounts,
  ToControlThread,
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

/** Serves the port until the message `close`. */
export const serveControl = (port: MessagePort, options: ControlThreadOptions): void => {
  const thread = new ControlThread(port, options)
  port.on('message', (message: ToControlThread) => thread.receive(message))
  thread.start()
}

const LOST_KEYS = {
  file: 'control.db has lost its client keys. Restore a backup of it. To begin without keys instead, stop the gateway and delete control.db',
  shared:
    'the schema headgate_control has lost its client keys. Restore a backup of it. To begin without keys instead, stop all gateways and delete control-snapshot.json in their data folders',
}

class ControlThread {
  readonly #port: MessagePort
  readonly #place: ControlPlace
  readonly #usual: number
  readonly #snapshot: SnapshotKeeper | null
  #settings: ControlSettings
  /** The last change that was reported. */
  #seq: number | null
  #database: ControlDatabase | null = null
  /** Ends when earlier messages are complete: they run one after the other. */
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

  constructor(port: MessagePort, options: ControlThreadOptions) {
    const { folder, database, settings, since, isKnown, hasKeys } = options
    this.#port = port
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
  }

  start(): void {
    this.#queue(() => this.#look())
  }

  receive(message: ToControlThread): void {
    this.#queue(() => this.#handle(message))
  }

  #queue(run: () => Promise<void>): void {
    this.#last = this.#last.then(run).catch((error: unknown) => void this.#failed(error))
  }

  async #handle(message: ToControlThread): Promise<void> {
    if ('number' in message) return this.#answer(message)
    switch (message.do) {
      case 'settings':
        this.#settings = message.settings
        this.#sweepAt = 0
        this.#database?.apply(message.settings)
        return
      case 'used':
        this.#database?.storeUses(message.uses)
        return
      case 'close':
        clearTimeout(this.#timer)
        this.#isClosing = true
        this.#snapshot?.close()
        this.#close()
        this.#port.close()
        return
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  #answer({ number, operation, context }: Extract<ToControlThread, { readonly number: number }>): Promise<void> {
    if (operation.do === 'verify') return this.#verify(number, null)
    return this.#run(number, (database) => database.run(operation, context, Date.now()))
  }

  /** Checks a batch of audit rows. The next batch follows the messages that have arrived meanwhile. */
  #verify(number: number, before: AuditCheck | null): Promise<void> {
    return this.#run(number, async (database) => {
      const step = await database.checkAudit(before)
      if ('result' in step) return step.result
      setImmediate(() => {
        if (!this.#isClosing) this.#queue(() => this.#verify(number, step.check))
      })
      return null
    })
  }

  /** Posts the result of an operation; null: it is not complete. */
  async #run(number: number, run: (database: ControlDatabase) => Promise<ControlResult | null>): Promise<void> {
    try {
      const database = await this.#open()
      // A database that has lost its keys must not be written.
      this.#report(database)
      const result = await run(database)
      if (result === null) return
      // Before the answer: a client that has created a key may use it at once.
      this.#report(database)
      this.#post({ number, result })
    } catch (error) {
      const problem = this.#failed(error)
      const message = `The database of keys and budgets cannot be used: ${problem}. Try again later.`
      this.#post({ number, result: refused(503, 'control_unavailable', message) })
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
      this.#post({ do: 'complete', stored: change.complete })
    } else if (change) {
      this.#seq = change.seq
      this.#hasKeys ||= change.records.keys.length > 0
      this.#snapshot?.apply(change)
      this.#post({ do: 'changed', change })
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
    this.#post({ do: 'state', problem, isLost })
  }

  #snapshotState(problem: string | null): void {
    if (problem === this.#snapshotProblem) return
    this.#snapshotProblem = problem
    this.#post({ do: 'snapshot', problem })
  }

  #close(): void {
    this.#database?.close()
    this.#database = null
  }

  #post(message: FromControlThread): void {
    this.#port.postMessage(message)
  }
}
