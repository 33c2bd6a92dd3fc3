import { isObject, type Json, type JsonObject, list, parseObject } from '../../core/json.ts'
import { rewrite, survey } from '../../core/json-text.ts'
import { isFiltered } from './said.ts'

const REASON = '"finish_reason"'
/** The usual reasons, as they follow their key. An answer with no other is not parsed. */
const USUAL = /[ \t\r\n]*:[ \t\r\n]*(?:"(?:stop|length|tool_calls)"|null)/y

/** Searching for the key first is quicker than one expression for all of it, and every whole answer is searched. */
const isUsual = (source: string): boolean => {
  for (let at = source.indexOf(REASON); at !== -1; at = source.indexOf(REASON, at + REASON.length)) {
    USUAL.lastIndex = at + REASON.length
    if (!USUAL.test(source)) return false
  }
  return true
}

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

const completed = (source: string, member: 'message' | 'delta', complete: (said: JsonObject) => JsonObject): string => {
  if (isUsual(source)) return source
  const body = parseObject(source)
  const lacks = (choice: Json): choice is JsonObject =>
    isObject(choice) &&
    isFiltered(choice) &&
    !(isObject(choice[member]) && (member === 'delta' || choice[member].content !== undefined))
  if (!body || !list(body.choices).some(lacks)) return source
  const found = survey(source, DEEPEST)
  if (!found.ok) return source
  const choices = list(body.choices).map((choice) =>
    lacks(choice) ? { ...choice, [member]: complete(isObject(choice[member]) ? choice[member] : {}) } : choice,
  )
  return rewrite(source, found.members, body, { ...body, choices })
}
