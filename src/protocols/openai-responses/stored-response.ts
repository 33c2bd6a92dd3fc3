/**
 * A response that is kept here has our id, whoever answered, and says of itself what the client asked, whatever of that
 * the upstream was told. Bytes pass otherwise: only these members are written anew, and those that are missing added.
 */
import { type JsonObject, parseObject } from '../../core/json.ts'
import { rewrite, survey } from '../../core/json-text.ts'
import type { AnswerContext, StorageInfo } from '../../core/protocol.ts'
import { withoutGaps } from './required-members.ts'

const keptMembers = ({ id, previous, store, background }: StorageInfo): JsonObject => ({
  id,
  previous_response_id: previous,
  store,
  background,
})

/** A response's JSON text under our id. Text that is none stays as it is. */
export const responseAsKept = (source: string, context: KeptContext): string => {
  const before = parseObject(source)
  const found = before && survey(source, DEEPEST)
  if (!before || !found?.ok) return source
  return rewrite(source, found.members, before, { ...withoutGaps(before, context), ...keptMembers(context.kept) })
}

export type KeptContext = AnswerContext & { readonly kept: StorageInfo }
export const isKept = (context: AnswerContext): context is KeptContext => context.kept !== undefined

/** The text of an event that carries the response: the response in it under our id, and all of it in one line. */
export const eventAsKept = (source: string, context: KeptContext): string => {
  const found = survey(source, DEEPEST)
  const span = found.ok ? found.members.find(({ key }) => key === 'response') : undefined
  if (!span) return source
  const response = responseAsKept(source.slice(span.value, span.end), context)
  // A line break in JSON text that parses is white space.
  return (source.slice(0, span.value) + response + source.slice(span.end)).replaceAll('\n', ' ')
}

/** Deeper than any response is; what is deeper has been refused by the reader or is nobody's. */
const DEEPEST = 1_000
