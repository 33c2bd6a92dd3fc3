/** Decodes embeddings requests in OpenAI's format. */

import type { Setting } from '../../core/chat.ts'
import type { EmbeddingInput, EmbeddingsRequest, Purpose } from '../../core/embeddings.ts'
import { bad, fail, good, type Outcome } from '../../core/failure.ts'
import { isList, type Json, type JsonObject } from '../../core/json.ts'
import {
  describeValue,
  type Problems,
  type RequestFields,
  requestedModel,
  requestFields,
} from '../shared/request-fields.ts'

export const decodeRequest = (body: JsonObject): Outcome<EmbeddingsRequest> => {
  const problems: Problems = {}
  const fields = requestFields(body, '', problems)
  const model = requestedModel(fields, 'the name of a model that makes embeddings')
  const inputs = readInputs(fields, problems)
  const dimensions = fields.number('dimensions', { least: 1, whole: true })
  const encoding = fields.string('encoding_format') ?? 'float'
  const isEncoding = encoding === 'float' || encoding === 'base64'
  if (!isEncoding) fields.invalid('encoding_format', 'float or base64')
  const purpose = readPurpose(fields, body)
  const user = fields.string('user')
  const extras = fields.unread()
  if (problems.first) return bad(problems.first)
  return good({
    model,
    inputs,
    encoding: isEncoding ? encoding : 'float',
    ...(dimensions !== undefined && { dimensions: { value: dimensions, at: 'dimensions' } }),
    ...(purpose && { purpose }),
    ...(user !== undefined && { user: { value: user, at: 'user' } }),
    extras,
  })
}

const ALLOWED = 'a text, a list of texts, a list of tokens, or a list of such lists'

const readInputs = (fields: RequestFields, problems: Problems): readonly EmbeddingInput[] => {
  const input = fields.any('input')
  if (input === undefined) {
    fields.missing('input', ALLOWED)
    return []
  }
  if (typeof input === 'string' && input !== '') return [{ at: 'input', sent: input, text: input }]
  if (!isList(input) || input.length === 0) {
    fields.invalid('input', ALLOWED)
    return []
  }
  if (isTokens(input)) return [{ at: 'input', sent: input, tokens: input }]
  return input.map((entry, index) => {
    const at = `input[${index}]`
    if (typeof entry === 'string' && entry !== '') return { at, sent: entry, text: entry }
    if (isTokens(entry)) return { at, sent: entry, tokens: entry }
    problems.first ??= fail(
      'invalid_value',
      `An entry of \`input\` is ${describeValue(entry)}; it must be a text or a list of tokens.`,
      {
        param: at,
      },
    )
    return { at, sent: entry, text: '' }
  })
}

const isTokens = (value: Json): value is readonly number[] =>
  isList(value) && value.length > 0 && value.every((entry) => Number.isInteger(entry) && Number(entry) >= 0)

/** Members for the purpose: those of Cohere, Voyage and NVIDIA; Gemini; Jina. OpenAI has none. */
const PURPOSE_MEMBERS = ['input_type', 'task_type', 'taskType', 'task']
/** Purposes by the names of all providers, in lower case. */
export const PURPOSES: ReadonlyMap<string, Purpose> = new Map([
  ['document', 'document'],
  ['passage', 'document'],
  ['search_document', 'document'],
  ['retrieval_document', 'document'],
  ['retrieval.passage', 'document'],
  ['query', 'query'],
  ['search_query', 'query'],
  ['retrieval_query', 'query'],
  ['retrieval.query', 'query'],
  ['classification', 'classification'],
  ['clustering', 'clustering'],
  ['separation', 'clustering'],
  ['semantic_similarity', 'similarity'],
  ['text-matching', 'similarity'],
])

/** Decodes the purpose. An unknown value stays an extra, which passes through in the same format and is a loss in others. */
const readPurpose = (fields: RequestFields, body: JsonObject): Setting<Purpose> | undefined => {
  for (const at of PURPOSE_MEMBERS) {
    const given = Object.hasOwn(body, at) ? body[at] : undefined
    const value = typeof given === 'string' ? PURPOSES.get(given.toLowerCase()) : undefined
    if (value === undefined) continue
    // Marks the member as read, so that it is not an extra.
    fields.any(at)
    return { value, at }
  }
  return undefined
}
