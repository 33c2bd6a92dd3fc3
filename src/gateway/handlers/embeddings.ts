/**
 * Embeddings: texts to vectors. Routed like every other call, with a plan of its own
 * (`policy/routing/plan-embeddings.ts`). The answer must have exactly one vector per input, in the same order.
 */

import type { Config } from '../../core/config.ts'
import type {
  EmbeddingInput,
  EmbeddingsAnswer,
  EmbeddingsProtocol,
  EmbeddingsRequest,
  EmbeddingsShape,
  Vector,
} from '../../core/embeddings.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { Guard } from '../../core/guard.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import { type Json, type JsonObject, list } from '../../core/json.ts'
import { rewrite } from '../../core/json-text.ts'
import { pathSegment } from '../../core/path-segment.ts'
import type { ClientProtocol, Loss } from '../../core/protocol.ts'
import type { Embeds, EmbedsLimits } from '../../core/provider.ts'
import type { Candidate, Plan } from '../../core/target.ts'
import { withoutPolicyMembers } from '../../policy/accounts/data-policy.ts'
import { bodyBypass } from '../../policy/response-cache.ts'
import { estimateText } from '../../policy/routing/estimate-tokens.ts'
import { draftEmbeddings } from '../../policy/routing/plan-embeddings.ts'
import { configFor } from '../../policy/routing/team-routes.ts'
import { plainShape } from '../../policy/routing/when.ts'
import { embeddingsProtocols } from '../../protocols/embeddings/index.ts'
import { dimensionsOf } from '../../protocols/embeddings/vectors.ts'
import { smallerBatch } from '../../protocols/errors/batch-limit.ts'
import { withinLimits } from '../../protocols/shared/limits.ts'
import { jsonDemand, tokensOfBody } from '../accounts/demand.ts'
import { type RunningCall, runCall } from '../call/call-lifecycle.ts'
import { recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import { requestTimeout } from '../call/request-timeout.ts'
import { passGuards, withTexts } from '../guards/check-request.ts'
import { guardsFor, revisionsOf } from '../guards/choose-guards.ts'
import { complete, discard, followed, followersOf } from '../guards/followed-answer.ts'
import { keyOrder, type ModelCallDeps, planFor } from '../routing/planner.ts'
import { announceRetirement } from '../routing/retirement-headers.ts'
import { type CacheDeps, cacheGuard } from '../sharing/cached-call.ts'
import { clientHeadersFor, withheldHeaders } from '../upstream/client-headers.ts'
import { lossPaths, providerHeaders } from '../upstream/outbound-request.ts'
import { type ParsedEmbeddings, parseEmbeddingsInTurns } from '../upstream/parse-embeddings.ts'
import { type JsonAnswer, type JsonRequest, type JsonRouted, routeJson } from './json-call.ts'

/** The kind of call, as in the log. */
export const EMBEDDINGS = 'embeddings'

/** Vectors repeat nothing of the request. */
const NO_FACTS = {}

type EmbeddingsDeps = ModelCallDeps & CacheDeps

/** `protocol`: the format of errors. */
type EmbeddingsCall = {
  readonly shape: EmbeddingsShape
  readonly protocol: ClientProtocol
  readonly received: IncomingRequest
  readonly responseWriter: ResponseWriter
}

/** Serves the paths of all shapes of embeddings. */
export const serveEmbeddings = (
  gateway: EmbeddingsDeps,
  { shape, protocol, received, responseWriter }: EmbeddingsCall,
): Promise<void> =>
  runCall({ gateway, protocol, style: EMBEDDINGS, received, responseWriter }, async (call) => {
    const { cancellation, recorder } = call
    const config = configFor(gateway, gateway.config(), received.client)
    const parsed = await parseEmbeddingsInTurns(shape, received, config.settings.limit, gateway.world.turn)
    if (!parsed.ok) return writeAndRecordError(call, parsed.failure, null)
    const { request } = parsed.value
    const blocked = recorder.received({
      model: request.model,
      stream: false,
      members: parsed.value.body,
      headers: received.headers,
    })
    if (blocked) return writeAndRecordError(call, blocked, null)
    const plan = planFor(gateway, config, {
      model: request.model,
      style: EMBEDDINGS,
      client: received.client,
      headers: received.headers,
      members: parsed.value.body,
      shape: plainShape(() => tokensOfBody(received.body)),
      drafting: draftEmbeddings,
    })
    if (!plan.ok) return writeAndRecordError(call, plan.failure, null)
    announceRetirement(gateway, plan.value, recorder)
    recorder.account.describe(
      jsonDemand({
        body: received.body,
        members: parsed.value.body,
        model: request.model,
        plan: plan.value,
        output: 'none',
      }),
    )
    const guards = guardsOf(gateway, { received, call, config, plan: plan.value, parsed: parsed.value })
    const sent =
      guards.length === 0 ? parsed.value : await guarded(gateway, { received, call, guards, parsed: parsed.value })
    if (!sent) return
    const { refusals } = gateway.health
    const inbound = { ...sent, headers: received.headers }
    const routed = await routeJson(gateway, {
      received,
      running: call,
      plan: plan.value,
      config,
      timeout: requestTimeout(protocol, received.headers, config.settings),
      keysOf: keyOrder(gateway, config, null),
      prepare: (candidate) => prepareEmbeddings(inbound, candidate, refusals.batchOf(candidate)),
      adapt: smallerParts(gateway, inbound),
      onHeaders: (target, headers) => gateway.health.load.recordQuota(target, headers),
    })
    if (cancellation.reason?.kind === 'client_gone') {
      if (routed.ok) routed.permit.release()
      return recordDisconnect(call, cancellation.reason)
    }
    if (!routed.ok) return writeAndRecordError(call, withRemedy(routed.failure, request), routed.availableIn)
    routed.permit.done()
    const usage = routed.answerStream.usage()
    if (usage) recorder.used({ usage })
    recorder.answeredBy(withIgnoredDimensions(routed, request))
    const { answer, passes } = routed.value
    const own =
      passes && routed.answerStream.whole !== null ? routed.answerStream.whole : bodyOf(answer, parsed.value, routed)
    const estimated = answer.input === undefined && { 'x-headgate-estimated': 'true' }
    const followers = followersOf(guards, { candidate: routed.target.candidate, stream: null })
    const text = followed(followers, own, null)
    writeAndRecordAnswer(call, text, { headers: { ...recorder.answerHeaders(), ...estimated } })
    const headers = { 'content-type': 'application/json', ...estimated }
    complete(followers, { headers, used: usage ? { usage } : null, trace: recorder.trace })
    discard(followers)
  })

/** A call that has a plan. */
type PlannedEmbeddings = {
  readonly received: IncomingRequest
  readonly call: RunningCall
  readonly config: Config
  readonly plan: Plan
  readonly parsed: ParsedEmbeddings
}

const guardsOf = (
  gateway: EmbeddingsDeps,
  { received, call, config, plan, parsed }: PlannedEmbeddings,
): readonly Guard[] => {
  const chosen = guardsFor(gateway, { received, plan, style: EMBEDDINGS, recorder: call.recorder })
  const own = { source: parsed.source.text, body: parsed.body }
  const cache = cacheGuard(gateway, {
    received,
    config,
    plan,
    style: EMBEDDINGS,
    facts: NO_FACTS,
    recorder: call.recorder,
    reply: call,
    request: own,
    revisions: revisionsOf(chosen),
    bypass: () => bodyBypass(own),
  })
  return cache ? [...chosen, cache] : chosen
}

type GuardedEmbeddings = Pick<PlannedEmbeddings, 'received' | 'call' | 'parsed'> & { readonly guards: readonly Guard[] }

/** What targets receive; null: the call has been answered. */
const guarded = (
  { config, world: { turn } }: EmbeddingsDeps,
  { received, call, guards, parsed }: GuardedEmbeddings,
): Promise<ParsedEmbeddings | null> => {
  const { limit } = config().settings
  const parse = (body: EncodedText) => parseEmbeddingsInTurns(parsed.shape, { ...received, body }, limit, turn)
  return passGuards({
    guards,
    request: parsed,
    own: parsed,
    reply: call,
    change: (replace) => withTexts(parsed, replace, { parse, turn }),
  })
}

// ── The request ─────────────────────────────────────────────────────────────────────────────────────────────────

/** `passes`: the upstream's answer can be sent to the client unchanged. */
type Embedded = { readonly answer: EmbeddingsAnswer; readonly passes: boolean }

/**
 * The request for a candidate. Null: its provider has no embeddings. More inputs than the provider takes in one call are
 * sent in several. `most`: most inputs in one call, learned from a refusal.
 */
export const prepareEmbeddings = (
  parsed: ParsedEmbeddings,
  { instance, model }: Candidate,
  most?: number,
): JsonRequest<Embedded> | null => {
  const { embeds, quirks, auth, readsPreferences } = instance.provider
  if (!embeds) return null
  const format = embeddingsProtocols[embeds.protocol]
  const path = (embeds.path ?? format.path).replace('{model}', () => pathSegment(model))
  const losses: Loss[] = []
  const readsDataPolicy = readsPreferences?.includes('provider') === true
  const encode = encoderFor(parsed, { embeds, model, readsDataPolicy }, losses)
  const batches = batchesOf(parsed, limitsOf(embeds, model, most))
  const parts = batches.map(encode)
  return {
    url: instance.baseUrl + (quirks?.path?.(path, model, instance.variables) ?? path),
    headers: (key) => ({
      'content-type': 'application/json',
      accept: 'application/json',
      ...providerHeaders(instance, key, auth),
      ...(parsed.headers && clientHeadersFor(instance, parsed.headers, false)),
    }),
    auth,
    body: parts.length === 1 && parts[0] ? parts[0] : { text: `[${parts.map(({ text }) => text).join(',')}]` },
    ...(parts.length > 1 && { parts }),
    dropped: [
      ...(parsed.mended ?? []),
      ...lossPaths(losses, false),
      ...(parsed.headers ? withheldHeaders(instance, parsed.headers) : []),
    ],
    unfit: lossPaths(losses, true),
    droppable: [],
    doubts: [],
    decodeFailure: format.decodeFailure,
    // Quirks of token counts apply to text answers only.
    quirks,
    read: (answer) => {
      if (parts.length > 1) return joined(list(answer), batches, format)
      const passes = format.name === parsed.shape.format && parsed.shape.isReadable(answer, parsed.request.encoding)
      return read(format.decodeAnswer(answer), parsed.request, passes)
    },
  }
}

/** Encodes the request with some of its inputs. Losses are reported by the client's paths. */
const encoderFor = (
  { shape, request, body, source, members }: ParsedEmbeddings,
  {
    embeds,
    model,
    readsDataPolicy,
  }: { readonly embeds: Embeds; readonly model: string; readonly readsDataPolicy: boolean },
  losses: Loss[],
): ((inputs: readonly EmbeddingInput[]) => EncodedText) => {
  const format = embeddingsProtocols[embeds.protocol]
  const adjusted = (made: JsonObject, from: { readonly [member: string]: string } = {}): JsonObject => {
    const lose = (at: string, unfit = false) => losses.push({ path: from[at] ?? at, essential: unfit })
    return withinLimits(embeds.requestBody?.(made, model, lose) ?? made, embeds.members, lose)
  }
  const sent = readsDataPolicy ? body : withoutPolicyMembers(body)
  return (inputs) => {
    const own = format.name === shape.format ? shape.ownBody(sent, { request, inputs, model }) : null
    if (own) return rewrite(source, members, body, adjusted(own))
    const encoded = format.encodeRequest(inputs === request.inputs ? request : { ...request, inputs }, { model })
    losses.push(...encoded.losses)
    return { text: JSON.stringify(adjusted(encoded.body, encoded.from)) }
  }
}

const limitsOf = ({ limits = {} }: Embeds, model: string, most = Number.POSITIVE_INFINITY): EmbedsLimits => {
  const { inputs = Number.POSITIVE_INFINITY, tokens } = typeof limits === 'function' ? limits(model) : limits
  return { inputs: Math.min(inputs, most), ...(tokens !== undefined && { tokens }) }
}

/** The share of a token limit that is used, because tokens are estimated. */
const TOKEN_SHARE = 0.7

/** The inputs of each call, in order. Tokens are estimated only if the request is long enough to exceed their limit. */
const batchesOf = (
  { request: { inputs }, source }: ParsedEmbeddings,
  { inputs: most = Number.POSITIVE_INFINITY, tokens: mostTokens = Number.POSITIVE_INFINITY }: EmbedsLimits,
): readonly (readonly EmbeddingInput[])[] => {
  const countsTokens = source.text.length > mostTokens * TOKEN_SHARE
  if (inputs.length <= most && !countsTokens) return [inputs]
  const batches: EmbeddingInput[][] = []
  let size = 0
  for (const input of inputs) {
    const tokens = countsTokens ? tokensOf(input) : 0
    const last = batches.at(-1)
    if (last && last.length < most && size + tokens <= mostTokens * TOKEN_SHARE) {
      last.push(input)
      size += tokens
    } else {
      batches.push([input])
      size = tokens
    }
  }
  return batches.length === 1 ? [inputs] : batches
}

/** Tokens of a picture at Google (ai.google.dev/gemini-api/docs/tokens); other media have no known number. */
const TOKENS_OF_PART = 258

const tokensOf = (input: EmbeddingInput): number => {
  if ('text' in input) return estimateText(input.text)
  return 'tokens' in input ? input.tokens.length : input.parts.length * TOKENS_OF_PART
}

/** Most further attempts at one target with fewer inputs in each call. */
const MAX_SMALLER = 3

/** The request in smaller parts after a refusal that says so. The limit is remembered for the model. */
const smallerParts = (
  { health: { refusals } }: Pick<EmbeddingsDeps, 'health'>,
  parsed: ParsedEmbeddings,
): ((candidate: Candidate, failure: Failure) => JsonRequest<Embedded> | null) => {
  const tries = new Map<Candidate, number>()
  return (candidate, failure) => {
    const { embeds } = candidate.instance.provider
    const tried = tries.get(candidate) ?? 0
    if (!embeds || tried === MAX_SMALLER) return null
    const limits = limitsOf(embeds, candidate.model, refusals.batchOf(candidate))
    const sent = Math.max(...batchesOf(parsed, limits).map(({ length }) => length))
    const most = smallerBatch(failure, sent)
    if (most === undefined) return null
    tries.set(candidate, tried + 1)
    refusals.noteBatch(candidate, most)
    return prepareEmbeddings(parsed, candidate, most)
  }
}

// ── The answer ─────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Checks that there is one vector per input and all have the same length; otherwise clients would store vectors with
 * the wrong text.
 */
const read = (
  decoded: Outcome<EmbeddingsAnswer>,
  { inputs }: EmbeddingsRequest,
  passes: boolean,
): Outcome<JsonAnswer<Embedded>> => (decoded.ok ? checkedAnswer(decoded.value, inputs.length, passes) : decoded)

const checkedAnswer = (answer: EmbeddingsAnswer, count: number, passes: boolean): Outcome<JsonAnswer<Embedded>> => {
  const { vectors, input } = answer
  if (vectors.length !== count) return bad(MISCOUNTED)
  const length = vectors[0] && dimensionsOf(vectors[0])
  if (vectors.some((vector) => dimensionsOf(vector) !== length))
    return bad(fail('malformed', 'the embeddings in the answer differ in length'))
  return good({ value: { answer, passes }, ...(input !== undefined && { usage: { input, output: 0 } }) })
}

const MISCOUNTED = fail('malformed', 'the number of embeddings in the answer differs from the number of inputs')

/** The answers of all parts as one: vectors in the order of the inputs, and the sum of their tokens. */
const joined = (
  answers: readonly Json[],
  batches: readonly (readonly EmbeddingInput[])[],
  format: EmbeddingsProtocol,
): Outcome<JsonAnswer<Embedded>> => {
  const vectors: Vector[] = []
  let input: number | undefined = 0
  let model: string | undefined
  for (const [index, inputs] of batches.entries()) {
    const decoded = format.decodeAnswer(answers[index] ?? null)
    if (!decoded.ok) return decoded
    if (decoded.value.vectors.length !== inputs.length) return bad(MISCOUNTED)
    for (const vector of decoded.value.vectors) vectors.push(vector)
    input = input === undefined || decoded.value.input === undefined ? undefined : input + decoded.value.input
    model ??= decoded.value.model
  }
  const answer = { vectors, ...(input !== undefined && { input }), ...(model !== undefined && { model }) }
  return checkedAnswer(answer, vectors.length, false)
}

const bodyOf = (
  answer: EmbeddingsAnswer,
  { shape, request }: ParsedEmbeddings,
  { target }: JsonRouted<Embedded>,
): string =>
  JSON.stringify(
    shape.encodeAnswer(
      { ...answer, input: answer.input ?? estimated(request) },
      { encoding: request.encoding, model: target.candidate.model },
    ),
  )

/** Input tokens, if the upstream reports none. */
const estimated = ({ inputs }: EmbeddingsRequest): number =>
  Math.ceil(inputs.reduce((sum, input) => sum + tokensOf(input), 0))

/** Reports `dimensions` as dropped if the vectors have another length: some servers ignore it silently. */
const withIgnoredDimensions = (
  routed: JsonRouted<Embedded>,
  { dimensions }: EmbeddingsRequest,
): Pick<JsonRouted<Embedded>, 'target' | 'prepared'> => {
  const { target, prepared } = routed
  const [vector] = routed.value.answer.vectors
  const isHonoured = !dimensions || (vector !== undefined && dimensionsOf(vector) === dimensions.value)
  if (isHonoured || prepared.dropped.includes(dimensions.at)) return { target, prepared }
  return { target, prepared: { ...prepared, dropped: [...prepared.dropped, dimensions.at] } }
}

/** The error for an input that no provider accepts, with the remedy. */
const withRemedy = (failure: Failure, { inputs }: EmbeddingsRequest): Failure => {
  const isTokens = failure.param?.startsWith('input') && inputs.some((input) => 'tokens' in input)
  return failure.kind === 'unsupported' && isTokens ? { ...failure, message: NO_TOKENS } : failure
}

const NO_TOKENS =
  'The input is tokens, which no provider of this model accepts. Send texts instead (in LangChain: check_embedding_ctx_length=False).'
