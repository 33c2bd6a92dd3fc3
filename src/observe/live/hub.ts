/**
 * The live events of this process for the listeners of `/admin/api/v1/live`. Events are made and kept only while there is a
 * listener, in this or another worker, and for a minute after it, so that a listener can continue after a lost connection.
 */
import type { GatewayEvent } from '../../core/trace.ts'
import { frameOf, type ListenOptions, LiveListener } from './listener.ts'
import { isUsual, type LiveEvent, type LiveView, liveEventOf } from './live-event.ts'

/** Events for the other workers. `lost`: events that are missing in between. */
export type LiveBatch = { readonly events: readonly LiveEvent[]; readonly lost: number }

export type LiveHubOptions = LiveView & {
  /** Differs after a restart of the gateway; the same in all of its workers. */
  readonly instance: string
  /** From 1. */
  readonly worker: number
  /** The connection to the other workers; null: this is the only process. `on`: whether this one needs their events. */
  readonly others: { readonly follow: (on: boolean) => void; readonly send: (batch: LiveBatch) => void } | null
}

/** Listeners of one process. */
const MAX_LISTENERS = 50
/** Of one actor: a program that leaks streams must leave places to others. Ten viewers with four tabs each may share a token. */
const MAX_OF_ACTOR = 40
/** ms and number of events that are kept. */
const KEPT = { ms: 60_000, events: 2_000 }
/** ms between two checks of the listeners, and checks between two heartbeats. */
const TICK = { ms: 1_000, beat: 10 }
/** Events for the other workers are collected for this time in ms, and at most this many. */
const BATCH = { ms: 100, events: 500 }
/** ms between two writes to a listener while there are many events; the first one is written at once. */
const WRITES = 250
/** Usual requests a second, and at once after a pause, that are events for clients that want a sample. */
const SAMPLE = 50
/** ms by which the events of several workers may be out of order. */
const SKEW = 1_000

type Kept = { readonly at: number; readonly event: LiveEvent }

/** Why a listener is not added. `actor_full`: its actor has as many as it may have. */
export type ListenRefusal = 'full' | 'actor_full' | 'closed'

export class LiveHub {
  readonly #options: LiveHubOptions
  readonly #listeners = new Set<LiveListener>()
  #ring: Kept[] = []
  /** The ring has every event since then; null: nothing is kept. */
  #since: number | null = null
  #isFollowed = false
  #isClosed = false
  #count = 0
  #ticks = 0
  #ticker: NodeJS.Timeout | undefined
  /** Ends the ring a minute after the last listener. */
  #ending: NodeJS.Timeout | undefined
  #batch: LiveEvent[] = []
  #lost = 0
  #sending: NodeJS.Timeout | undefined
  #writing: NodeJS.Timeout | undefined
  /** The last write to the listeners. */
  #written = 0
  /** The last state of each budget; null: not read yet. */
  #budgets: Map<string, string> | null = null
  #isReadingBudgets = false
  /** Usual requests that the sample has place for, and since when. */
  #places = SAMPLE
  #sampledAt = 0
  /** The last time at which no event was made of a request. */
  #skippedAt = 0

  constructor(options: LiveHubOptions) {
    this.#options = options
  }

  /** Handles an event of this process. */
  observe(event: GatewayEvent): void {
    if (this.#since === null && !this.#isFollowed) return
    const now = this.#options.date()
    const isExtra = event.event === 'request' && isUsual(event.trace) && !this.#isInSample(now)
    if (isExtra && !this.#isFollowed && this.#listeners.size > 0 && this.#areSampled()) {
      this.#skippedAt = now
      for (const listener of this.#listeners) listener.skip()
      return this.#writeSoon(now)
    }
    const made = { id: this.#nextId(), ...liveEventOf(event, this.#options), ...(isExtra && { isExtra }) }
    this.#add(made)
    if (this.#isFollowed) this.#forward(made)
  }

  /** Adds an event that each worker makes itself: of its configuration, and of the records that it reads. */
  note(event: Omit<LiveEvent, 'id'>): void {
    if (this.#since !== null) this.#add({ id: this.#nextId(), ...event })
  }

  /** Events of the other workers. */
  receive({ events, lost }: LiveBatch): void {
    if (this.#since === null) return
    if (lost > 0) for (const listener of this.#listeners) listener.gap(lost)
    for (const event of events) this.#add(event)
  }

  /** Whether another worker needs the events of this one. */
  follow(on: boolean): void {
    this.#isFollowed = on
    if (on) this.#open()
    else this.#closeIfUnused()
  }

  /** Adds a listener and begins its stream. Returns why it cannot. */
  listen(options: ListenOptions, teams: readonly string[] | null): ListenRefusal | null {
    if (this.#isClosed) return 'closed'
    if (this.#listeners.size >= MAX_LISTENERS) return 'full'
    const own = [...this.#listeners].filter(({ actor }) => actor === options.actor)
    if (own.length >= MAX_OF_ACTOR) return 'actor_full'
    clearTimeout(this.#ending)
    this.#ending = undefined
    if (this.#since === null) this.#open()
    if (this.#listeners.size === 0) this.#options.others?.follow(true)
    const { after, reply } = options
    const listener = new LiveListener(options, teams)
    this.#listeners.add(listener)
    this.#ticker ??= setInterval(() => this.#tick(), TICK.ms).unref()
    reply.onDisconnect(() => this.#remove(listener))
    listener.beat(this.#beatData())
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
    clearTimeout(this.#sending)
    clearTimeout(this.#writing)
    this.#isFollowed = false
    this.#drop()
  }

  #nextId(): string {
    return `${this.#options.date()}-${this.#options.worker}-${++this.#count}`
  }

  /** Whether a usual request is one of the sample. */
  #isInSample(now: number): boolean {
    // The clock may have been set back.
    const passed = Math.max(0, now - this.#sampledAt)
    this.#sampledAt = now
    this.#places = Math.min(SAMPLE, this.#places + (passed * SAMPLE) / 1_000)
    if (this.#places < 1) return false
    this.#places--
    return true
  }

  #areSampled(): boolean {
    for (const listener of this.#listeners) if (!listener.isSampled) return false
    return true
  }

  #open(): void {
    this.#since ??= this.#options.date()
  }

  #remove(listener: LiveListener): void {
    if (!this.#listeners.delete(listener) || this.#listeners.size > 0) return
    clearInterval(this.#ticker)
    this.#ticker = undefined
    this.#budgets = null
    if (this.#isClosed) return
    this.#ending = setTimeout(() => {
      this.#ending = undefined
      this.#options.others?.follow(false)
      this.#closeIfUnused()
    }, KEPT.ms).unref()
  }

  #closeIfUnused(): void {
    if (this.#listeners.size === 0 && this.#ending === undefined && !this.#isFollowed) this.#drop()
  }

  #drop(): void {
    this.#ring = []
    this.#since = null
  }

  #add(event: LiveEvent): void {
    const now = this.#options.date()
    this.#ring.push({ at: now, event })
    let old = 0
    while (old < this.#ring.length && this.#isOld(this.#ring[old], now, this.#ring.length - old)) old++
    if (old > 0) {
      this.#since = (this.#ring[old - 1]?.at ?? now) + 1
      this.#ring.splice(0, old)
    }
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

  #isOld(kept: Kept | undefined, now: number, size: number): boolean {
    return kept !== undefined && (now - kept.at > KEPT.ms || size > KEPT.events)
  }

  /** The events after a cursor. Those of other workers near it are sent again, since workers send theirs a moment later. */
  #replay(listener: LiveListener, after: string): void {
    const last = cursorOf(after)
    const since = Math.max(this.#since ?? Number.POSITIVE_INFINITY, listener.isSampled ? 0 : this.#skippedAt + 1)
    const isComplete = last !== null && last.at >= since
    if (!isComplete) listener.gap(null)
    for (const { event } of this.#ring) {
      const one = cursorOf(event.id)
      if (!one || !last || (one.worker === last.worker ? isAfter(one, last) : one.at >= last.at - SKEW))
        listener.push(event, frameOf(event))
    }
    listener.flush()
  }

  #beatData(): string {
    const { date, instance, node } = this.#options
    return JSON.stringify({ at: new Date(date()).toISOString(), instance, ...(node !== undefined && { node }) })
  }

  #forward(event: LiveEvent): void {
    const { others } = this.#options
    if (!others) return
    if (this.#batch.length < BATCH.events) this.#batch.push(event)
    else this.#lost++
    this.#sending ??= setTimeout(() => {
      this.#sending = undefined
      others.send({ events: this.#batch, lost: this.#lost })
      this.#batch = []
      this.#lost = 0
    }, BATCH.ms).unref()
  }

  #tick(): void {
    const isBeat = ++this.#ticks % TICK.beat === 0
    for (const listener of [...this.#listeners]) {
      if (isBeat) listener.beat(this.#beatData())
      listener.check().then((isOver) => {
        if (!isOver) return
        this.#remove(listener)
        listener.end()
      })
    }
    void this.#sendBudgets()
  }

  /** Sends the budgets whose state has changed. */
  async #sendBudgets(): Promise<void> {
    const wanting = [...this.#listeners].filter(({ topics }) => topics.includes('budgets'))
    const [first] = wanting
    if (!first || this.#isReadingBudgets) return
    this.#isReadingBudgets = true
    try {
      const found = await first.budgets()
      const known = this.#budgets
      this.#budgets = new Map([...(known ?? []), ...found.map(({ id, data }) => [id, data] as const)])
      if (known === null) return
      for (const { id, teams, data } of found) {
        if (known.get(id) === data) continue
        const event = { id: '', topic: 'budgets', name: 'budget', teams, data } as const
        for (const listener of wanting) listener.push(event, frameOf(event))
      }
      for (const listener of wanting) listener.flush()
    } finally {
      this.#isReadingBudgets = false
    }
  }
}

type EventCursor = { readonly at: number; readonly worker: number; readonly number: number }

const cursorOf = (id: string): EventCursor | null => {
  const [, at, worker, number] = /^([0-9]{1,16})-([0-9]{1,6})-([0-9]{1,16})$/.exec(id) ?? []
  return at === undefined ? null : { at: Number(at), worker: Number(worker), number: Number(number) }
}

const isAfter = (one: EventCursor, last: EventCursor): boolean =>
  one.at > last.at || (one.at === last.at && one.number > last.number)
