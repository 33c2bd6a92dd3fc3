/** Gemini's `batchEmbedContents`: a request for each text, in one call. */
import type { EmbeddingsAnswer, EmbeddingsProtocol, EmbeddingsRequest, Purpose } from '../../core/embeddings.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { type Json, list, number, object } from '../../core/json.ts'
import type { Encoded } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { newLosses } from '../shared/losses.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { readVector } from './vectors.ts'

/** TaskType of the Gemini API. Without one the model's own default holds. */
export const TASKS: { readonly [purpose in Purpose]: string } = {
  document: 'RETRIEVAL_DOCUMENT',
  query: 'RETRIEVAL_QUERY',
  classification: 'CLASSIFICATION',
  clustering: 'CLUSTERING',
  similarity: 'SEMANTIC_SIMILARITY',
}

const encodeRequest = (request: EmbeddingsRequest, { model }: { readonly model: string }): Encoded => {
  const { inputs, dimensions, purpose, user, extras } = request
  const losses = newLosses()
  for (const extra of extras) losses.loseExtra(extra)
  if (user) losses.lose(user.at)
  const name = model.startsWith('models/') ? model : `models/${model}`
  const requests = inputs.map((input) => {
    // Tokens of another maker's tokenizer say nothing here.
    if (!('text' in input)) losses.unfit(input.at)
    return {
      model: name,
      content: { parts: [{ text: 'text' in input ? input.text : '' }] },
      ...(purpose && { taskType: TASKS[purpose.value] }),
      ...(dimensions && { outputDimensionality: dimensions.value }),
    }
  })
  return { body: { requests }, losses: losses.all(), from: { requests: 'input' } }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const failure = failureIn(body)
  if (failure) return bad(failure)
  const answer = object(body)
  const vectors = list(answer?.embeddings).map((entry) => readVector(object(entry)?.values))
  const known = vectors.filter((vector) => vector !== undefined)
  if (known.length === 0 || known.length < vectors.length)
    return bad(fail('malformed', 'the upstream answered with something that is no list of embeddings'))
  // Newer models count; older ones do not say.
  const input = number(object(answer?.usageMetadata)?.promptTokenCount)
  return good({ vectors: known, ...(input !== undefined && { input }) })
}

export const geminiEmbeddings: EmbeddingsProtocol = {
  name: 'gemini-embeddings',
  path: '/models/{model}:batchEmbedContents',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}
