/** The events of a response that another process runs, read from the store while that process adds them. */
import type { Outcome } from '../../core/failure.ts'
import { object, parseJson, text } from '../../core/json.ts'
import type { ResponseName, ResponseStore, StoredResponse } from '../../core/stored-response.ts'
import type { Cancel, World } from '../../core/world.ts'
import type { BackgroundEvent } from './background-events.ts'

/** ms between two reads, and how many may fail in a row until the stream ends. */
const POLL = { interval: 500, failures: 120 }

export type FollowedOptions = ResponseName & {
  readonly world: Pick<World, 'later'>
  readonly responses: Pick<ResponseStore, 'ask' | 'events' | 'get'>
  /** All events of a response that has ended. */
  readonly eventsOf: (stored: StoredResponse) => readonly BackgroundEvent[]
}

export class FollowedResponse {
  readonly #options: FollowedOptions
  readonly #events: BackgroundEvent[] = []
  #hasEnded = false
  #isStopped = false
  #failures = 0
  #cancelTimer: Cancel = () => {}

  constructor(options: FollowedOptions) {
    this.#options = options
  }

  get events(): readonly BackgroundEvent[] {
    return this.#events
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Reads the events, and calls `run` after each change, until the returned function is called. For one watcher. */
  watch(run: () => void): () => void {
    void this.#follow(run)
    return () => {
      this.#isStopped = true
      this.#cancelTimer()
    }
  }

  async #follow(run: () => void): Promise<void> {
    const { id, owner, responses } = this.#options
    // If this fails, the events come at the end.
    await responses.ask(id, owner, 'follow')
    await this.#read(run)
  }

  async #read(run: () => void): Promise<void> {
    if (this.#isStopped) return
    const { id, owner, responses, world } = this.#options
    const found = await responses.events(id, owner, this.#events.length)
    if (this.#isStopped) return
    if (found.ok) for (const line of found.value.lines) this.#add(line)
    const isRunning = !found.ok || found.value.isRunning
    const ended = isRunning ? null : await responses.get(id, owner)
    if (this.#isStopped) return
    if (ended?.ok) this.#end(ended)
    this.#failures = found.ok ? 0 : this.#failures + 1
    if (this.#failures > POLL.failures) this.#hasEnded = true
    run()
    if (this.#hasEnded || this.#isStopped) return
    this.#cancelTimer = world.later(POLL.interval, () => void this.#read(run))
  }

  #add(line: string): void {
    const event = object(parseJson(line))
    if (!event) return
    const number = typeof event.sequence_number === 'number' ? event.sequence_number : this.#events.length
    this.#events.push({ number, type: text(event.type) ?? '', data: line })
  }

  /** Adds what is missing. A response that was deleted has nothing more. */
  #end({ value: stored }: Outcome<StoredResponse | undefined> & { readonly ok: true }): void {
    this.#hasEnded = true
    if (!stored) return
    const all = this.#options.eventsOf(stored)
    if (stored.events !== null || this.#events.length === 0) {
      this.#events.push(...all.slice(this.#events.length))
      return
    }
    // Its process is gone with its events: the last one states how it has ended.
    const last = all.at(-1)
    const number = (this.#events.at(-1)?.number ?? -1) + 1
    if (last) this.#add(JSON.stringify({ ...object(parseJson(last.data)), sequence_number: number }))
  }
}
