/**
 * A background response: receives an answer instead of a client. Clients can read its current state, or its events from
 * any sequence number on, including future ones.
 */

import type { Client } from '../../core/accounts.ts'
import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import { type JsonObject, number, object, parseObject, text } from '../../core/json.ts'
import type { ResponseStatus, ResponseStore } from '../../core/stored-response.ts'
import { partialOutput } from '../../protocols/openai-responses/partial-output.ts'
import type { ChatDeps } from '../chat/plan-call.ts'
import { type BackgroundEvent, BackgroundEvents } from './background-events.ts'
import { eventsIn } from './recording-writer.ts'

/** The dependencies of the responses API. */
export type ResponsesDeps = ChatDeps & {
  /** The durable store of responses. */
  readonly responses: ResponseStore
  /** Background responses in progress, by response id. */
  readonly jobs: Map<string, BackgroundResponse>
  /** The client with this ID and owner, if it may call models now. Absent: no response of another process is run again. */
  readonly clientNow?: (client: Pick<Client, 'id' | 'owner'>) => Client | null
}

export type BackgroundOptions = {
  readonly owner: string
  /** The names that its request gives the end user. */
  readonly users: readonly string[]
  /** The initial response object, with status `queued`. */
  readonly queued: JsonObject
  /** The response that reports a failure. */
  readonly failed: (failure: Failure) => JsonObject
  /** Whether another process may run it again. */
  readonly mayRunAgain: boolean
  /** Whether all background responses together may buffer more events. */
  readonly hasRoom: () => boolean
  /** Stores the response in its new state. Resolves after the first attempt; a failed write of the end is retried later. Never rejects. */
  readonly save: (response: JsonObject, status: ResponseStatus, events: readonly BackgroundEvent[]) => Promise<void>
}

/** A response that is answered in the background. */
export class BackgroundResponse implements ResponseWriter {
  readonly owner: string
  readonly users: readonly string[]
  readonly #options: BackgroundOptions
  readonly #events: BackgroundEvents
  readonly #watchers = new Set<() => void>()
  #response: JsonObject
  #status: ResponseStatus | 'handed_over' = 'queued'
  /** The first write of its end, after which the end is published; null: it has not ended. */
  #finalWrite: Promise<void> | null = null
  #abortUpstream: () => void = () => {}
  /** Number of events that are stored for those who follow it elsewhere; infinite: some are being stored. */
  #stored = 0
  /** Not after clients have seen events of it, which would be others. */
  #mayRunAgain: boolean

  constructor(options: BackgroundOptions) {
    this.#options = options
    this.#events = new BackgroundEvents(options.hasRoom)
    this.owner = options.owner
    this.users = options.users
    this.#mayRunAgain = options.mayRunAgain
    this.#response = options.queued
  }

  get response(): JsonObject {
    return this.#response
  }

  /** Whether its end has been published. */
  get hasEnded(): boolean {
    return this.#status !== 'queued' && this.#status !== 'in_progress'
  }

  /** Characters of its events. */
  get size(): number {
    return this.#events.size
  }

  get events(): readonly BackgroundEvent[] {
    return this.#events.list
  }

  /** Calls `run` after each change, until the returned function is called. */
  watch(run: () => void): () => void {
    this.#mayRunAgain = false
    this.#watchers.add(run)
    return () => this.#watchers.delete(run)
  }

  /** Aborts the upstream call and ends the response as it is, unless it has ended. Resolves when its end is published. */
  async cancel(): Promise<void> {
    if (!this.#finalWrite) {
      const output = partialOutput(this.#events.list.map(({ data }) => parseObject(data) ?? {}))
      const response = { ...this.#response, status: 'cancelled', output }
      // No published event type says `cancelled`; clients wait for one of the three that end a response.
      this.#storeAndPublish(
        response,
        'cancelled',
        this.#events.ending(this.#response, [['response.incomplete', { response }]]),
      )
      this.#abortUpstream()
    }
    await this.#finalWrite
  }

  /** At shutdown: leaves it to another process if that may run it again. What it receives from now on is dropped. */
  handOver(): void {
    if (this.#finalWrite || !this.#mayRunAgain) return
    this.#status = 'handed_over'
    this.#finalWrite = Promise.resolve()
  }

  /**
   * At shutdown: one more attempt to store an end that could not be stored. Resolves as `save` does. `save` removes a job
   * whose end is stored and then ignores it, so no end is stored twice.
   */
  async storeAgain(): Promise<void> {
    if (!this.#finalWrite) return
    await this.#finalWrite
    if (this.#status === 'handed_over') return
    await this.#options.save(this.#response, this.#status, this.#events.list)
  }

  /** Stores the events that are not stored yet. They are stored again with its end. */
  async storeEvents(add: (from: number, lines: string) => Promise<Failure | null>): Promise<void> {
    this.#mayRunAgain = false
    const from = this.#stored
    const added = this.#events.list.slice(from)
    if (this.#finalWrite || added.length === 0) return
    this.#stored = Number.POSITIVE_INFINITY
    const failure = await add(from, added.map(({ data }) => data).join('\n'))
    this.#stored = failure ? from : from + added.length
  }

  // ── The answer, as it is written ───────────────────────────────────────────────────────────────────────────────

  writeHead(): void {}

  write(piece: TextOrBytes): boolean {
    this.#receive(textOf(piece))
    return true
  }

  end(chunk = ''): void {
    this.#receive(chunk)
    if (this.#finalWrite) return
    const error = object(parseObject(chunk)?.error)
    const message = text(error?.message) ?? INTERRUPTED
    this.#fail(fail('truncated', message), error)
  }

  abort(): void {
    if (!this.#finalWrite) this.#fail(fail('truncated', INTERRUPTED))
  }

  /** Never called back: `write` always accepts more. */
  onDrain(): void {}

  onDisconnect(run: () => void): void {
    this.#abortUpstream = run
  }

  // ── The response and its events ────────────────────────────────────────────────────────────────────────────────

  #receive(chunk: string): void {
    if (this.#finalWrite) return
    for (const received of eventsIn(chunk)) {
      const event = asQueued(received, this.#options.queued)
      const type = text(event.type) ?? ''
      const data = JSON.stringify(event)
      const numbered = { number: number(event.sequence_number) ?? this.#events.list.length, type, data }
      this.#events.count(numbered)
      const response = object(event.response)
      const finalStatus = FINAL_STATUS.get(type)
      if (response && finalStatus) return this.#storeAndPublish(response, finalStatus, [numbered])
      this.#events.add(numbered)
      if (!response) continue
      this.#response = response
      if (this.#status !== 'queued') continue
      this.#status = 'in_progress'
      void this.#options.save(response, 'in_progress', this.#events.list)
    }
    const problem = this.#events.problem()
    if (problem) {
      this.#fail(problem)
      this.#abortUpstream()
    }
    notify(this.#watchers)
  }

  /** Ends with an error. `clientError`: the error object that a client would have received. */
  #fail(failure: Failure, clientError?: JsonObject): void {
    const failed = this.#options.failed(failure)
    const error = clientError ? { code: publishedCode(clientError), message: failure.message } : failed.error
    const response = { ...failed, error: error ?? null }
    const last = this.#events.ending(this.#response, [
      ['error', { error: clientError ?? error ?? null }],
      ['response.failed', { response }],
    ])
    this.#storeAndPublish(response, 'failed', last)
  }

  /**
   * Publishes the end after the first attempt to store it. If that succeeded, a response that a client has received as
   * complete survives a crash. If it failed, the end is served from memory until it is stored.
   */
  #storeAndPublish(response: JsonObject, status: ResponseStatus, last: readonly BackgroundEvent[]): void {
    const publish = () => {
      this.#events.add(...last)
      this.#status = status
      this.#response = response
      notify(this.#watchers)
    }
    this.#finalWrite = this.#options.save(response, status, [...this.#events.list, ...last]).finally(publish)
    notify(this.#watchers)
  }
}

const notify = (watchers: ReadonlySet<() => void>): void => {
  for (const run of [...watchers]) run()
}

/** The event with the time and the model that clients have seen in the queued response. */
const asQueued = (event: JsonObject, { created_at = null, model = null }: JsonObject): JsonObject => {
  const response = object(event.response)
  return response ? { ...event, response: { ...response, created_at, model } } : event
}

/** Codes that clients of this format recognise. Others are replaced by the one for the side of the error. */
const PUBLISHED: ReadonlySet<string | undefined> = new Set([
  'server_error',
  'rate_limit_exceeded',
  'invalid_prompt',
  'context_length_exceeded',
  'insufficient_quota',
])
const CLIENT_SIDE: ReadonlySet<string | undefined> = new Set([
  'invalid_request_error',
  'authentication_error',
  'permission_error',
  'not_found_error',
])

const publishedCode = (error: JsonObject): string => {
  const [code, type] = [text(error.code), text(error.type)]
  if (code !== undefined && PUBLISHED.has(code)) return code
  if (type === 'rate_limit_error') return 'rate_limit_exceeded'
  return CLIENT_SIDE.has(type) ? 'invalid_prompt' : 'server_error'
}

const INTERRUPTED = 'The answer was interrupted.'

const FINAL_STATUS: ReadonlyMap<string, ResponseStatus> = new Map([
  ['response.completed', 'completed'],
  ['response.incomplete', 'incomplete'],
  ['response.failed', 'failed'],
])
