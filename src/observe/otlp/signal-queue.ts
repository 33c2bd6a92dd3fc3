/**
 * Items of one signal that wait for their receiver: sent in batches, one at a time, and bounded. The oldest are dropped. A
 * receiver that fails is left alone for a while, so that it costs neither time nor memory.
 */
import type { DropReason, SignalState } from './telemetry-options.ts'

/** `refused`: the receiver does not take these items; how many of an accepted batch, and why. */
export type BatchResult =
  | { readonly ok: true; readonly refused: number; readonly why: string | null }
  | { readonly ok: false; readonly reason: Extract<DropReason, 'refused' | 'failed'>; readonly why: string }

export type QueueOptions<Item> = {
  readonly limits: QueueLimits
  /** Sends a batch; settles within its time limit. Does not throw. */
  readonly send: (batch: readonly Item[]) => Promise<BatchResult>
  /** ms since 1970. */
  readonly date: () => number
}

export type QueueLimits = {
  /** Items of a batch, and the ms after which a smaller one is sent. */
  readonly batch: number
  readonly delay: number
  /** Items that may wait, and bytes. */
  readonly waiting: number
  readonly bytes: number
  /** Batches that fail in a row before a pause, and its ms. */
  readonly failures: number
  readonly pause: number
}

type WaitingItem<Item> = { readonly item: Item; readonly size: number }

export class SignalQueue<Item> {
  readonly #options: QueueOptions<Item>
  #waiting: WaitingItem<Item>[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | null = null
  #sending: Promise<void> | null = null
  /** Batches that have failed in a row. */
  #failures = 0
  #isPaused = false
  #isClosed = false
  #exported = 0
  readonly #dropped: Record<DropReason, number> = { full: 0, refused: 0, failed: 0, closed: 0, malformed: 0 }
  #error: string | null = null
  #errorAt: number | null = null
  #exportedAt: number | null = null

  constructor(options: QueueOptions<Item>) {
    this.#options = options
  }

  state(): SignalState {
    return {
      exported: this.#exported,
      dropped: { ...this.#dropped },
      waiting: this.#waiting.length,
      waitingBytes: this.#bytes,
      error: this.#error,
      errorAt: this.#errorAt,
      exportedAt: this.#exportedAt,
    }
  }

  /** Counts an item that cannot be represented. */
  malformed(): void {
    this.#dropped.malformed++
  }

  /** `size`: estimated bytes. */
  add(item: Item, size: number): void {
    if (this.#isClosed) {
      this.#dropped.closed++
      return
    }
    const { waiting, bytes, batch, delay } = this.#options.limits
    this.#waiting.push({ item, size })
    this.#bytes += size
    if (this.#waiting.length > waiting || this.#bytes > bytes) this.#dropOldest()
    if (this.#isPaused || this.#sending) return
    if (this.#waiting.length >= batch) this.#send()
    else this.#timer ??= setTimeout(() => this.#send(), delay).unref()
  }

  /** Sends what waits until `limit` ms are over, and drops the rest. */
  async close(limit: number): Promise<void> {
    this.#isClosed = true
    this.#stopTimer()
    const late = Promise.withResolvers<'late'>()
    const timer = setTimeout(() => late.resolve('late'), limit)
    // After a failure the rest would only be late.
    while (this.#waiting.length > 0 || this.#sending) {
      if (this.#failures > 0 && !this.#sending) break
      this.#send()
      if ((await Promise.race([this.#sending, late.promise])) === 'late') break
    }
    clearTimeout(timer)
    this.#dropped.closed += this.#waiting.length
    this.#waiting = []
    this.#bytes = 0
  }

  #dropOldest(): void {
    const { waiting, bytes } = this.#options.limits
    let first = 0
    while (this.#waiting.length - first > waiting || this.#bytes > bytes) {
      this.#bytes -= this.#waiting[first]?.size ?? 0
      first++
    }
    this.#waiting.splice(0, first)
    this.#dropped.full += first
  }

  #send(): void {
    this.#stopTimer()
    if (this.#sending || this.#waiting.length === 0) return
    const taken = this.#waiting.splice(0, this.#options.limits.batch)
    for (const { size } of taken) this.#bytes -= size
    this.#sending = this.#options.send(taken.map(({ item }) => item)).then((result) => {
      this.#sending = null
      this.#note(result, taken.length)
      this.#continue()
    })
  }

  #note(result: BatchResult, count: number): void {
    const now = this.#options.date()
    const refused = result.ok ? result.refused : 0
    if (result.why !== null) {
      this.#error = result.why
      this.#errorAt = now
    }
    if (!result.ok) {
      this.#failures++
      this.#dropped[result.reason] += count
      return
    }
    this.#failures = 0
    if (result.why === null) this.#error = null
    this.#dropped.refused += refused
    this.#exported += count - refused
    this.#exportedAt = now
  }

  /** Sends the next batch, now or later. */
  #continue(): void {
    if (this.#isClosed) return
    const { failures, pause, batch, delay } = this.#options.limits
    if (this.#failures >= failures) {
      this.#failures = 0
      this.#isPaused = true
      this.#timer = setTimeout(() => {
        this.#isPaused = false
        this.#send()
      }, pause).unref()
    } else if (this.#waiting.length >= batch) this.#send()
    else if (this.#waiting.length > 0) this.#timer ??= setTimeout(() => this.#send(), delay).unref()
  }

  #stopTimer(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }
}
