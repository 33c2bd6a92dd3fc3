/**
 * How many messages, content parts and tools a request body contains, and whether that is within the limits. Every entry
 * costs time on the event loop to decode, encode and store, so the number of entries bounds the time one request takes.
 */
import { type Failure, fail } from '../core/failure.ts'
import { isList, isObject, type Json, type JsonObject } from '../core/json.ts'
import type { Settings } from '../core/settings.ts'

export type ExtentLimits = Pick<Settings['limit'], 'messages' | 'parts' | 'tools'>

/** Members of a body that list messages, items or inputs: chat and messages, responses and embeddings, completions, Google's. */
const MESSAGES = ['messages', 'input', 'prompt', 'contents', 'requests', 'instances'] as const
/** Members of a message, an item or a part that list parts. Log probabilities are not parts: clients return thousands. */
const PARTS = ['content', 'parts', 'output', 'summary', 'tool_calls', 'reasoning_details', 'tools'] as const
const TOOLS = ['tools', 'functions'] as const

/** Whether a body is within the limits because all its lists together have at most this many entries, as most bodies do. */
export const isShort = (entries: number, { messages, parts, tools }: ExtentLimits): boolean =>
  entries <= Math.min(messages, parts, tools)

/**
 * The failure of a body with too many entries: 400 `invalid_value` with the count, the limit and the setting. Null: it is
 * within the limits. Takes time in proportion to the messages and parts.
 */
export const extentProblem = (body: JsonObject, limits: ExtentLimits): Failure | null => {
  let parts = partsIn({ content: body.system ?? null })
  for (const member of MESSAGES) {
    const messages = body[member]
    // One input as a list of token numbers is a single entry.
    if (!isList(messages) || typeof messages[0] === 'number') continue
    if (messages.length > limits.messages)
      return tooMany(member, `${messages.length} ${NOUNS[member]}`, limits.messages, 'messages')
    for (const message of messages) {
      parts += partsIn(message)
      if (parts > limits.parts) return tooMany(member, `more than ${limits.parts} content parts`, limits.parts, 'parts')
    }
  }
  let tools = 0
  for (const member of TOOLS) {
    const list = body[member]
    if (!isList(list)) continue
    tools += list.length
    // A namespace of the responses style lists its own tools.
    for (const tool of list) if (isObject(tool) && isList(tool.tools)) tools += tool.tools.length
    if (tools > limits.tools) return tooMany(member, `${tools} tools`, limits.tools, 'tools')
  }
  return null
}

const NOUNS = {
  messages: 'messages',
  input: 'items',
  prompt: 'prompts',
  contents: 'contents',
  requests: 'requests',
  instances: 'instances',
} as const

const partsIn = (message: Json): number => {
  if (!isObject(message)) return 0
  let count = 0
  for (const member of PARTS) {
    const parts = message[member]
    if (!isList(parts)) continue
    count += parts.length
    // A tool result of the messages style has content of its own.
    for (const part of parts) if (isObject(part) && isList(part.content)) count += part.content.length
  }
  return count
}

const tooMany = (param: string, found: string, limit: number, setting: keyof ExtentLimits): Failure =>
  fail(
    'invalid_value',
    `The request has ${found} in \`${param}\`; the limit is ${limit} (limit.${setting}, LIMIT_${setting.toUpperCase()}). Send fewer, or raise the limit.`,
    { param },
  )
