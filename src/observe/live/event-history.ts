/** The events of the last minute, so that a listener can continue after a lost connection. */
import type { LiveEvent } from './live-event.ts'

/** ms and number of events that are kept. */
export const KEPT = { ms: 60_000, events: 2_000 }
/** ms by which the events of several workers may be out of order. */
const SKEW = 1_000

type KeptEvent = { readonly at: number; readonly event: LiveEvent }

export class EventHistory {
  #ring: KeptEvent[] = []
  /** The ring has every event since then; null: nothing is kept. */
  #since: number | null = null

  get areKept(): boolean {
    return this.#since !== null
  }

  open(now: number): void {
    this.#since ??= now
  }

  drop(): void {
    this.#ring = []
    this.#since = null
  }

  add(event: LiveEvent, now: number): void {
    this.#ring.push({ at: now, event })
    let old = 0
    while (old < this.#ring.length && isOld(this.#ring[old], now, this.#ring.length - old)) old++
    if (old === 0) return
    this.#since = (this.#ring[old - 1]?.at ?? now) + 1
    this.#ring.splice(0, old)
  }

  /**
   * The events after a cursor. Those of other workers near it are among them again, since workers send theirs a moment later.
   * `isComplete`: none is missing, if all events since `from` were kept.
   */
  after(cursor: string, from: number): { readonly events: readonly LiveEvent[]; readonly isComplete: boolean } {
    const last = cursorOf(cursor)
    const since = Math.max(this.#since ?? Number.POSITIVE_INFINITY, from)
    const isAfterLast = ({ event }: KeptEvent) => {
      const one = cursorOf(event.id)
      return !one || !last || (one.worker === last.worker ? isAfter(one, last) : one.at >= last.at - SKEW)
    }
    return {
      events: this.#ring.filter(isAfterLast).map(({ event }) => event),
      isComplete: last !== null && last.at >= since,
    }
  }
}

const isOld = (kept: KeptEvent | undefined, now: number, size: number): boolean =>
  kept !== undefined && (now - kept.at > KEPT.ms || size > KEPT.events)

type EventCursor = { readonly at: number; readonly worker: number; readonly number: number }

const cursorOf = (id: string): EventCursor | null => {
  const [, at, worker, number] = /^([0-9]{1,16})-([0-9]{1,6})-([0-9]{1,16})$/.exec(id) ?? []
  return at === undefined ? null : { at: Number(at), worker: Number(worker), number: Number(number) }
}

const isAfter = (one: EventCursor, last: EventCursor): boolean =>
  one.at > last.at || (one.at === last.at && one.number > last.number)
