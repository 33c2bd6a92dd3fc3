/** What one candidate would be sent: which format, which body, which headers, and what cannot be carried there. */

import type { ChatRequest, UpstreamProtocolName } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { type JsonObject, list, object } from '../../core/json.ts'
import { rewrite, rewriteSource, type Span } from '../../core/json-text.ts'
import { isLarge, rewriteLarge, writeLarge } from '../../core/large-write.ts'
import { pathStep } from '../../core/path-step.ts'
import type { ClientProtocol, EncodeTarget, Loss, SameFormat, UpstreamProtocol } from '../../core/protocol.ts'
import type { Auth, Identity, Instance, ProviderKey, Wire } from '../../core/provider.ts'
import { PIECE } from '../../core/steps.ts'
import type { Candidate } from '../../core/target.ts'
import { type Doubt, doubts } from '../../policy/routing/capabilities.ts'
import { wiresInOrder } from '../../policy/routing/choose-protocol.ts'
import { sse } from '../../protocols/framing/sse.ts'
import { upstreamProtocols } from '../../protocols/index.ts'
import { withoutKeeping } from '../../protocols/openai-responses/without-storage.ts'
import { acceptedBody, missingAbilities, withoutRefusedPaths } from '../../protocols/shared/accepts.ts'
import { choicesOf } from '../../protocols/shared/choices.ts'
import { LateBody } from './late-body.ts'

/** The client's request, read once. */
export type InboundRequest = {
  readonly protocol: ClientProtocol
  readonly request: ChatRequest
  /** As it came, and parsed; `members` says where in the text each outermost member lies. */
  readonly source: string
  readonly body: JsonObject
  /** What the client sent, with its bytes, where they are at hand: `source` itself, unless that was written anew. */
  readonly raw?: EncodedText
  readonly members: readonly Span[]
  readonly headers: HeaderLookup
  /** What stood behind the path's question mark. */
  readonly query?: string
  /** The request is not what the body says any more: it is written anew, for whoever speaks the same format too, without what lay at these paths. */
  readonly reencode?: { readonly without: readonly string[] }
  /** A path in `body` as the client would write it, where the body is not the client's own alone. */
  readonly clientPath?: (path: string) => string
  /** Whether the vendor has refused a member of the body (`store`), or of its messages or items (`messages.foo`). */
  readonly refused?: (path: string) => boolean
  /** The client wants a whole answer, and the upstream is asked for a stream all the same. */
  readonly asStream?: true
  /** Its last message is the beginning of the answer: it goes to whoever goes on from there, in the format for that. */
  readonly continues?: true
}

/**
 * A question whose client wants a whole answer, as a provider is asked it of which the operator said `aggregate`: for a
 * stream. Nothing has been sent before it has ended, so whatever breaks it off can be tried elsewhere. Sound has other
 * encodings in a stream than whole (OpenAI: `pcm16` alone), so what asks for it is asked as it is.
 */
export const forcedStream = (question: InboundRequest, { aggregate }: Instance): InboundRequest => {
  if (aggregate !== true || question.request.stream || question.asStream || wantsSound(question.body)) return question
  return { ...question, asStream: true, request: { ...question.request, stream: true } }
}

const wantsSound = ({ modalities, audio }: JsonObject): boolean =>
  object(audio) !== undefined || list(modalities).includes('audio')

export type OutboundRequest = {
  readonly protocol: UpstreamProtocol
  readonly url: string
  readonly auth: Auth
  /** Empty where it is written late. */
  readonly body: string
  /** The same, where its bytes are at hand. */
  readonly raw?: EncodedText
  /** A large body is not written before this target is tried. */
  readonly late?: LateBody
  /** A stream is asked for. */
  readonly stream: boolean
  /** Client paths of what was given up. */
  readonly dropped: readonly string[]
  /** Client paths of what the target cannot carry and the request cannot do without. Not empty: unfit. */
  readonly unfit: readonly string[]
  /** Client paths of what it can be asked only without, and what may be left out when nobody is left who carries it. */
  readonly droppable: readonly string[]
  /** What its model cannot do by the catalogue. */
  readonly doubts: readonly Doubt[]
}

/** How well a target can carry what is asked, by the client's paths. */
export type Compatibility = Pick<OutboundRequest, 'dropped' | 'unfit' | 'droppable' | 'doubts'>

/**
 * What this candidate would be sent: in the client's own format if it is spoken there, and in another one only if that
 * carries what the own cannot, or the own is lacking there.
 */
export const prepareRequest = (
  question: InboundRequest,
  candidate: Candidate,
  facts: ModelFacts | undefined,
  lacking?: ReadonlySet<UpstreamProtocolName>,
): OutboundRequest | null => {
  const { clientPath = (path) => path } = question
  const unsure = doubts(question.request, facts, question.source.length)
  const about = { doubts: unsure.map(({ at, lacks }) => ({ at: clientPath(at), lacks })) }
  let best: OutboundRequest | null = null
  const { supportsPrefill: takesPrefill } = candidate.instance.provider
  for (const wire of wiresInOrder(question.protocol.name, candidate.instance, candidate.model, lacking)) {
    if (question.continues && wire.protocol !== takesPrefill?.protocol) continue
    const made = { ...prepareAs(wire, question, candidate, facts), ...about }
    if (made.unfit.length === 0 && made.droppable.length === 0) return made
    if (!best || (best.unfit.length > 0 && made.unfit.length === 0)) best = made
  }
  return best
}

const prepareAs = (
  wire: Wire,
  question: InboundRequest,
  candidate: Candidate,
  facts: ModelFacts | undefined,
): Omit<OutboundRequest, 'doubts'> => {
  const { instance, model } = candidate
  const protocol = upstreamProtocols[wire.protocol]
  const { takesReasoning, takesCustomTools, sealsReasoning } = instance.provider
  const { accepts, lacks } = wire
  const isTranslated = protocol.name !== question.protocol.name
  const target: EncodeTarget = {
    model,
    outputLimit: facts?.maxOutputTokens,
    reasons: facts?.capabilities?.includes('reasoning'),
    takesReasoning,
    accepts,
    takesCustomTools,
    // A responses client requests the seals itself; clients of other formats cannot, and always return them.
    sealsReasoning: isTranslated && sealsReasoning?.test(model),
  }
  const quirk = instance.provider.quirks?.requestBody
  const given: Loss[] = []
  /** By the client's own paths. */
  const lacking = lacks ? missingAbilities(question.request, lacks) : NONE
  const lost = (path: string, unfit = false) => given.push({ at: path, unfit })
  const mend = (body: JsonObject) => {
    const asked = wire.keepsNothing ? withoutKeeping(body, question.protocol.name, lost) : body
    const taken = acceptedBody(asked, accepts, lost)
    const fitted = quirk?.(taken, model, lost, protocol.name) ?? taken
    return question.refused ? withoutRefusedPaths(fitted, question.refused, lost) : fitted
  }
  const { request } = question
  const stream = request.stream && !(protocol.choices?.wholeOnly && choicesOf(request) > 1)
  const path = pathOf(wire, protocol, model, stream)
  const place = wire.atHost ? hostOf(instance.baseUrl) : instance.baseUrl
  const url = place + (instance.provider.quirks?.path?.(path, model, instance.variables) ?? path)
  const auth = wire.auth ?? instance.provider.auth

  const same = question.reencode ? undefined : sameFormat(question.protocol, protocol)
  if (same) {
    const asked = question.asStream ? { ...question.body, stream: true } : question.body
    const adapted = same.adaptRequest(asked, target)
    const after = mend(adapted)
    const isShorter = adapted.input !== asked.input || adapted.messages !== asked.messages
    const left = isShorter ? (same.omittedEntries?.(asked, target) ?? []) : []
    const named =
      left.length === 0
        ? given
        : [
            ...left.map((at) => ({ at, unfit: false })),
            ...given.map((loss) => ({ ...loss, at: beforeLeaving(loss.at, left) })),
          ]
    // A path of the provider's own (Vertex) is not Anthropic's, and takes no query of theirs.
    const query = wire.path === undefined ? passedQuery(question, url) : ''
    return {
      protocol,
      url: url + query,
      auth,
      ...rewritten(question, after),
      stream,
      ...sorted(lacking.length === 0 ? named : [...lacking, ...named], question),
    }
  }
  const encoded = protocol.encodeRequest(stream === request.stream ? request : { ...request, stream }, target)
  const mended = mend(encoded.body)
  const after = question.continues ? (instance.provider.supportsPrefill?.body?.(mended) ?? mended) : mended
  const byClientsName = given.map(({ at, unfit }) => ({ at: original(at, encoded.from), unfit }))
  const gone = (question.reencode?.without ?? []).map((at) => ({ at, unfit: false }))
  const losses = sorted([...lacking, ...encoded.losses, ...byClientsName, ...gone], question)
  const written =
    question.source.length > PIECE
      ? { body: '', late: new LateBody(() => writeLarge(after)) }
      : { body: JSON.stringify(after) }
  return { protocol, url, auth, ...written, stream, ...losses }
}

/** The client's body with the members that differ from it. */
const rewritten = (
  { source, members, raw, body: before }: InboundRequest,
  after: JsonObject,
): Pick<OutboundRequest, 'body' | 'raw' | 'late'> => {
  const isRaw = raw?.text === source
  if (source.length > PIECE && before !== after) {
    // The bytes of what stays are copied at once: 18 MB in 5 ms.
    const isCopied = isRaw && !Object.keys(after).some((name) => after[name] !== before[name] && isLarge(after[name]))
    const write = isCopied
      ? () => oneStep(() => rewriteSource(raw, members, before, after))
      : () => rewriteLarge(source, members, before, after)
    return { body: '', late: new LateBody(write) }
  }
  // A body of ASCII alone is encoded as fast as its bytes are copied.
  if (isRaw && raw.bytes.length > source.length) {
    const sent = rewriteSource(raw, members, before, after)
    return { body: sent.text, raw: sent }
  }
  const body = rewrite(source, members, before, after)
  return { body, ...(raw?.text === body && { raw }) }
}

// biome-ignore lint/correctness/useYield: all of it is one piece
function* oneStep<T>(run: () => T): Generator<undefined, T, undefined> {
  return run()
}

/** How the client's format passes, if it is the upstream's as well. */
export const sameFormat = (client: ClientProtocol, upstream: UpstreamProtocol): SameFormat | undefined =>
  client.name === upstream.name ? client.passing : undefined

const hostOf = (url: string): string => /^[a-z]+:\/\/[^/]*/i.exec(url)?.[0] ?? url

/** The path of this call: the provider's own if it has one for this format, the model's name written into it. */
const pathOf = (wire: Wire, protocol: UpstreamProtocol, model: string, stream: boolean): string => {
  const { path = protocol.path, streamPath } = wire.path === undefined ? { ...protocol, ...wire } : wire
  return (stream ? (streamPath ?? path) : path).replace('{model}', () => pathStep(model))
}

const NONE: readonly Loss[] = []
const NO_LOSSES = { dropped: [], unfit: [], droppable: [] } as const

const sorted = (
  losses: readonly Loss[],
  { request, clientPath = (path) => path }: InboundRequest,
): Pick<OutboundRequest, 'dropped' | 'unfit' | 'droppable'> => {
  if (losses.length === 0) return NO_LOSSES
  const paths = (unfit: boolean) => [...new Set(losses.filter((loss) => loss.unfit === unfit).map(({ at }) => at))]
  const essential = paths(true)
  const spare = essential.length > 0 ? spareIn(request) : new Set<string>()
  const named = (found: readonly string[]) => [...new Set(found.map(clientPath))]
  return {
    dropped: named(paths(false)),
    unfit: named(essential.filter((at) => !spare.has(at))),
    droppable: named(essential.filter((at) => spare.has(at))),
  }
}

/** The paths of what a provider runs itself and the model need not use, and of the traces such use has left. */
const spareIn = ({ tools, messages, extras }: ChatRequest): ReadonlySet<string> =>
  new Set(
    [...tools, ...extras, ...messages.flatMap(({ content }) => content)].flatMap((one) =>
      'spare' in one && one.spare ? [one.at] : [],
    ),
  )

/** Asked without what it can only be asked without; that is named like any other loss. */
export const dropOptional = <Ready extends Compatibility>(prepared: Ready): Ready =>
  prepared.droppable.length === 0
    ? prepared
    : { ...prepared, dropped: [...prepared.dropped, ...prepared.droppable], droppable: [] }

/** A path in a body, as it was before these entries of its lists were left out. */
const beforeLeaving = (path: string, left: readonly string[]): string =>
  left.reduce((now, gone) => {
    const [, list = '', index] = /^(.*)\[(\d+)\]$/s.exec(gone) ?? []
    if (!now.startsWith(`${list}[`)) return now
    const [, at = '', rest = ''] = /^(\d+)(.*)$/s.exec(now.slice(list.length + 1)) ?? []
    return Number(at) >= Number(index) ? `${list}[${Number(at) + 1}${rest}` : now
  }, path)

/** A path in the upstream's body, as the client would write it: by the longest part of it whose origin is known. */
const original = (path: string, from: { readonly [member: string]: string }): string => {
  for (let head = path; head !== ''; head = head.slice(0, Math.max(0, head.search(/[.[][^.[]*$/)))) {
    const client = Object.hasOwn(from, head) ? from[head] : undefined
    if (client !== undefined) return client + path.slice(head.length)
  }
  return path
}

/**
 * The headers of the call upstream: ours, the provider's, the credential, and from the client only what a provider of
 * the same format understands. Never its authorization, cookies or forwarding headers.
 */
export const headersFor = (
  instance: Instance,
  key: ProviderKey,
  question: InboundRequest,
  prepared: OutboundRequest,
): Readonly<Record<string, string>> => {
  const ours = oursFor(instance, key, prepared)
  if (prepared.protocol.name !== question.protocol.name) return ours
  let headers: Record<string, string> | null = null
  for (const [name, isSane] of FORWARDED_HEADERS) {
    const value = question.headers(name)
    if (value === undefined || !isSane(value)) continue
    headers ??= { ...ours }
    headers[name] = value
  }
  return headers ?? ours
}

/** The same object for the same kind of call with the same key: what is made of it further out is made once too. */
const oursFor = (
  instance: Instance,
  key: ProviderKey,
  { protocol, stream, auth }: OutboundRequest,
): CachedHeaders['headers'] => {
  const before = made.get(key) ?? []
  for (const one of before)
    if (one.instance === instance && one.protocol === protocol && one.stream === stream && one.auth === auth)
      return one.headers
  const headers: CachedHeaders['headers'] = {
    'content-type': 'application/json',
    accept: stream ? (protocol.framing ?? sse).mediaType : 'application/json',
    ...protocol.headers,
    ...providerHeaders(instance, key, auth),
  }
  made.set(key, [...before.slice(-MOST_MADE + 1), { instance, protocol, stream, auth, headers }])
  return headers
}

/** So many kinds of calls with one key. */
const MOST_MADE = 8
type CachedHeaders = Pick<OutboundRequest, 'protocol' | 'stream' | 'auth'> & {
  readonly instance: Instance
  readonly headers: Readonly<Record<string, string>>
}
const made = new WeakMap<ProviderKey, readonly CachedHeaders[]>()

/** What every call to a provider carries, whatever it asks: its own headers and the credential. */
export const providerHeaders = (
  { provider }: Instance,
  key: ProviderKey,
  auth: Auth = provider.auth,
): Record<string, string> => ({
  'accept-encoding': 'identity',
  'user-agent': 'headgate',
  ...provider.headers,
  ...(auth !== 'none' && key.secret && { [auth.header]: (auth.prefix ?? '') + key.secret.reveal() }),
})

/** Who signs the call in, if no key does. */
export const identityOf = (
  { provider, variables }: Instance,
  key: ProviderKey,
  auth: Auth = provider.auth,
): Identity | undefined => (auth === 'none' || key.secret ? undefined : auth.otherwise?.(variables))

/** Client headers that mean something to the model's provider and carry nothing of the client's identity. */
export const FORWARDED_HEADERS: readonly (readonly [name: string, isSane: (value: string) => boolean])[] = [
  ['anthropic-beta', () => true],
  ['openai-beta', () => true],
  // A date; what came before this one has streams of another form, which nobody here reads.
  ['anthropic-version', (value) => /^20\d\d-\d\d-\d\d$/.test(value) && value >= '2023-06-01'],
]

/** Anthropic's SDKs mark their beta calls in the query too. That mark passes, and nothing else of a query does. */
const passedQuery = ({ query = '' }: InboundRequest, url: string): string =>
  new URLSearchParams(query).get('beta') === 'true' ? `${url.includes('?') ? '&' : '?'}beta=true` : ''
