/**
 * `bodies.db` for the event loop: it starts the thread that owns the database. A slow, full or missing disk loses bodies and
 * blocks nothing else.
 */
import type { OnStoreTime } from '../../storage/thread/on-store-time.ts'
import { QueriedThread } from '../../storage/thread/queried-thread.ts'
import type {
  BodiesQuery,
  BodiesRules,
  BodiesThreadOptions,
  FromBodiesThread,
  RawCall,
  StoredBodies,
  ToBodiesThread,
} from './messages.ts'

export type BodiesClientOptions = {
  readonly folder: string
  readonly rules: () => BodiesRules
  readonly onTime?: OnStoreTime | undefined
}

/** `problem` contains no path. */
export type BodiesResult = { readonly value: StoredBodies | null } | { readonly problem: string }

const THREAD = new URL('./bodies-thread.mjs', import.meta.url)
/** Memory limits in MB. */
const MEMORY = { maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 16 }
/** All in ms: for a result, and for the rest to be stored. */
const TIMES = { result: 10_000, close: 2_000 }

export class BodiesClient {
  readonly #rules: () => BodiesRules
  readonly #onTime: OnStoreTime | undefined
  readonly #thread: QueriedThread<ToBodiesThread, FromBodiesThread>

  constructor({ folder, rules, onTime }: BodiesClientOptions) {
    this.#rules = rules
    this.#onTime = onTime
    this.#thread = new QueriedThread({
      file: THREAD,
      memory: MEMORY,
      data: () => ({ folder, rules: rules() }) satisfies BodiesThreadOptions,
      onMessage() {},
      onProblem() {},
    })
  }

  /** Stores a call, whose bytes are moved to the thread. */
  put(call: RawCall): Promise<BodiesResult> {
    const bodies = [call.request, ...call.attempts.flatMap(({ request, answer }) => [request, answer])]
    const moved = [...new Set(bodies.map(({ bytes }) => bytes.buffer))]
    return this.#timed('put', (number) => ({ do: 'put', number, call }), moved)
  }

  read(query: BodiesQuery): Promise<BodiesResult> {
    return this.#timed('read', (number) => ({ do: 'read', number, query }))
  }

  async #timed(
    op: string,
    message: (number: number) => Extract<ToBodiesThread, { readonly number: number }>,
    moved: ArrayBuffer[] = [],
  ): Promise<BodiesResult> {
    const since = performance.now()
    const result = await this.#thread.query(message, TIMES.result, moved)
    this.#onTime?.(op, performance.now() - since)
    return result
  }

  /** Starts the thread, which deletes what is older than it may be kept. Returns why it cannot start, or null. */
  start(): string | null {
    return this.#thread.start()
  }

  /** Sends the current rules to the thread, and applies them. */
  rulesChanged(): void {
    this.#thread.post({ do: 'rules', rules: this.#rules() })
  }

  /** Stores the rest and ends the thread, within 2 s. */
  close(): Promise<void> {
    return this.#thread.close({ do: 'close' }, TIMES.close)
  }
}
