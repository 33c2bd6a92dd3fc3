/** Cohere's `/v2/embed`. */
import type { EmbeddingsAnswer, EmbeddingsProtocol, EmbeddingsRequest, Purpose } from '../../core/embeddings.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { type Json, list, number, object } from '../../core/json.ts'
import type { Encoded } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { newLosses } from '../shared/losses.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { readVector } from './vectors.ts'

/** It insists on one, and has none for two texts that are alike in kind: both are documents then. */
const TYPES: { readonly [purpose in Purpose]: string } = {
  document: 'search_document',
  query: 'search_query',
  classification: 'classification',
  clustering: 'clustering',
  similarity: 'search_document',
}

const encodeRequest = (request: EmbeddingsRequest, { model }: { readonly model: string }): Encoded => {
  const { inputs, dimensions, purpose, user, extras } = request
  const losses = newLosses()
  for (const extra of extras) losses.loseExtra(extra)
  if (user) losses.lose(user.at)
  if (purpose?.value === 'similarity') losses.lose(purpose.at)
  const texts = inputs.map((input) => {
    // Tokens of another maker's tokenizer say nothing here.
    if (!('text' in input)) losses.unfit(input.at)
    return 'text' in input ? input.text : ''
  })
  return {
    body: {
      model,
      texts,
      // What is stored is embedded once and far more often than it is asked for, so a client that does not say is storing.
      input_type: TYPES[purpose?.value ?? 'document'],
      embedding_types: ['float'],
      ...(dimensions && { output_dimension: dimensions.value }),
    },
    losses: losses.all(),
    from: { texts: 'input', output_dimension: 'dimensions', input_type: purpose?.at ?? 'input' },
  }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const answer = object(body)
  const vectors = list(object(answer?.embeddings)?.float).map(readVector)
  const known = vectors.filter((vector) => vector !== undefined)
  if (known.length === 0 || known.length < vectors.length)
    return bad(
      failureIn(body) ?? fail('malformed', 'the upstream answered with something that is no list of embeddings'),
    )
  const input = number(object(object(answer?.meta)?.billed_units)?.input_tokens)
  return good({ vectors: known, ...(input !== undefined && { input }) })
}

export const cohereEmbeddings: EmbeddingsProtocol = {
  name: 'cohere-embeddings',
  path: '/v2/embed',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}
