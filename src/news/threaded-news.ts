/** Messages in Postgres for an event loop: the thread that has the connection. */
import type { SharedDatabase } from '../storage/sql/shared-database.ts'
import { ThreadClient } from '../storage/thread/connect-thread.ts'
import { POSTGRES_THREAD } from '../storage/thread/thread-part.ts'
import type { ThreadResult } from '../storage/thread/thread-program.ts'
import type { NewsStore, NewsStoreOptions, OutgoingNews } from './news-store.ts'
import type { program } from './news-thread.ts'

const PROGRAM = new URL('./news-thread.ts', import.meta.url)
/** Memory limits in MB, in a thread of its own. */
const MEMORY = { maxOldGenerationSizeMb: 256, maxYoungGenerationSizeMb: 16 }
/** ms: for an answer, longer than Postgres has for a connection and a statement, and to end. */
const TIMES = { call: 30_000, close: 2_000 }

export class ThreadedNews implements NewsStore {
  readonly #thread: ThreadClient<typeof program>

  constructor(database: SharedDatabase, { node, onNews, onState }: NewsStoreOptions) {
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      shared: POSTGRES_THREAD,
      data: () => ({ database, node }),
      restart: 'always',
      events: { news: onNews, state: onState },
      onProblem: onState,
    })
    this.#thread.start()
  }

  async send(messages: readonly OutgoingNews[]): Promise<void> {
    answerIn(await this.#thread.call('send', messages, { limit: TIMES.call }))
  }

  async claim(role: string, ms: number): Promise<boolean> {
    return answerIn(await this.#thread.call('claim', { role, ms }, { limit: TIMES.call }))
  }

  async release(role: string): Promise<void> {
    answerIn(await this.#thread.call('release', role, { limit: TIMES.call }))
  }

  async load(role: string): Promise<string | null> {
    return answerIn(await this.#thread.call('load', role, { limit: TIMES.call }))
  }

  async save(role: string, body: string): Promise<void> {
    answerIn(await this.#thread.call('save', { role, body }, { limit: TIMES.call }))
  }

  close(): Promise<void> {
    return this.#thread.close(TIMES.close)
  }
}

const answerIn = <Value>(result: ThreadResult<Value>): Value => {
  if ('value' in result) return result.value
  throw new Error(result.problem)
}
