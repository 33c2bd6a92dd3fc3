import { isObject, type Json, type JsonObject, list, object, parseObject } from '../../core/json.ts'
import { rewrite, survey } from '../../core/json-text.ts'
import { isFiltered } from '../shared/openai-finish-and-usage.ts'

/** Deeper than any answer is; the text of a deeper one is left alone. */
const DEEPEST = 256

const NOTHING_SAID = { role: 'assistant', content: '', refusal: null }

/**
 * A whole answer whose choices, held back by the content filter, have the message that OpenAI's schema requires, with
 * empty content. Azure leaves it out, or its content: microsoft/semantic-kernel#5240 (2024-02-29).
 */
export const withMessages = (source: string): string =>
  completed(source, 'message', (message) => ({ ...NOTHING_SAID, ...message }))

/** The same for a chunk of a stream, whose choices need a delta. */
export const withDeltas = (source: string): string => completed(source, 'delta', (delta) => delta)

/** Whether the filter held this choice back and its message, or the content of that, is missing. */
export const lacksMessage = (choice: JsonObject): boolean =>
  object(choice.message)?.content === undefined && isFiltered(choice)

const lacksDelta = (choice: JsonObject): boolean => !isObject(choice.delta) && isFiltered(choice)

const completed = (source: string, member: 'message' | 'delta', complete: (said: JsonObject) => JsonObject): string => {
  const body = parseObject(source)
  const isLacking = member === 'message' ? lacksMessage : lacksDelta
  const lacks = (choice: Json): choice is JsonObject => isObject(choice) && isLacking(choice)
  if (!body || !list(body.choices).some(lacks)) return source
  const found = survey(source, DEEPEST)
  if (!found.ok) return source
  const choices = list(body.choices).map((choice) =>
    lacks(choice) ? { ...choice, [member]: complete(isObject(choice[member]) ? choice[member] : {}) } : choice,
  )
  return rewrite(source, found.members, body, { ...body, choices })
}
