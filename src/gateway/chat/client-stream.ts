/** Streams an answer to the client: header block, keep-alives, backpressure on the upstream, failures in mid-stream. */

import { type TextOrBytes, textOf } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { ResponseWriter } from '../../core/http-exchange.ts'
import type { BegunAnswer, StreamForm, StreamStep, StreamWriter } from '../../core/protocol.ts'
import type { Settings } from '../../core/settings.ts'
import { NEVER, type TimerClient } from '../../core/shared-timer.ts'
import type { Sink } from '../../core/stage.ts'
import type { World } from '../../core/world.ts'
import type { CallDeps } from '../call/call-lifecycle.ts'
import { type ActiveCalls, Cancellation, DRAIN } from '../call/cancellation.ts'
import { type AnswerGuards, pipeThrough } from '../guards/guarded-answer.ts'
import type { AnswerStream } from '../upstream/attempt.ts'
import { ClientWriter } from './client-writer.ts'

/** ms after which an answer counts as long-lived: thousands of these may be open at once. */
const LONG_LIVED = 5_000

/** Receives the end of a stream. */
export type StreamListener = {
  /** The stream has ended: completely (null) or by this failure. Called once. */
  ended(failure: Failure | null): void
  /** The stream is long-lived: release data that it does not need. */
  longLived(): void
}

/** Where a stream is written. */
export type ClientStreamOptions = {
  readonly responseWriter: ResponseWriter
  readonly form: StreamForm
  readonly settings: Settings
  /** Headers that do not depend on the target, for a header block sent before one has answered. */
  readonly headers: Readonly<Record<string, string>>
  /** Cancelled when the client stops reading, also while no target has answered yet. */
  readonly cancellation: Cancellation
  /** A writer for keep-alives before an answer. */
  readonly opening: () => StreamWriter
}

/** An answer, and how it is written. */
export type StreamedAnswer = {
  readonly writer: StreamWriter
  readonly answerStream: AnswerStream
  /** Null: no guard reads the answer. */
  readonly guards: AnswerGuards | null
  readonly headers: Readonly<Record<string, string>>
  readonly listener: StreamListener
}

/** The client's side of a streaming answer. */
export class ClientStream implements Sink<readonly StreamStep[]>, TimerClient {
  place = -1
  /** When to check for silence, in ms of the monotonic clock. */
  until = NEVER
  readonly #world: World
  readonly #activeCalls: ActiveCalls
  readonly #settings: Settings
  readonly #cancellation: Cancellation
  readonly #client: ClientWriter
  #answer: Pick<StreamedAnswer, 'answerStream' | 'listener'> | null = null
  #writer: StreamWriter | null = null
  #over = false
  /** The client disconnected, and the rest is read without it. */
  #clientDone = false
  /** The client disconnected before the answer was complete; the rest is read for its token count. */
  #draining: { readonly reason: Failure; readonly cancellation: Cancellation } | null = null
  readonly #makeOpening: () => StreamWriter
  /** Writes keep-alives before an answer; null: none was needed. */
  #opening: StreamWriter | null = null

  constructor(
    { world, activeCalls }: Pick<CallDeps, 'world' | 'activeCalls'>,
    { responseWriter, form, settings, headers, cancellation, opening }: ClientStreamOptions,
  ) {
    this.#world = world
    this.#activeCalls = activeCalls
    this.#cancellation = cancellation
    this.#settings = settings
    this.#makeOpening = opening
    const { clientWrite } = settings.timeout
    this.#client = new ClientWriter(world, {
      responseWriter,
      form,
      headers,
      timeout: clientWrite,
      onDrain: () => this.#answer?.answerStream.resume(),
      onTimeout: (failure) => this.abandon(failure),
    })
    const { interval } = settings.keepAlive
    if (interval > 0) this.#schedule(Math.min(interval, LONG_LIVED))
  }

  /** The header block has been sent: a failure is now an event of the stream. */
  get headersSent(): boolean {
    return this.#client.headersSent
  }

  /** The answer as keep-alives have begun it; null: they have not. */
  get begun(): BegunAnswer | null {
    return this.#opening?.begun?.() ?? null
  }

  /** Sends an answer. If a keep-alive has already sent the header block, a comment carries the headers instead. */
  send({ writer, answerStream, guards, headers, listener }: StreamedAnswer): void {
    if (this.#over) return listener.ended(fail('client_gone', 'The client disconnected before the answer began.'))
    this.#answer = { answerStream, listener }
    this.#start(writer, headers)
    // Writing the header block may have revealed that the client disconnected.
    if (!this.#over) pipeThrough(guards, answerStream, this)
  }

  /** Writes a comment between two events. */
  remark(text: string): void {
    if (!this.#over && !this.#clientDone) this.#client.remark(text)
  }

  /** No target answered, and the header block has been sent: sends the failure as an event. */
  refuse(writer: StreamWriter, failure: Failure, headers: Readonly<Record<string, string>>): void {
    this.#start(writer, headers)
    this.end(failure)
  }

  /**
   * The client disconnected. Official SDKs do so at `[DONE]`, before the end of the body. Such an answer is complete, and
   * the upstream may end its body too, so that its connection can be reused.
   */
  clientLeft(reason: Failure): void {
    const isComplete = this.#answer?.answerStream.finished() === true && !this.#client.isFull
    const isDrained = this.#settings.usage.drainOnAbort && this.#answer !== null && !this.#over
    if (!isComplete && !isDrained) return this.abandon(reason)
    this.#clientDone = true
    this.#activeCalls.timers.delete(this)
    if (!isComplete) this.#drain(reason)
  }

  /** Reads the rest of the answer within 30 s, or until the process ends. */
  #drain(reason: Failure): void {
    const cancellation = new Cancellation()
    cancellation.onCancel(() => this.abandon(reason))
    this.#draining = { reason, cancellation }
    this.#activeCalls.delete(this.#cancellation)
    this.#activeCalls.startDeadline(this.#world, cancellation, DRAIN)
    if (!this.#client.isFull) return
    this.#client.stopWaiting()
    this.#answer?.answerStream.resume()
  }

  /** The client disconnected or stopped reading: aborts the upstream call and the connection. */
  abandon(reason: Failure): void {
    if (!this.#over) this.#abort(reason)
  }

  #abort(reason: Failure): void {
    this.#answer?.answerStream.abort()
    this.stop()
    this.#client.abort()
    this.#answer?.listener.ended(reason)
    this.#cancellation.cancel(reason)
  }

  /** Ends all writing and all timers. */
  stop(): void {
    this.#over = true
    this.#activeCalls.timers.delete(this)
    this.#client.stopWaiting()
    if (this.#draining) this.#activeCalls.delete(this.#draining.cancellation)
  }

  push(steps: readonly StreamStep[]): boolean {
    if (this.#over || this.#clientDone || !this.#writer) return true
    let ready = true
    for (const piece of wireOf(this.#writer, steps)) ready = this.#client.write(piece) && ready
    return ready
  }

  end(failure?: Failure): void {
    if (this.#over || !this.#writer) return
    try {
      const failed = failure ? this.#writer.push({ events: [{ type: 'failure', failure }] }) : []
      const last = joined([...failed, ...this.#writer.end()])
      const apart = this.#writer.apart?.()
      this.stop()
      if (!this.#clientDone) this.#client.end(last, apart)
    } catch (error) {
      this.#abort(fail('internal', 'Internal gateway error: the end of this answer could not be encoded.'))
      throw error
    }
    this.#answer?.listener.ended(this.#draining?.reason ?? failure ?? null)
  }

  #start(writer: StreamWriter, headers: Readonly<Record<string, string>>): void {
    this.#writer = writer
    this.#opening = null
    if (this.#client.headersSent) this.#client.remark(comment(headers))
    else this.#client.sendHeaders(headers)
  }

  /** Checks for silence once an interval: resetting a timer at every write would cost more. */
  onDeadline(): void {
    const { interval } = this.#settings.keepAlive
    this.#answer?.listener.longLived()
    const left = this.#client.lastWrite + interval - this.#world.now()
    // A finished answer has written its terminator, after which nothing may be sent.
    if (left <= 0 && !this.#client.isFull && !this.#answer?.answerStream.finished()) {
      if (!this.#client.headersSent) this.#client.sendHeaders()
      this.#opening ??= this.#writer ? null : this.#makeOpening()
      this.#client.write((this.#writer ?? this.#opening)?.keepAlive() ?? '')
    }
    if (!this.#over) this.#schedule(left > 0 ? left : interval)
  }

  #schedule(ms: number): void {
    this.#activeCalls.timers.set(this.#world, this, this.#world.now() + ms)
  }
}

/** Bytes from which a piece is written separately; shorter ones are joined with the text around them. */
const SEPARATE_WRITE = 4 * 1024

/** Output for the steps of one upstream read: usually a single piece. */
export const wireOf = (writer: StreamWriter, steps: readonly StreamStep[]): readonly TextOrBytes[] => {
  // Read by its index: an iterator would be allocated for each read.
  const only = steps.length === 1 ? steps[0] : undefined
  const pieces = only ? writer.push(only) : steps.flatMap((step) => writer.push(step))
  if (pieces.length === 1) return pieces
  const wire: TextOrBytes[] = []
  let text = ''
  for (const piece of pieces)
    if (typeof piece === 'string' || piece.length < SEPARATE_WRITE) text += textOf(piece)
    else {
      if (text !== '') wire.push(text)
      text = ''
      wire.push(piece)
    }
  if (text !== '') wire.push(text)
  return wire
}

const joined = (pieces: readonly TextOrBytes[]): string => pieces.map(textOf).join('')

/** The headers that were not known when the header block was sent. */
const comment = (headers: Readonly<Record<string, string>>): string =>
  ['provider', 'model', 'trail', 'dropped']
    .map((name) => [name, headers[`x-headgate-${name}`]])
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
