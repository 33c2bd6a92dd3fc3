import { isObject, type JsonObject, list, object, parseObject, text } from '../../core/json.ts'
import { stringEnd } from '../../core/json-text.ts'
import { detailsOf, readDetails } from '../shared/reasoning-members.ts'
import { exceedsDepth } from '../shared/tool-arguments.ts'

/** The members' keys. Inside a JSON string the quotes are escaped, so content never matches. */
const KEY = '"reasoning"'
const DETAILS_KEY = '"reasoning_details"'
/** The key before a string value, with JSON white space. */
const MEMBER = /"reasoning"[ \t\r\n]*:[ \t\r\n]*(?=")/g

/** Maximum nesting of a rewritten answer; deeper values could overflow the stack when stringified. */
const MAX_ANSWER_DEPTH = 256

/**
 * Copies `reasoning`, or the texts in `reasoning_details`, to `reasoning_content` in the messages and deltas of an answer or
 * chunk, as JSON text. OpenRouter, Groq, Cerebras, Ollama and Vercel use the first name, Snowflake and some models at
 * OpenRouter the second only; clients read the third, DeepSeek's. Text without the first two costs two searches and is
 * unchanged; `reasoning` is inserted under its other name and all other bytes stay.
 */
export const withBothNames = (source: string): string => {
  if (!source.includes(KEY) && !source.includes(DETAILS_KEY)) return source
  const body = parseObject(source)
  const lacking = list(body?.choices).flatMap((choice) => messagesOf(object(choice)).filter(lacksAlias))
  if (!body || lacking.length === 0) return source
  const inserted = lacking.some((message) => !text(message.reasoning) || Object.hasOwn(message, 'reasoning_content'))
    ? null
    : insert(source, lacking.length)
  return inserted ?? (exceedsDepth(body, MAX_ANSWER_DEPTH) ? source : JSON.stringify(withAliases(body)))
}

/** Whether this choice has reasoning without `reasoning_content`. */
export const lacksReasoningContent = ({ delta, message }: JsonObject): boolean =>
  (isObject(delta) && lacksAlias(delta)) || (isObject(message) && lacksAlias(message))

/** The delta and message of a choice: some servers send a complete message in a chunk. */
const messagesOf = (choice: JsonObject | undefined): JsonObject[] => [choice?.delta, choice?.message].filter(isObject)

const lacksAlias = (message: JsonObject): boolean =>
  !text(message.reasoning_content) && (Boolean(text(message.reasoning)) || detailsText(message) !== '')

const detailsText = (message: JsonObject): string =>
  readDetails(detailsOf(message))
    .flatMap((block) => block.text || [])
    .join('\n\n')

/** Null if the number of keys in the text differs from `count`: then their positions are ambiguous. */
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

const withAliases = (body: JsonObject): JsonObject => ({
  ...body,
  choices: list(body.choices).map((choice) =>
    isObject(choice) ? { ...choice, ...aliased('delta', choice.delta), ...aliased('message', choice.message) } : choice,
  ),
})

const aliased = (name: 'delta' | 'message', message: unknown): JsonObject => {
  if (!isObject(message) || !lacksAlias(message)) return {}
  const { reasoning, reasoning_content: _, ...rest } = message
  if (!text(reasoning)) return { [name]: { ...message, reasoning_content: detailsText(message) } }
  return { [name]: { ...rest, reasoning_content: reasoning ?? null, reasoning: reasoning ?? null } }
}
