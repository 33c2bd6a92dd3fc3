/**
 * OpenAI's embeddings, which nearly everybody imitates; the format clients speak too. Where both sides do, the request
 * passes as it is; the answer does as well, if it is what the client can read.
 */
import type { EmbeddingsAnswer, EmbeddingsProtocol, Encoding } from '../../core/embeddings.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isObject, type Json, type JsonObject, list, number, object, text } from '../../core/json.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { fromDoubles, inForm, isDoubles, readVector } from './vectors.ts'

const malformed = (message: string): Outcome<EmbeddingsAnswer> => bad(fail('malformed', message))

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const failure = failureIn(body)
  if (failure) return bad(failure)
  const answer = object(body)
  const entries = list(answer?.data)
  if (!answer || entries.length === 0) return malformed('the upstream answered with no embeddings')
  const ordered = inOrder(entries)
  if (!ordered) return malformed('the embeddings in the answer are not numbered one by one')
  const vectors = ordered.map((entry) => readVector(entry.embedding))
  const known = vectors.filter((vector) => vector !== undefined)
  if (known.length < vectors.length) return malformed('an embedding in the answer is no list of numbers')
  const [first] = known
  const doubles = typeof first === 'string' && isDoubles(first)
  const usage = object(answer.usage)
  // Some count no prompt, only all there is (which is the same).
  const input = number(usage?.prompt_tokens) ?? number(usage?.total_tokens)
  const model = text(answer.model)
  return good({
    ...(model && { model }),
    vectors: doubles ? known.map((vector) => (typeof vector === 'string' ? fromDoubles(vector) : vector)) : known,
    ...(input !== undefined && { input }),
  })
}

/** By their numbers, if every one has its own; as they stand, if none has one. */
const inOrder = (entries: readonly Json[]): readonly JsonObject[] | undefined => {
  const objects = entries.filter(isObject)
  if (objects.length < entries.length) return undefined
  if (objects.every(({ index }) => index === undefined || index === null)) return objects
  const places: JsonObject[] = []
  for (const entry of objects) {
    const { index } = entry
    if (typeof index !== 'number' || !Number.isInteger(index) || index < 0 || index >= objects.length) return undefined
    if (places[index]) return undefined
    places[index] = entry
  }
  return places
}

export const openaiEmbeddings: EmbeddingsProtocol = {
  name: 'openai-embeddings',
  path: '/embeddings',
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}

/** The answer as a client reads it. `model`: who answers, if the upstream does not say. */
export const encodeAnswer = (
  { model, vectors, input = 0 }: EmbeddingsAnswer,
  context: { readonly encoding: Encoding; readonly model: string },
): JsonObject => ({
  object: 'list',
  data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: inForm(vector, context.encoding) })),
  model: model ?? context.model,
  usage: { prompt_tokens: input, total_tokens: input },
})

/** Whether the upstream's own words can go to the client: everything is there, in order and in the form it reads. */
export const isReadable = (body: Json, encoding: Encoding): boolean => {
  const answer = object(body)
  const usage = object(answer?.usage)
  const form = encoding === 'base64' ? 'string' : 'object'
  return (
    answer?.object === 'list' &&
    text(answer.model) !== undefined &&
    number(usage?.prompt_tokens) !== undefined &&
    number(usage?.total_tokens) !== undefined &&
    list(answer.data).every((value, place) => {
      const entry = object(value)
      return entry?.object === 'embedding' && entry.index === place && typeof entry.embedding === form
    }) &&
    !isDoublesIn(list(answer.data)[0])
  )
}

const isDoublesIn = (entry: Json | undefined): boolean => {
  const embedding = object(entry)?.embedding
  return typeof embedding === 'string' && isDoubles(embedding)
}
