/**
 * Live events between gateways, while one of them has a listener: it says so every few seconds, and the others send it a sample of
 * their events. Of the requests that are not in the sample only the number is sent.
 */
import type { LiveBatch } from '../../observe/live/event-batch.ts'
import type { LiveEvent } from '../../observe/live/live-event.ts'
import type { ProcessNotice, ReceivedNotice } from './notice.ts'

export type FleetLiveOptions = {
  /** `to`: the name of a gateway; null: all. */
  readonly tell: (notice: ProcessNotice, to: string | null) => void
  /** Whether another gateway needs the events of this one. */
  readonly onNeeded: (on: boolean) => void
  /** Events of other gateways. */
  readonly onEvents: (batch: LiveBatch) => void
}

/** ms. `renew`: between two messages of one that listens. `gone`: without one. `batch`: in which events are collected. */
const TIMES = { renew: 4_000, gone: 12_500, batch: 300, late: 5_000 }
/** Events of a batch. */
const MOST = 200

export class FleetLive {
  readonly #options: FleetLiveOptions
  /** The gateways that need the events of this one, by the time of their last message. */
  readonly #listening = new Map<string, number>()
  #renewing: NodeJS.Timeout | undefined
  #watching: NodeJS.Timeout | undefined
  #sending: NodeJS.Timeout | undefined
  #events: LiveEvent[] = []
  #lost = 0
  #skipped = 0

  constructor(options: FleetLiveOptions) {
    this.#options = options
  }

  /** Whether a process of this gateway needs the events of others. */
  follow(on: boolean): void {
    clearInterval(this.#renewing)
    const tell = () => this.#options.tell({ kind: 'live', on }, null)
    tell()
    if (on) this.#renewing = setInterval(tell, TIMES.renew).unref()
  }

  /** Events of a process of this gateway. */
  send({ events, lost, skipped = 0 }: LiveBatch): void {
    if (this.#listening.size === 0) return
    this.#lost += lost
    this.#skipped += skipped
    for (const event of events) {
      if (event.isExtra) this.#skipped++
      else if (this.#events.length < MOST) this.#events.push(event)
      else this.#lost++
    }
    this.#sending ??= setTimeout(() => this.#flush(), TIMES.batch).unref()
  }

  receive({ notice, from, age }: ReceivedNotice): void {
    if (age > TIMES.late) return
    if (notice.kind === 'live_events') this.#options.onEvents(notice.batch)
    if (notice.kind === 'live') this.#setListening(from, notice.on)
  }

  close(): void {
    for (const timer of [this.#renewing, this.#watching, this.#sending]) clearTimeout(timer)
  }

  #flush(): void {
    this.#sending = undefined
    const batch = { events: this.#events, lost: this.#lost, skipped: this.#skipped }
    this.#events = []
    this.#lost = 0
    this.#skipped = 0
    for (const to of this.#listening.keys()) this.#options.tell({ kind: 'live_events', batch }, to)
  }

  #setListening(from: string, on: boolean): void {
    const before = this.#listening.size > 0
    if (on) this.#listening.set(from, performance.now())
    else this.#listening.delete(from)
    this.#onListening(before)
  }

  /** Tells the processes here when the first gateway begins to listen, and when the last one has ended. */
  #onListening(before: boolean): void {
    const isNeeded = this.#listening.size > 0
    if (isNeeded === before) return
    this.#options.onNeeded(isNeeded)
    clearInterval(this.#watching)
    if (isNeeded) this.#watching = setInterval(() => this.#forgetGone(), TIMES.renew).unref()
  }

  #forgetGone(): void {
    const now = performance.now()
    for (const [node, at] of this.#listening) if (now - at > TIMES.gone) this.#listening.delete(node)
    this.#onListening(true)
  }
}
