/** Runs operations on the database in a thread, and reports changes. */
import { isBusy, problemOf } from '../../storage/sql/sqlite/sqlite-problem.ts'
import type { Emit } from '../../storage/thread/thread-program.ts'
import type { AuditCheck } from './audit.ts'
import { ControlConnection } from './control-connection.ts'
import type { ControlDatabase } from './control-database.ts'
import type {
  AskedOperation,
  ControlEvents,
  ControlResult,
  ControlSettings,
  ControlThreadOptions,
  KeyUse,
} from './record-operations.ts'
import { refused } from './results.ts'
import { SnapshotKeeper } from './snapshot-keeper.ts'

/** ms between two looks for changes of other processes: in a file, in Postgres, and after an error. */
const INTERVAL = { file: 250, shared: 1_000, failed: 1_000 }
/** ms between two batches of a sweep, and between two sweeps. */
const SWEEP = { pause: 50, next: 3_600_000 }

export const program = (options: ControlThreadOptions, emit: Emit<ControlEvents>) => new ControlThread(options, emit)

class ControlThread {
  readonly #emit: Emit<ControlEvents>
  readonly #connection: ControlConnection
  readonly #isShared: boolean
  readonly #snapshot: SnapshotKeeper | null
  /** Ends when earlier calls are complete: they run one after the other. */
  #last: Promise<void> = Promise.resolve()
  #timer: NodeJS.Timeout | undefined
  #sweepAt = 0
  #problem: string | null | undefined
  #snapshotProblem: string | null = null
  #isClosing = false
  /** A look for changes waits for the calls before. */
  #isDue = false

  readonly methods = {
    run: ({ operation, context }: AskedOperation): Promise<ControlResult> =>
      operation.do === 'verify'
        ? this.#verify()
        : this.#answer((database) => database.run(operation, context, Date.now())),
    settings: (settings: ControlSettings) => {
      void this.#queue(async () => {
        this.#sweepAt = 0
        this.#connection.apply(settings)
      })
    },
    used: (uses: readonly KeyUse[]) => void this.#queue(async () => this.#connection.database?.storeUses(uses)),
  }

  constructor(options: ControlThreadOptions, emit: Emit<ControlEvents>) {
    const { folder, database } = options
    this.#emit = emit
    this.#connection = new ControlConnection(options, () => this.#noticed())
    this.#isShared = database !== null
    this.#snapshot = database?.snapshot
      ? new SnapshotKeeper({ folder, url: database.url, onProblem: (problem) => this.#snapshotState(problem) })
      : null
    void this.#queue(() => this.#look())
  }

  /** Looks for changes, once for the notices that come meanwhile. */
  #noticed(): void {
    if (this.#isDue) return
    this.#isDue = true
    void this.#queue(async () => {
      this.#isDue = false
      const { database } = this.#connection
      if (database && !this.#isClosing) await this.#report(database)
    })
  }

  /** After the calls before. */
  close(): Promise<void> {
    return this.#queue(async () => {
      clearTimeout(this.#timer)
      this.#isClosing = true
      this.#snapshot?.close()
      await this.#connection.close()
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
      const database = await this.#connection.open()
      // A database that has lost its keys must not be written.
      await this.#report(database)
      const result = await run(database)
      // Before the answer: a client that has created a key may use it at once.
      await this.#report(database)
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
      const database = await this.#connection.open()
      await this.#report(database)
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
    const usual = this.#isShared ? INTERVAL.shared : INTERVAL.file
    if (now < this.#sweepAt) return usual
    const hasMore = await database.sweep(now)
    this.#sweepAt = hasMore ? now : now + SWEEP.next
    return hasMore ? SWEEP.pause : usual
  }

  async #report(database: ControlDatabase): Promise<void> {
    const change = await database.changes(this.#connection.seq)
    if (change && 'complete' in change) {
      await this.#connection.checkKeys(change.complete)
      this.#connection.seq = change.complete.seq
      this.#snapshot?.replace(change.complete)
      this.#emit('complete', change.complete)
    } else if (change) {
      this.#connection.seq = change.seq
      this.#connection.addedKeys(change.records.keys.length)
      this.#snapshot?.apply(change)
      this.#emit('changed', change)
    }
    this.#state(null)
  }

  /** Returns the reason. */
  #failed(error: unknown): string {
    const problem = problemOf(error)
    this.#state(problem, !this.#isShared && this.#connection.database === null && !isBusy(error))
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
}
