/**
 * A response that is answered in the background: the road's reply goes into it instead of to a client. Whoever asks is
 * shown the response as it stands, or its events from any number on, those to come too.
 */

import { type Failure, fail } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, number, object, parseObject, text } from '../../core/json.ts'
import type { ResponseStatus } from '../../core/stored-response.ts'
import { eventsIn } from './recording-writer.ts'

/** What a job has said, as one event: its number, its name, and its JSON. */
export type BackgroundEvent = { readonly number: number; readonly type: string; readonly data: string }

export type BackgroundOptions = {
  readonly owner: string
  /** The response before anything has been answered, queued. */
  readonly queued: JsonObject
  /** The response that says it failed so. */
  readonly failed: (failure: Failure) => JsonObject
  /** Whether it may say more, by what all of them have said. */
  readonly room: () => boolean
  /**
   * Stores the response in its new state, unless its end is stored. Resolves when it is stored, or could not be in the time
   * allowed.
   */
  readonly keep: (response: JsonObject, status: ResponseStatus, events: readonly BackgroundEvent[]) => Promise<void>
}

/** Characters of events it may say; more is no answer of a model. */
const MOST = 128 * 1024 * 1024

/** Characters after which it is asked anew whether there is room for more. */
const STEP = 64 * 1024

export class BackgroundResponse implements ResponseWriter {
  readonly owner: string
  readonly #options: BackgroundOptions
  readonly #events: BackgroundEvent[] = []
  readonly #watchers = new Set<() => void>()
  #response: JsonObject
  #size = 0
  /** So many characters it may say before it asks. */
  #granted = STEP
  #status: ResponseStatus = 'queued'
  /** Its end is being stored, or has been; it is published after that. */
  #ending: Promise<void> | null = null
  #gone: () => void = () => {}

  constructor(options: BackgroundOptions) {
    this.#options = options
    this.owner = options.owner
    this.#response = options.queued
  }

  get response(): JsonObject {
    return this.#response
  }

  get over(): boolean {
    return this.#status !== 'queued' && this.#status !== 'in_progress'
  }

  /** Characters of its events. */
  get size(): number {
    return this.#size
  }

  get events(): readonly BackgroundEvent[] {
    return this.#events
  }

  /** Runs whenever there is more to tell, until the function it gives is called. */
  watch(run: () => void): () => void {
    this.#watchers.add(run)
    return () => this.#watchers.delete(run)
  }

  /** Aborts the upstream call and ends the response as it stands, unless it has ended. Resolves when that is stored. */
  async cancel(): Promise<void> {
    if (!this.#ending) {
      this.#finish({ ...this.#response, status: 'cancelled' }, 'cancelled', [])
      this.#gone()
    }
    await this.#ending
  }

  /** At shutdown: one more attempt to store an end that could not be stored. Resolves as `keep` does. */
  async storeAgain(): Promise<void> {
    if (!this.#ending) return
    await this.#ending
    await this.#options.keep(this.#response, this.#status, this.#events)
  }

  // ── What the road tells ────────────────────────────────────────────────────────────────────────────────────────

  head(): void {}

  write(chunk: string): boolean {
    this.#hear(chunk)
    return true
  }

  end(chunk = ''): void {
    this.#hear(chunk)
    if (this.#ending) return
    const error = object(parseObject(chunk)?.error)
    const message = text(error?.message) ?? 'The answer broke off.'
    this.#fail(fail('truncated', message), error)
  }

  cut(): void {
    if (!this.#ending) this.#fail(fail('truncated', 'The answer broke off.'))
  }

  /** It is never full. */
  onDrain(): void {}

  onGone(run: () => void): void {
    this.#gone = run
  }

  // ── What becomes of it ─────────────────────────────────────────────────────────────────────────────────────────

  #hear(chunk: string): void {
    if (this.#ending) return
    for (const event of eventsIn(chunk)) {
      const type = text(event.type) ?? ''
      const data = JSON.stringify(event)
      const made = { number: number(event.sequence_number) ?? this.#events.length, type, data }
      this.#size += data.length
      const response = object(event.response)
      const last = LAST.get(type)
      if (response && last) return this.#finish(response, last, [made])
      this.#events.push(made)
      if (!response) continue
      this.#response = response
      if (this.#status !== 'queued') continue
      this.#status = 'in_progress'
      void this.#options.keep(response, 'in_progress', this.#events)
    }
    const problem = this.#size > this.#granted ? this.#noRoom() : null
    if (problem) {
      this.#fail(problem)
      this.#gone()
    }
    this.#tell()
  }

  #noRoom(): Failure | null {
    if (this.#size > MOST) return fail('too_large', `The answer is longer than ${MOST} characters of events.`)
    if (!this.#options.room())
      return fail('busy', 'The responses being answered in the background take more memory than they may.')
    this.#granted = this.#size + STEP
    return null
  }

  /** An error in place of an answer; `said`: as the client would have been told. */
  #fail(failure: Failure, said?: JsonObject): void {
    const made = this.#options.failed(failure)
    const error = said ? { code: text(said.code) ?? 'server_error', message: failure.message } : made.error
    const response = { ...made, error: error ?? null }
    let next = (this.#events.at(-1)?.number ?? -1) + 1
    const last: BackgroundEvent[] = []
    const add = (type: string, more: JsonObject) => {
      last.push({ number: next, type, data: JSON.stringify({ type, sequence_number: next, ...more }) })
      next++
    }
    if (this.#events.length === 0) add('response.created', { response: { ...this.#response, status: 'in_progress' } })
    add('error', { error: said ?? error ?? null })
    add('response.failed', { response })
    this.#finish(response, 'failed', last)
  }

  /** Stores the end, then publishes it: what a client has seen to be complete survives a crash of the process. */
  #finish(response: JsonObject, status: ResponseStatus, last: readonly BackgroundEvent[]): void {
    const publish = () => {
      this.#events.push(...last)
      this.#status = status
      this.#response = response
      this.#tell()
    }
    this.#ending = this.#options.keep(response, status, [...this.#events, ...last]).finally(publish)
    this.#tell()
  }

  #tell(): void {
    for (const run of [...this.#watchers]) run()
  }
}

const LAST: ReadonlyMap<string, ResponseStatus> = new Map([
  ['response.completed', 'completed'],
  ['response.incomplete', 'incomplete'],
  ['response.failed', 'failed'],
])
