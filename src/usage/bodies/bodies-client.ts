/**
 * `bodies.db` for the event loop: it starts the thread that owns the database. A slow, full or missing disk loses bodies and
 * blocks nothing else.
 */

import { ThreadClient } from '../../storage/thread/connect-thread.ts'
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import type { program } from './bodies-thread.ts'
import type {
  BodiesQuery,
  BodiesRules,
  FoundTexts,
  KeptIds,
  MarkedQuery,
  RawCall,
  StoredBodies,
  TextQuery,
} from './recorded-calls.ts'

export type BodiesClientOptions = {
  readonly folder: string
  readonly rules: () => BodiesRules
  readonly onTime?: OnStoreTime | undefined
}

/** `problem` contains no path. */
export type BodiesResult<Value = StoredBodies | null> = { readonly value: Value } | { readonly problem: string }

const PROGRAM = new URL('./bodies-thread.ts', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/** All in ms: for a result, for marks of a list, which does not wait for a slow disk, and for the rest to be stored. */
const TIMES = { result: 10_000, marks: 3_000, close: 2_000 }

export class BodiesClient {
  readonly #rules: () => BodiesRules
  readonly #thread: ThreadClient<typeof program>

  constructor({ folder, rules, onTime }: BodiesClientOptions) {
    this.#rules = rules
    this.#thread = new ThreadClient({
      program: PROGRAM,
      memory: MEMORY,
      data: () => ({ folder, rules: rules() }),
      restart: 'always',
      onTime,
    })
  }

  /** Stores a call, whose bytes are moved to the thread. */
  put(call: RawCall): Promise<BodiesResult> {
    const bodies = [call.request, ...call.attempts.flatMap(({ request, answer }) => [request, answer])]
    const moved = [...new Set(bodies.map(({ bytes }) => bytes.buffer))]
    return this.#thread.call('put', call, { limit: TIMES.result, moved })
  }

  read(query: BodiesQuery): Promise<BodiesResult> {
    return this.#thread.call('read', query, { limit: TIMES.result })
  }

  kept(query: MarkedQuery): Promise<BodiesResult<KeptIds>> {
    return this.#thread.call('kept', query, { limit: 'ids' in query ? TIMES.marks : TIMES.result })
  }

  search(query: TextQuery): Promise<BodiesResult<FoundTexts>> {
    return this.#thread.call('search', query, { limit: TIMES.result })
  }

  /** Starts the thread, which deletes what is older than it may be kept. Returns why it cannot start, or null. */
  start(): string | null {
    return this.#thread.start()
  }

  /** Sends the current rules to the thread, and applies them. */
  rulesChanged(): void {
    this.#thread.post('rules', this.#rules())
  }

  /** Stores the rest and ends the thread, within 2 s. */
  close(): Promise<void> {
    return this.#thread.close(TIMES.close)
  }
}
