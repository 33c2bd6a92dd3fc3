/**
 * `control.db` for the event loop: it starts the thread that owns the database, and starts it again if it ends. A slow,
 * full or missing disk blocks nothing but that thread.
 */

import { ThreadClient } from '../../storage/thread/connect-thread.ts'
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import { POSTGRES_THREAD } from '../../storage/thread/thread-part.ts'
import type { program } from './control-thread.ts'
import type {
  AccountsChange,
  ControlContext,
  ControlOperation,
  ControlPlace,
  ControlResult,
  ControlSettings,
  ControlThreadOptions,
  StoredAccounts,
} from './record-operations.ts'
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

const PROGRAM = new URL('./control-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/** All in ms. `operation`: for its result; `verify`: of millions of audit rows. `used`: between two batches of last uses. */
const TIMES = { operation: 10_000, verify: 600_000, close: 5_000, used: 5_000 }
/** Operations in progress, and keys in a batch of last uses. */
const LIMITS = { operations: 1_000, uses: 100_000 }
const HOUR = 3_600_000

export class ControlClient {
  readonly #options: ControlClientOptions
  readonly #thread: ThreadClient<typeof program>
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
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      shared: database ? POSTGRES_THREAD : undefined,
      // A snapshot needs everything.
      data: () => {
        const since = database?.snapshot ? null : this.#seq
        return { folder, database, settings: settings(), ...earlier(), since }
      },
      restart: 'always',
      queue: { calls: LIMITS.operations, weight: 0, problem: (calls) => `${calls} operations are in progress` },
      events: {
        changed: (change) => {
          this.#seq = change.seq
          options.onChange(change)
        },
        complete: (stored) => {
          this.#seq = stored.seq
          options.onComplete(stored)
        },
        state: ({ problem, isLost }) => this.#state(problem, isLost),
        snapshot: (problem) => options.onSnapshot?.(problem),
      },
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
    const since = performance.now()
    const limit = operation.do === 'verify' ? TIMES.verify : TIMES.operation
    const result = await this.#thread.call('run', { operation, context }, { limit })
    if ('cause' in result && result.cause === 'refused') return unavailable(result.problem)
    this.#options.onTime?.(operation.do, performance.now() - since)
    return 'value' in result ? result.value : unavailable(`${result.problem}. A write may have taken place`)
  }

  /** Sends the current settings to the thread. */
  settingsChanged(): void {
    this.#thread.post('settings', this.#options.settings())
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
    return this.#thread.close(TIMES.close)
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
    this.#thread.post('used', [...this.#uses])
    this.#uses = new Map()
  }

  #state(problem: string | null, isLost: boolean): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#options.onState(problem, isLost)
  }
}

const unavailable = (reason: string): ControlResult =>
  refused(503, 'control_unavailable', `The database of keys and budgets cannot be used: ${reason}. Try again later.`)
