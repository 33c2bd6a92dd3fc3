/**
 * `control.db` for the event loop: it starts the thread that owns the database, and starts it again if it ends. A slow,
 * full or missing disk blocks nothing but that thread.
 */
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import { QueriedThread } from '../../storage/thread/queried-thread.ts'
import type {
  AccountsChange,
  ControlContext,
  ControlOperation,
  ControlPlace,
  ControlResult,
  ControlSettings,
  ControlThreadOptions,
  FromControlThread,
  StoredAccounts,
  ToControlThread,
} from './messages.ts'
import { refused } from './results.ts'

export type ControlClientOptions = ControlPlace & {
  readonly settings: () => ControlSettings
  /** See `ControlThreadOptions`. Absent: a file is created where there is none. */
  readonly earlier?: () => Pick<ControlThreadOptions, 'isKnown' | 'hasKeys'>
  /** Rows that have changed, by this process or another one, at most 1 s ago. */
  readonly onChange: (change: AccountsChange) => void
  /** All rows, where the changes are not known. */
  readonly onComplete: (stored: StoredAccounts) => void
  /** The database cannot be used, or works again (null). The text contains no path. `isLost`: see `FromControlThread`. */
  readonly onState: (problem: string | null, isLost: boolean) => void
  /** The snapshot cannot be written, or is written again (null). */
  readonly onSnapshot?: ((problem: string | null) => void) | undefined
  readonly onTime?: OnStoreTime | undefined
}

const THREAD = new URL('./control-thread.mjs', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/** All in ms. `operation`: for its result; `verify`: of millions of audit rows. `used`: between two batches of last uses. */
const TIMES = { operation: 10_000, verify: 600_000, close: 5_000, used: 5_000 }
/** Operations in progress, and keys in a batch of last uses. */
const LIMITS = { operations: 1_000, uses: 100_000 }
const HOUR = 3_600_000

export class ControlClient {
  readonly #options: ControlClientOptions
  readonly #thread: QueriedThread<ToControlThread, FromControlThread>
  #problem: string | null = null
  /** The last change that was applied; null: none. */
  #seq: number | null
  #uses = new Map<string, number>()
  #usesTimer: NodeJS.Timeout | null = null

  /** `since`: the last change that is known from `readStoredAccounts`; null: the thread sends all rows first. */
  constructor(options: ControlClientOptions, since: number | null) {
    this.#options = options
    this.#seq = since
    const { folder, database, settings, earlier = () => ({ isKnown: false, hasKeys: false }) } = options
    this.#thread = new QueriedThread({
      file: THREAD,
      memory: MEMORY,
      data: () =>
        ({
          folder,
          database,
          settings: settings(),
          ...earlier(),
          // A snapshot needs everything.
          since: database?.snapshot ? null : this.#seq,
        }) satisfies ControlThreadOptions,
      onMessage: (message) => this.#receive(message),
      onProblem: (problem) => this.#state(problem, false),
    })
  }

  /** Why the database cannot be used, or null. */
  get problem(): string | null {
    return this.#problem
  }

  /** Starts the thread unless it runs. It creates the database if there is none. */
  start(): void {
    this.#thread.start()
  }

  /** Runs an operation. After 10 s (a verification: 10 min) its result is an error with status 503; a write may still take place then. */
  async run(operation: ControlOperation, context: ControlContext): Promise<ControlResult> {
    if (this.#thread.waiting >= LIMITS.operations) return unavailable(`${LIMITS.operations} operations are in progress`)
    const since = performance.now()
    const limit = operation.do === 'verify' ? TIMES.verify : TIMES.operation
    const result = await this.#thread.query((number) => ({ number, operation, context }), limit)
    this.#options.onTime?.(operation.do, performance.now() - since)
    if ('result' in result) return result.result
    return unavailable(result.sent ? `${result.problem}. A write may have taken place` : result.problem)
  }

  /** Sends the current settings to the thread. */
  settingsChanged(): void {
    this.#thread.post({ do: 'settings', settings: this.#options.settings() })
  }

  /** Records that a key was used. Stored with the precision of an hour, within 5 s once the thread runs. `now`: ms since 1970. */
  used(id: string, now: number): void {
    if (this.#uses.size >= LIMITS.uses) return
    this.#uses.set(id, now - (now % HOUR))
    this.#sendUsesLater()
  }

  /** Ends the thread, within 5 s. */
  close(): Promise<void> {
    this.#sendUses()
    if (this.#usesTimer) clearTimeout(this.#usesTimer)
    return this.#thread.close({ do: 'close' }, TIMES.close)
  }

  #sendUsesLater(): void {
    this.#usesTimer ??= setTimeout(() => this.#sendUses(), TIMES.used).unref()
  }

  /** Until the thread runs, uses wait: a key reports one only once an hour. */
  #sendUses(): void {
    if (this.#usesTimer) clearTimeout(this.#usesTimer)
    this.#usesTimer = null
    if (this.#uses.size === 0) return
    if (!this.#thread.isRunning) return this.#sendUsesLater()
    this.#thread.post({ do: 'used', uses: [...this.#uses] })
    this.#uses = new Map()
  }

  #receive(message: Exclude<FromControlThread, { readonly number: number }>): void {
    switch (message.do) {
      case 'changed':
        this.#seq = message.change.seq
        return this.#options.onChange(message.change)
      case 'complete':
        this.#seq = message.stored.seq
        return this.#options.onComplete(message.stored)
      case 'state':
        return this.#state(message.problem, message.isLost)
      case 'snapshot':
        return this.#options.onSnapshot?.(message.problem)
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  #state(problem: string | null, isLost: boolean): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#options.onState(problem, isLost)
  }
}

const unavailable = (reason: string): ControlResult =>
  refused(503, 'control_unavailable', `The database of keys and budgets cannot be used: ${reason}. Try again later.`)
