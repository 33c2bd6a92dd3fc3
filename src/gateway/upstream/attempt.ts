/**
 * One attempt at one target: from the call upstream to the first content, and on to the end. It owns the clocks of its
 * phases and the one way to abort it. Callbacks push; there is one promise for the attempt and none for a chunk.
 */

import { type ChatEvent, type ChatRequest, isContent, type Usage } from '../../core/chat.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { type Failure, fail } from '../../core/failure.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import type { Json } from '../../core/json.ts'
import type { StreamStep } from '../../core/protocol.ts'
import type { Identity, ProviderKey, Quirks } from '../../core/provider.ts'
import type { Settings } from '../../core/settings.ts'
import type { Sink } from '../../core/stage.ts'
import type { Ongoing, UpstreamListener, World } from '../../core/world.ts'
import type { MultipleChoices } from '../../protocols/shared/choices.ts'
import { NEVER, type SharedTimer, type TimerClient } from '../call/shared-timer.ts'
import type { OutputSample } from '../call/usage.ts'
import type { RouterDeps } from '../gateway.ts'
import { type AnswerFormat, type AnswerReader, readerFor } from './answer-reader.ts'
import { redactKey } from './redact.ts'

export type AttemptInput = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly identity: Identity | undefined
  readonly body: string
  /** The same, where its bytes are at hand. */
  readonly source?: EncodedText
  readonly protocol: AnswerFormat
  readonly quirks: Quirks | undefined
  readonly translated: ChatRequest | null
  /** The request asks for several choices. */
  readonly choices?: MultipleChoices | undefined
  /** Signed in with; taken out of whatever the upstream says. */
  readonly key: ProviderKey
  /** The upstream is asked for a stream. */
  readonly stream: boolean
  /** It has effects: nothing sends it twice unseen. */
  readonly once?: true
  /**
   * ms for which an answer is held back once its first content has come, before the choice is final: what breaks off
   * meanwhile can still be tried elsewhere. `Infinity`: until it is whole.
   */
  readonly holdbackMs: number
  /** The answer is no text, so one without any is not empty. */
  readonly allowEmptyText?: true
  /** A malformed event in the middle of plain text is left out; where every byte has a meaning it is a failure. */
  readonly skipMalformedEvents: boolean
  readonly settings: Settings
  /** Whose share of memory the answer takes. */
  readonly client?: string | undefined
  /** The upstream's head has come. */
  readonly onHeaders: (headers: HeaderLookup) => void
}

/** An answer whose first content has come. */
export type AnswerStream = {
  readonly status: number
  /** The answer's text, if it came as one JSON body. */
  readonly whole: string | null
  /** The same, parsed. */
  readonly body: Json | undefined
  /** The same, where its bytes are at hand. */
  readonly source: EncodedText | null
  /** The answer has been read to its end; only the body's own end may still be missing. */
  finished(): boolean
  /** The last record of tokens so far. */
  usage(): Usage | null
  /** What it has said so far, thoughts and arguments included. */
  output(): OutputSample
  /** Events that could not be read and were left out of plain text. */
  droppedEvents(): number
  /** The upstream's own id for the answer, if it has said one. */
  id(): string | null
  /** Gives out what was held and then everything that comes, the steps of one read at once, until the sink's `end`. Once. */
  pipeTo(sink: Sink<readonly StreamStep[]>): void
  /** The far side has room again. */
  resume(): void
  abort(): void
  failWith(failure: Failure): void
}

export type AttemptOutcome =
  | { readonly ok: true; readonly flow: AnswerStream }
  /** `flow`: of an empty answer, the answer itself; if every target answers so, it is given honestly. */
  | { readonly ok: false; readonly failure: Failure; readonly flow?: AnswerStream }

/** Lifecycle events are held back until content comes, up to this many characters: some repeat the whole question. */
const MOST_HELD = 8 * 1024 * 1024

/** Of content so many characters (of frames) at most are held back: whoever waits for the choice waits for them. */
const MOST_HELD_BACK = 64 * 1024

/** So much of what is said is kept (characters), to estimate its tokens by where nobody counts them. */
const SAMPLE = 2_048

/**
 * How long (ms) an upstream call stays open after its answer has finished. A body that ends in time leaves a connection
 * that can be reused. Formats without a terminal event hold the client's body open for as long.
 */
const GRACE = 2_000

/** In place of an attempt's own promise once it has been poured: nobody waits for that any more, and it would be kept. */
const POURED = Promise.resolve<AttemptOutcome>({ ok: false, failure: fail('internal', 'it has been poured') })

/** A bug of ours, behind content. */
export const internalError = fail('internal', 'The gateway made a mistake of its own in the middle of this answer.')
const unread = fail('malformed', 'The gateway made a mistake of its own reading this answer.')

/** It is its own flow: an open stream is few objects, and keeps nothing of the question. */
export class Attempt implements UpstreamListener, AnswerStream, TimerClient {
  place = -1
  /** When it is to be looked which of its clocks has run down. */
  until = NEVER
  opened: Promise<AttemptOutcome>
  readonly #world: World
  readonly #waits: SharedTimer<TimerClient>
  /** Until the upstream's head has come, which says how to read what follows. */
  #asked: AttemptInput | null
  readonly #terms: Pick<
    AttemptInput,
    'skipMalformedEvents' | 'holdbackMs' | 'key' | 'settings' | 'stream' | 'allowEmptyText'
  >
  readonly #started: number
  readonly #call: Ongoing
  #settle: ((opened: AttemptOutcome) => void) | null = null
  #reader: AnswerReader | null = null
  /** 0 until its head has come. */
  status = 0
  whole: string | null = null
  body: Json | undefined
  source: EncodedText | null = null
  /**
   * Steps not given out yet: of this read, or all while the choice is not made and there is no sink. Null between two reads:
   * an empty list that waits grows old, and dead it keeps what was put into it alive, every chunk of a slow stream, until
   * V8 collects everything.
   */
  #held: StreamStep[] | null = null
  #heldSize = 0
  #sink: Sink<readonly StreamStep[]> | null = null
  /** An event was left out: then only a reason to finish, not a terminator alone, makes the answer complete. */
  #dropped = 0
  /** When its first content came. */
  #contentAt: number | null = null
  #finish: (ChatEvent & { type: 'finish' }) | null = null
  #usage: Usage | null = null
  #said = 0
  #beginning = ''
  #id: string | null = null
  #paused = false
  /** Reading has stopped at the edge. */
  #stopped = false
  /** It has shown a sign of life. */
  #alive = false
  /** When something was heard of it, and when content was; then since when it has finished. Or since when we listen again. */
  #heardAt = 0
  #contentHeardAt = 0
  #finishedAt = 0
  /** The body has ended. */
  #ended = false
  /** The answer is complete and delivered; the call stays open until its body ends, or for `GRACE`. */
  #lingers = false
  #over: { readonly failure?: Failure } | null = null

  constructor({ world, activeCalls: live }: Pick<RouterDeps, 'world' | 'activeCalls'>, input: AttemptInput) {
    const {
      url,
      headers,
      identity,
      body,
      source,
      once,
      stream,
      holdbackMs: hold,
      skipMalformedEvents: forgiving,
      key,
      settings,
      allowEmptyText: textless,
      client,
    } = input
    this.#world = world
    this.#waits = live.timers
    this.#asked = input
    this.#terms = {
      skipMalformedEvents: forgiving,
      holdbackMs: hold,
      key,
      settings,
      stream,
      ...(textless && { allowEmptyText: textless }),
    }
    this.#started = world.now()
    this.opened = new Promise((resolve) => {
      this.#settle = resolve
    })
    const call = { method: 'POST', url, headers, body, connectTimeout: settings.timeout.connect } as const
    const collected = hold === Number.POSITIVE_INFINITY
    const more = {
      ...(source && { source }),
      ...(identity && { identity }),
      ...(once && { once }),
      ...(collected && { collected }),
      ...(client !== undefined && { client }),
    }
    this.#call = world.dial({ ...call, ...more }, this)
    // Behind it: the question is on its way while its clocks are set.
    this.#sleep()
  }

  /** ms from its beginning to its first content, or to now if none has come. */
  get age(): number {
    return (this.#contentAt ?? this.#world.now()) - this.#started
  }

  /** Ends it without a verdict: the client left. Nothing is heard of it any more. */
  abort(): void {
    this.#over ??= {}
    this.#asked = null
    this.#sink = null
    // No client waits for a lingering call, and its connection may still be reused.
    if (!this.#lingers) this.#hangUp()
  }

  /** Ends it from our side with a failure the client is told: the time for everything is over, or the process ends. */
  failWith(failure: Failure): void {
    // An answer that has finished is complete, whatever ends the waiting for its body's end.
    this.#end(this.#finish ? undefined : failure)
  }

  // ── The flow ───────────────────────────────────────────────────────────────────────────────────────────────────

  finished(): boolean {
    return this.#finish !== null
  }

  usage(): Usage | null {
    return this.#usage
  }

  output(): OutputSample {
    return { length: this.#said, beginning: this.#beginning }
  }

  id(): string | null {
    return this.#id
  }

  droppedEvents(): number {
    return this.#dropped
  }

  pipeTo(sink: Sink<readonly StreamStep[]>): void {
    this.opened = POURED
    const room = sink.push(this.#held ?? [])
    this.#held = null
    if (this.#over) return sink.end(this.#over.failure)
    this.#sink = sink
    if (!room) this.#pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#heardAt = this.#world.now()
    this.#contentHeardAt = this.#heardAt
    this.#finishedAt = this.#heardAt
    this.#sleep()
    this.#call.resume()
    this.#completeEarly()
  }

  // ── What the upstream does ─────────────────────────────────────────────────────────────────────────────────────

  head(status: number, headers: HeaderLookup): void {
    if (this.#over || !this.#asked) return
    const { protocol, quirks, translated, choices, stream, onHeaders: heard } = this.#asked
    this.#asked = null
    this.status = status
    heard(headers)
    const dialect = { protocol, quirks, translated, choices, stream, date: this.#world.date() }
    this.#reader = readerFor({ status, headers }, dialect)
    this.#heardAt = this.#world.now()
    // A stream shows life with its first bytes: many a server sends its head at once and thinks afterwards.
    this.#alive = !stream
    this.#sleep()
  }

  bytes(chunk: Uint8Array): boolean {
    if (this.#over || !this.#reader) return true
    // All that one read brought is heard at one moment: telling the time is not free.
    this.#heardAt = this.#world.now()
    this.#alive = true
    try {
      for (const passing of this.#reader.push(chunk)) this.#step(passing)
      this.#giveOut()
    } catch (error) {
      this.#mistaken(error)
    }
    if (this.#finish) this.#completeEarly()
    return !this.#paused
  }

  waits(stopped: boolean): void {
    this.#stopped = stopped
    if (stopped) return
    this.#heardAt = this.#world.now()
    this.#contentHeardAt = this.#heardAt
    this.#sleep()
  }

  end(): void {
    if (this.#over) return this.#released()
    this.#ended = true
    try {
      for (const passing of this.#reader?.end() ?? []) this.#step(passing)
    } catch (error) {
      this.#mistaken(error)
    }
    this.#end(this.#finish ? undefined : fail('truncated', 'the answer ended before it was complete'))
  }

  failed(failure: Failure): void {
    if (this.#over) return this.#released()
    // What breaks off after the answer has finished takes nothing with it.
    if (this.#finish) return this.#end(undefined)
    if (this.status === 0) return this.#end(failure)
    // The endpoint did answer: what broke off is this answer.
    this.#end({ ...failure, kind: failure.kind === 'reset' ? 'truncated' : failure.kind, status: this.status })
  }

  // ── What it means ──────────────────────────────────────────────────────────────────────────────────────────────

  #step(passing: StreamStep): void {
    if (this.#over) return
    for (const event of passing.events) {
      if (event.type === 'failure') {
        // Of an answer that had said why it ends nothing is missing, whatever is said behind it.
        if (this.#finish) return this.#end(undefined)
        if (
          event.failure.kind === 'malformed' &&
          this.#terms.skipMalformedEvents &&
          this.#contentAt !== null &&
          passing.frame
        ) {
          this.#dropped++
          return
        }
        return this.#end(event.failure)
      }
      if (event.type === 'delta') this.#hear(event.text)
      if (isContent(event)) this.#hearContent()
      else if (event.type === 'usage') this.#usage = event.usage
      else if (event.type === 'start') this.#id = event.id ?? this.#id
      else if (event.type === 'finish') this.#finished(event)
    }
    if (this.#over) return
    this.#held ??= []
    if (this.#sink) return void this.#held.push(passing)
    const { bytes, frame } = passing
    this.#held.push(bytes ? { ...passing, bytes: new Uint8Array(bytes) } : passing)
    this.#heldSize += bytes?.length ?? frame?.data.length ?? 0
    if (this.#contentAt !== null) this.#maybeOpen()
    else if (this.#terms.stream && this.#heldSize > MOST_HELD)
      this.#end(fail('too_large', `no content within ${MOST_HELD} characters of stream`))
  }

  /** Held back long enough: until its time is over, or it has finished, or there is too much of it. */
  #maybeOpen(): void {
    const { holdbackMs: hold } = this.#terms
    if (hold === Number.POSITIVE_INFINITY) return
    if (hold === 0 || this.#finish || this.#heldSize > MOST_HELD_BACK) this.#open({ ok: true, flow: this })
  }

  #hear(text: string): void {
    this.#said += text.length
    if (this.#beginning.length < SAMPLE) this.#beginning += text
  }

  #hearContent(): void {
    this.#contentHeardAt = this.#heardAt
    if (this.#contentAt !== null) return
    this.#contentAt = this.#world.now()
    this.#heldSize = 0
    this.#sleep()
  }

  #finished(event: ChatEvent & { type: 'finish' }): void {
    if (this.#finish) return
    if (this.#dropped > 0 && event.finish.raw === null)
      return this.#end(fail('truncated', 'an event of the answer could not be read, and its end is missing'))
    this.#finish = event
    this.#finishedAt = this.#world.now()
    this.#sleep()
  }

  // ── Its clocks ─────────────────────────────────────────────────────────────────────────────────────────────────

  /** Sees to it that it is woken in time for the first clock to run down. Later than that is not told, for it would be with every chunk. */
  #sleep(): void {
    let first = NEVER
    for (const clock of CLOCKS) first = Math.min(first, this.#runsUntil(clock))
    if (first < this.until) this.#waits.set(this.#world, this, first)
  }

  onDeadline(now: number): void {
    for (const clock of CLOCKS) if (this.#runsUntil(clock) <= now) this.#ranDown(clock)
    this.#sleep()
  }

  /** When it has run down, in ms of the monotonic clock; NEVER: it does not run. */
  #runsUntil(clock: Clock): number {
    if (this.#lingers && clock === 'grace') return this.#finishedAt + GRACE
    if (this.#over) return NEVER
    const { holdbackMs: hold, settings, stream } = this.#terms
    const { circuit, timeout } = settings
    if (this.#finish) return clock === 'grace' && !this.#ended && !this.#paused ? this.#finishedAt + GRACE : NEVER
    switch (clock) {
      case 'life':
        return this.#alive ? NEVER : after(this.#started, circuit.timeout)
      case 'first':
        return stream && this.#contentAt === null ? after(this.#started, timeout.firstContent) : NEVER
      case 'hold':
        return this.#contentAt !== null && this.#settle ? after(this.#contentAt, hold) : NEVER
      case 'grace':
        return NEVER
      // A pause of ours is not the upstream's silence.
      case 'bytes':
        return this.#reader && !this.#paused && !this.#stopped ? after(this.#heardAt, timeout.idle) : NEVER
      case 'content':
        return stream && this.#contentAt !== null && !this.#paused && !this.#stopped
          ? after(this.#contentHeardAt, timeout.contentIdle)
          : NEVER
      default:
        throw new Error(`unknown clock ${clock satisfies never}`)
    }
  }

  #ranDown(clock: Clock): void {
    const { circuit, timeout } = this.#terms.settings
    switch (clock) {
      case 'life':
        return this.#end(fail('timeout', `no sign of life within ${circuit.timeout} ms`))
      case 'first':
        return this.#end(fail('no_first_content', `no content within ${timeout.firstContent} ms`))
      case 'hold':
        return this.#open({ ok: true, flow: this })
      case 'grace':
        return this.#lingers ? this.#hangUp() : this.end()
      case 'bytes':
        return this.#end(fail('stalled', `no byte for ${timeout.idle} ms`))
      case 'content':
        return this.#end(fail('stalled', `nothing but keep-alives for ${timeout.contentIdle} ms`))
      default:
        throw new Error(`unknown clock ${clock satisfies never}`)
    }
  }

  // ── How it opens and ends ──────────────────────────────────────────────────────────────────────────────────────

  /** The choice is made, or the attempt has failed while another could still be tried. */
  #open(opened: AttemptOutcome): void {
    if (!this.#settle) return
    // An answer that came as one body is the only step there is.
    const first = this.#held?.[0]
    this.whole = first?.whole ?? null
    this.body = first?.body
    this.source = first?.source ?? null
    this.#settle(opened)
    this.#settle = null
  }

  #end(cause: Failure | undefined): void {
    if (this.#over) return
    const failure = cause && redactKey(this.status === 0 ? cause : { status: this.status, ...cause }, this.#terms.key)
    this.#over = failure ? { failure } : {}
    if (this.#lingers) this.#sleep()
    else this.#hangUp()
    if (this.#sink) {
      try {
        this.#giveOut()
      } catch (error) {
        this.#sink.end(internalError)
        throw error
      }
      // Who was told the last of it may have left at that.
      return this.#sink?.end(failure)
    }
    if (failure) return this.#open({ ok: false, failure })
    const empty =
      !this.#terms.allowEmptyText &&
      this.#contentAt === null &&
      this.#finish?.finish.kind === 'stop' &&
      (this.#usage?.output ?? 0) === 0
    if (!empty) return this.#open({ ok: true, flow: this })
    const nothing = fail('empty', 'the model answered with nothing', { status: this.status })
    this.#open({ ok: false, failure: nothing, flow: this })
  }

  /** Ends the answer at the format's terminal event, before the upstream has ended its body. A slow client comes first. */
  #completeEarly(): void {
    if (this.#over || this.#paused || !this.#finish || this.#reader?.over !== true) return
    this.#lingers = !this.#ended
    this.#end(undefined)
  }

  #hangUp(): void {
    this.#released()
    this.#call?.abort()
  }

  /** The call needs no clock any more: it is ended, or its body has ended by itself. */
  #released(): void {
    this.#lingers = false
    this.#waits.delete(this)
  }

  /**
   * A bug of ours: the answer breaks off there, or it would go on behind a hole. What nobody has seen of it yet may be
   * read well from another. Whoever called hears of it too.
   */
  #mistaken(error: unknown): never {
    this.#held = null
    this.#end(this.#sink ? internalError : unread)
    throw error
  }

  /** What one read brought leaves at once: a write of its own for each event is the dearest part of a burst. */
  #giveOut(): void {
    const steps = this.#held
    if (!this.#sink || !steps) return
    this.#held = null
    if (!this.#sink.push(steps)) this.#pause()
  }

  #pause(): void {
    this.#paused = true
  }
}

/**
 * What an attempt waits for: a sign of life, its first content, the end of the time for which it is held back, the end
 * of the body behind its answer; and how long nothing may come, no byte or nothing but keep-alives.
 */
type Clock = 'life' | 'first' | 'hold' | 'grace' | 'bytes' | 'content'
const CLOCKS: readonly Clock[] = ['life', 'first', 'hold', 'grace', 'bytes', 'content']

/** 0 is never. */
const after = (begun: number, ms: number): number => (ms > 0 ? begun + ms : NEVER)
