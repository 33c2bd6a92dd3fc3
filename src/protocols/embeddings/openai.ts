/**
 * OpenAI's embeddings, the format of most clients and providers. Between two of this format the request passes
 * through unchanged, and so does an answer that the client can read.
 */
import type {
  EmbeddingsAnswer,
  EmbeddingsProtocol,
  EmbeddingsRequest,
  EmbeddingsShape,
  Encoding,
} from '../../core/embeddings.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import type { Encoded } from '../../core/protocol.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { newLosses } from '../shared/losses.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { countsIn } from '../shared/usage-members.ts'
import { decodeRequest } from './decode-request.ts'
import { inputTexts } from './texts.ts'
import { fromDoubles, isDoubles, readVectors, withEncoding } from './vectors.ts'

/** For clients of other shapes. OpenAI has no member for the purpose. */
const encodeRequest = (request: EmbeddingsRequest, { model }: { readonly model: string }): Encoded => {
  const { dimensions, purpose } = request
  const losses = newLosses()
  const input = inputTexts(request, losses)
  if (purpose) losses.lose(purpose.at)
  return {
    body: { model, input, ...(dimensions && { dimensions: dimensions.value }) },
    losses: losses.all(),
    from: { ...(dimensions && { dimensions: dimensions.at }) },
  }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const failure = failureIn(body)
  if (failure) return bad(failure)
  const answer = object(body)
  const entries = list(answer?.data)
  if (!answer || entries.length === 0) return bad(malformed('it has no embeddings'))
  const ordered = inOrder(entries)
  if (!ordered) return bad(malformed('the indexes of the embeddings are not consecutive'))
  const vectors = readVectors(ordered.map(({ embedding }) => embedding))
  if (!vectors) return bad(malformed('an embedding is not a list of numbers'))
  const [first] = vectors
  const doubles = typeof first === 'string' && isDoubles(first)
  const counts = countsIn(object(answer.usage) ?? {})
  // Some providers return only the total, which is the same for embeddings.
  const input = counts.input || counts.total
  const model = text(answer.model)
  return good({
    ...(model && { model }),
    vectors: doubles ? vectors.map((vector) => (typeof vector === 'string' ? fromDoubles(vector) : vector)) : vectors,
    ...(input !== undefined && { input }),
  })
}

/** The entries by index; in their order if no entry has an index. Undefined if the indexes are invalid. */
const inOrder = (entries: readonly Json[]): readonly JsonObject[] | undefined => {
  const objects = entries.filter(isObject)
  if (objects.length < entries.length) return undefined
  if (objects.every(({ index }) => index === undefined || index === null)) return objects
  const ordered: JsonObject[] = []
  for (const entry of objects) {
    const { index } = entry
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= objects.length) return undefined
    if (ordered[index]) return undefined
    ordered[index] = entry
  }
  return ordered
}

export const openaiEmbeddings: EmbeddingsProtocol = {
  name: 'openai-embeddings',
  path: '/embeddings',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}

/** Encodes an answer for the client. `model`: used if the upstream returned none. */
const encodeAnswer = (
  { model, vectors, input = 0 }: EmbeddingsAnswer,
  { encoding, model: requested }: { readonly encoding: Encoding; readonly model: string },
): JsonObject => ({
  object: 'list',
  data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: withEncoding(vector, encoding) })),
  model: model ?? requested,
  usage: { prompt_tokens: input, total_tokens: input },
})

/** Whether the upstream's body can pass through: it is complete, in order and in the encoding the client requested. */
const isReadable = (body: Json, encoding: Encoding): boolean => {
  const answer = object(body)
  const usage = object(answer?.usage)
  const type = encoding === 'base64' ? 'string' : 'object'
  return (
    answer?.object === 'list' &&
    text(answer.model) !== undefined &&
    number(usage?.prompt_tokens) !== undefined &&
    number(usage?.total_tokens) !== undefined &&
    list(answer.data).every((value, position) => {
      const entry = object(value)
      return entry?.object === 'embedding' && entry.index === position && typeof entry.embedding === type
    }) &&
    !hasDoubles(list(answer.data)[0])
  )
}

const hasDoubles = (entry: Json | undefined): boolean => {
  const embedding = object(entry)?.embedding
  return typeof embedding === 'string' && isDoubles(embedding)
}

/** Clients of this format. */
export const openaiShape: EmbeddingsShape = {
  format: 'openai-embeddings',
  decodeRequest,
  ownBody: (body, { request, inputs, model }) => {
    const named = body.model === model ? body : { ...body, model }
    return inputs === request.inputs ? named : { ...named, input: inputs.map(({ sent }) => sent) }
  },
  isReadable,
  encodeAnswer,
}
