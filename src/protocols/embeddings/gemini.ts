/** Gemini's `batchEmbedContents`: one request per text, in one call. */
import type { EmbeddingsAnswer, EmbeddingsProtocol, EmbeddingsRequest, Purpose } from '../../core/embeddings.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { type Json, list, object } from '../../core/json.ts'
import type { Encoded } from '../../core/protocol.ts'
import { malformed } from '../errors/answer-failures.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { newLosses } from '../shared/losses.ts'
import { tokenCount } from '../shared/numbers.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { inputTexts } from './texts.ts'
import { readVectors } from './vectors.ts'

/** `TaskType` of the Gemini API. Without one the model's default applies. */
export const TASK_TYPES: { readonly [purpose in Purpose]: string } = {
  document: 'RETRIEVAL_DOCUMENT',
  query: 'RETRIEVAL_QUERY',
  classification: 'CLASSIFICATION',
  clustering: 'CLUSTERING',
  similarity: 'SEMANTIC_SIMILARITY',
}

const encodeRequest = (request: EmbeddingsRequest, target: { readonly model: string }): Encoded => {
  const { dimensions, purpose } = request
  const losses = newLosses()
  const model = target.model.startsWith('models/') ? target.model : `models/${target.model}`
  const requests = inputTexts(request, losses).map((text) => ({
    model,
    content: { parts: [{ text }] },
    ...(purpose && { taskType: TASK_TYPES[purpose.value] }),
    ...(dimensions && { outputDimensionality: dimensions.value }),
  }))
  return { body: { requests }, losses: losses.all(), from: {} }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const failure = failureIn(body)
  if (failure) return bad(failure)
  const answer = object(body)
  const vectors = readVectors(list(answer?.embeddings).map((entry) => object(entry)?.values))
  if (!vectors) return bad(malformed('it has no list of embeddings'))
  // Older models return no token count.
  const input = tokenCount(object(answer?.usageMetadata)?.promptTokenCount)
  return good({ vectors, ...(input !== undefined && { input }) })
}

export const geminiEmbeddings: EmbeddingsProtocol = {
  name: 'gemini-embeddings',
  path: '/models/{model}:batchEmbedContents',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}
