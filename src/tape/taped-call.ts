/** One call of a client at a tape, with all of its attempts: they share one exchange, unless that is a failure. */
import { type Fault, type FaultCounter, parseFaults } from '../../suite/faults.ts'
import { textOf, wholeBody } from '../core/encoded-text.ts'
import { type Failure, fail } from '../core/failure.ts'
import type { HeaderLookup } from '../core/headers.ts'
import { parseObject } from '../core/json.ts'
import type { UpstreamProtocol } from '../core/protocol.ts'
import type { Target } from '../core/target.ts'
import type { Dial, OngoingCall, UpstreamCall, UpstreamListener, World } from '../core/world.ts'
import type { InboundRequest, OutboundRequest } from '../gateway/upstream/outbound-request.ts'
import type { TapedCall } from '../gateway/upstream/tape.ts'
import { upstreamProtocols } from '../protocols/index.ts'
import { maskedAnswer } from './answer-texts.ts'
import { chatAsk, jsonAsk, keyOf, type MaskedAsk } from './ask.ts'
import type { Normaliser } from './masking.ts'
import { play } from './play.ts'
import { type FollowedAnswer, Recording } from './recording.ts'
import { textsIn } from './secrets.ts'
import { lacksKey, type TapeSettings } from './settings.ts'
import { type Exchange, type TapedExchange, type TapeTarget, textOfBytes } from './tape-file.ts'
import { MOST } from './tape-folder.ts'

/** What a call states by its header: `x-headgate-tape: NAME; test=ID`. */
export type TapePlace = { readonly name: string; readonly test: string }

/** `credentials`: of its call. `texts`: those of the exchange, joined and decoded. */
export type RecordedExchange = Omit<Exchange, 'at' | 'replaces' | 'test'> & {
  readonly credentials: readonly string[]
  readonly texts: readonly string[]
}

/** The tapes as a call uses them. */
export type TapeAccess = {
  readonly options: {
    readonly settings: TapeSettings
    /** Calls providers. A strict tape never uses it. */
    readonly live: Dial
    readonly world: Pick<World, 'now' | 'date' | 'later'>
  }
  placeOf(headers: HeaderLookup): TapePlace | string
  normaliseOf(name: string): readonly Normaliser[]
  /** The exchange that `take` would return. */
  peek(key: string, place: TapePlace): TapedExchange | null
  take(key: string, place: TapePlace): TapedExchange | null
  giveBack(key: string, place: TapePlace): void
  readonly faults: FaultCounter
  record(place: TapePlace, masked: Pick<MaskedAsk, 'media'>, exchange: RecordedExchange): void
  notRecorded(what: string, error: unknown): void
  miss(
    masked: Pick<MaskedAsk, 'ask'>,
    place: TapePlace,
    call: { readonly style: string; readonly key: string },
  ): Failure
}

/** A request with its key. */
type Keyed = MaskedAsk & { readonly key: string }

abstract class CallAtTape {
  protected readonly tapes: TapeAccess
  protected readonly place: TapePlace | string
  readonly #headers: HeaderLookup
  /** The exchange that answers the attempts, by key. */
  readonly #taken = new Map<string, TapedExchange | null>()
  /** The exchange for which an attempt was prepared, by key. */
  readonly #peeked = new Map<string, TapedExchange>()

  constructor(tapes: TapeAccess, headers: HeaderLookup) {
    this.tapes = tapes
    this.#headers = headers
    this.place = tapes.placeOf(headers)
  }

  protected abstract readonly style: string

  /** The exchange for an attempt, which may never be sent. After a failure that is the next one. */
  protected peeked({ key }: Keyed, place: TapePlace): TapedExchange | null {
    const known = this.#taken.get(key)
    if (known !== undefined) return known
    const found = this.#isRecorder ? null : this.tapes.peek(key, place)
    if (found) this.#peeked.set(key, found)
    else this.#peeked.delete(key)
    return found
  }

  get #isRecorder(): boolean {
    return this.tapes.options.settings.mode === 'record'
  }

  /** The exchange for an attempt that is sent. It is read in the format for which the attempt was prepared. */
  #take({ key }: Keyed, place: TapePlace, { target }: SentAttempt): TapedExchange | null {
    const known = this.#taken.get(key)
    if (known !== undefined) return known
    let found = this.#isRecorder ? null : this.tapes.take(key, place)
    if (found && !isOfFormat(found, target)) {
      // Another call has taken the prepared one meanwhile.
      const peeked = this.#peeked.get(key)
      if (!peeked) this.tapes.giveBack(key, place)
      found = peeked ?? null
    }
    this.#taken.set(key, found)
    return found
  }

  protected attempt(keyed: Keyed, sent: SentAttempt, call: UpstreamCall, listener: UpstreamListener): OngoingCall {
    const { place } = this
    if (typeof place === 'string') return this.#refused(listener, fail('invalid_value', place))
    const { mode, pace } = this.tapes.options.settings
    const exchange = this.#take(keyed, place, sent)
    if (exchange) {
      const faults = this.#faults()
      if (typeof faults === 'string') return this.#refused(listener, fail('invalid_value', faults))
      const fault = this.tapes.faults.next(`${this.#headers(FAULT_HEADER)} ${place.name} ${keyed.key}`, faults)
      const isDelayed = fault?.kind === 'slow' || fault?.kind === 'stall'
      // The next attempt, or the next call of a client that retries, receives the answer.
      if (fault && !isDelayed) this.tapes.giveBack(keyed.key, place)
      if (exchange.answer.status >= 400 || (fault && !isDelayed)) this.#taken.delete(keyed.key)
      return play(exchange.answer, listener, { later: this.tapes.options.world.later, pace, fault })
    }
    if (mode === 'strict' || (mode === 'replay' && lacksKey(call)))
      return this.#refused(listener, this.tapes.miss(keyed, place, { style: this.style, key: keyed.key }))
    return this.#record(keyed, sent, place, { call, listener })
  }

  /** Reports a failure in a later turn: the caller receives the call first. */
  #refused(listener: UpstreamListener, failure: Failure): OngoingCall {
    const abort = this.tapes.options.world.later(0, () => listener.onFailure(failure))
    return { abort, resume() {} }
  }

  /** A text: the problem of the header. */
  #faults(): readonly Fault[] | string {
    const written = this.#headers(FAULT_HEADER)
    if (written === undefined) return []
    const parsed = parseFaults(written)
    return parsed.ok ? parsed.faults : parsed.problem
  }

  #record(keyed: Keyed, sent: SentAttempt, place: TapePlace, { call, listener }: LiveCall): OngoingCall {
    const { live, world, settings } = this.tapes.options
    const recording = new Recording(listener, {
      now: world.now,
      protocol: sent.protocol,
      stream: sent.target.stream,
      most: MOST.exchange,
      onEnd: (recorded) => {
        if (!recorded.isComplete && !(settings.keepsFailures && recorded.answer.status >= 400)) return
        if (recorded.isTooLarge)
          return this.tapes.notRecorded(`An answer of ${sent.target.model}`, 'It is larger than 4 MB.')
        this.#keep(keyed, sent, place, { recorded, call })
      },
    })
    return recording.followed(live(call, recording))
  }

  #keep(keyed: Keyed, { target, key }: SentAttempt, place: TapePlace, { recorded, call }: AnsweredCall): void {
    const { answer } = recorded
    const texts = answer.events.map(({ bytes }) => textOfBytes(bytes))
    const pieces = texts.filter((text) => text !== undefined)
    if (pieces.length < texts.length)
      return this.tapes.notRecorded(
        `An answer of ${target.model}`,
        'It is binary, and cannot be searched for secrets. Ask for it without streaming.',
      )
    const masked = maskedAnswer(pieces, keyed.masks)
    const events = answer.events.map(({ ms }, at) => ({ ms, bytes: Buffer.from(masked.pieces[at] ?? '') }))
    const { ask } = keyed
    this.tapes.record(place, keyed, {
      key: keyed.key,
      ask,
      target,
      answer: { ...answer, events },
      style: this.style,
      credentials: [
        ...credentialsIn(call.headers),
        ...credentialsOf(this.#headers),
        ...(key === undefined ? [] : [key]),
        ...keyed.credentials,
      ],
      texts: [...masked.texts.flatMap(textsIn), ...textsIn([...ask.messages, ...ask.tools, ask.settings])],
    })
  }
}

const isOfFormat = ({ target: recorded }: TapedExchange, { protocol, stream }: TapeTarget): boolean =>
  protocol === null || (recorded.protocol === protocol && recorded.stream === stream)

const FAULT_HEADER = 'x-headgate-fault'

/** Where an attempt is sent. `key`: that of the provider. */
type SentAttempt = {
  readonly target: TapeTarget
  readonly protocol: UpstreamProtocol | null
  readonly key: string | undefined
}
type LiveCall = { readonly call: UpstreamCall; readonly listener: UpstreamListener }
type AnsweredCall = { readonly recorded: FollowedAnswer; readonly call: UpstreamCall }

/** A call for an answer of a model. */
export class ChatTape extends CallAtTape implements TapedCall {
  protected readonly style: string
  readonly #inbound: InboundRequest
  readonly #asks = new Map<string, Keyed>()

  constructor(tapes: TapeAccess, inbound: InboundRequest) {
    super(tapes, inbound.headers)
    this.#inbound = inbound
    this.style = inbound.protocol.style
  }

  prepared(own: OutboundRequest, target: Target): OutboundRequest {
    if (typeof this.place === 'string') return own
    const exchange = this.peeked(this.#askOf(target, this.place), this.place)
    const { protocol: name, stream } = exchange?.target ?? {}
    const protocol = Object.values(upstreamProtocols).find((one) => one.name === name)
    return protocol && stream !== undefined ? { ...own, protocol, stream } : own
  }

  dial(target: Target, prepared: Pick<OutboundRequest, 'protocol' | 'stream'> | null): Dial {
    return (call, listener) => {
      const { candidate, key } = target
      const sent = {
        target: {
          provider: candidate.instance.id,
          model: candidate.model,
          protocol: prepared?.protocol.name ?? null,
          stream: prepared?.stream === true,
        },
        protocol: prepared?.protocol ?? null,
        key: key.secret?.reveal(),
      }
      const place = typeof this.place === 'string' ? { name: this.tapes.options.settings.name, test: '' } : this.place
      return this.attempt(this.#askOf(target, place), sent, call, listener)
    }
  }

  #askOf({ candidate }: Target, { name }: TapePlace): Keyed {
    const target = this.tapes.options.settings.match === 'target' ? `${candidate.instance.id}/${candidate.model}` : ''
    const known = this.#asks.get(target)
    if (known) return known
    const masked = chatAsk(this.#inbound.request, this.tapes.normaliseOf(name), target === '' ? undefined : target)
    const made = { ...masked, key: keyOf(masked.ask) }
    this.#asks.set(target, made)
    return made
  }
}

/** A call whose answer is one JSON body. It is matched by the body that is sent, so by its target. */
export class JsonTape extends CallAtTape implements TapedCall {
  protected readonly style = 'json'

  prepared(own: OutboundRequest): OutboundRequest {
    return own
  }

  dial({ candidate, key }: Target): Dial {
    return (call, listener) => {
      const { id } = candidate.instance
      const body = parseObject(call.body === undefined ? '' : textOf(wholeBody(call.body))) ?? {}
      const { name } = typeof this.place === 'string' ? this.tapes.options.settings : this.place
      const masked = jsonAsk(new URL(call.url).pathname, body, id, this.tapes.normaliseOf(name))
      const keyed = { ...masked, key: keyOf(masked.ask) }
      const target = { provider: id, model: candidate.model, protocol: null, stream: false }
      return this.attempt(keyed, { target, protocol: null, key: key.secret?.reveal() }, call, listener)
    }
  }
}

const CREDENTIAL_HEADER = /authorization|api-key|token|cookie|secret/i

const credentialsIn = (headers: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(headers).flatMap(([name, value]) => (CREDENTIAL_HEADER.test(name) ? [bare(value)] : []))

/** Characters of a client's key at least: clients without one write a short text there. */
const CLIENT_KEY = 16

const credentialsOf = (headers: HeaderLookup): readonly string[] =>
  ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'].flatMap((name) => {
    const value = bare(headers(name) ?? '')
    return value.length >= CLIENT_KEY ? [value] : []
  })

const bare = (value: string): string => value.replace(/^(?:Bearer|Basic)\s+/i, '')
