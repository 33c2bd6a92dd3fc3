/**
 * A response stored by the gateway carries the gateway's id and the client's settings, whatever the upstream received. Only
 * these members are rewritten and missing ones added; the rest of the text stays unchanged.
 */
import { type Json, type JsonObject, parseObject } from '../../core/json.ts'
import { rewrite, survey } from '../../core/json-text.ts'
import type { AnswerContext, StorageInfo } from '../../core/protocol.ts'
import { withRequiredMembers } from './required-members.ts'

const storageMembers = ({ id, previous, store, background }: StorageInfo): JsonObject => ({
  id,
  previous_response_id: previous,
  store,
  background,
})

/** A response's JSON text with the gateway's id. Text that is not JSON stays unchanged. */
export const responseAsKept = (source: string, context: KeptContext): string => {
  const before = parseObject(source)
  const found = before && survey(source, MAX_DEPTH)
  if (!before || !found?.ok) return source
  const after = { ...withRequiredMembers(before, context), ...storageMembers(context.storage) }
  return rewrite({ text: source }, found.members, before, after).text
}

/** The context of a response that the gateway stores. */
export type KeptContext = AnswerContext & { readonly storage: StorageInfo }
export const isKept = (context: AnswerContext): context is KeptContext => context.storage !== undefined

/**
 * An event's JSON text as the client receives it, on one line: with the gateway's id in the response if the gateway stores it,
 * or if the response was begun before the upstream answered.
 */
export const asSent = (source: string, context: AnswerContext): string => {
  const { begun } = context
  if (!isKept(context) && !begun) return source
  const found = survey(source, MAX_DEPTH)
  const span = found.ok ? found.members.find(({ key }) => key === 'response') : undefined
  if (!span) return source
  const own = source.slice(span.value, span.end)
  const response = isKept(context) ? responseAsKept(own, context) : withId(own, begun?.response.id)
  // Line breaks in valid JSON text are white space.
  return (source.slice(0, span.value) + response + source.slice(span.end)).replaceAll('\n', ' ')
}

const withId = (source: string, id: Json | undefined): string => {
  const before = parseObject(source)
  const found = before && survey(source, MAX_DEPTH)
  return before && found?.ok && id !== undefined
    ? rewrite({ text: source }, found.members, before, { ...before, id }).text
    : source
}

/** Nesting limit. The reader rejects deeper responses. */
const MAX_DEPTH = 1_000
