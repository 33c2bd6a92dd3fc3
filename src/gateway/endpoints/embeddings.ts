/**
 * Embeddings: texts in, vectors out. The road is that of every other call; what differs is where such a request may go
 * (`policy/routing/plan-embeddings.ts`), and that the answer must be exactly the vectors that were asked for, each in its place.
 */

import type { EmbeddingsAnswer, EmbeddingsRequest } from '../../core/embeddings.ts'
import { bad, type Failure, fail, good, type Outcome } from '../../core/failure.ts'
import type { IncomingRequest, ResponseWriter } from '../../core/http-exchange.ts'
import type { Json, JsonObject } from '../../core/json.ts'
import { rewrite } from '../../core/json-text.ts'
import { pathStep } from '../../core/path-step.ts'
import type { Loss } from '../../core/protocol.ts'
import type { Candidate } from '../../core/target.ts'
import { statusOf } from '../../policy/reply/final-error.ts'
import type { ExtentLimits } from '../../policy/request-size.ts'
import { estimateText } from '../../policy/routing/estimate-tokens.ts'
import { draftEmbeddings } from '../../policy/routing/plan-embeddings.ts'
import { decodeRequest } from '../../protocols/embeddings/decode-request.ts'
import { embeddingsProtocols } from '../../protocols/embeddings/index.ts'
import { encodeAnswer, isReadable } from '../../protocols/embeddings/openai.ts'
import { lengthOf } from '../../protocols/embeddings/vectors.ts'
import { protocols } from '../../protocols/index.ts'
import { runCall } from '../call/call-lifecycle.ts'
import { writeAndRecordError } from '../call/recorder.ts'
import type { Gateway } from '../gateway.ts'
import { keyOrder, planFor } from '../routing/planner.ts'
import { type InboundRequest, providerHeaders } from '../upstream/outbound-request.ts'
import { readBody, readInTurns } from '../upstream/parse-request.ts'
import { type Body, callForBody, type Read, type Sent } from './json-call.ts'

/** What the log calls it. */
export const EMBEDDINGS = 'embeddings'

/** Its errors have OpenAI's shape, like the rest of it. */
const protocol = protocols['openai-chat']

export const serveEmbeddings = (gateway: Gateway, received: IncomingRequest, reply: ResponseWriter): Promise<void> =>
  runCall({ gateway, protocol, style: EMBEDDINGS, received, reply }, async (stop, record) => {
    const refuse = (failure: Failure, soonest: number | null) =>
      writeAndRecordError({ protocol, reply, record }, failure, soonest)
    const config = gateway.config()
    const asked = asEmbeddings(await readInTurns(received.body, config.settings.limit, gateway.world.turn))
    if (!asked.ok) return refuse(asked.failure, null)
    const { request } = asked.value
    record.received(request.model, false)
    const plan = planFor(gateway, config, request.model, draftEmbeddings)
    if (!plan.ok) return refuse(plan.failure, null)

    const opened = await callForBody(gateway, {
      client: received.client,
      clientKey: received.clientKey,
      holder: received.holder,
      plan: plan.value,
      config,
      keysOf: keyOrder(gateway, config, null),
      stop,
      record,
      prepare: (candidate) => prepareEmbeddings(asked.value, candidate),
      heard: (target, headers) => gateway.health.recordQuota(target, headers),
    })
    if (stop.reason?.kind === 'client_gone') {
      if (opened.ok) opened.permit.release()
      reply.abort()
      return record.end('client_gone', statusOf(stop.reason), stop.reason)
    }
    if (!opened.ok) return refuse(explained(opened.failure, request), opened.soonest)
    opened.permit.done()
    record.usage(opened.flow.usage())
    record.answeredBy(withIgnored(opened, request))
    const { answer, passes } = opened.value
    const text = passes && opened.flow.whole !== null ? opened.flow.whole : written(answer, request, opened)
    record.responseStarted = true
    reply.writeHead(200, {
      'content-type': 'application/json',
      ...record.headers(),
      ...(answer.input === undefined && { 'x-headgate-estimated': 'true' }),
    })
    reply.end(text)
    record.end('answered', 200)
  })

type Asked = Pick<InboundRequest, 'source' | 'body' | 'members'> & { readonly request: EmbeddingsRequest }

export const parseEmbeddings = (source: string, limits: ExtentLimits): Outcome<Asked> =>
  asEmbeddings(readBody(source, limits))

const asEmbeddings = (read: ReturnType<typeof readBody>): Outcome<Asked> => {
  if (!read.ok) return read
  const request = decodeRequest(read.value.body)
  return request.ok ? good({ ...read.value, request: request.value }) : request
}

// ── What is sent ─────────────────────────────────────────────────────────────────────────────────────────────────

/** `passes`: the client can read the upstream's own words. */
type Embedded = { readonly answer: EmbeddingsAnswer; readonly passes: boolean }

/** Null: it makes no embeddings. */
export const prepareEmbeddings = (asked: Asked, { instance, model }: Candidate): Sent<Embedded> | null => {
  const { embeds, quirks, auth } = instance.provider
  if (!embeds) return null
  const format = embeddingsProtocols[embeds.protocol]
  const path = (embeds.path ?? format.path).replace('{model}', () => pathStep(model))
  const losses: Loss[] = []
  const named = asked.body.model === model ? asked.body : { ...asked.body, model }
  const encoded = format.encodeRequest?.(asked.request, { model })
  const mend = (body: JsonObject) =>
    embeds.requestBody?.(body, model, (at, unfit = false) =>
      losses.push({ path: encoded?.from[at] ?? at, essential: unfit }),
    ) ?? body
  for (const loss of encoded?.losses ?? []) losses.push(loss)
  const body = encoded
    ? JSON.stringify(mend(encoded.body))
    : rewrite(asked.source, asked.members, asked.body, mend(named))
  const paths = (unfit: boolean) => [
    ...new Set(losses.filter((loss) => loss.essential === unfit).map(({ path }) => path)),
  ]
  return {
    url: instance.baseUrl + (quirks?.path?.(path, model, instance.variables) ?? path),
    headers: (key) => ({
      'content-type': 'application/json',
      accept: 'application/json',
      ...providerHeaders(instance, key, auth),
    }),
    auth,
    body,
    dropped: paths(false),
    unfit: paths(true),
    droppable: [],
    doubts: [],
    decodeFailure: format.decodeFailure,
    // What its token counts mean is said of answers that are text.
    quirks,
    read: (answer) => read(format.decodeAnswer(answer), asked.request, encoded ? null : answer),
  }
}

// ── What is answered ─────────────────────────────────────────────────────────────────────────────────────────────

/** One vector for each input, all of one length: anything else would be stored under the wrong text. `own`: the upstream's words, if the client speaks its format. */
const read = (
  decoded: Outcome<EmbeddingsAnswer>,
  { inputs, encoding }: EmbeddingsRequest,
  own: Json | null,
): Outcome<Read<Embedded>> => {
  if (!decoded.ok) return decoded
  const { value: answer } = decoded
  const { vectors, input } = answer
  if (vectors.length !== inputs.length)
    return bad(fail('malformed', 'the upstream answered with another number of embeddings than there are inputs'))
  const [length] = vectors.map(lengthOf)
  if (vectors.some((vector) => lengthOf(vector) !== length))
    return bad(fail('malformed', 'the embeddings in the answer are not of one length'))
  return good({
    value: { answer, passes: own !== null && isReadable(own, encoding) },
    ...(input !== undefined && { usage: { input, output: 0 } }),
  })
}

const written = (answer: EmbeddingsAnswer, request: EmbeddingsRequest, { target }: Body<Embedded>): string =>
  JSON.stringify(
    encodeAnswer(
      { ...answer, input: answer.input ?? estimated(request) },
      { encoding: request.encoding, model: target.candidate.model },
    ),
  )

/** Where the upstream does not count. */
const estimated = ({ inputs }: EmbeddingsRequest): number =>
  Math.ceil(inputs.reduce((sum, input) => sum + ('text' in input ? estimateText(input.text) : input.tokens.length), 0))

/** Servers that do not know `dimensions` answer with vectors of the model's own length, and say nothing. */
const withIgnored = (
  body: Body<Embedded>,
  { dimensions }: EmbeddingsRequest,
): Pick<Body<Embedded>, 'target' | 'prepared'> => {
  const { target, prepared } = body
  const [vector] = body.value.answer.vectors
  const asAsked = !dimensions || (vector !== undefined && lengthOf(vector) === dimensions.value)
  if (asAsked || prepared.dropped.includes(dimensions.at)) return { target, prepared }
  return { target, prepared: { ...prepared, dropped: [...prepared.dropped, dimensions.at] } }
}

/** That the input is what fits nowhere, and what to do: it is nothing that could be left out. */
const explained = (failure: Failure, { inputs }: EmbeddingsRequest): Failure => {
  if (failure.kind !== 'unsupported' || !failure.param?.startsWith('input')) return failure
  const tokens = inputs.some((input) => 'tokens' in input)
  return {
    ...failure,
    message: tokens
      ? 'The input is tokens, and no provider that has this model takes them. Send the texts themselves (in LangChain: check_embedding_ctx_length=False).'
      : 'No provider that has this model takes so many texts in one request. Send a request for each.',
  }
}
