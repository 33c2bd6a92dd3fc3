/** The second level of the response cache for the event loop: it starts the thread that has the connection to Redis. */
import type { CachedAnswer, CacheSelector, SharedCache, SharedHit } from '../../gateway/sharing/response-cache.ts'
import { ThreadClient } from '../thread/connect-thread.ts'
import type { OnStoreTime } from '../thread/on-store-time.ts'
import type { program } from './cache-thread.ts'

export type CacheClientOptions = {
  /** A secret. */
  readonly url: string
  readonly onTime?: OnStoreTime
}

const PROGRAM = new URL('./cache-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/**
 * ms. `find`: what a request waits for an answer at most. `pause`: for which no request waits after one has waited in vain. `put`,
 * `purge`: for the thread. `close`: of the thread.
 */
const TIMES = { find: 100, pause: 1_000, put: 5_000, purge: 60_000, close: 1_000 }
/** Answers that wait to be stored, and their characters. More are not stored. */
const QUEUE = { calls: 1_000, weight: 32 * 1_048_576, problem: () => 'too many answers wait for Redis' }

export class CacheClient implements SharedCache {
  readonly #thread: ThreadClient<typeof program>
  /** In ms of the monotonic clock. */
  #pausedUntil = 0

  constructor({ url, onTime }: CacheClientOptions) {
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      data: () => ({ url }),
      restart: 'always',
      queue: QUEUE,
      onTime,
    })
    this.#thread.start()
  }

  async find(name: string): Promise<SharedHit | null> {
    const since = performance.now()
    if (since < this.#pausedUntil) return null
    const result = await this.#thread.call('find', name, { limit: TIMES.find })
    if ('value' in result) return result.value
    this.#pausedUntil = performance.now() + TIMES.pause
    return null
  }

  put(name: string, answer: CachedAnswer, ttl: number): void {
    void this.#thread.call('put', { name, answer, ttl }, { limit: TIMES.put, weight: answer.body.length })
  }

  async purge(selector: CacheSelector): Promise<number | null> {
    const result = await this.#thread.call('purge', selector, { limit: TIMES.purge })
    return 'value' in result ? result.value : null
  }

  close(): Promise<void> {
    return this.#thread.close(TIMES.close)
  }
}
