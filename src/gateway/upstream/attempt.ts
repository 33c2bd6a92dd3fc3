/**
 * One attempt at one target, from the upstream request to the end of the answer. It enforces the attempt's timeouts and is
 * the only way to abort it. Chunks are pushed through callbacks: there is one promise for the attempt and none for a chunk.
 */

import { type ChatEvent, type ChatRequest, isContent, type ReasoningSignature, type Usage } from '../../core/chat.ts'
import type { OutgoingBody } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Json } from '../../core/json.ts'
import type { CallBodies, KeptAttempt } from '../../core/kept-bodies.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Identity, ProviderKey, Quirks } from '../../core/provider.ts'
import type { Secret } from '../../core/secret.ts'
import type { Settings } from '../../core/settings.ts'
import type { SharedTimer, TimerClient } from '../../core/shared-timer.ts'
import type { Sink } from '../../core/stage.ts'
import type { OngoingCall, UpstreamListener, World } from '../../core/world.ts'
import { truncated } from '../../protocols/errors/answer-failures.ts'
import type { MultipleChoices } from '../../protocols/shared/choices.ts'
import { type OutputSample, OutputSampler } from '../accounts/token-usage.ts'
import { AttemptClock, type ClockListener } from './attempt-clock.ts'
import { type AttemptTimeout, timeoutFailure } from './attempt-timeouts.ts'
import { type AnswerBodyReader, type AnswerFormat, readerFor } from './body-reader.ts'
import { redactKey, redactSecrets } from './redact.ts'

/** The request of an attempt, and how to read its answer. */
export type AttemptInput = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly identity: Identity | undefined
  readonly body: OutgoingBody
  readonly protocol: AnswerFormat
  readonly quirks: Quirks | undefined
  readonly translated: ChatRequest | null
  /** The request asks for several choices. */
  readonly choices?: MultipleChoices | undefined
  /** The key used for authentication. It is removed from the upstream's error messages. */
  readonly key: ProviderKey
  /** Values of headers that the operator has set, which are removed too. */
  readonly secrets?: readonly Secret[] | undefined
  /** The request asks for a stream. */
  readonly stream: boolean
  /** The request has side effects, so the connection must not resend it. */
  readonly once?: true | undefined
  /**
   * ms for which the answer is held back after its first content. Until then a broken answer can be retried elsewhere.
   * `Infinity`: until it is complete.
   */
  readonly holdbackMs: number
  /** The answer has no text, so an answer without text is not a failure. */
  readonly allowEmptyText?: true | undefined
  /** A malformed event within plain text is dropped. Otherwise it is a failure. */
  readonly skipMalformedEvents: boolean
  readonly settings: Settings
  /** The client whose share of memory the answer counts against. */
  readonly client?: string | undefined
  /** Records the bodies. */
  readonly bodies?: CallBodies | undefined
  /** Called when the upstream's header block arrives. */
  readonly onHeaders: (headers: HeaderLookup) => void
  /** Called with each signature of the answer's reasoning. */
  readonly onSignature?: ((signature: ReasoningSignature) => void) | undefined
}

/** An answer whose first content has arrived. */
export type AnswerStream = {
  readonly status: number
  /** The answer's text, if it is one JSON body. */
  readonly whole: string | null
  /** The parsed JSON body. */
  readonly body: Json | undefined
  /** Whether the answer is complete. The end of the response body may still be missing. */
  finished(): boolean
  /** The upstream's last token count. */
  usage(): Usage | null
  /** A sample of the output so far, including reasoning and tool arguments. */
  output(): OutputSample
  /** Number of malformed events dropped from plain text. */
  droppedEvents(): number
  /** The upstream's ID of the answer, if it has sent one. */
  id(): string | null
  /** The model that answers, as the upstream names it; null: it has not. */
  model(): string | null
  /** Pushes the held steps and then all others into the sink, in one batch for each read. Call once. */
  pipeTo(sink: Sink<readonly StreamStep[]>): void
  /** Resumes reading after the sink's `push` returned false. */
  resume(): void
  /** Ends the attempt without a verdict, because the client left. The sink receives no further calls. */
  abort(): void
  /** Ends the attempt with a failure for the client, such as an exceeded deadline. Ignored if the answer is complete. */
  failWith(failure: Failure): void
}

/** The outcome of opening an attempt. */
export type AttemptOutcome =
  | { readonly ok: true; readonly answerStream: AnswerStream }
  /** `answerStream`: an empty answer. It is delivered if every target returns an empty answer. */
  | { readonly ok: false; readonly failure: Failure; readonly answerStream?: AnswerStream }

/** Maximum characters of lifecycle events held before the first content. Some of them repeat the whole request. */
const MAX_HELD = 8 * 1024 * 1024

/** Maximum characters (of frames) of content held back, because the client waits for them. */
const MAX_HELD_BACK = 64 * 1024

/** Finish reasons, in lower case, of models that have said all. Formats count every reason that they do not know as one. */
const NORMAL_ENDS: ReadonlySet<string> = new Set(['stop', 'stop_sequence', 'end_turn', 'eos', 'complete', 'completed'])

/** Replaces an attempt's promise after `pipeTo`, so that a long stream does not keep it in memory. */
const PIPED = Promise.resolve<AttemptOutcome>({ ok: false, failure: fail('internal', 'already piped') })

/** An internal error after content has been sent. */
export const internalError = fail(
  'internal',
  'Internal gateway error within this answer. Repeat the request; the log of the gateway has the reason under its request ID.',
)
const internalReadError = fail('malformed', 'Internal gateway error while reading the upstream answer.')

type Finished = ChatEvent & { readonly type: 'finish' }

/** The dependencies of attempts. */
type AttemptDeps = {
  readonly world: World
  readonly activeCalls: { readonly timers: SharedTimer<TimerClient> }
}

/** The parts of the input that are needed after the header block. */
type AttemptTerms = Pick<
  AttemptInput,
  'skipMalformedEvents' | 'holdbackMs' | 'key' | 'secrets' | 'settings' | 'stream' | 'allowEmptyText' | 'onSignature'
>

/** Implements its own answer stream: an open stream consists of few objects and does not hold the request. */
export class Attempt implements UpstreamListener, AnswerStream, ClockListener {
  /** Settles when the target is final or the attempt has failed. */
  opened: Promise<AttemptOutcome>
  /** 0 until the header block has arrived. */
  status = 0
  whole: string | null = null
  body: Json | undefined
  readonly #world: World
  readonly #clock: AttemptClock
  #terms: AttemptTerms
  readonly #call: OngoingCall
  /** Null after the header block, which selects the reader. */
  #input: AttemptInput | null
  #settle: ((outcome: AttemptOutcome) => void) | null = null
  #reader: AnswerBodyReader | null = null
  /**
   * Steps not yet pushed: of the current read, or all until there is a sink. Null between reads: V8 promotes a long-lived
   * empty list to the old generation, where it keeps its later items alive.
   */
  #held: StreamStep[] | null = null
  #heldSize = 0
  #sink: Sink<readonly StreamStep[]> | null = null
  #failure: Failure | undefined
  #finish: Finished | null = null
  /** If events were dropped, only a finish reason makes the answer complete, not the terminal event alone. */
  #dropped = 0
  #usage: Usage | null = null
  readonly #output = new OutputSampler()
  #id: string | null = null
  #model: string | null = null

  constructor({ world, activeCalls }: AttemptDeps, input: AttemptInput) {
    this.#world = world
    this.#input = input
    this.#terms = termsOf(input)
    this.#clock = new AttemptClock(world, activeCalls.timers, this.#terms, this)
    this.opened = new Promise((resolve) => {
      this.#settle = resolve
    })
    this.#call = world.dial(callOf(input), input.bodies?.attempt(keptOf(input), this) ?? this)
    this.#clock.schedule(this.#clock.startedAt)
  }

  /** ms from the start to the first content, or to now if there is none. */
  get age(): number {
    return this.#clock.age
  }

  abort(): void {
    this.#clock.isOver = true
    this.#input = null
    this.#sink = null
    // A lingering call delays no client, and its connection may still be reused.
    if (!this.#clock.isLingering) this.#closeCall()
  }

  failWith(failure: Failure): void {
    this.#end(this.#finish ? undefined : failure)
  }

  /** Opens at the first content, whatever was to be held back: only whether the target answers still matters. */
  openAtFirstContent(): void {
    this.#terms = { ...this.#terms, holdbackMs: 0 }
    this.#clock.rules = this.#terms
    if (this.#clock.firstContentAt !== null) this.#open({ ok: true, answerStream: this })
  }

  // ── The answer stream ──────────────────────────────────────────────────────────────────────────────────────────

  finished(): boolean {
    return this.#finish !== null
  }

  usage(): Usage | null {
    return this.#usage
  }

  output(): OutputSample {
    return this.#output.sample
  }

  id(): string | null {
    return this.#id
  }

  model(): string | null {
    return this.#model
  }

  droppedEvents(): number {
    return this.#dropped
  }

  pipeTo(sink: Sink<readonly StreamStep[]>): void {
    this.opened = PIPED
    const hasRoom = sink.push(this.#held ?? [])
    this.#held = null
    if (this.#clock.isOver) return sink.end(this.#failure)
    this.#sink = sink
    if (!hasRoom) this.#clock.isPaused = true
  }

  resume(): void {
    const clock = this.#clock
    if (!clock.isPaused) return
    const now = this.#world.now()
    clock.isPaused = false
    if (clock.finishedAt !== null) clock.finishedAt = now
    this.#clock.restartIdle(now)
    this.#call.resume()
    this.#completeEarly()
  }

  // ── The upstream listener ──────────────────────────────────────────────────────────────────────────────────────

  onHeaders(status: number, headers: HeaderLookup): void {
    if (this.#clock.isOver || !this.#input) return
    const { protocol, quirks, translated, choices, stream, onHeaders } = this.#input
    this.#input = null
    this.status = status
    onHeaders(headers)
    const context = { protocol, quirks, translated, choices, stream, date: this.#world.date() }
    this.#reader = readerFor({ status, headers }, context)
    const now = this.#world.now()
    this.#clock.hasHeaders = true
    this.#clock.lastByteAt = now
    // Many servers send the headers of a stream before the model starts, so a stream responds with its first byte.
    this.#clock.hasResponded = !stream
    this.#clock.schedule(now)
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
    if (this.#finish) this.#completeEarly()
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
    this.#end(this.#finish ? undefined : truncated())
  }

  onFailure(failure: Failure): void {
    if (this.#clock.isOver) return this.#clock.release()
    // A connection error after a complete answer does not matter.
    if (this.#finish) return this.#end(undefined)
    if (this.status === 0) return this.#end(failure)
    // The endpoint has responded, so this is a truncated answer rather than a connection failure.
    this.#end({ ...failure, kind: failure.kind === 'reset' ? 'truncated' : failure.kind, status: this.status })
  }

  // ── Events ─────────────────────────────────────────────────────────────────────────────────────────────────────

  #onStep(step: StreamStep): void {
    if (this.#clock.isOver) return
    for (const event of step.events) {
      if (event.type === 'failure') return this.#onFailure(event.failure, step)
      if (event.type === 'delta') this.#output.add(event.text)
      if (isContent(event)) this.#onContent()
      else if (event.type === 'usage') this.#usage = event.usage
      else if (event.type === 'start') this.#onStart(event)
      else if (event.type === 'finish') this.#onFinish(event)
      else if (event.type === 'signature') this.#terms.onSignature?.(event.signature)
    }
    if (this.#clock.isOver) return
    if (!this.#sink) this.#hold(step)
    else if (this.#held) this.#held.push(step)
    else this.#held = [step]
  }

  #onStart({ id, model }: ChatEvent & { type: 'start' }): void {
    this.#id = id ?? this.#id
    this.#model = model ?? this.#model
  }

  #onFailure(failure: Failure, { frame }: StreamStep): void {
    // A failure after the finish reason does not matter: the answer is complete.
    if (this.#finish) return this.#end(undefined)
    const isWithinText = this.#clock.firstContentAt !== null && frame !== undefined
    if (failure.kind !== 'malformed' || !this.#terms.skipMalformedEvents || !isWithinText) return this.#end(failure)
    this.#dropped++
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

  #onFinish(event: Finished): void {
    if (this.#finish) return
    if (this.#dropped > 0 && event.finish.raw === null)
      return this.#end(fail('truncated', 'an event of the answer is malformed, and its finish reason is missing'))
    const now = this.#world.now()
    this.#finish = event
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
    if (this.#clock.firstContentAt !== null) this.#openUnlessHeldBack()
    else if (this.#terms.stream && this.#heldSize > MAX_HELD)
      this.#end(fail('too_large', `no content within ${MAX_HELD} characters of stream`))
  }

  #openUnlessHeldBack(): void {
    const { holdbackMs } = this.#terms
    if (holdbackMs === Number.POSITIVE_INFINITY) return
    if (holdbackMs === 0 || this.#finish || this.#heldSize > MAX_HELD_BACK) this.#open({ ok: true, answerStream: this })
  }

  onTimeout(timeout: AttemptTimeout): void {
    const failure = timeoutFailure(timeout, this.#terms.settings)
    if (failure) this.#end(failure)
    else if (timeout === 'holdback') this.#open({ ok: true, answerStream: this })
    else if (this.#clock.isLingering) this.#closeCall()
    else this.onEnd()
  }

  // ── Opening and ending ─────────────────────────────────────────────────────────────────────────────────────────

  /** Settles the attempt: the target is final, or the attempt has failed while another could still be tried. */
  #open(outcome: AttemptOutcome): void {
    if (!this.#settle) return
    // A JSON answer is always a single step.
    const first = this.#held?.[0]
    this.whole = first?.whole ?? null
    this.body = first?.body
    this.#settle(outcome)
    this.#settle = null
    this.#clock.isSettled = true
  }

  #end(cause: Failure | undefined): void {
    const clock = this.#clock
    if (clock.isOver) return
    const { key, secrets = [] } = this.#terms
    const failure =
      cause && redactSecrets(redactKey(this.status === 0 ? cause : { status: this.status, ...cause }, key), secrets)
    clock.isOver = true
    this.#failure = failure
    if (clock.isLingering) this.#clock.schedule(this.#world.now())
    else this.#closeCall()
    if (this.#sink) return this.#endSink(this.#sink, failure)
    if (failure) return this.#open({ ok: false, failure })
    const hasContent = clock.firstContentAt !== null || this.#terms.allowEmptyText === true
    if (!isEmpty(this.#finish, this.#usage, hasContent)) return this.#open({ ok: true, answerStream: this })
    const empty = fail('empty', 'the model returned an empty answer', { status: this.status })
    this.#open({ ok: false, failure: empty, answerStream: this })
  }

  #endSink(sink: Sink<readonly StreamStep[]>, failure: Failure | undefined): void {
    try {
      this.#flush()
    } catch (error) {
      sink.end(internalError)
      throw error
    }
    // The flush may have made the client leave, which removes the sink.
    this.#sink?.end(failure)
  }

  /** Ends the answer at the terminal event, before the body ends. Not while paused: the client must catch up first. */
  #completeEarly(): void {
    const clock = this.#clock
    if (clock.isOver || clock.isPaused || !this.#finish || this.#reader?.over !== true) return
    clock.isLingering = !clock.isBodyEnded
    this.#end(undefined)
  }

  #closeCall(): void {
    this.#clock.release()
    // Undefined while `dial` runs: it may report a failure before it returns.
    this.#call?.abort()
  }

  /** Ends the answer because of an internal error, since the next events would follow a gap. Rethrows for the log. */
  #failInternally(error: unknown): never {
    this.#held = null
    this.#end(this.#sink ? internalError : internalReadError)
    throw error
  }

  /** Pushes the steps of one read together, because a write for each event is slow in a burst. */
  #flush(): void {
    const steps = this.#held
    if (!this.#sink || !steps) return
    this.#held = null
    if (!this.#sink.push(steps)) this.#clock.isPaused = true
  }
}

const termsOf = (input: AttemptInput): AttemptTerms => {
  const { skipMalformedEvents, holdbackMs, key, secrets, settings, stream, allowEmptyText, onSignature } = input
  return {
    skipMalformedEvents,
    holdbackMs,
    key,
    secrets,
    settings,
    stream,
    allowEmptyText,
    onSignature,
  }
}

const keptOf = ({ url, headers, body, key }: AttemptInput): KeptAttempt => ({ url, headers, body, secret: key.secret })

const callOf = (input: AttemptInput): Parameters<World['dial']>[0] => {
  const { url, headers, body, identity, once, client, settings, holdbackMs } = input
  return {
    method: 'POST',
    url,
    headers,
    body,
    connectTimeout: settings.timeout.connect,
    identity,
    once,
    buffered: holdbackMs === Number.POSITIVE_INFINITY || undefined,
    client,
  }
}

/** An answer without content that ended normally without output, or for a reason that is not known. */
const isEmpty = (ended: Finished | null, usage: Usage | null, hasContent: boolean): boolean => {
  const finish = ended?.finish
  if (hasContent || finish?.kind !== 'stop') return false
  // Anthropic's streams count one token before the first.
  return (usage?.output ?? 0) <= 1 || !NORMAL_ENDS.has(finish.raw?.toLowerCase() ?? 'stop')
}
