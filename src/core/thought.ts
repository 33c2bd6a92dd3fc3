/** Whether calls of Claude, in its own format, have the thinking block that `thinking: enabled` requires before them. */
import { isObject, type Json, type JsonObject, list, text } from './json.ts'

/** How ids of calls that Claude made begin: `toolu_01…`, `toolu_vrtx_…`. Ids of other vendors are kept as they are. */
const ITS_CALL = /^toolu_/

/**
 * Whether the assistant message at this index has to begin with a thinking block and does not. All calls and results since
 * the last question are one turn (platform.claude.com, thinking in tool workflows, 2026-11-22). Without interleaved thinking
 * Claude thinks once in it (github.com/dust-tt/srchd/pull/41, 2025-11-04: one thought before 101 calls), so its later calls
 * need no block of their own.
 */
export const isUnthought = (messages: readonly Json[], index: number): boolean => {
  if (beginsWithThought(messages[index])) return false
  const calls = blocksOf(messages[index]).filter(({ type }) => type === 'tool_use')
  if (calls.length === 0 || !calls.every(({ id }) => ITS_CALL.test(text(id) ?? ''))) return true
  for (let at = index - 1; at >= 0; at--) {
    const message = messages[at]
    if (beginsWithThought(message)) return false
    if (isObject(message) && message.role === 'user' && !blocksOf(message).some(isResult)) return true
  }
  return true
}

const blocksOf = (message: Json | undefined): JsonObject[] =>
  list(isObject(message) ? message.content : undefined).filter(isObject)

const isResult = ({ type }: JsonObject): boolean => type === 'tool_result'

const beginsWithThought = (message: Json | undefined): boolean => {
  const first = isObject(message) && message.role === 'assistant' ? text(blocksOf(message)[0]?.type) : undefined
  return first === 'thinking' || first === 'redacted_thinking'
}
