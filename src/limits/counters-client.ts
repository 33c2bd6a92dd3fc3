/** Shared counters for an event loop: it starts the thread that has the connection, and starts it again if it ends. */
import type { LeaseReply } from '../gateway/accounts/counter-store.ts'
import type { LeaseAsk, LeaseHolder } from '../policy/accounts/lease.ts'
import { ThreadClient } from '../storage/thread/connect-thread.ts'
import type { OnStoreTime } from '../storage/thread/on-store-time.ts'
import { POSTGRES_THREAD } from '../storage/thread/thread-part.ts'
import type { ThreadResult } from '../storage/thread/thread-program.ts'
import type { CommonCounters } from './common-counters.ts'
import type { CountersPlace } from './counters-place.ts'
import type { program } from './counters-thread.ts'

export type CountersClientOptions = {
  readonly place: CountersPlace
  /** ms for an answer, after which the store is lost. */
  readonly timeout: number
  readonly onTime?: OnStoreTime
}

const PROGRAM = new URL('./counters-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** ms: for the thread to load and to end, and for the answer of the thread in addition to that of the store. */
const TIMES = { start: 10_000, close: 2_000, thread: 500 }
/** Counters of one answer about totals. */
const MOST = 1_000

export class CountersClient implements CommonCounters {
  readonly #thread: ThreadClient<typeof program>
  readonly #options: CountersClientOptions

  constructor(options: CountersClientOptions) {
    this.#options = options
    const { place, timeout, onTime } = options
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      shared: 'database' in place ? POSTGRES_THREAD : undefined,
      data: () => ({ place, timeout }),
      restart: 'always',
      startLimit: TIMES.start,
      onTime: (method, ms) => method === 'lease' && onTime?.('batch', ms),
    })
    this.#thread.start()
  }

  async lease(holder: LeaseHolder, asks: readonly LeaseAsk[]): Promise<LeaseReply> {
    const result = await this.#thread.call('lease', { holder, asks }, { limit: this.#limit })
    return 'value' in result ? result.value : { problem: this.#problemOf(result), peers: 0, epoch: '', answers: [] }
  }

  async read(counters: readonly string[]): ReturnType<CommonCounters['read']> {
    const all = []
    for (let at = 0; at < counters.length; at += MOST) {
      const result = await this.#thread.call('read', counters.slice(at, at + MOST), { limit: this.#limit })
      if (!('value' in result) || result.value === null) return null
      all.push(...result.value)
    }
    return all
  }

  close(): Promise<void> {
    return this.#thread.close(TIMES.close)
  }

  get #limit(): number {
    return this.#options.timeout + TIMES.thread
  }

  #problemOf(result: Exclude<ThreadResult<unknown>, { value: unknown }>): string {
    const { place, timeout } = this.#options
    const isLate = 'cause' in result && result.cause === 'late'
    return isLate ? `${'redis' in place ? 'Redis' : 'Postgres'} does not answer within ${timeout} ms` : result.problem
  }
}
