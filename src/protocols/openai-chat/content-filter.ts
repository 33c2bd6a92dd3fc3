import { isObject, type Json, type JsonObject, list, object, parseObject } from '../../core/json.ts'
import { rewrite, survey } from '../../core/json-text.ts'
import { isFiltered } from '../shared/openai-finish-and-usage.ts'

/** Maximum nesting of an answer that is edited; deeper ones stay unchanged. */
const MAX_ANSWER_DEPTH = 256

const EMPTY_MESSAGE = { role: 'assistant', content: '', refusal: null }

/**
 * Adds the required message, with empty content, to choices of an answer that the content filter blocked. Azure omits the
 * message or its content: microsoft/semantic-kernel#5240 (2024-02-29).
 */
export const withMessages = (source: string): string =>
  completed(source, 'message', (message) => ({ ...EMPTY_MESSAGE, ...message }))

/** Adds the required delta to blocked choices of a chunk. */
export const withDeltas = (source: string): string => completed(source, 'delta', (delta) => delta)

/** Whether the content filter blocked this choice and its message or content is missing. */
export const lacksMessage = (choice: JsonObject): boolean =>
  object(choice.message)?.content === undefined && isFiltered(choice)

const lacksDelta = (choice: JsonObject): boolean => !isObject(choice.delta) && isFiltered(choice)

const completed = (
  source: string,
  member: 'message' | 'delta',
  complete: (message: JsonObject) => JsonObject,
): string => {
  const body = parseObject(source)
  const isLacking = member === 'message' ? lacksMessage : lacksDelta
  const lacks = (choice: Json): choice is JsonObject => isObject(choice) && isLacking(choice)
  if (!body || !list(body.choices).some(lacks)) return source
  const found = survey(source, MAX_ANSWER_DEPTH)
  if (!found.ok) return source
  const choices = list(body.choices).map((choice) =>
    lacks(choice) ? { ...choice, [member]: complete(isObject(choice[member]) ? choice[member] : {}) } : choice,
  )
  return rewrite({ text: source }, found.members, body, { ...body, choices }).text
}
