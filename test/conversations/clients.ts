/** Client kinds: how each asks, and what it sends back in the next turn of what the gateway returned. */
import type { ClientProtocolName } from '../../src/core/chat.ts'
import { isObject, type Json, type JsonObject, list, object, text } from '../../src/core/json.ts'

/** What the user's side adds to a conversation. */
export type Input =
  | { readonly user: string; readonly picture?: string }
  /** Results of the calls of the last answer, in order. */
  | { readonly results: readonly string[] }

/** What a whole conversation uses. */
export type Features = {
  readonly tools?: readonly { readonly name: string; readonly parameters: JsonObject }[]
  readonly schema?: JsonObject
}

/** A client during one conversation. */
export type Client = {
  /** The body of the next request. */
  readonly ask: (input: Input) => JsonObject
  /** Takes the gateway's answer into the history. */
  readonly take: (answer: JsonObject) => void
}

export type ClientKind = {
  readonly name: string
  readonly style: ClientProtocolName
  readonly begin: (features: Features) => Client
}

const SYSTEM = 'You are careful. system-words'
const MAX_TOKENS = 4_096
const dataUrl = (picture: string): string => `data:image/png;base64,${picture}`

// ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────

/** `keeps`: which members of an assistant message it sends back. */
const chat =
  (keeps: (message: JsonObject) => JsonObject) =>
  ({ tools, schema }: Features): Client => {
    const messages: JsonObject[] = [{ role: 'system', content: SYSTEM }]
    let calls: readonly string[] = []
    return {
      ask(input) {
        if ('results' in input)
          messages.push(
            ...input.results.map((content, at) => ({ role: 'tool', tool_call_id: calls[at] ?? '', content })),
          )
        else if (input.picture === undefined) messages.push({ role: 'user', content: input.user })
        else
          messages.push({
            role: 'user',
            content: [
              { type: 'text', text: input.user },
              { type: 'image_url', image_url: { url: dataUrl(input.picture) } },
            ],
          })
        return {
          model: '',
          messages: [...messages],
          max_completion_tokens: MAX_TOKENS,
          reasoning_effort: 'low',
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

const responsesItems = (input: Input, calls: readonly string[]): readonly JsonObject[] =>
  'results' in input
    ? input.results.map((output, at) => ({ type: 'function_call_output', call_id: calls[at] ?? '', output }))
    : [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: input.user },
            ...(input.picture === undefined
              ? []
              : [{ type: 'input_image', image_url: dataUrl(input.picture), detail: 'auto' }]),
          ],
        },
      ]

const responsesBody = ({ tools, schema }: Features): JsonObject => ({
  model: '',
  instructions: SYSTEM,
  max_output_tokens: MAX_TOKENS,
  reasoning: { effort: 'low', summary: 'auto' },
  ...(tools && { tools: tools.map((tool) => ({ type: 'function', ...tool, strict: false })) }),
  ...(schema && { text: { format: { type: 'json_schema', name: 'answer', schema, strict: true } } }),
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

const messages = ({ tools, schema }: Features): Client => {
  const turns: JsonObject[] = []
  let calls: readonly string[] = []
  return {
    ask(input) {
      const content =
        'results' in input
          ? input.results.map((result, at) => ({ type: 'tool_result', tool_use_id: calls[at] ?? '', content: result }))
          : [
              { type: 'text', text: input.user },
              ...(input.picture === undefined
                ? []
                : [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: input.picture } }]),
            ]
      turns.push({ role: 'user', content })
      return {
        model: '',
        system: SYSTEM,
        messages: [...turns],
        max_tokens: MAX_TOKENS,
        thinking: { type: 'enabled', budget_tokens: 1_024 },
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
