/** Builds the request for one candidate: protocol, URL, body and headers, and the members that it cannot carry. */

import type { SentBetas } from '../../core/betas.ts'
import type { ChatRequest, GenerationSettings, UpstreamProtocolName } from '../../core/chat.ts'
import type { ModelFacts } from '../../core/config.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import type { HeaderLookup } from '../../core/headers.ts'
import { type Json, type JsonObject, list, object } from '../../core/json.ts'
import { rewrite, type Span } from '../../core/json-text.ts'
import { isLarge, rewriteLarge, writeLarge } from '../../core/large-write.ts'
import { mergePatch } from '../../core/merge-patch.ts'
import { pathSegment } from '../../core/path-segment.ts'
import type { ClientProtocol, EncodeTarget, Loss, SameFormat, UpstreamProtocol } from '../../core/protocol.ts'
import type {
  Auth,
  CountingPath,
  Identity,
  Instance,
  ModelLimits,
  ProtocolSupport,
  ProviderKey,
} from '../../core/provider.ts'
import { PIECE, type Steps } from '../../core/steps.ts'
import type { Candidate, CandidatePreference } from '../../core/target.ts'
import type { TargetOverride } from '../../core/target-override.ts'
import { isPolicyOnly, withoutPolicyMembers } from '../../policy/accounts/data-policy.ts'
import { BETA_HEADER, betasIn, withBetas } from '../../policy/routing/betas.ts'
import { type Doubt, doubts } from '../../policy/routing/capabilities.ts'
import { protocolsInOrder } from '../../policy/routing/choose-protocol.ts'
import { fittingOutput } from '../../policy/routing/output-room.ts'
import { overriddenBetas, overriddenSettings } from '../../policy/routing/override.ts'
import { sse } from '../../protocols/framing/sse.ts'
import { protocolOf } from '../../protocols/index.ts'
import { withoutKeeping } from '../../protocols/openai-responses/encode-request.ts'
import { acceptedBody, missingAbilities, withoutRefusedPaths } from '../../protocols/shared/accepts.ts'
import { withCacheMarks } from '../../protocols/shared/cache-marks.ts'
import { choicesOf } from '../../protocols/shared/choices.ts'
import { withoutForeignParts } from '../../protocols/shared/foreign-parts.ts'
import { translatedLimits } from '../../protocols/shared/limits.ts'
import { withPairedCalls } from '../../protocols/shared/paired-calls.ts'
import { breakpointed } from './breakpoints.ts'
import { clientHeadersFor, withheldHeaders } from './client-headers.ts'
import { LateBody } from './late-body.ts'
import { bodyWithSettings } from './override-body.ts'

/** The client's request, parsed once. */
export type InboundRequest = {
  readonly protocol: ClientProtocol
  readonly request: ChatRequest
  /** The body as text, and parsed below. `members`: the position of each outermost member in the text. */
  readonly source: EncodedText
  readonly body: JsonObject
  readonly members: readonly Span[]
  /** Client paths of strings in which halves of surrogate pairs were replaced. */
  readonly mended?: readonly string[]
  readonly headers: HeaderLookup
  /** The query string of the request, without the inbound mark. */
  readonly query?: string
  /** `request` differs from `body`. It is encoded again even for the same protocol. `without`: the removed paths. */
  readonly reencode?: { readonly without: readonly string[] }
  /** Maps a path in `body` to the client's path, if the body contains more than the client sent. */
  readonly clientPath?: (path: string) => string
  /** The most output tokens to request from this target, as its refusal states. */
  readonly outputLimit?: number
  /** The client's request has no output limit, and the target needs this one. */
  readonly addsLimit?: boolean
  /**
   * Whether the provider has rejected a member of the body (`store`), of its settings (`generationConfig.topK`), or of its
   * messages or items (`messages.foo`), or this value of it.
   */
  readonly refused?: (path: string, value: Json) => boolean
  /** Whether an endpoint other than the target's is known to have encrypted this reasoning. Absent: no issuer is known. */
  readonly isEncryptedElsewhere?: (encrypted: string) => boolean
  /** The upstream streams the answer although the client did not request a stream. */
  readonly asStream?: true
  /** Each choice of the answer passes the stages of guards, so its events are needed. */
  readonly hasGuardedAnswer?: true
  /** The operator changes the request for this target: the settings of `request` differ from these of the client. */
  readonly overridden?: { readonly before: GenerationSettings } & Pick<TargetOverride, 'extra' | 'betas'>
  /** The last message is the beginning of the answer. Only targets that support prefill can continue it. */
  readonly continues?: true
}

/**
 * Turns a request without streaming into a streamed one, for an instance with the setting `aggregate`. The answer is sent
 * when it is complete, so a broken stream can be retried. Audio output is excluded: streams support fewer encodings (OpenAI:
 * only `pcm16`).
 */
export const forcedStream = (inbound: InboundRequest, { aggregate }: Instance): InboundRequest => {
  if (aggregate !== true || inbound.request.stream || inbound.asStream || wantsAudio(inbound.body)) return inbound
  return { ...inbound, asStream: true, request: { ...inbound.request, stream: true } }
}

const wantsAudio = ({ modalities, audio }: JsonObject): boolean =>
  object(audio) !== undefined || list(modalities).includes('audio')

/** The request for one target. */
export type OutboundRequest = {
  readonly protocol: UpstreamProtocol
  readonly url: string
  readonly auth: Auth
  /** A large body is a `LateBody`: it is encoded when this target is tried. */
  readonly body: EncodedText
  /** The request asks for a stream. */
  readonly stream: boolean
  /** The betas that it names. Absent: those of the client are forwarded. */
  readonly betas?: SentBetas & { readonly inHeader: boolean }
  /** How the provider counts the tokens of the request, if not as the format does. */
  readonly counts?: CountingPath & { readonly url: string }
  /** Client paths of dropped parts. */
  readonly dropped: readonly string[]
  /** Client paths of essential parts that the target cannot carry. If not empty, the target is unfit. */
  readonly unfit: readonly string[]
  /** The cause of the first of them that has one (`Loss.because`). */
  readonly because?: string
  /** Client paths of optional parts that the target cannot carry. They may be dropped if no other target can carry them. */
  readonly droppable: readonly string[]
  /** Features of the request that the model lacks according to the catalogue. */
  readonly doubts: readonly Doubt[]
}

/** How well a target can carry the request, by the client's paths. */
export type Compatibility = Pick<OutboundRequest, 'dropped' | 'unfit' | 'because' | 'droppable' | 'doubts'>

/** Whether the target can carry the whole request. */
export const isCompatible = ({ unfit, droppable, doubts }: Compatibility): boolean =>
  [unfit, droppable, doubts].every(({ length }) => length === 0)

/**
 * Builds the request for a candidate. Prefers the client's protocol; uses another if the candidate lacks it, or if only the
 * other carries the whole request. `lacking`: protocols found unsupported. Null: no protocol is possible.
 */
export const prepareRequest = (
  received: InboundRequest,
  candidate: Candidate,
  facts: ModelFacts | undefined,
  lacking?: ReadonlySet<UpstreamProtocolName>,
): OutboundRequest | null => {
  const inbound = candidate.override ? withOverride(received, candidate.override) : received
  const { clientPath = (path) => path } = inbound
  const found = doubts(inbound.request, facts, inbound.source.text.length)
  const atClientPaths = found.length === 0 ? found : found.map(({ at, lacks }) => ({ at: clientPath(at), lacks }))
  let best: OutboundRequest | null = null
  const { supportsPrefill } = candidate.instance.provider
  const withheld = withheldHeaders(candidate.instance, inbound.headers)
  for (const wire of protocolsInOrder(inbound.protocol.name, candidate.instance, candidate.model, lacking)) {
    if (inbound.continues && wire.protocol !== supportsPrefill?.protocol) continue
    const prepared = prepareAs(wire, inbound, candidate, facts)
    const dropped = withheld.length === 0 ? prepared.dropped : [...prepared.dropped, ...withheld]
    const made = strictly(candidate.preference, inbound, { ...prepared, dropped, doubts: atClientPaths })
    if (made.unfit.length === 0 && made.droppable.length === 0) return made
    if (!best || (best.unfit.length > 0 && made.unfit.length === 0)) best = made
  }
  return best
}

/** A request whose losses make the target unfit, if the client wants a target that takes all of it. */
const strictly = (
  preference: CandidatePreference | undefined,
  { mended = NO_PATHS }: InboundRequest,
  made: OutboundRequest,
): OutboundRequest => {
  if (!preference?.isStrict || made.dropped.length === 0) return made
  const lost = made.dropped.filter((path) => !preference.ignored.includes(path) && !mended.includes(path))
  return lost.length === 0 ? made : { ...made, unfit: [...made.unfit, ...lost] }
}

const withOverride = (inbound: InboundRequest, override: TargetOverride): InboundRequest => {
  const { request } = inbound
  const settings = overriddenSettings(request.settings, override)
  const overridden = { ...override, before: request.settings }
  return { ...inbound, request: { ...request, settings }, overridden }
}

const prepareAs = (
  wire: ProtocolSupport,
  inbound: InboundRequest,
  candidate: Candidate,
  facts: ModelFacts | undefined,
): Omit<OutboundRequest, 'doubts'> => {
  const { instance, model } = candidate
  const protocol = protocolOf(wire)
  const { acceptsReasoning, supportsCustomTools, encryptsReasoning, readsBillingLine, cacheMarks } = instance.provider
  const { accepts, lacks } = wire
  const isTranslated = protocol.name !== inbound.protocol.name
  // The catalogue may be out of date: a client of the same format knows the model, and its request is tried as it is.
  const lowered = loweredOutput(inbound, (isTranslated ? facts : facts?.stated) ?? {})
  const target: EncodeTarget = {
    model,
    instance: instance.id,
    isEncryptedElsewhere: inbound.isEncryptedElsewhere,
    outputLimit: lowest(facts?.maxOutputTokens, inbound.outputLimit),
    reasons: facts?.capabilities?.includes('reasoning'),
    acceptsReasoning,
    accepts,
    supportsCustomTools,
    readsBillingLine,
    cacheMark: protocol.cacheMark ?? cacheMarks?.find(({ models }) => models.test(model))?.mark,
    // Clients of the responses API request signatures themselves. Other clients cannot request them, and always return
    // them.
    encryptsReasoning: isTranslated && encryptsReasoning?.test(model),
  }
  const bodyLosses: Loss[] = []
  /** Parts of the request that the wire does not support, by client paths. */
  const lacking = lacks ? missingAbilities(inbound.request, lacks) : NONE
  const recordLoss: RecordLoss = (path, essential = false, because) =>
    bodyLosses.push({ path, essential, ...(because !== undefined && { because }) })
  const { without = NO_PATHS, ignored = NO_PATHS } = candidate.preference ?? {}
  for (const path of ignored) if (without.some((name) => path === name || path.startsWith(`${name}.`))) recordLoss(path)
  const adjust = (body: JsonObject) => adjusted(body, { wire, inbound, candidate, recordLoss })
  const request = lowered === undefined ? inbound.request : withOutputLimit(inbound, lowered)
  const stream = request.stream && !(protocol.choices?.wholeOnly && choicesOf(request) > 1)
  const path = pathOf(wire, protocol, model, stream)
  const base = wire.atHost ? hostOf(instance.baseUrl) : instance.baseUrl
  const located = (plain: string) =>
    base + (instance.provider.quirks?.path?.(plain, model, instance.variables) ?? plain)
  const url = located(path)
  const auth = wire.auth ?? instance.provider.auth
  const { counts } = wire
  const counting = counts && {
    counts: { ...counts, url: located(withModel(counts.path, counts.model?.(model) ?? model)) },
  }

  const same = inbound.reencode ? undefined : sameFormat(inbound.protocol, protocol)
  if (same) {
    const own = inbound.overridden ? overriddenBody(inbound, same, recordLoss) : inbound.body
    const asked = inbound.asStream ? { ...own, stream: true } : own
    const { body: original, paths } =
      lowered === undefined ? { body: asked, paths: [] } : same.lowerOutput(asked, lowered)
    for (const path of paths) recordLoss(path)
    const adapted = same.adaptRequest(original, target)
    const { body: after, betas } = adjust(adapted)
    const isShorter = adapted.input !== original.input || adapted.messages !== original.messages
    const omitted = isShorter ? (same.omittedEntries?.(original, target) ?? []) : []
    const sameLosses =
      omitted.length === 0
        ? bodyLosses
        : [
            ...omitted.map((path) => ({ path, essential: false })),
            ...bodyLosses.map((loss) => ({ ...loss, path: pathBeforeOmission(loss.path, omitted) })),
          ]
    // A provider-specific path (Vertex) does not accept Anthropic's query parameters.
    const query = wire.path === undefined ? forwardedQuery(inbound, url) : ''
    return {
      protocol,
      url: url + query,
      auth,
      body: rewritten(inbound, breakpointed(after, protocol, inbound, candidate)),
      stream,
      ...(betas && { betas }),
      ...counting,
      ...sorted(lacking.length === 0 ? sameLosses : [...lacking, ...sameLosses], inbound),
    }
  }
  const portable = withoutForeignParts(stream === request.stream ? request : { ...request, stream }, protocol.name)
  const paired = withPairedCalls(portable.request)
  const marked = withCacheMarks(paired.request, target.cacheMark)
  const encoded = protocol.encodeRequest(marked.request, target)
  const { body: fitting, betas } = adjust(encoded.body)
  const whole = inbound.continues ? (instance.provider.supportsPrefill?.body?.(fitting) ?? fitting) : fitting
  const after = breakpointed(whole, protocol, inbound, candidate)
  // Its members are those of another format.
  if (inbound.overridden?.extra) recordLoss('extra')
  const atClientPaths = bodyLosses.map((loss) => ({ ...loss, path: clientPathOf(loss.path, encoded.from) }))
  const removed = (inbound.reencode?.without ?? []).map((path) => ({ path, essential: false }))
  const outputLosses = lowered === undefined ? NONE : pathOfOutputLimit(request)
  const replaced = [...portable.losses, ...paired.losses, ...marked.losses]
  const applied = isPolicyOnly(inbound.body) ? 'provider' : null
  const unsent = encoded.losses.filter(({ path: lost }) => lost !== applied && !without.includes(lost))
  const losses = sorted([...lacking, ...outputLosses, ...replaced, ...unsent, ...atClientPaths, ...removed], inbound)
  const isLong = inbound.source.text.length > PIECE
  const body = isLong ? new LateBody(() => writeLarge(after)) : { text: JSON.stringify(after) }
  return { protocol, url, auth, body, stream, ...(betas && { betas }), ...counting, ...losses }
}

/** A version of Anthropic's API after that of clouds. */
const newerVersion = (headers: HeaderLookup): string | undefined => {
  const version = headers(VERSION_HEADER)
  return version !== undefined && /^20\d\d-\d\d-\d\d$/.test(version) && version > '2023-06-01' ? version : undefined
}
const VERSION_HEADER = 'anthropic-version'

type RecordLoss = (path: string, essential?: boolean, because?: string) => void

/** The upstream body without what the provider does not take, and its betas. */
const adjusted = (
  body: JsonObject,
  {
    wire,
    inbound,
    candidate: { instance, model, preference },
    recordLoss,
  }: {
    readonly wire: ProtocolSupport
    readonly inbound: InboundRequest
    readonly candidate: Candidate
    readonly recordLoss: RecordLoss
  },
): Pick<OutboundRequest, 'betas'> & { readonly body: JsonObject } => {
  const { quirks, readsPreferences } = instance.provider
  const { protocol, accepts, betas: rules } = wire
  const isTranslated = protocol !== inbound.protocol.name
  const stating = preference ? withoutMembers(body, preference.without) : body
  const own = readsPreferences?.includes('provider') ? stating : withoutPolicyMembers(stating)
  const stateless = wire.stateless ? withoutKeeping(own, inbound.protocol.name, recordLoss) : own
  const limits = isTranslated ? translatedLimits(accepts?.limits) : accepts?.limits
  const accepted = acceptedBody(stateless, accepts, limits, recordLoss)
  const changed = quirks?.requestBody?.(accepted, model, recordLoss, protocol) ?? accepted
  const version = !isTranslated && wire.ownVersions?.test(model) ? newerVersion(inbound.headers) : undefined
  const fitted = version === undefined ? changed : { ...changed, anthropic_version: version }
  const { refused } = inbound
  const known = refused ? withoutRefusedPaths(fitted, refused, recordLoss) : fitted
  const client = isTranslated ? NO_PATHS : betasIn(inbound.headers(BETA_HEADER))
  const changes = protocolOf(wire).takesBetas ? inbound.overridden?.betas : undefined
  const wanted = changes ? overriddenBetas(client, changes) : client
  if (!rules)
    return changes ? { body: known, betas: { sent: wanted, needed: NO_PATHS, inHeader: true } } : { body: known }
  const made = withBetas(known, rules, {
    wanted,
    isRefused: (beta) => refused?.(BETA_HEADER, beta) === true,
    onLoss: recordLoss,
  })
  return { body: made.body, betas: { ...made.betas, inHeader: rules.in === 'header' } }
}

const withoutMembers = (body: JsonObject, names: readonly string[]): JsonObject =>
  names.some((name) => Object.hasOwn(body, name))
    ? Object.fromEntries(Object.entries(body).filter(([name]) => !names.includes(name)))
    : body

/** The body of a request in the target's own format, with the settings and members of the override. */
const overriddenBody = (
  { body, request, overridden }: InboundRequest,
  same: SameFormat,
  recordLoss: (path: string) => void,
): JsonObject => {
  if (!overridden) return body
  const { before, extra } = overridden
  const changed = bodyWithSettings(body, { before, after: request.settings }, same)
  for (const path of changed.lost) recordLoss(path)
  return extra ? mergePatch(changed.body, extra) : changed.body
}

/** The output limit to request instead of the client's, where that does not fit. */
const loweredOutput = (
  { request, source, outputLimit, addsLimit }: InboundRequest,
  limits: ModelLimits,
): number | undefined => {
  const wanted = request.settings.maxOutputTokens?.value
  if (wanted === undefined) return addsLimit ? outputLimit : undefined
  const fitting = lowest(fittingOutput(request, limits, source.text.length), outputLimit)
  return fitting !== undefined && fitting < wanted ? fitting : undefined
}

const lowest = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? (one ?? other) : Math.min(one, other)

const withOutputLimit = ({ request, protocol }: InboundRequest, value: number): ChatRequest => {
  const at = request.settings.maxOutputTokens?.at ?? protocol.passing?.lowerOutput({}, value).paths[0] ?? 'max_tokens'
  return { ...request, settings: { ...request.settings, maxOutputTokens: { value, at } } }
}

const pathOfOutputLimit = ({ settings: { maxOutputTokens } }: ChatRequest): readonly Loss[] =>
  maxOutputTokens ? [{ path: maxOutputTokens.at, essential: false }] : []

/** The client's body with the changed members replaced. */
const rewritten = ({ source, members, body: before }: InboundRequest, after: JsonObject): EncodedText => {
  if (source.text.length <= PIECE || before === after) return rewrite(source, members, before, after)
  // The bytes of unchanged members are copied in one step: 18 MB take 5 ms.
  const isCopied =
    source.bytes && !Object.keys(after).some((name) => after[name] !== before[name] && isLarge(after[name]))
  return new LateBody(
    isCopied
      ? () => oneStep(() => joined(rewrite(source, members, before, after)))
      : () => rewriteLarge({ text: source.text, members }, before, after),
  )
}

/** The same with all its bytes, so that they are copied now and not when they are sent. */
const joined = ({ text, bytes }: EncodedText): EncodedText => ({ text, bytes })

// biome-ignore lint/correctness/useYield: the work is one step
function* oneStep<T>(run: () => T): Steps<T> {
  return run()
}

/** The rules for passing a request through, if client and upstream use the same protocol. */
export const sameFormat = (client: ClientProtocol, upstream: UpstreamProtocol): SameFormat | undefined =>
  client.name === upstream.name ? client.passing : undefined

const hostOf = (url: string): string => /^[a-z]+:\/\/[^/]*/i.exec(url)?.[0] ?? url

/** The URL path, provider-specific if configured, with the model name inserted. */
const pathOf = (wire: ProtocolSupport, protocol: UpstreamProtocol, model: string, stream: boolean): string => {
  const { path = protocol.path, streamPath } = wire.path === undefined ? { ...protocol, ...wire } : wire
  return withModel(stream ? (streamPath ?? path) : path, model)
}

const withModel = (path: string, model: string): string => path.replace('{model}', () => pathSegment(model))

const NONE: readonly Loss[] = []
const NO_PATHS: readonly string[] = []
const NO_LOSSES = { dropped: [], unfit: [], droppable: [] } as const

const sorted = (
  losses: readonly Loss[],
  { request, mended = NO_PATHS, clientPath = (path) => path }: InboundRequest,
): Pick<OutboundRequest, 'dropped' | 'unfit' | 'because' | 'droppable'> => {
  if (losses.length === 0) return mended.length === 0 ? NO_LOSSES : { ...NO_LOSSES, dropped: mended }
  const essential = lossPaths(losses, true)
  const optional = essential.length > 0 ? optionalPaths(request) : new Set<string>()
  const named = (found: readonly string[]) => [...new Set(found.map(clientPath))]
  const because = losses.find((loss) => loss.because !== undefined && !optional.has(loss.path))?.because
  return {
    dropped: [...new Set([...mended, ...named(lossPaths(losses, false))])],
    unfit: named(essential.filter((at) => !optional.has(at))),
    ...(because !== undefined && { because }),
    droppable: named(essential.filter((at) => optional.has(at))),
  }
}

/** The paths of the essential or the other losses, each once. */
export const lossPaths = (losses: readonly Loss[], essential: boolean): readonly string[] => [
  ...new Set(losses.filter((loss) => loss.essential === essential).map(({ path }) => path)),
]

/** The paths of optional provider-run tools, and of their calls and results in the conversation. */
const optionalPaths = ({ tools, messages, extras }: ChatRequest): ReadonlySet<string> =>
  new Set(
    [...tools, ...extras, ...messages.flatMap(({ content }) => content)].flatMap((part) =>
      'optional' in part && part.optional ? [part.at] : [],
    ),
  )

/** Drops the optional parts that the target cannot carry, and lists them as dropped. */
export const dropOptional = <Ready extends Compatibility>(prepared: Ready): Ready =>
  prepared.droppable.length === 0
    ? prepared
    : { ...prepared, dropped: [...prepared.dropped, ...prepared.droppable], droppable: [] }

/** Maps a path in a body to the path before these list entries were omitted. */
const pathBeforeOmission = (path: string, omitted: readonly string[]): string =>
  omitted.reduce((current, entry) => {
    const [, list = '', index] = /^(.*)\[(\d+)\]$/s.exec(entry) ?? []
    if (!current.startsWith(`${list}[`)) return current
    const [, at = '', rest = ''] = /^(\d+)(.*)$/s.exec(current.slice(list.length + 1)) ?? []
    return Number(at) >= Number(index) ? `${list}[${Number(at) + 1}${rest}` : current
  }, path)

/** Maps a path in the upstream's body to the client's path, by its longest prefix with a known origin. */
const clientPathOf = (path: string, from: { readonly [member: string]: string }): string => {
  for (let prefix = path; prefix !== ''; prefix = prefix.slice(0, Math.max(0, prefix.search(/[.[][^.[]*$/)))) {
    const client = Object.hasOwn(from, prefix) ? from[prefix] : undefined
    if (client !== undefined) return client + path.slice(prefix.length)
  }
  return path
}

/**
 * The headers of an upstream request: the gateway's, the provider's, the credentials, and a few of the client.
 * Authorization, cookies and forwarding headers of the client are never forwarded.
 */
export const headersFor = (
  instance: Instance,
  key: ProviderKey,
  inbound: InboundRequest,
  prepared: OutboundRequest,
): Readonly<Record<string, string>> => {
  const base = baseHeaders(instance, key, prepared)
  const forwarded = clientHeadersFor(instance, inbound.headers, prepared.protocol.name === inbound.protocol.name)
  const { betas } = prepared
  if (!betas) return forwarded ? { ...base, ...forwarded } : base
  const { [BETA_HEADER]: _, ...others } = forwarded ?? {}
  const isStated = betas.inHeader && betas.sent.length > 0
  return { ...base, ...others, ...(isStated && { [BETA_HEADER]: betas.sent.join(',') }) }
}

/** Headers common to all requests of one kind with one key. Returns the same object each time, so that its encoding is cached too. */
const baseHeaders = (
  instance: Instance,
  key: ProviderKey,
  { protocol, stream, auth }: OutboundRequest,
): CachedHeaders['headers'] => {
  const cached = cachedHeaders.get(key) ?? []
  for (const entry of cached)
    if (entry.instance === instance && entry.protocol === protocol && entry.stream === stream && entry.auth === auth)
      return entry.headers
  const headers: CachedHeaders['headers'] = {
    'content-type': 'application/json',
    accept: stream ? (protocol.framing ?? sse).mediaType : 'application/json',
    ...protocol.headers,
    ...providerHeaders(instance, key, auth),
  }
  cachedHeaders.set(key, [...cached.slice(-MAX_CACHED + 1), { instance, protocol, stream, auth, headers }])
  return headers
}

/** Maximum number of cached header sets for each key. */
const MAX_CACHED = 8
type CachedHeaders = Pick<OutboundRequest, 'protocol' | 'stream' | 'auth'> & {
  readonly instance: Instance
  readonly headers: Readonly<Record<string, string>>
}
const cachedHeaders = new WeakMap<ProviderKey, readonly CachedHeaders[]>()

/** Headers of every request to a provider: its own, those that the operator has set, and the credentials. */
export const providerHeaders = (
  { provider, headers = {} }: Instance,
  key: ProviderKey,
  auth: Auth = provider.auth,
): Record<string, string> => ({
  'accept-encoding': 'identity',
  'user-agent': 'headgate',
  ...provider.headers,
  ...Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, value.reveal()])),
  ...(auth !== 'none' && key.secret && { [auth.header]: (auth.prefix ?? '') + key.secret.reveal() }),
})

/** The identity that provides credentials for a request without a key. */
export const identityOf = (
  { provider, variables }: Instance,
  key: ProviderKey,
  auth: Auth = provider.auth,
): Identity | undefined => (auth === 'none' || key.secret ? undefined : auth.identity?.(variables))

/** Forwards only `beta=true` from the query: Anthropic's SDKs mark beta calls there too. */
const forwardedQuery = ({ query = '' }: InboundRequest, url: string): string =>
  query !== '' && new URLSearchParams(query).get('beta') === 'true' ? `${url.includes('?') ? '&' : '?'}beta=true` : ''
