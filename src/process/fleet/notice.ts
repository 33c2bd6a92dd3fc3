/** News of one process for all others, of this gateway and of those that share a store. */
import type { HealthHint } from '../../gateway/health/health-hint.ts'
import type { LiveBatch } from '../../observe/live/event-batch.ts'

/** Plain JSON data. */
export type ProcessNotice =
  | { readonly kind: 'hints'; readonly hints: readonly HealthHint[] }
  /** Whether a gateway needs the live events of the others; repeated while it does. */
  | { readonly kind: 'live'; readonly on: boolean }
  | { readonly kind: 'live_events'; readonly batch: LiveBatch }

/** A notice as it arrives. `from`: the name of its gateway; empty: this one. `age`: ms since it was sent. */
export type ReceivedNotice = { readonly notice: ProcessNotice; readonly from: string; readonly age: number }

/** ms in which hints are collected, and how many. */
const BATCH = { ms: 50, hints: 500 }
/** Characters of an ID that is sent: clients choose the names of models. */
const LONGEST_ID = 400

/** Collects hints for the others; of several about one circuit or key the last one is sent. */
export class HintBatch {
  readonly #send: (notice: ProcessNotice) => void
  readonly #hints = new Map<string, HealthHint>()
  #timer: NodeJS.Timeout | undefined

  constructor(send: (notice: ProcessNotice) => void) {
    this.#send = send
  }

  add(hint: HealthHint): void {
    const name = `${hint.kind} ${hint.id}`
    if (hint.id.length > LONGEST_ID || (this.#hints.size >= BATCH.hints && !this.#hints.has(name))) return
    this.#hints.set(name, hint)
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      const hints = [...this.#hints.values()]
      this.#hints.clear()
      this.#send({ kind: 'hints', hints })
    }, BATCH.ms).unref()
  }
}
