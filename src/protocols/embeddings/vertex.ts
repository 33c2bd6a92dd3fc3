/** Embeddings of Google's Vertex AI: `:predict` with one instance per text. */
import type { EmbeddingsAnswer, EmbeddingsProtocol, EmbeddingsRequest } from '../../core/embeddings.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { type Json, list, object } from '../../core/json.ts'
import type { Encoded } from '../../core/protocol.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { newLosses } from '../shared/losses.ts'
import { tokenCount } from '../shared/numbers.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { TASK_TYPES } from './gemini.ts'
import { inputTexts } from './texts.ts'
import { readVectors } from './vectors.ts'

const encodeRequest = (request: EmbeddingsRequest): Encoded => {
  const { dimensions, purpose } = request
  const losses = newLosses()
  const instances = inputTexts(request, losses).map((content) => ({
    content,
    ...(purpose && { task_type: TASK_TYPES[purpose.value] }),
  }))
  return {
    body: { instances, ...(dimensions && { parameters: { outputDimensionality: dimensions.value } }) },
    losses: losses.all(),
    from: { ...(dimensions && { parameters: dimensions.at }) },
  }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const failure = failureIn(body)
  if (failure) return bad(failure)
  const embeddings = list(object(body)?.predictions).map((prediction) => object(object(prediction)?.embeddings))
  const vectors = readVectors(embeddings.map((embedding) => embedding?.values))
  if (!vectors) return bad(malformed('it has no list of embeddings'))
  const counts = embeddings.flatMap((embedding) => tokenCount(object(embedding?.statistics)?.token_count) ?? [])
  const isComplete = counts.length === embeddings.length
  return good({ vectors, ...(isComplete && { input: counts.reduce((sum, count) => sum + count, 0) }) })
}

export const vertexEmbeddings: EmbeddingsProtocol = {
  name: 'vertex-embeddings',
  path: '/publishers/google/models/{model}:predict',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}
