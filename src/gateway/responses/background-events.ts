/** The events of a background response: numbered, and limited in size. */
import { type Failure, fail } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'

/** One event of the response: its sequence number, its type and its JSON. */
export type BackgroundEvent = { readonly number: number; readonly type: string; readonly data: string }

/** Most characters of events of one response. */
const MAX_CHARACTERS = 128 * 1024 * 1024

/** Characters of events between two checks for room. */
const CHECK_INTERVAL = 64 * 1024

export class BackgroundEvents {
  readonly #hasRoom: () => boolean
  readonly #list: BackgroundEvent[] = []
  #size = 0
  /** Size at which room is checked again. */
  #nextCheck = CHECK_INTERVAL

  /** `hasRoom`: whether all background responses together may buffer more events. */
  constructor(hasRoom: () => boolean) {
    this.#hasRoom = hasRoom
  }

  get list(): readonly BackgroundEvent[] {
    return this.#list
  }

  /** Characters. */
  get size(): number {
    return this.#size
  }

  /** Counts an event that was received. It is added when it may be published. */
  count({ data }: BackgroundEvent): void {
    this.#size += data.length
  }

  add(...events: readonly BackgroundEvent[]): void {
    this.#list.push(...events)
  }

  /** Why no more may be received; null: more may. */
  problem(): Failure | null {
    if (this.#size <= this.#nextCheck) return null
    if (this.#size > MAX_CHARACTERS)
      return fail('too_large', `The answer is too large (limit ${MAX_CHARACTERS} characters of events).`)
    if (!this.#hasRoom()) return fail('busy', 'Background responses in progress use too much memory. Retry later.')
    this.#nextCheck = this.#size + CHECK_INTERVAL
    return null
  }

  /** Events that the gateway adds at the end, after the first event if there is none. `response`: its current state. */
  ending(
    response: JsonObject,
    events: readonly (readonly [type: string, members: JsonObject])[],
  ): readonly BackgroundEvent[] {
    const first = (this.#list.at(-1)?.number ?? -1) + 1
    const created = ['response.created', { response: { ...response, status: 'in_progress' } }] as const
    return [...(this.#list.length === 0 ? [created] : []), ...events].map(([type, members], index) => {
      const sequence = first + index
      return { number: sequence, type, data: JSON.stringify({ type, sequence_number: sequence, ...members }) }
    })
  }
}
