/** Passes a request through the list of guards, and changes its texts. */
import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import type { Guard, GuardVerdict, RequestText } from '../../core/guard.ts'
import type { JsonObject } from '../../core/json.ts'
import { writeLarge } from '../../core/large-write.ts'
import type { ClientProtocol } from '../../core/protocol.ts'
import { inTurns, PIECE, type TurnScheduler } from '../../core/steps.ts'
import { hasDuplicateMembers } from '../../policy/idempotency-key.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { mediaIn } from '../../protocols/shared/request-media.ts'
import { changedTexts } from '../../protocols/shared/request-texts.ts'
import { type Eventual, whenKnown } from '../accounts/authority.ts'
import { type RecordedReply, writeAndRecordError } from '../call/recorder.ts'
import type { InboundRequest } from '../upstream/outbound-request.ts'
import { parseInTurns, readInTurns } from '../upstream/parse-request.ts'

/** The client's body as text and parsed. */
type OwnBody = {
  readonly source: EncodedText
  readonly body: JsonObject
  /** Media beside the body, such as the file of a form. */
  readonly media?: readonly string[]
}

/** A request as the list receives it. */
type Checked<T> = {
  readonly guards: readonly Guard[]
  readonly request: T
  /** The client's body, whose texts guards read. */
  readonly own: OwnBody
  /** Receives the answer of a guard, or its refusal. */
  readonly reply: RecordedReply
  /** The request with other texts. */
  readonly change: (replace: ReadonlyMap<string, string>) => Eventual<Outcome<T>>
}

/** Passes a request through the list. Returns what targets receive; null: the call has been answered. */
export const passGuards = async <T>({ guards, request, own, reply, change }: Checked<T>): Promise<T | null> => {
  const verdict = await checkRequest(guards, own)
  if (!verdict) return request
  if ('answer' in verdict) {
    await verdict.answer()
    return null
  }
  const changed = 'refuse' in verdict ? bad(verdict.refuse) : await change(verdict.replace)
  if (changed.ok) return changed.value
  writeAndRecordError(reply, changed.failure, null)
  return null
}

/**
 * The verdict of all guards. Each receives the texts that those before it have left; the first that refuses or
 * answers decides. A body that a provider may read otherwise than the guards is written again, even if no text is replaced.
 */
export const checkRequest = (guards: readonly Guard[], own: OwnBody): Eventual<GuardVerdict | null> =>
  whenKnown(checkFrom(guards, 0, new CheckedTexts(own)), (verdict) => {
    const isChecked = guards.some((guard) => 'revision' in guard)
    return verdict ?? (isChecked && isAmbiguous(own) ? { replace: NOTHING } : null)
  })

const NOTHING: ReadonlyMap<string, string> = new Map()

/** Parsers differ in which of two members with one name they use. A large body is not searched for them. */
const isAmbiguous = ({ source, body }: OwnBody): boolean =>
  source.text.length > PIECE || hasDuplicateMembers(source.text, body)

const checkFrom = (guards: readonly Guard[], first: number, texts: CheckedTexts): Eventual<GuardVerdict | null> => {
  for (let at = first; at < guards.length; at++) {
    const verdict = guards[at]?.request?.(texts.read, texts.media) ?? null
    if (verdict instanceof Promise)
      return verdict.then((later) => (later && texts.take(later)) ?? checkFrom(guards, at + 1, texts))
    const final = verdict && texts.take(verdict)
    if (final) return final
  }
  return texts.replaced
}

/** The texts of a request while guards replace some of them. They are searched when a guard first asks for them. */
class CheckedTexts {
  readonly #body: JsonObject
  readonly #media: readonly string[]
  #originals: readonly RequestText[] | null = null
  #texts: readonly RequestText[] = []

  constructor({ body, media = [] }: OwnBody) {
    this.#body = body
    this.#media = media
  }

  readonly media = (): readonly string[] => [...this.#media, ...mediaIn(this.#body)]

  readonly read = (): readonly RequestText[] => {
    if (this.#originals) return this.#texts
    const found: RequestText[] = []
    changedTexts(this.#body, (one) => {
      found.push(one)
      return one.text
    })
    this.#originals = found
    this.#texts = found
    return found
  }

  /** Returns the verdict if it is final. */
  take(verdict: GuardVerdict): GuardVerdict | null {
    if (!('replace' in verdict)) return verdict
    const { replace } = verdict
    this.#texts = this.read().map((one) => {
      const text = replace.get(one.text)
      return text === undefined ? one : { ...one, text }
    })
    return null
  }

  /** The texts that all guards have replaced; null: none. */
  get replaced(): GuardVerdict | null {
    const replace = new Map<string, string>()
    for (const [at, { text }] of (this.#originals ?? []).entries()) {
      const now = this.#texts[at]?.text
      if (now !== undefined && now !== text) replace.set(text, now)
    }
    return replace.size === 0 ? null : { replace }
  }
}

/** Parses a changed body as the client's was parsed. */
type ParseAgain<T> = (source: EncodedText) => Eventual<Outcome<T>>

/**
 * The request with these texts, written and parsed again. All else keeps its place, so that paths stay those of the client. A large
 * body is written in turns of the event loop.
 */
export const withTexts = <T extends OwnBody>(
  request: T,
  replace: ReadonlyMap<string, string>,
  { parse, turn }: { readonly parse: ParseAgain<T>; readonly turn: TurnScheduler },
): Eventual<Outcome<T>> => {
  const body = changedTexts(request.body, ({ text }) => replace.get(text) ?? text)
  const isLarge = request.source.text.length > PIECE
  const written = isLarge ? inTurns(writeLarge(body), turn) : { text: JSON.stringify(body) }
  return whenKnown(written, (source) =>
    whenKnown(parse(source), (parsed) => (parsed.ok ? good({ ...request, ...parsed.value }) : parsed)),
  )
}

/** How a chat request was parsed. */
export type ChatParsing = {
  readonly protocol: ClientProtocol
  readonly path: string
  readonly limits: ExtentLimits
  readonly turn: TurnScheduler
}

/**
 * The request with its body as the client sent it, whose texts guards read. That of a reshaped request is another one: it is in
 * the format's own shape.
 */
export const asReceived = (inbound: InboundRequest, { limits, turn }: ChatParsing): Eventual<InboundRequest> => {
  if (!inbound.request.reshaped) return inbound
  return readInTurns(inbound.source, limits, turn).then((read) => (read.ok ? { ...inbound, ...read.value } : inbound))
}

/** A chat request with these texts. */
export const chatWithTexts = (
  received: InboundRequest,
  replace: ReadonlyMap<string, string>,
  { protocol, path, limits, turn }: ChatParsing,
): Eventual<Outcome<InboundRequest>> =>
  withTexts(received, replace, {
    turn,
    parse: (body) => parseInTurns(protocol, { body, headers: received.headers, path }, limits, turn),
  })
