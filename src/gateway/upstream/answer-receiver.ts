/**
 * Receives the answer of an attempt: reads it, notes its facts, and pushes its steps into the sink, or holds them until there
 * is one. What follows from it for the attempt is decided by its listener.
 */
import { type ChatRequest, isContent, type ReasoningSignature } from '../../core/chat.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Quirks } from '../../core/provider.ts'
import type { Sink } from '../../core/stage.ts'
import type { UpstreamListener, World } from '../../core/world.ts'
import { truncated } from '../../protocols/errors/answer-failures.ts'
import type { MultipleChoices } from '../../protocols/shared/choices.ts'
import { AnswerFacts, type FinishEvent } from './answer-facts.ts'
import type { AttemptClock } from './attempt-clock.ts'
import { type AnswerBodyReader, type AnswerFormat, readerFor, SWITCHED } from './body-reader.ts'

/** How to read an answer. */
export type AnswerInput = {
  readonly protocol: AnswerFormat
  readonly quirks: Quirks | undefined
  readonly translated: ChatRequest | null
  /** The request asks for several choices. */
  readonly choices?: MultipleChoices | undefined
  /** The request asks for a stream. */
  readonly stream: boolean
  /** A malformed event within plain text is dropped. Otherwise it is a failure. */
  readonly skipMalformedEvents: boolean
  /** Called when the upstream's header block arrives. */
  readonly onHeaders: (headers: HeaderLookup) => void
  /** Called with each signature of the answer's reasoning. */
  readonly onSignature?: ((signature: ReasoningSignature) => void) | undefined
}

/** The attempt of a receiver. */
export type ReceiverListener = {
  /** A step with or after the first content was held. `size`: characters of such steps. */
  onContentHeld(size: number): void
  /** The end of a read, if the finish reason has been read. */
  onFinishRead(): void
  /** The answer ends. Undefined: it is complete. */
  onAnswerEnd(failure: Failure | undefined): void
}

/** Maximum characters of lifecycle events held before the first content. Some of them repeat the whole request. */
const MAX_HELD = 8 * 1024 * 1024

const NO_BYTES = new Uint8Array(0)

/** An internal error after content has been sent. */
export const internalError = fail(
  'internal',
  'Internal gateway error within this answer. Repeat the request; the log of the gateway has the reason under its request ID.',
)
const internalReadError = fail('malformed', 'Internal gateway error while reading the upstream answer.')

export class AnswerReceiver implements UpstreamListener {
  readonly facts: AnswerFacts
  /** Null: steps are held. */
  sink: Sink<readonly StreamStep[]> | null = null
  readonly #world: World
  readonly #clock: AttemptClock
  readonly #listener: ReceiverListener
  readonly #isStream: boolean
  readonly #skipsMalformed: boolean
  readonly #onSignature: AnswerInput['onSignature']
  /** Null after the header block, which selects the reader. */
  #input: AnswerInput | null
  #reader: AnswerBodyReader | null = null
  /**
   * Steps not yet pushed: of the current read, or all until there is a sink. Null between reads: V8 promotes a long-lived
   * empty list to the old generation, where it keeps its later items alive.
   */
  #held: StreamStep[] | null = null
  #heldSize = 0

  constructor(world: World, clock: AttemptClock, input: AnswerInput, listener: ReceiverListener) {
    this.facts = new AnswerFacts(input.protocol.name ?? null)
    this.#world = world
    this.#clock = clock
    this.#listener = listener
    this.#isStream = input.stream
    this.#skipsMalformed = input.skipMalformedEvents
    this.#onSignature = input.onSignature
    this.#input = input
  }

  /** The first step that is held. */
  get firstHeld(): StreamStep | undefined {
    return this.#held?.[0]
  }

  /** The terminal event has been read. The end of the response body may still be missing. */
  get isComplete(): boolean {
    return this.facts.finish !== null && this.#reader?.over === true
  }

  /** Pushes the held steps. Returns whether the sink has room. */
  pushHeld(sink: Sink<readonly StreamStep[]>): boolean {
    const hasRoom = sink.push(this.#held ?? [])
    this.#held = null
    return hasRoom
  }

  /** Pushes the steps of the last read, then ends the sink. */
  endSink(sink: Sink<readonly StreamStep[]>, failure: Failure | undefined): void {
    try {
      this.#flush()
    } catch (error) {
      sink.end(internalError)
      throw error
    }
    // The flush may have made the client leave, which removes the sink.
    this.sink?.end(failure)
  }

  /** Receives nothing more. */
  stop(): void {
    this.#input = null
    this.sink = null
  }

  // ── The upstream listener ──────────────────────────────────────────────────────────────────────────────────────

  onHeaders(status: number, headers: HeaderLookup): void {
    if (this.#clock.isOver || !this.#input) return
    const { protocol, quirks, translated, choices, stream, onHeaders } = this.#input
    this.#input = null
    this.facts.status = status
    onHeaders(headers)
    const context = { protocol, quirks, translated, choices, stream, date: this.#world.date() }
    this.#reader = readerFor({ status, headers }, context)
    const now = this.#world.now()
    this.#clock.hasHeaders = true
    this.#clock.lastByteAt = now
    // Many servers send the headers of a stream before the model starts, so a stream responds with its first byte.
    this.#clock.hasResponded = !stream
    this.#clock.schedule(now)
    // The upstream may wait for the first message of the client.
    if (status === SWITCHED) this.onBody(NO_BYTES)
  }

  onBody(chunk: Uint8Array): boolean {
    const clock = this.#clock
    if (clock.isOver || !this.#reader) return true
    // All events of one read get the same time, because reading the clock is not free.
    clock.lastByteAt = this.#world.now()
    clock.hasResponded = true
    try {
      for (const step of this.#reader.push(chunk)) this.#onStep(step)
      this.#flush()
    } catch (error) {
      this.#failInternally(error)
    }
    if (this.facts.finish) this.#listener.onFinishRead()
    return !clock.isPaused
  }

  onPaused(stopped: boolean): void {
    this.#clock.isReadingStopped = stopped
    if (!stopped) this.#clock.restartIdle(this.#world.now())
  }

  onEnd(): void {
    if (this.#clock.isOver) return this.#clock.release()
    this.#clock.isBodyEnded = true
    try {
      for (const step of this.#reader?.end() ?? []) this.#onStep(step)
    } catch (error) {
      this.#failInternally(error)
    }
    this.#listener.onAnswerEnd(this.facts.finish ? undefined : truncated())
  }

  onFailure(failure: Failure): void {
    if (this.#clock.isOver) return this.#clock.release()
    // A connection error or a timeout after a complete answer does not matter.
    if (this.facts.finish) return this.#listener.onAnswerEnd(undefined)
    if (this.#reader?.mayBeOver) return this.onEnd()
    if (this.facts.status === 0) return this.#listener.onAnswerEnd(failure)
    // The endpoint has responded, so this is a truncated answer rather than a connection failure.
    this.#listener.onAnswerEnd({
      ...failure,
      kind: failure.kind === 'reset' ? 'truncated' : failure.kind,
      status: this.facts.status,
    })
  }

  // ── Events ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #onStep(step: StreamStep): void {
    if (this.#clock.isOver) return
    for (const event of step.events) {
      if (event.type === 'failure') return this.#onFailure(event.failure, step)
      if (event.type === 'delta') this.facts.add(event.text)
      if (isContent(event)) this.#onContent()
      else if (event.type === 'usage') this.facts.usage = event.usage
      else if (event.type === 'start') this.facts.start(event)
      else if (event.type === 'finish') this.#onFinish(event)
      else if (event.type === 'signature') this.#onSignature?.(event.signature)
    }
    if (this.#clock.isOver) return
    if (!this.sink) this.#hold(step)
    else if (this.#held) this.#held.push(step)
    else this.#held = [step]
  }

  #onFailure(failure: Failure, { frame }: StreamStep): void {
    // A failure after the finish reason does not matter: the answer is complete.
    if (this.facts.finish) return this.#listener.onAnswerEnd(undefined)
    const isWithinText = this.#clock.firstContentAt !== null && frame !== undefined
    if (failure.kind !== 'malformed' || !this.#skipsMalformed || !isWithinText)
      return this.#listener.onAnswerEnd(failure)
    this.facts.dropped++
  }

  #onContent(): void {
    const clock = this.#clock
    clock.lastContentAt = clock.lastByteAt
    if (clock.firstContentAt !== null) return
    const now = this.#world.now()
    clock.firstContentAt = now
    this.#heldSize = 0
    this.#clock.schedule(now)
  }

  #onFinish(event: FinishEvent): void {
    if (this.facts.finish) return
    if (this.facts.dropped > 0 && event.finish.raw === null)
      return this.#listener.onAnswerEnd(
        fail('truncated', 'an event of the answer is malformed, and its finish reason is missing'),
      )
    const now = this.#world.now()
    this.facts.finish = event
    this.#clock.finishedAt = now
    this.#clock.schedule(now)
  }

  /** Keeps a step until there is a sink, with a copy of its bytes: those of a frame are valid only during the read. */
  #hold(step: StreamStep): void {
    const { frame } = step
    this.#held ??= []
    const bytes = frame?.raw instanceof Uint8Array ? new Uint8Array(frame.raw) : undefined
    this.#held.push(frame && bytes ? { ...step, frame: { ...frame, raw: bytes } } : step)
    this.#heldSize += bytes?.length ?? frame?.data.length ?? 0
    if (this.#clock.firstContentAt !== null) this.#listener.onContentHeld(this.#heldSize)
    else if (this.#isStream && this.#heldSize > MAX_HELD)
      this.#listener.onAnswerEnd(fail('too_large', `no content within ${MAX_HELD} characters of stream`))
  }

  /** Ends the answer because of an internal error, since the next events would follow a gap. Rethrows for the log. */
  #failInternally(error: unknown): never {
    this.#held = null
    this.#listener.onAnswerEnd(this.sink ? internalError : internalReadError)
    throw error
  }

  /** Pushes the steps of one read together, because a write for each event is slow in a burst. */
  #flush(): void {
    const steps = this.#held
    if (!this.sink || !steps) return
    this.#held = null
    if (!this.sink.push(steps)) this.#clock.isPaused = true
  }
}
