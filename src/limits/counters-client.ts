/**
 * Limits and budgets in Redis for the event loop: it starts the thread that has the connection, and starts it again if it
 * ends. A slow, stopped or missing Redis blocks nothing but that thread.
 */
import type { Budget } from '../core/accounts.ts'
import type { CounterSpend } from '../core/journal.ts'
import type { CounterFigures, SpentSum } from '../gateway/accounts/budget-counters.ts'
import { ThreadClient } from '../storage/thread/connect-thread.ts'
import type { OnStoreTime } from '../storage/thread/on-store-time.ts'
import type { CounterAnswer, CounterOperation } from './counter-messages.ts'
import type { program } from './counters-thread.ts'
import type {
  CountersState,
  CountersThreadOptions,
  FromCountersThread,
  NodeSpent,
  RedisState,
} from './counters-thread-messages.ts'

export type CountersClientOptions = Pick<CountersThreadOptions, 'url' | 'node' | 'shares'> & {
  readonly onAnswers: (source: number, answers: readonly CounterAnswer[]) => void
  /** What budgets have spent and reserved. `takenBy`: the last `take` of a process that is counted; null: Redis is lost. */
  readonly onFigures: (figures: readonly CounterFigures[], takenBy: ((source: number) => number) | null) => void
  /** Redis cannot be used, or is used again (null). The text contains no address. */
  readonly onState: (state: CountersState) => void
  /** The thread was started again, and lacks what was spent earlier. */
  readonly onRestart: () => void
  readonly onTime?: OnStoreTime
}

const PROGRAM = new URL('./counters-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/** ms to wait for the first answer of Redis at the start, and for the thread to end. */
const TIMES = { start: 2_000, close: 2_000 }

export class CountersClient {
  readonly #options: CountersClientOptions
  readonly #thread: ThreadClient<typeof program>
  #budgets: readonly Budget[] = []
  #state: RedisState
  /** Redis has answered since the start of the thread. */
  #hasAnswered = false
  #unread: readonly string[] = []
  #starts = 0
  readonly #started = Promise.withResolvers<void>()

  constructor(options: CountersClientOptions) {
    this.#options = options
    const { url, node, shares } = options
    this.#state = { problem: null, shares }
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      data: () => {
        this.#hasAnswered = false
        if (this.#starts++ > 0) setImmediate(options.onRestart)
        return { url, node, shares, budgets: this.#budgets }
      },
      restart: 'always',
      events: { counted: (message) => this.#receive(message) },
      onProblem: (problem) => this.#changed({ problem, shares: this.#state.shares }),
    })
    this.#thread.start()
  }

  /** Why Redis cannot be used, or null; how many processes have a share without it; and which budgets are not known. */
  get state(): CountersState {
    return { ...this.#state, unknown: this.#hasAnswered ? this.#unread : null }
  }

  /** Resolves when Redis has answered first, or does not within 2 s. */
  async started(): Promise<void> {
    const timer = setTimeout(this.#started.resolve, TIMES.start)
    await this.#started.promise
    clearTimeout(timer)
  }

  setBudgets(budgets: readonly Budget[]): void {
    this.#budgets = budgets
    this.#thread.post('budgets', budgets)
  }

  /** IDs of budgets whose earlier usage this gateway has not counted. */
  setUnread(budgets: readonly string[]): void {
    if (budgets.length === 0 && this.#unread.length === 0) return
    this.#unread = budgets
    this.#options.onState(this.state)
  }

  run(source: number, operations: readonly CounterOperation[]): void {
    this.#thread.post('run', { source, operations })
  }

  /** What this node has spent at least. */
  raise(sums: readonly SpentSum[]): void {
    this.#thread.post('raise', sums)
  }

  /** What other nodes have spent. It counts if they have not stored it themselves. */
  adopt(sums: readonly NodeSpent[]): void {
    this.#thread.post('adopt', sums)
  }

  /** Corrects what this node has spent. */
  add(sums: readonly SpentSum[]): void {
    this.#thread.post('add', sums)
  }

  /** A process has ended: its slots are free. `spends`: what it has spent in all; null: unknown. */
  async exit(source: number, spending: Promise<readonly CounterSpend[] | null>): Promise<void> {
    this.#thread.post('exit', source)
    this.#thread.post('spent', { source, spends: await spending })
  }

  /** Frees what is in progress and ends the thread, within 2 s. */
  close(): Promise<void> {
    return this.#thread.close(TIMES.close)
  }

  #receive(message: FromCountersThread): void {
    switch (message.do) {
      case 'answers':
        return this.#options.onAnswers(message.source, message.answers)
      case 'figures': {
        const taken = new Map(message.taken)
        const takenBy = (source: number) => taken.get(source) ?? 0
        return this.#options.onFigures(message.figures, this.#state.problem === null ? takenBy : null)
      }
      case 'state':
        return this.#changed({ problem: message.problem, shares: message.shares })
      case 'times':
        for (const ms of message.times) this.#options.onTime?.('batch', ms)
        return
      default:
        throw new Error(`unknown message ${JSON.stringify(message satisfies never)}`)
    }
  }

  #changed(state: RedisState): void {
    this.#started.resolve()
    this.#state = state
    if (state.problem === null) this.#hasAnswered = true
    this.#options.onState(this.state)
  }
}
