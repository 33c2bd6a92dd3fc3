/**
 * One attempt at one target, from the upstream request to the end of the answer. It enforces the attempt's timeouts and is
 * the only way to abort it. Chunks are pushed through callbacks: there is one promise for the attempt and none for a chunk.
 */
import type { Usage } from '../../core/chat.ts'
import type { Egress } from '../../core/egress.ts'
import type { OutgoingBody } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { Json } from '../../core/json.ts'
import type { CallBodies, KeptAttempt } from '../../core/kept-bodies.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Identity, ProviderKey } from '../../core/provider.ts'
import type { Secret } from '../../core/secret.ts'
import type { Settings } from '../../core/settings.ts'
import type { SharedTimer, TimerClient } from '../../core/shared-timer.ts'
import type { Sink } from '../../core/stage.ts'
import type { TargetOverride } from '../../core/target-override.ts'
import type { OngoingCall, World } from '../../core/world.ts'
import { overriddenTimeouts } from '../../policy/routing/override.ts'
import type { OutputSample } from '../accounts/token-usage.ts'
import type { AnswerFacts } from './answer-facts.ts'
import { type AnswerInput, AnswerReceiver, type ReceiverListener } from './answer-receiver.ts'
import { AttemptClock, type ClockListener } from './attempt-clock.ts'
import { type AttemptTimeout, type TimeoutRules, timeoutFailure } from './attempt-timeouts.ts'
import { redactKey, redactSecrets } from './redact.ts'

/** The request of an attempt, and how to read its answer. */
export type AttemptInput = AnswerInput & {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** Further headers: the trace context. */
  readonly traced?: Readonly<Record<string, string>> | undefined
  readonly identity: Identity | undefined
  /** How the provider is reached; undefined: like all others. */
  readonly egress: Egress | undefined
  /** Absent: the request has none, and uses GET. */
  readonly body?: OutgoingBody
  /** The connection becomes a WebSocket. */
  readonly upgrade?: 'websocket'
  /** Receives the call, to write to it. */
  readonly onCall?: (call: OngoingCall) => void
  /** The key used for authentication. It is removed from the upstream's error messages. */
  readonly key: ProviderKey
  /** Values of headers that the operator has set, which are removed too. */
  readonly secrets?: readonly Secret[] | undefined
  /** The request has side effects, so the connection must not resend it. */
  readonly once?: true | undefined
  /**
   * ms for which the answer is held back after its first content. Until then a broken answer can be retried elsewhere.
   * `Infinity`: until it is complete.
   */
  readonly holdbackMs: number
  /** The answer has no text, so an answer without text is not a failure. */
  readonly allowEmptyText?: true | undefined
  readonly settings: Settings
  /** What the operator changes for this target: timeouts and headers. */
  readonly override?: TargetOverride | undefined
  /** The client whose share of memory the answer counts against. */
  readonly client?: string | undefined
  /** Records the bodies. */
  readonly bodies?: CallBodies | undefined
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
  /** What the answer has stated so far. */
  readonly facts: AnswerFacts
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

/** Maximum characters (of frames) of content held back, because the client waits for them. */
const MAX_HELD_BACK = 64 * 1024

/** Replaces an attempt's promise after `pipeTo`, so that a long stream does not keep it in memory. */
const PIPED = Promise.resolve<AttemptOutcome>({ ok: false, failure: fail('internal', 'already piped') })

/** The dependencies of attempts. */
type AttemptDeps = {
  readonly world: World
  readonly activeCalls: { readonly timers: SharedTimer<TimerClient> }
}

/** The parts of the input that are needed after the call has begun. */
type AttemptTerms = Pick<AttemptInput, 'holdbackMs' | 'key' | 'secrets' | 'settings' | 'stream' | 'allowEmptyText'> &
  Pick<TimeoutRules, 'attemptMs'>

/** Implements its own answer stream: an open stream consists of few objects and does not hold the request. */
export class Attempt implements AnswerStream, ClockListener, ReceiverListener {
  /** Settles when the target is final or the attempt has failed. */
  opened: Promise<AttemptOutcome>
  whole: string | null = null
  body: Json | undefined
  readonly #world: World
  readonly #clock: AttemptClock
  readonly #receiver: AnswerReceiver
  readonly #call: OngoingCall
  #terms: AttemptTerms
  #settle: ((outcome: AttemptOutcome) => void) | null = null
  #failure: Failure | undefined

  constructor({ world, activeCalls }: AttemptDeps, input: AttemptInput) {
    this.#world = world
    this.#terms = termsOf(input)
    this.#clock = new AttemptClock(world, activeCalls.timers, this.#terms, this)
    this.#receiver = new AnswerReceiver(world, this.#clock, input, this)
    this.opened = new Promise((resolve) => {
      this.#settle = resolve
    })
    this.#call = world.dial(callOf(input), input.bodies?.attempt(keptOf(input), this.#receiver) ?? this.#receiver)
    input.onCall?.(this.#call)
    this.#clock.schedule(this.#clock.startedAt)
  }

  /** ms from the start to the first content, or to now if there is none. */
  get age(): number {
    return this.#clock.age
  }

  /** Opens at the first content, whatever was to be held back: only whether the target answers still matters. */
  openAtFirstContent(): void {
    this.#terms = { ...this.#terms, holdbackMs: 0 }
    this.#clock.rules = this.#terms
    if (this.#clock.firstContentAt !== null) this.#open({ ok: true, answerStream: this })
  }

  // ── The answer stream ──────────────────────────────────────────────────────────────────────────────────────────

  /** 0 until the header block has arrived. */
  get status(): number {
    return this.#receiver.facts.status
  }

  finished(): boolean {
    return this.#receiver.facts.finish !== null
  }

  usage(): Usage | null {
    return this.#receiver.facts.usage
  }

  output(): OutputSample {
    return this.#receiver.facts.sample
  }

  get facts(): AnswerFacts {
    return this.#receiver.facts
  }

  model(): string | null {
    return this.#receiver.facts.model
  }

  droppedEvents(): number {
    return this.#receiver.facts.dropped
  }

  pipeTo(sink: Sink<readonly StreamStep[]>): void {
    this.opened = PIPED
    const hasRoom = this.#receiver.pushHeld(sink)
    if (this.#clock.isOver) return sink.end(this.#failure)
    this.#receiver.sink = sink
    if (!hasRoom) this.#clock.isPaused = true
  }

  resume(): void {
    const clock = this.#clock
    if (!clock.isPaused) return
    const now = this.#world.now()
    clock.isPaused = false
    if (clock.finishedAt !== null) clock.finishedAt = now
    clock.restartIdle(now)
    this.#call.resume()
    this.onFinishRead()
  }

  abort(): void {
    this.#clock.isOver = true
    this.#receiver.stop()
    // A lingering call delays no client, and its connection may still be reused.
    if (!this.#clock.isLingering) this.#closeCall()
  }

  failWith(failure: Failure): void {
    if (!this.#clock.isOver) this.#receiver.onFailure(failure)
  }

  // ── The answer that is received, and its timeouts ──────────────────────────────────────────────────────────────

  onContentHeld(size: number): void {
    const { holdbackMs } = this.#terms
    if (holdbackMs === Number.POSITIVE_INFINITY) return
    if (holdbackMs === 0 || this.finished() || size > MAX_HELD_BACK) this.#open({ ok: true, answerStream: this })
  }

  /** Ends the answer at the terminal event, before the body ends. Not while paused: the client must catch up first. */
  onFinishRead(): void {
    const clock = this.#clock
    if (clock.isOver || clock.isPaused || !this.#receiver.isComplete) return
    clock.isLingering = !clock.isBodyEnded
    this.onAnswerEnd(undefined)
  }

  onAnswerEnd(cause: Failure | undefined): void {
    const clock = this.#clock
    if (clock.isOver) return
    const { key, secrets = [] } = this.#terms
    const failure =
      cause && redactSecrets(redactKey(this.status === 0 ? cause : { status: this.status, ...cause }, key), secrets)
    clock.isOver = true
    this.#failure = failure
    if (clock.isLingering) this.#clock.schedule(this.#world.now())
    else this.#closeCall()
    const { sink, facts } = this.#receiver
    if (sink) return this.#receiver.endSink(sink, failure)
    if (failure) return this.#open({ ok: false, failure })
    const hasContent = clock.firstContentAt !== null || this.#terms.allowEmptyText === true
    if (hasContent || !facts.isEmpty) return this.#open({ ok: true, answerStream: this })
    const empty = fail('empty', 'the model returned an empty answer', { status: this.status })
    this.#open({ ok: false, failure: empty, answerStream: this })
  }

  onTimeout(timeout: AttemptTimeout): void {
    const failure = timeoutFailure(timeout, this.#terms)
    if (failure) this.failWith(failure)
    else if (timeout === 'holdback') this.#open({ ok: true, answerStream: this })
    else if (this.#clock.isLingering) this.#closeCall()
    else this.#receiver.onEnd()
  }

  // ── Opening and ending ─────────────────────────────────────────────────────────────────────────────────────────

  /** Settles the attempt: the target is final, or the attempt has failed while another could still be tried. */
  #open(outcome: AttemptOutcome): void {
    if (!this.#settle) return
    // A JSON answer is always a single step.
    const first = this.#receiver.firstHeld
    this.whole = first?.whole ?? null
    this.body = first?.body
    this.#settle(outcome)
    this.#settle = null
    this.#clock.isSettled = true
  }

  #closeCall(): void {
    this.#clock.release()
    // Undefined while `dial` runs: it may report a failure before it returns.
    this.#call?.abort()
  }
}

const termsOf = (input: AttemptInput): AttemptTerms => {
  const { holdbackMs, key, secrets, settings: all, stream, allowEmptyText, override } = input
  const settings = overriddenTimeouts(all, override)
  return { holdbackMs, key, secrets, settings, stream, allowEmptyText, attemptMs: override?.timeout?.request }
}

const keptOf = ({ url, headers, body = '', key }: AttemptInput): KeptAttempt => ({
  url,
  headers,
  body,
  secret: key.secret,
})

const callOf = (input: AttemptInput): Parameters<World['dial']>[0] => {
  const { url, traced, body, identity, egress, once, client, settings, holdbackMs, upgrade } = input
  const own = input.override?.headers
  const headers = own ? { ...input.headers, ...own } : input.headers
  return {
    method: body === undefined ? 'GET' : 'POST',
    url,
    headers: traced ? { ...headers, ...traced } : headers,
    ...(body !== undefined && { body }),
    ...(upgrade && { upgrade }),
    connectTimeout: settings.timeout.connect,
    identity,
    egress,
    once,
    buffered: holdbackMs === Number.POSITIVE_INFINITY || undefined,
    client,
  }
}
