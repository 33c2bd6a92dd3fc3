/** The objects of passed calls for the event loop. The thread that has the database starts with the first call. */
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { ClaimedBatch, PassBatch, PassBatches } from '../../core/pass-batches.ts'
import type { PassObjects, PassOwner } from '../../core/pass-objects.ts'
import type { SharedDatabase } from '../sql/shared-database.ts'
import { ThreadClient } from '../thread/connect-thread.ts'
import { POSTGRES_THREAD } from '../thread/thread-part.ts'
import type { ThreadResult } from '../thread/thread-program.ts'
import type { PassLimits, program } from './pass-thread.ts'

export type PassStoreOptions = {
  readonly folder: string
  readonly database: SharedDatabase | null
  /** ms since 1970. */
  readonly date: () => number
  readonly limits?: PassLimits
  /** ms between two readings of a batch, and for which a process that books one has time. */
  readonly interval: () => number
}

const PROGRAM = new URL('./pass-thread.ts', import.meta.url)
const MEMORY = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 4 }
const WITHIN = { limit: 10_000 }
const LIMITS: PassLimits = { rows: 1_000_000, age: 400 * 86_400_000 }
const QUEUE = {
  calls: 2_000,
  weight: Number.POSITIVE_INFINITY,
  problem: (calls: number) => `it is too slow: ${calls} operations wait for it`,
}

/** Batches that are read in one turn. */
const MOST_DUE = 20

export class PassStore implements PassObjects, PassBatches {
  readonly #date: () => number
  readonly #interval: () => number
  readonly #thread: ThreadClient<typeof program>

  constructor({ folder, database, date, interval, limits = LIMITS }: PassStoreOptions) {
    this.#date = date
    this.#interval = interval
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      shared: database ? POSTGRES_THREAD : undefined,
      data: () => ({ folder, database, limits }),
      restart: 'when called',
      queue: QUEUE,
    })
  }

  async keep(instance: string, ids: readonly string[], { team, key }: PassOwner): Promise<Failure | null> {
    if (ids.length === 0) return null
    return failureOf(await this.#thread.call('keep', { instance, ids, team, key, at: this.#date() }, WITHIN))
  }

  async owners(instance: string, ids: readonly string[]): Promise<Outcome<ReadonlyMap<string, PassOwner>>> {
    if (ids.length === 0) return good(new Map())
    const found = answerOf(await this.#thread.call('owners', { instance, ids }, WITHIN))
    return found.ok ? good(new Map(found.value.map(({ id, team, key }) => [id, { team, key }]))) : found
  }

  async add(batch: PassBatch): Promise<Failure | null> {
    return failureOf(await this.#thread.call('addBatch', { ...batch, due: batch.made + this.#interval() }, WITHIN))
  }

  async claim(instance: string, id: string): Promise<Outcome<ClaimedBatch | null>> {
    const now = this.#date()
    return answerOf(await this.#thread.call('claimBatch', { instance, id, now, until: now + this.#interval() }, WITHIN))
  }

  async booked(instance: string, id: string): Promise<Failure | null> {
    return failureOf(await this.#thread.call('endBatch', { instance, id, booked: 1 }, WITHIN))
  }

  async postpone(instance: string, id: string): Promise<Failure | null> {
    return failureOf(await this.#thread.call('endBatch', { instance, id, booked: 0 }, WITHIN))
  }

  async due(): Promise<Outcome<readonly PassBatch[]>> {
    const now = this.#date()
    return answerOf(
      await this.#thread.call('dueBatches', { now, next: now + this.#interval(), most: MOST_DUE }, WITHIN),
    )
  }

  close(): Promise<void> {
    return this.#thread.close(2_000)
  }
}

const failureOf = (result: ThreadResult<unknown>): Failure | null => {
  const answer = answerOf(result)
  return answer.ok ? null : answer.failure
}

const answerOf = <Value>(result: ThreadResult<Value>): Outcome<Value> =>
  'value' in result
    ? good(result.value)
    : bad(
        fail('storage', `The owners of objects cannot be stored or read: ${result.problem}. Retry later.`, {
          retryAfter: 5_000,
        }),
      )
