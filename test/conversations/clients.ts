/** Kinds of clients: how each writes requests, and which parts of an answer it sends back in the next turn. */
import type { ClientProtocolName } from '../../src/core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'

/** The client's side of a turn. */
export type Input = {
  /** Results of the calls of the last answer, in order. */
  readonly results?: readonly string[]
  /** A developer instruction. */
  readonly instruction?: string
  /** User messages, in order. */
  readonly user?: readonly string[]
  /** An image in the last user message. */
  readonly picture?: string
}

/** Features that the conversation uses. */
export type Features = {
  readonly tools?: readonly { readonly name: string; readonly parameters: JsonObject }[]
  readonly schema?: JsonObject
  /** The model has to call a tool. */
  readonly forced?: true
  /** Adds optional settings that only some vendors support. */
  readonly settings?: true
}

/** A client during one conversation. */
export type Client = {
  /** The body of the next request. */
  readonly ask: (input: Input) => JsonObject
  /** Adds the gateway's answer to the history. */
  readonly take: (answer: JsonObject) => void
}

export type ClientKind = {
  readonly name: string
  readonly style: ClientProtocolName
  readonly begin: (features: Features) => Client
}

const SYSTEM = 'You are careful. system-words'
const MAX_TOKENS = 4_096
/** Settings that chat completions and responses share. */
const SHARED = { prompt_cache_key: `conversation-${'c'.repeat(64)}`, service_tier: 'auto' }
/** An ID as Claude Code writes it, in the style of messages. */
const USER_ID = JSON.stringify({ device_id: 'd'.repeat(64), account_uuid: 'a'.repeat(36), session_id: 's'.repeat(36) })
const dataUrl = (picture: string): string => `data:image/png;base64,${picture}`

// ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────

/** `keeps`: the members of an assistant message that the client sends back. */
const chat =
  (keeps: (message: JsonObject) => JsonObject) =>
  ({ tools, schema, settings, forced }: Features): Client => {
    const messages: JsonObject[] = [{ role: 'system', content: SYSTEM }]
    let calls: readonly string[] = []
    return {
      ask({ results = [], instruction, user = [], picture }) {
        messages.push(
          ...results.map((content, at) => ({ role: 'tool', tool_call_id: calls[at] ?? '', content })),
          ...(instruction === undefined ? [] : [{ role: 'developer', content: instruction }]),
          ...user.map((words, at) => ({
            role: 'user',
            content:
              picture === undefined || at < user.length - 1
                ? words
                : [
                    { type: 'text', text: words },
                    { type: 'image_url', image_url: { url: dataUrl(picture) } },
                  ],
          })),
        )
        return {
          model: '',
          messages: [...messages],
          max_completion_tokens: MAX_TOKENS,
          reasoning_effort: 'low',
          ...(settings && {
            ...SHARED,
            store: false,
            metadata: { case: 'settings' },
            parallel_tool_calls: true,
            seed: 7,
            user: USER_ID,
            verbosity: 'medium',
            temperature: 0.7,
            presence_penalty: 0.1,
          }),
          ...(forced && { tool_choice: 'required' }),
          ...(tools && { tools: tools.map((tool) => ({ type: 'function', function: tool })) }),
          ...(schema && {
            response_format: { type: 'json_schema', json_schema: { name: 'answer', schema, strict: true } },
          }),
        }
      },
      take(answer) {
        const message = object(object(list(answer.choices)[0])?.message) ?? {}
        calls = list(message.tool_calls).map((call) => text(object(call)?.id) ?? '')
        messages.push(keeps(message))
      },
    }
  }

const onlyOpenai = ({ role, content, tool_calls: calls }: JsonObject): JsonObject => ({
  role,
  content,
  ...(calls !== undefined && { tool_calls: calls }),
})

// ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────

const responsesItems = (
  { results = [], instruction, user = [], picture }: Input,
  calls: readonly string[],
): readonly JsonObject[] => [
  ...results.map((output, at) => ({ type: 'function_call_output', call_id: calls[at] ?? '', output })),
  ...(instruction === undefined ? [] : [{ role: 'developer', content: instruction }]),
  ...user.map((words, at) => ({
    role: 'user',
    content: [
      { type: 'input_text', text: words },
      ...(picture === undefined || at < user.length - 1
        ? []
        : [{ type: 'input_image', image_url: dataUrl(picture), detail: 'auto' }]),
    ],
  })),
]

const responsesBody = ({ tools, schema, settings, forced }: Features): JsonObject => ({
  model: '',
  instructions: SYSTEM,
  max_output_tokens: MAX_TOKENS,
  reasoning: { effort: 'low', summary: 'auto' },
  ...(settings && {
    ...SHARED,
    metadata: { case: 'settings' },
    parallel_tool_calls: true,
    safety_identifier: USER_ID,
    truncation: 'disabled',
  }),
  ...(forced && { tool_choice: 'required' }),
  ...(tools && { tools: tools.map((tool) => ({ type: 'function', ...tool, strict: false })) }),
  ...((schema || settings) && {
    text: {
      ...(schema && { format: { type: 'json_schema', name: 'answer', schema, strict: true } }),
      ...(settings && { verbosity: 'medium' }),
    },
  }),
})

const callsIn = (output: Json | undefined): readonly string[] =>
  list(output)
    .filter(isObject)
    .flatMap(({ type, call_id: id }) => (type === 'function_call' ? [text(id) ?? ''] : []))

const responsesStored = (features: Features): Client => {
  let previous: string | undefined
  let calls: readonly string[] = []
  return {
    ask: (input) => ({
      ...responsesBody(features),
      input: responsesItems(input, calls),
      ...(previous !== undefined && { previous_response_id: previous }),
    }),
    take({ id, output }) {
      previous = text(id)
      calls = callsIn(output)
    },
  }
}

const responsesStateless = (features: Features): Client => {
  const items: JsonObject[] = []
  let calls: readonly string[] = []
  return {
    ask(input) {
      items.push(...responsesItems(input, calls))
      return {
        ...responsesBody(features),
        input: [...items],
        store: false,
        include: ['reasoning.encrypted_content'],
      }
    },
    take({ output }) {
      items.push(...list(output).filter(isObject))
      calls = callsIn(output)
    },
  }
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const messages = ({ tools, schema, settings, forced }: Features): Client => {
  const turns: JsonObject[] = []
  let calls: readonly string[] = []
  return {
    ask({ results = [], instruction, user = [], picture }) {
      const words = instruction === undefined ? user : [instruction, ...user]
      const content = [
        ...results.map((result, at) => ({ type: 'tool_result', tool_use_id: calls[at] ?? '', content: result })),
        ...words.map((text) => ({ type: 'text', text })),
        ...(picture === undefined
          ? []
          : [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture } }]),
      ]
      turns.push({ role: 'user', content })
      return {
        model: '',
        system: SYSTEM,
        messages: [...turns],
        max_tokens: MAX_TOKENS,
        // Anthropic refuses a forced call beside thinking.
        ...(forced ? { tool_choice: { type: 'any' } } : { thinking: { type: 'enabled', budget_tokens: 1_024 } }),
        ...(settings && {
          metadata: { user_id: USER_ID },
          service_tier: 'auto',
          stop_sequences: ['END', 'A:', 'B:', 'C:', 'D:', 'E:'],
        }),
        ...(tools && { tools: tools.map(({ name, parameters }) => ({ name, input_schema: parameters })) }),
        ...(schema && { output_config: { format: { type: 'json_schema', schema } } }),
      }
    },
    take({ content }) {
      turns.push({ role: 'assistant', content })
      calls = list(content)
        .filter(isObject)
        .flatMap(({ type, id }) => (type === 'tool_use' ? [text(id) ?? ''] : []))
    },
  }
}

export const CLIENTS: readonly ClientKind[] = [
  { name: 'chat, keeps reasoning', style: 'openai-chat', begin: chat((message) => message) },
  { name: 'chat, drops reasoning', style: 'openai-chat', begin: chat(onlyOpenai) },
  { name: 'responses, stored', style: 'openai-responses', begin: responsesStored },
  { name: 'responses, stateless', style: 'openai-responses', begin: responsesStateless },
  { name: 'messages', style: 'anthropic-messages', begin: messages },
]
