/** Collects events for the other workers, so that a message contains those of a moment. */
import type { LiveEvent } from './live-event.ts'

/** Events for other processes. `lost`: events that are missing in between. `skipped`: requests that are not in the sample. */
export type LiveBatch = { readonly events: readonly LiveEvent[]; readonly lost: number; readonly skipped?: number }

/** Events are collected for this time in ms, and at most this many. */
const BATCH = { ms: 100, events: 500 }

export class EventBatch {
  readonly #send: (batch: LiveBatch) => void
  #events: LiveEvent[] = []
  #lost = 0
  #timer: NodeJS.Timeout | undefined

  constructor(send: (batch: LiveBatch) => void) {
    this.#send = send
  }

  add(event: LiveEvent): void {
    if (this.#events.length < BATCH.events) this.#events.push(event)
    else this.#lost++
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#send({ events: this.#events, lost: this.#lost })
      this.#events = []
      this.#lost = 0
    }, BATCH.ms).unref()
  }

  close(): void {
    clearTimeout(this.#timer)
  }
}
