/**
 * Requests with members of both OpenAI formats. Cursor sends the body of a response to `/chat/completions`, and other
 * clients change only the path when they switch between the two.
 */
import type { ChatRequest } from '../core/chat.ts'
import { good, type Outcome } from '../core/failure.ts'
import { isList, isObject, type JsonObject, list } from '../core/json.ts'
import { decodeRequest as decodeChat } from './openai-chat/decode-request.ts'
import { decodeRequest as decodeResponses } from './openai-responses/decode-request.ts'

/** Members that only chat completions have, besides `messages`. */
const CHAT_ONLY: ReadonlySet<string> = new Set([
  'max_tokens',
  'max_completion_tokens',
  'response_format',
  'reasoning_effort',
  'verbosity',
  'stream_options',
  'n',
  'stop',
  'seed',
  'logprobs',
  'logit_bias',
  'functions',
  'function_call',
  'modalities',
  'audio',
  'prediction',
  'web_search_options',
])

/** Members of a chat body at the path of responses, which no provider takes there. */
const CHAT_MARKS = ['max_tokens', 'max_completion_tokens', 'response_format', 'reasoning_effort']
/** Members of a responses body at the path of chat completions. */
const RESPONSES_MARKS = ['instructions', 'max_output_tokens', 'text']

/** Decodes a request at the path of chat completions. */
export const decodeChatBody = (body: JsonObject): Outcome<ChatRequest> =>
  isOfChat(body) ? decodeChat(body) : decodeMixed(body)

/** Decodes a request at the path of responses. */
export const decodeResponsesBody = (body: JsonObject): Outcome<ChatRequest> =>
  isOfResponses(body) ? decodeResponses(body) : decodeMixed(body)

const has = (body: JsonObject, name: string): boolean => (body[name] ?? null) !== null

const isOfChat = (body: JsonObject): boolean => {
  if (RESPONSES_MARKS.some((name) => has(body, name))) return false
  const { messages } = body
  if (!isList(messages) || messages.length === 0) return !has(body, 'input')
  // Items of responses, such as calls, have a type instead of a role.
  return !messages.some((entry) => isObject(entry) && (entry.role ?? null) === null && typeof entry.type === 'string')
}

const isOfResponses = (body: JsonObject): boolean =>
  (has(body, 'input') || !has(body, 'messages')) && !CHAT_MARKS.some((name) => has(body, name))

/** The conversation and the tools as of responses, whose decoder also reads messages; the other settings as of chat. */
const decodeMixed = (body: JsonObject): Outcome<ChatRequest> => {
  const members = Object.entries(body).filter(([name]) => name !== 'messages' || !isReplaced(body))
  const main = decodeResponses(Object.fromEntries(members.filter(([name]) => !CHAT_ONLY.has(name))))
  if (!main.ok) return main
  const { model = null } = body
  const settings = Object.fromEntries(members.filter(([name]) => CHAT_ONLY.has(name)))
  const other = decodeChat({ ...settings, model, messages: NO_MESSAGE, tools: NO_TOOLS })
  if (!other.ok) return other
  return good({
    ...main.value,
    settings: { ...other.value.settings, ...main.value.settings },
    tools: [...main.value.tools, ...other.value.tools],
    extras: [...main.value.extras, ...other.value.extras],
    reshaped: true,
  })
}

/** `input` replaces an empty list of messages. */
const isReplaced = (body: JsonObject): boolean => has(body, 'input') && list(body.messages).length === 0

const NO_MESSAGE = [{ role: 'user', content: '' }]
const NO_TOOLS: readonly JsonObject[] = []
