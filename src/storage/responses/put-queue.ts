/** Writes of responses to Postgres: what is received while a transaction runs is written together in the next. */
import type { StoredResponse } from '../../core/stored-response.ts'
import { PostgresError } from '../sql/postgres/postgres-error.ts'
import { sizeOf } from './store-queries.ts'

/** Maximum writes per transaction. */
const BATCH = { writes: 64, characters: 8 * 1_048_576 }

type PendingPut = {
  readonly response: StoredResponse
  readonly resolve: (value: null) => void
  readonly reject: (error: unknown) => void
}

export class PutQueue {
  readonly #write: (responses: readonly StoredResponse[]) => Promise<void>
  readonly #puts: PendingPut[] = []
  #isWriting = false

  /** `write`: stores responses in one transaction. */
  constructor(write: (responses: readonly StoredResponse[]) => Promise<void>) {
    this.#write = write
  }

  put(response: StoredResponse): Promise<null> {
    const { promise, resolve, reject } = Promise.withResolvers<null>()
    this.#puts.push({ response, resolve, reject })
    if (!this.#isWriting) void this.#writeAll()
    return promise
  }

  async #writeAll(): Promise<void> {
    this.#isWriting = true
    while (this.#puts.length > 0) await this.#writeTogether(this.#puts.splice(0, this.#batchLength()))
    this.#isWriting = false
  }

  async #writeTogether(batch: readonly PendingPut[]): Promise<void> {
    try {
      await this.#write(batch.map(({ response }) => response))
      for (const { resolve } of batch) resolve(null)
    } catch (error) {
      const isOfAll = batch.length === 1 || (error instanceof PostgresError && error.isLost)
      // One write may be the cause.
      if (isOfAll) for (const { reject } of batch) reject(error)
      else for (const put of batch) await this.#writeTogether([put])
    }
  }

  #batchLength(): number {
    let size = 0
    const end = this.#puts.findIndex(({ response }, at) => {
      size += sizeOf(response)
      return at === BATCH.writes || (at > 0 && size > BATCH.characters)
    })
    return end === -1 ? this.#puts.length : end
  }
}
