/**
 * Reads of what others have stored, for credentials that are not known: another gateway may have stored one a moment ago. Those
 * who wait share a read, so that requests with invented keys cost the database a bounded number of reads.
 */

export type FreshReadsOptions = {
  /** Reads all changes that are stored so far. Returns whether that was possible. */
  readonly read: () => Promise<boolean>
  /** ms of the monotonic clock. */
  readonly now: () => number
  /** Calls a function after ms. */
  readonly after: (ms: number, run: () => void) => void
}

/** `pause`: ms between the starts of two reads. `answer`: ms for an answer. `waiting`: requests that wait at a time. */
const LIMITS = { pause: 100, answer: 2_000, waiting: 1_000 }

export class FreshReads {
  readonly #options: FreshReadsOptions
  /** The read that has not begun yet. */
  #next: Promise<boolean> | null = null
  #running: Promise<unknown> = Promise.resolve()
  #startedAt = Number.NEGATIVE_INFINITY
  #waiting = 0

  constructor(options: FreshReadsOptions) {
    this.#options = options
  }

  /** Waits for a read that begins after this call. False: it was not possible, or not within 2 s. */
  async read(): Promise<boolean> {
    if (this.#waiting >= LIMITS.waiting) return false
    this.#waiting++
    const late = this.#pause(LIMITS.answer).then(() => false)
    try {
      return await Promise.race([this.#nextRead(), late])
    } finally {
      this.#waiting--
    }
  }

  #nextRead(): Promise<boolean> {
    this.#next ??= this.#start()
    return this.#next
  }

  async #start(): Promise<boolean> {
    await this.#running
    const { read, now } = this.#options
    const wait = this.#startedAt + LIMITS.pause - now()
    if (wait > 0) await this.#pause(wait)
    this.#startedAt = now()
    this.#next = null
    const reading = read().catch(() => false)
    // A read without an answer must not hold up those who come later for long.
    this.#running = Promise.race([reading, this.#pause(LIMITS.answer)])
    return reading
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#options.after(ms, resolve))
  }
}
