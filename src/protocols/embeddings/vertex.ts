/** Embeddings of Google's Vertex AI: `:predict`, an instance for each text. */
import type { EmbeddingsAnswer, EmbeddingsProtocol, EmbeddingsRequest } from '../../core/embeddings.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { type Json, list, number, object } from '../../core/json.ts'
import type { Encoded } from '../../core/protocol.ts'
import { decodeOpenaiFailure } from '../errors/openai-error.ts'
import { newLosses } from '../shared/losses.ts'
import { failureIn } from '../shared/openai-finish-and-usage.ts'
import { TASKS } from './gemini.ts'
import { readVector } from './vectors.ts'

const encodeRequest = ({ inputs, dimensions, purpose, user, extras }: EmbeddingsRequest): Encoded => {
  const losses = newLosses()
  for (const extra of extras) losses.loseExtra(extra)
  if (user) losses.lose(user.at)
  const instances = inputs.map((input) => {
    // Tokens of another maker's tokenizer say nothing here.
    if (!('text' in input)) losses.unfit(input.at)
    return { content: 'text' in input ? input.text : '', ...(purpose && { task_type: TASKS[purpose.value] }) }
  })
  return {
    body: { instances, ...(dimensions && { parameters: { outputDimensionality: dimensions.value } }) },
    losses: losses.all(),
    from: { instances: 'input', parameters: 'dimensions' },
  }
}

const decodeAnswer = (body: Json): Outcome<EmbeddingsAnswer> => {
  const failure = failureIn(body)
  if (failure) return bad(failure)
  const made = list(object(body)?.predictions).map((prediction) => object(object(prediction)?.embeddings))
  const known = made.map((one) => readVector(one?.values)).filter((vector) => vector !== undefined)
  if (known.length === 0 || known.length < made.length)
    return bad(fail('malformed', 'the upstream answered with something that is no list of embeddings'))
  const counts = made.map((one) => number(object(one?.statistics)?.token_count))
  const counted = counts.filter((count) => count !== undefined)
  return good({
    vectors: known,
    ...(counted.length === counts.length && { input: counted.reduce((sum, count) => sum + count, 0) }),
  })
}

export const vertexEmbeddings: EmbeddingsProtocol = {
  name: 'vertex-embeddings',
  path: '/publishers/google/models/{model}:predict',
  encodeRequest,
  decodeAnswer,
  decodeFailure: decodeOpenaiFailure,
}
