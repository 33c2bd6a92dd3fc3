/** Cohere's `/v2/embed`. */
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

/** `input_type`, which is required. There is none for similarity, which compares two documents. */
const INPUT_TYPES: { readonly [purpose in Purpose]: string } = {
  document: 'search_document',
  query: 'search_query',
  classification: 'classification',
  clustering: 'clustering',
  similarity: 'search_document',
}

const encodeRequest = (request: EmbeddingsRequest, { model }: { readonly model: string }): Encoded => {
  const { dimensions, purpose } = request
  const losses = newLosses()
  const texts = inputTexts(request, losses)
  if (purpose?.value === 'similarity') losses.lose(purpose.at)
  return {
    body: {
      model,
      texts,
      // Without a purpose the texts are most probably documents to store: many are stored for each query.
      input_type: INPUT_TYPES[purpose?.value ?? 'document'],
      embedding_types: ['float'],
      ...(dimensions && { output_dimension: dimensions.value }),
    },
    losses: losses.all(),
    from: { ...(dimensions && { output_dimension: dimensions.at }), ...(purpose && { input_type: purpose.at }) },
  }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const answer = object(body)
  const vectors = readVectors(list(object(answer?.embeddings)?.float))
  if (!vectors) return bad(failureIn(body) ?? malformed('it has no list of embeddings'))
  const input = tokenCount(object(object(answer?.meta)?.billed_units)?.input_tokens)
  return good({ vectors, ...(input !== undefined && { input }) })
}

export const cohereEmbeddings: EmbeddingsProtocol = {
  name: 'cohere-embeddings',
  path: '/v2/embed',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}
