/**
 * Embeddings: texts to vectors. Routed like every other call, with a plan of its own
 * (`policy/routing/plan-embeddings.ts`). The answer must have exactly one vector per input, in the same order.
 */

import type { EmbeddingsAnswer, EmbeddingsRequest } from '../../core/embeddings.ts'
import type { EncodedText } from '../../core/encoded-text.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { rewrite } from '../../core/json-text.ts'
import { pathSegment } from '../../core/path-segment.ts'
import type { Loss } from '../../core/protocol.ts'
import type { Candidate } from '../../core/target.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { bodyBypass } from '../../policy/response-cache.ts'
import { estimateText } from '../../policy/routing/estimate-tokens.ts'
import { draftEmbeddings } from '../../policy/routing/plan-embeddings.ts'
import { decodeRequest } from '../../protocols/embeddings/decode-request.ts'
import { embeddingsProtocols } from '../../protocols/embeddings/index.ts'
import { encodeAnswer, isReadable } from '../../protocols/embeddings/openai.ts'
import { dimensionsOf } from '../../protocols/embeddings/vectors.ts'
import { protocols } from '../../protocols/index.ts'
import { jsonDemand } from '../accounts/demand.ts'
import { runCall } from '../call/call-lifecycle.ts'
import { recordDisconnect, writeAndRecordAnswer, writeAndRecordError } from '../call/recorder.ts'
import type { Gateway } from '../gateway.ts'
import { keyOrder, planFor } from '../routing/planner.ts'
import { sendCached, useCache } from '../sharing/cached-call.ts'
import { lossPaths, providerHeaders } from '../upstream/outbound-request.ts'
import { type ParsedBody, readBody, readInTurns } from '../upstream/parse-request.ts'
import { type JsonAnswer, type JsonRequest, type JsonRouted, routeJson } from './json-call.ts'

/** The kind of call, as in the log. */
export const EMBEDDINGS = 'embeddings'

/** Errors are encoded in OpenAI's format. */
const protocol = protocols['openai-chat']

/** Serves `POST /v1/embeddings`. */
export const serveEmbeddings = (
  gateway: Gateway,
  received: IncomingRequest,
  responseWriter: ResponseWriter,
): Promise<void> =>
  runCall({ gateway, protocol, style: EMBEDDINGS, received, responseWriter }, async (call) => {
    const { cancellation, recorder } = call
    const config = gateway.config()
    const parsed = decoded(await readInTurns(received.body, config.settings.limit, gateway.world.turn))
    if (!parsed.ok) return writeAndRecordError(call, parsed.failure, null)
    const { request } = parsed.value
    recorder.received(request.model, false)
    const plan = planFor(gateway, config, {
      model: request.model,
      style: EMBEDDINGS,
      principal: received.principal,
      drafting: draftEmbeddings,
    })
    if (!plan.ok) return writeAndRecordError(call, plan.failure, null)
    const own = { source: parsed.value.source.text, body: parsed.value.body }
    const cache = useCache(gateway, {
      received,
      config,
      plan: plan.value,
      style: EMBEDDINGS,
      recorder,
      request: own,
      bypass: () => bodyBypass(own),
    })
    if (cache?.hit) return sendCached(gateway, call, cache.hit)
    if (cache?.failure) return writeAndRecordError(call, cache.failure, null)

    recorder.account.describe(
      jsonDemand({
        body: received.body,
        members: parsed.value.body,
        model: request.model,
        plan: plan.value,
        output: 'none',
      }),
    )
    const routed = await routeJson(gateway, {
      received,
      running: call,
      plan: plan.value,
      config,
      keysOf: keyOrder(gateway, config, null),
      prepare: (candidate) => prepareEmbeddings(parsed.value, candidate),
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
    const text =
      passes && routed.answerStream.whole !== null ? routed.answerStream.whole : bodyOf(answer, request, routed)
    const estimated = answer.input === undefined && { 'x-headgate-estimated': 'true' }
    writeAndRecordAnswer(call, text, { headers: { ...recorder.answerHeaders(), ...estimated } })
    if (!cache?.storing?.accepts(routed.target.candidate)) return
    const headers = { 'content-type': 'application/json', ...estimated }
    cache.storing.store({ body: text, headers, used: usage ? { usage } : null, trace: recorder.trace })
  })

/** An embeddings request, parsed. */
export type ParsedEmbeddings = ParsedBody & {
  readonly request: EmbeddingsRequest
}

/** Parses and validates the body of an embeddings request. */
export const parseEmbeddings = (source: EncodedText, limits: ExtentLimits): Outcome<ParsedEmbeddings> =>
  decoded(readBody(source, limits))

const decoded = (read: ReturnType<typeof readBody>): Outcome<ParsedEmbeddings> => {
  if (!read.ok) return read
  const request = decodeRequest(read.value.body)
  return request.ok ? good({ ...read.value, request: request.value }) : request
}

// ── The request ─────────────────────────────────────────────────────────────────────────────────────────────────

/** `passes`: the upstream's answer can be sent to the client unchanged. */
type Embedded = { readonly answer: EmbeddingsAnswer; readonly passes: boolean }

/** The request for a candidate. Null: its provider has no embeddings. */
export const prepareEmbeddings = (
  parsed: ParsedEmbeddings,
  { instance, model }: Candidate,
): JsonRequest<Embedded> | null => {
  const { embeds, quirks, auth } = instance.provider
  if (!embeds) return null
  const format = embeddingsProtocols[embeds.protocol]
  const path = (embeds.path ?? format.path).replace('{model}', () => pathSegment(model))
  const losses: Loss[] = []
  const renamed = parsed.body.model === model ? parsed.body : { ...parsed.body, model }
  const encoded = format.encodeRequest?.(parsed.request, { model })
  const withQuirks = (body: JsonObject) =>
    embeds.requestBody?.(body, model, (at, unfit = false) =>
      losses.push({ path: encoded?.from[at] ?? at, essential: unfit }),
    ) ?? body
  for (const loss of encoded?.losses ?? []) losses.push(loss)
  const body = encoded
    ? { text: JSON.stringify(withQuirks(encoded.body)) }
    : rewrite(parsed.source, parsed.members, parsed.body, withQuirks(renamed))
  return {
    url: instance.baseUrl + (quirks?.path?.(path, model, instance.variables) ?? path),
    headers: (key) => ({
      'content-type': 'application/json',
      accept: 'application/json',
      ...providerHeaders(instance, key, auth),
    }),
    auth,
    body,
    dropped: [...(parsed.mended ?? []), ...lossPaths(losses, false)],
    unfit: lossPaths(losses, true),
    droppable: [],
    doubts: [],
    decodeFailure: format.decodeFailure,
    // Quirks of token counts apply to text answers only.
    quirks,
    read: (answer) => read(format.decodeAnswer(answer), parsed.request, encoded ? null : answer),
  }
}

// ── The answer ─────────────────────────────────────────────────────────────────────────────────────────────

/**
 * Checks that there is one vector per input and all have the same length; otherwise clients would store vectors with
 * the wrong text. `raw`: the upstream's answer, if its format is the client's.
 */
const read = (
  decoded: Outcome<EmbeddingsAnswer>,
  { inputs, encoding }: EmbeddingsRequest,
  raw: Json | null,
): Outcome<JsonAnswer<Embedded>> => {
  if (!decoded.ok) return decoded
  const { value: answer } = decoded
  const { vectors, input } = answer
  if (vectors.length !== inputs.length)
    return bad(fail('malformed', 'the number of embeddings in the answer differs from the number of inputs'))
  const [length] = vectors.map(dimensionsOf)
  if (vectors.some((vector) => dimensionsOf(vector) !== length))
    return bad(fail('malformed', 'the embeddings in the answer differ in length'))
  return good({
    value: { answer, passes: raw !== null && isReadable(raw, encoding) },
    ...(input !== undefined && { usage: { input, output: 0 } }),
  })
}

const bodyOf = (answer: EmbeddingsAnswer, request: EmbeddingsRequest, { target }: JsonRouted<Embedded>): string =>
  JSON.stringify(
    encodeAnswer(
      { ...answer, input: answer.input ?? estimated(request) },
      { encoding: request.encoding, model: target.candidate.model },
    ),
  )

/** Input tokens, if the upstream reports none. */
const estimated = ({ inputs }: EmbeddingsRequest): number =>
  Math.ceil(inputs.reduce((sum, input) => sum + ('text' in input ? estimateText(input.text) : input.tokens.length), 0))

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
  if (failure.kind !== 'unsupported' || !failure.param?.startsWith('input')) return failure
  const tokens = inputs.some((input) => 'tokens' in input)
  return {
    ...failure,
    message: tokens
      ? 'The input is tokens, which no provider of this model accepts. Send texts instead (in LangChain: check_embedding_ctx_length=False).'
      : 'No provider of this model accepts so many texts in one request. Send one request for each text.',
  }
}
