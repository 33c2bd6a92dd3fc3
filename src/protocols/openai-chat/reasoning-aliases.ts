import { isObject, type JsonObject, list, object, parseObject, text } from '../../core/json.ts'
import { stringEnd } from '../../core/json-text.ts'
import { exceedsDepth } from '../shared/tool-arguments.ts'

/** The member's key. Inside a JSON string its quotes would be escaped, so this never matches the words of an answer. */
const KEY = '"reasoning"'
/** The key with its value, a string. White space as JSON has it. */
const MEMBER = /"reasoning"[ \t\r\n]*:[ \t\r\n]*(?=")/g

/** Deeper than any answer is; deeper values could overflow the stack when they are written again. */
const DEEPEST = 256

/**
 * A chat answer or chunk, as JSON text, whose messages and deltas carry their `reasoning` as `reasoning_content` too.
 * Recorded answers of OpenRouter, Groq, Cerebras, Ollama and Vercel have the first name alone; clients read the second,
 * which is DeepSeek's. Text without the first name is returned as it is and costs one search; otherwise the member is
 * inserted, and the rest of the text keeps its bytes.
 */
export const withBothNames = (source: string): string => {
  if (!source.includes(KEY)) return source
  const body = parseObject(source)
  const lacking = list(body?.choices).flatMap((choice) => saidIn(object(choice)).filter(lacksName))
  if (!body || lacking.length === 0) return source
  const inserted = lacking.some((said) => Object.hasOwn(said, 'reasoning_content'))
    ? null
    : insert(source, lacking.length)
  return inserted ?? (exceedsDepth(body, DEEPEST) ? source : JSON.stringify(renamed(body)))
}

/** Whether this choice has reasoning under the first name alone. */
export const lacksReasoningContent = ({ delta, message }: JsonObject): boolean =>
  (isObject(delta) && lacksName(delta)) || (isObject(message) && lacksName(message))

/** What a choice says: some servers that only pretend to stream send a whole message in a chunk. */
const saidIn = (choice: JsonObject | undefined): JsonObject[] => [choice?.delta, choice?.message].filter(isObject)

const lacksName = (said: JsonObject): boolean => Boolean(text(said.reasoning)) && !text(said.reasoning_content)

/** Null: the key is not found exactly as often as it is needed, so the text does not show which ones are meant. */
const insert = (source: string, count: number): string | null => {
  const found = [...source.matchAll(MEMBER)]
  if (found.length !== count) return null
  let out = ''
  let from = 0
  for (const { index, 0: member } of found) {
    const value = index + member.length
    out += `${source.slice(from, index)}"reasoning_content":${source.slice(value, stringEnd(source, value))},`
    from = index
  }
  return out + source.slice(from)
}

const renamed = (body: JsonObject): JsonObject => ({
  ...body,
  choices: list(body.choices).map((choice) =>
    isObject(choice) ? { ...choice, ...named('delta', choice.delta), ...named('message', choice.message) } : choice,
  ),
})

const named = (name: 'delta' | 'message', said: unknown): JsonObject => {
  if (!isObject(said) || !lacksName(said)) return {}
  const { reasoning, reasoning_content: _, ...rest } = said
  return { [name]: { ...rest, reasoning_content: reasoning ?? null, reasoning: reasoning ?? null } }
}
