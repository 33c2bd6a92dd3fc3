/**
 * The live events of this process for the listeners of `/admin/api/v1/live`. Events are made and kept only while there is a
 * listener, in this or another worker, and for a minute after it, so that a listener can continue after a lost connection.
 */
import type { GatewayEvent } from '../../core/trace.ts'
import { BudgetEvents } from './budget-events.ts'
import { EventBatch, type LiveBatch } from './event-batch.ts'
import { EventHistory, KEPT } from './event-history.ts'
import { frameOf, type ListenOptions, LiveListener } from './listener.ts'
import { isUsual, type LiveEvent, type LiveView, liveEventOf } from './live-event.ts'
import { RequestSample } from './request-sample.ts'

export type LiveHubOptions = LiveView & {
  /** Differs after a restart of the gateway; the same in all of its workers. */
  readonly instance: string
  /** From 1; differs in all processes of all gateways that share a store. */
  readonly worker: number
  /** The connection to the other workers and gateways; null: this is the only process. `on`: whether this one needs their events. */
  readonly others: { readonly follow: (on: boolean) => void; readonly send: (batch: LiveBatch) => void } | null
}

/** Listeners of one process. */
const MAX_LISTENERS = 50
/** Of one actor: a program that leaks streams must leave places to others. Ten viewers with four tabs each may share a token. */
const MAX_OF_ACTOR = 40
/** ms between two checks of the listeners, and checks between two heartbeats. */
const TICK = { ms: 1_000, beat: 10 }
/** ms between two writes to a listener while there are many events; the first one is written at once. */
const WRITES = 250
/** Why a listener is not added. `actor_full`: its actor has as many as it may have. */
export type LiveHubRefusal = 'full' | 'actor_full' | 'closed'

export class LiveHub {
  readonly #options: LiveHubOptions
  readonly #listeners = new Set<LiveListener>()
  readonly #history = new EventHistory()
  readonly #sample = new RequestSample()
  readonly #budgets = new BudgetEvents()
  /** For the other workers; null: there are none. */
  readonly #batch: EventBatch | null
  #isFollowed = false
  #isClosed = false
  #count = 0
  #ticks = 0
  #ticker: NodeJS.Timeout | undefined
  /** Ends the ring a minute after the last listener. */
  #ending: NodeJS.Timeout | undefined
  #writing: NodeJS.Timeout | undefined
  /** The last write to the listeners. */
  #written = 0
  /** The last time at which no event was made of a request. */
  #skippedAt = 0

  constructor(options: LiveHubOptions) {
    this.#options = options
    const { others } = options
    this.#batch = others && new EventBatch((batch) => others.send(batch))
  }

  /** Handles an event of this process. */
  observe(event: GatewayEvent): void {
    if ((!this.#history.areKept && !this.#isFollowed) || event.event === 'shadow') return
    const now = this.#options.date()
    const isExtra = event.event === 'request' && isUsual(event.trace) && !this.#sample.take(now)
    if (isExtra && !this.#isFollowed && this.#listeners.size > 0 && this.#areSampled()) {
      this.#skippedAt = now
      for (const listener of this.#listeners) listener.skip()
      return this.#writeSoon(now)
    }
    const made = { id: this.#nextId(), ...liveEventOf(event, this.#options), ...(isExtra && { isExtra }) }
    this.#add(made)
    if (this.#isFollowed) this.#batch?.add(made)
  }

  /** Adds an event that each worker makes itself: of its configuration, and of the records that it reads. */
  note(event: Omit<LiveEvent, 'id'>): void {
    if (this.#history.areKept) this.#add({ id: this.#nextId(), ...event })
  }

  /** Events of other processes. */
  receive({ events, lost, skipped = 0 }: LiveBatch): void {
    if (!this.#history.areKept) return
    for (const listener of this.#listeners) listener.skip(skipped)
    if (skipped > 0) this.#writeSoon(this.#options.date())
    if (lost > 0) for (const listener of this.#listeners) listener.gap(lost)
    for (const event of events) this.#add(event)
  }

  /** Whether another worker needs the events of this one. */
  follow(on: boolean): void {
    this.#isFollowed = on
    if (on) this.#history.open(this.#options.date())
    else this.#closeIfUnused()
  }

  /** Adds a listener and begins its stream. Returns why it cannot. */
  listen(options: ListenOptions, teams: readonly string[] | null): LiveHubRefusal | null {
    if (this.#isClosed) return 'closed'
    if (this.#listeners.size >= MAX_LISTENERS) return 'full'
    const own = [...this.#listeners].filter(({ actor }) => actor === options.actor)
    if (own.length >= MAX_OF_ACTOR) return 'actor_full'
    clearTimeout(this.#ending)
    this.#ending = undefined
    this.#history.open(this.#options.date())
    if (this.#listeners.size === 0) this.#options.others?.follow(true)
    const { after, reply } = options
    const listener = new LiveListener(options, teams)
    this.#listeners.add(listener)
    this.#ticker ??= setInterval(() => this.#tick(), TICK.ms).unref()
    reply.onDisconnect(() => this.#remove(listener))
    listener.beat(beatOf(this.#options))
    if (after !== null) this.#replay(listener, after)
    return null
  }

  /** Ends all streams; others are refused. */
  close(): void {
    this.#isClosed = true
    for (const listener of [...this.#listeners]) {
      this.#remove(listener)
      listener.end()
    }
    clearTimeout(this.#ending)
    this.#batch?.close()
    clearTimeout(this.#writing)
    this.#isFollowed = false
    this.#history.drop()
  }

  #nextId(): string {
    return `${this.#options.date()}-${this.#options.worker}-${++this.#count}`
  }

  #areSampled(): boolean {
    for (const listener of this.#listeners) if (!listener.isSampled) return false
    return true
  }

  #remove(listener: LiveListener): void {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
    clearInterval(this.#ticker)
    this.#ticker = undefined
    this.#budgets.forget()
    if (this.#isClosed) return
    this.#ending = setTimeout(() => {
      this.#ending = undefined
      this.#options.others?.follow(false)
      this.#closeIfUnused()
    }, KEPT.ms).unref()
  }

  #closeIfUnused(): void {
    if (this.#listeners.size === 0 && this.#ending === undefined && !this.#isFollowed) this.#history.drop()
  }

  #add(event: LiveEvent): void {
    const now = this.#options.date()
    this.#history.add(event, now)
    const text = frameOf(event)
    for (const listener of this.#listeners) listener.push(event, text)
    this.#writeSoon(now)
  }

  /** Writes at once, or together with other events if the last write was a moment ago. */
  #writeSoon(now: number): void {
    if (this.#writing !== undefined) return
    const write = () => {
      this.#writing = undefined
      this.#written = this.#options.date()
      for (const listener of this.#listeners) listener.flush()
    }
    // The clock may have been set back.
    const wait = Math.min(WRITES, this.#written + WRITES - now)
    if (wait > 0) this.#writing = setTimeout(write, wait).unref()
    else write()
  }

  /** Sends the events after a cursor. A listener that wants all requests misses those that were skipped. */
  #replay(listener: LiveListener, after: string): void {
    const { events, isComplete } = this.#history.after(after, listener.isSampled ? 0 : this.#skippedAt + 1)
    if (!isComplete) listener.gap(null)
    for (const event of events) listener.push(event, frameOf(event))
    listener.flush()
  }

  #tick(): void {
    const isBeat = ++this.#ticks % TICK.beat === 0
    for (const listener of [...this.#listeners]) {
      if (isBeat) listener.beat(beatOf(this.#options))
      listener.check().then((isOver) => {
        if (!isOver) return
        this.#remove(listener)
        listener.end()
      })
    }
    void this.#budgets.send(this.#listeners)
  }
}

const beatOf = ({ date, instance, process }: LiveHubOptions): string =>
  JSON.stringify({ at: new Date(date()).toISOString(), instance, ...(process !== undefined && { node: process }) })
