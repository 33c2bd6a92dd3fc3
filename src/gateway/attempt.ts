/**
 * One attempt at one target: from the call upstream to the first content, and on to the end. It owns the clocks of its
 * phases and the one way to abort it. Callbacks push; there is one promise for the attempt and none for a chunk.
 */
import type { Source } from '../core/call.ts'
import { type ChatEvent, type ChatRequest, isContent, type Usage } from '../core/chat.ts'
import { type Failure, fail } from '../core/failure.ts'
import type { HeaderLookup, Passing } from '../core/protocol.ts'
import type { Identity, ProviderKey, Quirks } from '../core/provider.ts'
import type { Settings } from '../core/settings.ts'
import type { Sink } from '../core/stage.ts'
import type { Cancel, Ongoing, UpstreamListener, World } from '../core/world.ts'
import { type AnswerFormat, type Reader, readerFor } from './reader.ts'
import { redacted } from './redact.ts'
import type { Said } from './used.ts'

export type AttemptInput = {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly identity: Identity | undefined
  readonly body: string
  /** The same, where its bytes are at hand. */
  readonly source?: Source
  readonly protocol: AnswerFormat
  readonly quirks: Quirks | undefined
  readonly translated: ChatRequest | null
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
  readonly hold: number
  /** The answer is no text, so one without any is not empty. */
  readonly textless?: true
  /** A malformed event in the middle of plain text is left out; where every byte has a meaning it is a failure. */
  readonly forgiving: boolean
  readonly settings: Settings
  /** The upstream's head has come. */
  readonly heard: (headers: HeaderLookup) => void
}

/** An answer whose first content has come. */
export type Flow = {
  readonly status: number
  /** The answer's text, if it came as one JSON body. */
  readonly whole: string | null
  /** The same, where its bytes are at hand. */
  readonly source: Source | null
  /** The answer has been read to its end; only the body's own end may still be missing. */
  finished(): boolean
  /** The last record of tokens so far. */
  usage(): Usage | null
  /** What it has said so far, thoughts and arguments included. */
  said(): Said
  /** Events that could not be read and were left out of plain text. */
  droppedEvents(): number
  /** The upstream's own id for the answer, if it has said one. */
  id(): string | null
  /** Gives out what was held and then everything that comes, the steps of one read at once, until the sink's `end`. Once. */
  pour(sink: Sink<readonly Passing[]>): void
  /** The far side has room again. */
  resume(): void
  abort(): void
  giveUp(failure: Failure): void
}

export type Opened =
  | { readonly ok: true; readonly flow: Flow }
  /** `flow`: of an empty answer, the answer itself; if every target answers so, it is given honestly. */
  | { readonly ok: false; readonly failure: Failure; readonly flow?: Flow }

/** Lifecycle events are held back until content comes, up to this many characters: some repeat the whole question. */
const MOST_HELD = 8 * 1024 * 1024

/** Of content so many characters (of frames) at most are held back: whoever waits for the choice waits for them. */
const MOST_HELD_BACK = 64 * 1024

/** So much of what is said is kept (characters), to estimate its tokens by where nobody counts them. */
const SAMPLE = 2_048

/** An answer that has finished waits so long (ms) for the end of the body, so that the connection can be used again. */
const GRACE = 2_000

const mistake = fail('internal', 'The gateway made a mistake of its own in the middle of this answer.')
const unread = fail('malformed', 'The gateway made a mistake of its own reading this answer.')

/** It is its own flow: an open stream is few objects, and keeps nothing of the question. */
export class Attempt implements UpstreamListener, Flow {
  readonly opened: Promise<Opened>
  readonly #world: World
  /** Until the upstream's head has come, which says how to read what follows. */
  #asked: AttemptInput | null
  readonly #terms: Pick<AttemptInput, 'forgiving' | 'hold' | 'key' | 'settings' | 'stream' | 'textless'>
  readonly #started: number
  readonly #call: Ongoing
  readonly #clocks: Clocks
  #settle: ((opened: Opened) => void) | null = null
  #reader: Reader | null = null
  /** 0 until its head has come. */
  status = 0
  whole: string | null = null
  source: Source | null = null
  /**
   * Steps not given out yet: of this read, or all while the choice is not made and there is no sink. Null between two reads:
   * an empty list that waits grows old, and dead it keeps what was put into it alive, every chunk of a slow stream, until
   * V8 collects everything.
   */
  #held: Passing[] | null = null
  #heldSize = 0
  #sink: Sink<readonly Passing[]> | null = null
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
  /** The body has ended. */
  #ended = false
  #over: { readonly failure?: Failure } | null = null

  constructor(world: World, input: AttemptInput) {
    const { url, headers, identity, body, source, once, stream, hold, forgiving, key, settings, textless } = input
    this.#world = world
    this.#asked = input
    this.#terms = { forgiving, hold, key, settings, stream, ...(textless && { textless }) }
    this.#started = world.now()
    this.#clocks = new Clocks(world, this)
    this.opened = new Promise((resolve) => {
      this.#settle = resolve
    })
    const { circuit, timeout } = settings
    const call = { method: 'POST', url, headers, body, connectTimeout: timeout.connect } as const
    const collected = stream && hold === Number.POSITIVE_INFINITY
    const more = {
      ...(source && { source }),
      ...(identity && { identity }),
      ...(once && { once }),
      ...(collected && { collected }),
    }
    this.#call = world.dial({ ...call, ...more }, this)
    // Behind it: the question is on its way while its clocks are set.
    this.#clocks.limit('life', circuit.timeout)
    if (stream) this.#clocks.limit('first', timeout.firstContent)
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
    this.#clocks.stop()
    this.#call.abort()
  }

  /** Ends it from our side with a failure the client is told: the time for everything is over, or the process ends. */
  giveUp(failure: Failure): void {
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

  said(): Said {
    return { length: this.#said, beginning: this.#beginning }
  }

  id(): string | null {
    return this.#id
  }

  droppedEvents(): number {
    return this.#dropped
  }

  pour(sink: Sink<readonly Passing[]>): void {
    const room = sink.push(this.#held ?? [])
    this.#held = null
    if (this.#over) return sink.end(this.#over.failure)
    this.#sink = sink
    if (!room) this.#pause()
  }

  resume(): void {
    if (!this.#paused) return
    this.#paused = false
    this.#clocks.go()
    this.#call.resume()
  }

  // ── What the upstream does ─────────────────────────────────────────────────────────────────────────────────────

  head(status: number, headers: HeaderLookup): void {
    if (this.#over || !this.#asked) return
    const { protocol, quirks, translated, stream, settings, heard } = this.#asked
    this.#asked = null
    this.status = status
    heard(headers)
    this.#reader = readerFor({ status, headers }, { protocol, quirks, translated, stream, date: this.#world.date() })
    // A stream shows life with its first bytes: many a server sends its head at once and thinks afterwards.
    if (!stream) this.#clocks.off('life')
    this.#clocks.silence('bytes', settings.timeout.idle)
  }

  bytes(chunk: Uint8Array): boolean {
    if (this.#over || !this.#reader) return true
    this.#clocks.heardBytes()
    try {
      for (const passing of this.#reader.push(chunk)) this.#step(passing)
      this.#giveOut()
    } catch (error) {
      this.#mistaken(error)
    }
    return !this.#paused
  }

  end(): void {
    if (this.#over) return
    this.#ended = true
    try {
      for (const passing of this.#reader?.end() ?? []) this.#step(passing)
    } catch (error) {
      this.#mistaken(error)
    }
    this.#end(this.#finish ? undefined : fail('truncated', 'the answer ended before it was complete'))
  }

  failed(failure: Failure): void {
    // What breaks off after the answer has finished takes nothing with it.
    if (this.#finish) return this.#end(undefined)
    if (this.status === 0) return this.#end(failure)
    // The endpoint did answer: what broke off is this answer.
    this.#end({ ...failure, kind: failure.kind === 'reset' ? 'truncated' : failure.kind, status: this.status })
  }

  // ── What it means ──────────────────────────────────────────────────────────────────────────────────────────────

  #step(passing: Passing): void {
    if (this.#over) return
    for (const event of passing.events) {
      if (event.type === 'failure') {
        // Of an answer that had said why it ends nothing is missing, whatever is said behind it.
        if (this.#finish) return this.#end(undefined)
        if (event.failure.kind === 'malformed' && this.#terms.forgiving && this.#contentAt !== null && passing.frame) {
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
    this.#held.push(passing)
    if (this.#sink) return
    this.#heldSize += passing.frame?.data.length ?? 0
    if (this.#contentAt !== null) this.#maybeOpen()
    else if (this.#terms.stream && this.#heldSize > MOST_HELD)
      this.#end(fail('too_large', `no content within ${MOST_HELD} characters of stream`))
  }

  /** Held back long enough: until its time is over, or it has finished, or there is too much of it. */
  #maybeOpen(): void {
    const { hold } = this.#terms
    if (hold === Number.POSITIVE_INFINITY) return
    if (hold === 0 || this.#finish || this.#heldSize > MOST_HELD_BACK) this.#open({ ok: true, flow: this })
  }

  #hear(text: string): void {
    this.#said += text.length
    if (this.#beginning.length < SAMPLE) this.#beginning += text
  }

  #hearContent(): void {
    if (this.#contentAt !== null) return this.#clocks.heardContent()
    this.#contentAt = this.#world.now()
    this.#heldSize = 0
    const { hold } = this.#terms
    this.#clocks.off('first')
    if (hold !== Number.POSITIVE_INFINITY) this.#clocks.limit('hold', hold)
    if (this.#terms.stream && !this.#finish) this.#clocks.silence('content', this.#terms.settings.timeout.contentIdle)
  }

  #finished(event: ChatEvent & { type: 'finish' }): void {
    if (this.#finish) return
    if (this.#dropped > 0 && event.finish.raw === null)
      return this.#end(fail('truncated', 'an event of the answer could not be read, and its end is missing'))
    this.#finish = event
    this.#clocks.stop()
    if (!this.#ended) this.#clocks.limit('grace', GRACE)
  }

  /** A time is over. */
  ring(clock: Clock): void {
    const { circuit, timeout } = this.#terms.settings
    switch (clock) {
      case 'life':
        return this.#end(fail('timeout', `no sign of life within ${circuit.timeout} ms`))
      case 'first':
        return this.#end(fail('no_first_content', `no content within ${timeout.firstContent} ms`))
      case 'hold':
        return this.#open({ ok: true, flow: this })
      case 'grace':
        return this.end()
      case 'bytes':
        return this.#end(fail('stalled', `no byte for ${timeout.idle} ms`))
      case 'content':
        return this.#end(fail('stalled', `nothing but keep-alives for ${timeout.contentIdle} ms`))
      default:
        throw new Error(`unknown clock ${clock satisfies never}`)
    }
  }

  /** The choice is made, or the attempt has failed while another could still be tried. */
  #open(opened: Opened): void {
    if (!this.#settle) return
    // An answer that came as one body is the only step there is.
    const first = this.#held?.[0]
    this.whole = first?.whole ?? null
    this.source = first?.source ?? null
    this.#settle(opened)
    this.#settle = null
  }

  #end(cause: Failure | undefined): void {
    if (this.#over) return
    const failure = cause && redacted(this.status === 0 ? cause : { status: this.status, ...cause }, this.#terms.key)
    this.#over = failure ? { failure } : {}
    this.#clocks.stop()
    this.#call?.abort()
    if (this.#sink) {
      try {
        this.#giveOut()
      } catch (error) {
        this.#sink.end(mistake)
        throw error
      }
      return this.#sink.end(failure)
    }
    if (failure) return this.#open({ ok: false, failure })
    const empty =
      !this.#terms.textless &&
      this.#contentAt === null &&
      this.#finish?.finish.kind === 'stop' &&
      (this.#usage?.output ?? 0) === 0
    if (!empty) return this.#open({ ok: true, flow: this })
    const nothing = fail('empty', 'the model answered with nothing', { status: this.status })
    this.#open({ ok: false, failure: nothing, flow: this })
  }

  /**
   * A bug of ours: the answer breaks off there, or it would go on behind a hole. What nobody has seen of it yet may be
   * read well from another. Whoever called hears of it too.
   */
  #mistaken(error: unknown): never {
    this.#held = null
    this.#end(this.#sink ? mistake : unread)
    throw error
  }

  /** What one read brought leaves at once: a write of its own for each event is the dearest part of a burst. */
  #giveOut(): void {
    const steps = this.#held
    if (!this.#sink || !steps) return
    this.#held = null
    if (!this.#sink.push(steps)) this.#pause()
  }

  /** A pause of ours is not the upstream's silence: its clocks stand still. */
  #pause(): void {
    this.#paused = true
    this.#clocks.hold()
  }
}

/**
 * What an attempt waits for: a sign of life, its first content, the end of the time for which it is held back, the end
 * of the body behind its answer; and how long nothing may come, no byte or nothing but keep-alives.
 */
type Clock = 'life' | 'first' | 'hold' | 'grace' | 'bytes' | 'content'
const CLOCKS: readonly Clock[] = ['life', 'first', 'hold', 'grace', 'bytes', 'content']

const NEVER = Number.POSITIVE_INFINITY

/**
 * The clocks of one attempt, on one timer for the first of them. It is not moved for a chunk, nor when what it was set
 * for is over: it rings too early then, and is set anew.
 */
class Clocks {
  readonly #world: World
  readonly #owner: { ring(clock: Clock): void }
  /** When each is over, in ms of the monotonic clock. */
  readonly #until: Record<Clock, number> = {
    life: NEVER,
    first: NEVER,
    hold: NEVER,
    grace: NEVER,
    bytes: NEVER,
    content: NEVER,
  }
  /** How long a silence may last, in ms. */
  #bytes = 0
  #content = 0
  /** When something was heard. */
  #heard = 0
  #held = false
  #timer: Cancel | null = null
  #set = NEVER

  constructor(world: World, owner: { ring(clock: Clock): void }) {
    this.#world = world
    this.#owner = owner
  }

  /** Rings once after so many ms; 0 is never. */
  limit(clock: Clock, ms: number): void {
    if (ms <= 0) return
    this.#until[clock] = this.#world.now() + ms
    this.#arm()
  }

  off(clock: Clock): void {
    this.#until[clock] = NEVER
  }

  /** Rings when nothing of this kind has been heard for so long; 0 is never. */
  silence(clock: 'bytes' | 'content', ms: number): void {
    if (clock === 'bytes') this.#bytes = ms
    else this.#content = ms
    this.limit(clock, ms)
  }

  /** All that one read brought is heard at one moment: telling the time is not free. */
  heardBytes(): void {
    this.#heard = this.#world.now()
    this.#until.life = NEVER
    if (this.#bytes > 0) this.#until.bytes = this.#heard + this.#bytes
  }

  heardContent(): void {
    if (this.#content > 0) this.#until.content = this.#heard + this.#content
  }

  /** Silence is not the upstream's from now on. */
  hold(): void {
    this.#held = true
  }

  go(): void {
    this.#held = false
    this.heardBytes()
    this.heardContent()
    this.#arm()
  }

  stop(): void {
    for (const clock of CLOCKS) this.#until[clock] = NEVER
    this.#bytes = 0
    this.#content = 0
    this.#timer?.()
    this.#timer = null
    this.#set = NEVER
  }

  #untilOf(clock: Clock): number {
    return this.#held && (clock === 'bytes' || clock === 'content') ? NEVER : this.#until[clock]
  }

  /** Sees to it that the timer rings in time for the first. */
  #arm(): void {
    let first = NEVER
    for (const clock of CLOCKS) first = Math.min(first, this.#untilOf(clock))
    if (first >= this.#set) return
    this.#timer?.()
    this.#set = first
    this.#timer = this.#world.later(Math.max(0, first - this.#world.now()), () => this.#look())
  }

  #look(): void {
    this.#timer = null
    this.#set = NEVER
    const now = this.#world.now()
    for (const clock of CLOCKS)
      if (this.#untilOf(clock) <= now) {
        this.#until[clock] = NEVER
        this.#owner.ring(clock)
      }
    this.#arm()
  }
}
