/**
 * One tool conversation with the official SDKs, in each of the three styles, whole and streamed: the answers that the client
 * receives, and the next requests that contain these answers.
 */
import assert from 'node:assert/strict'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { type Json, type JsonObject, object } from '../../../src/core/json.ts'
import { type Script, startUpstream, type Upstream, type UpstreamRequest } from '../../support/upstream.ts'
import { type Started, start } from './process.ts'
import { callsOf, stage } from './stage.ts'

// ── The conversation ─────────────────────────────────────────────────────────────────────────────────────────────

export const SYSTEM = 'Be brief.'
export const QUESTION = 'What is the weather in Paris and in Tokyo?'
export const CITIES = ['Paris', 'Tokyo']
/** The upstream's answer once it has both results. */
export const DONE = 'It is wet in Paris and dry in Tokyo.'

/** The result of a call for a city's weather. */
export const weather = ({ input }: Pick<Call, 'input'>): string =>
  object(input as Json)?.city === 'Paris' ? 'wet in Paris' : 'dry in Tokyo'

/** Every style, whole and streamed. */
export const WAYS = (['chat', 'responses', 'messages'] as const).flatMap((style) => [
  { style, stream: false, way: `${style}, whole` },
  { style, stream: true, way: `${style}, streamed` },
])
export type Style = (typeof WAYS)[number]['style']

export type Call = { readonly id: string; readonly name: string; readonly input: unknown }

/** An answer as a client received it, in any style. */
export type Turn = {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly Call[]
  /** `stop`, `calls` or `length`. */
  readonly finish: string
  /** Input and output tokens. */
  readonly tokens: readonly [number | undefined, number | undefined]
  /** Cached and reasoning tokens, where the style reports them. */
  readonly cached: number | undefined
  readonly reasoningTokens: number | undefined
  /** Continues the conversation with the results of the calls. */
  next(results: (call: Call) => string, how?: ContinueOptions): Promise<Turn>
}

export type ContinueOptions = {
  /** Text that the user adds. */
  readonly more?: string
  /** The client sends back only the calls of the answer. */
  readonly only?: 'calls'
  /** The results are in reverse order. */
  readonly reversed?: boolean
}

export type TurnOptions = {
  readonly stream: boolean
  readonly tools: boolean | 'strict'
  /** Additional members of the style. */
  readonly more?: JsonObject
}

export type SendTurn = (prompt: string, options: TurnOptions) => Promise<Turn>

const PARAMETERS = {
  type: 'object' as const,
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}

const inOrder = <T>(results: readonly T[], { reversed = false }: ContinueOptions): readonly T[] =>
  reversed ? results.toReversed() : results

// ── Chat completions ─────────────────────────────────────────────────────────────────────────────────────────────

const chatSpeaker = (openai: OpenAI, model: string): SendTurn => {
  type ChatMessage = OpenAI.Chat.ChatCompletionMessageParam
  const chatTurn = async (messages: ChatMessage[], options: TurnOptions): Promise<Turn> => {
    const request = {
      model,
      messages,
      temperature: 0.5,
      ...(options.tools && {
        tools: [
          {
            type: 'function' as const,
            function: { name: 'get_weather', parameters: PARAMETERS, strict: options.tools === 'strict' },
          },
        ],
      }),
      ...options.more,
    }
    let thoughts = ''
    const details: unknown[] = []
    const whole = async () => {
      if (!options.stream) return await openai.chat.completions.create(request)
      const runner = openai.chat.completions.stream({ ...request, stream_options: { include_usage: true } })
      for await (const { choices } of runner) {
        // Not in OpenAI's types.
        const delta = choices[0]?.delta as { reasoning_content?: string; reasoning_details?: unknown[] } | undefined
        thoughts += delta?.reasoning_content ?? ''
        details.push(...(delta?.reasoning_details ?? []))
      }
      return await runner.finalChatCompletion()
    }
    const { choices, usage } = await whole()
    const [choice] = choices
    if (!choice) throw new Error('no choice')
    if (usage) assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
    const message = choice.message as OpenAI.Chat.ChatCompletionMessage & { reasoning_content?: string }
    thoughts ||= message.reasoning_content ?? ''
    const calls = (message.tool_calls ?? []).flatMap((call) =>
      call.type === 'function'
        ? [{ id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) as unknown }]
        : [],
    )
    // Assembles the stream as a client that keeps the whole answer does.
    const kept = {
      ...message,
      ...(thoughts && { reasoning_content: thoughts }),
      ...(details.length > 0 && { reasoning_details: details }),
    }
    const bare = { role: 'assistant' as const, content: null, tool_calls: message.tool_calls ?? [] }
    return {
      text: message.content ?? '',
      reasoning: thoughts,
      calls,
      finish: choice.finish_reason === 'tool_calls' ? 'calls' : choice.finish_reason,
      tokens: [usage?.prompt_tokens, usage?.completion_tokens],
      cached: usage?.prompt_tokens_details?.cached_tokens,
      reasoningTokens: usage?.completion_tokens_details?.reasoning_tokens,
      next: (results, how = {}) =>
        chatTurn(
          [
            ...messages,
            how.only ? bare : kept,
            ...inOrder(calls, how).map((call) => ({
              role: 'tool' as const,
              tool_call_id: call.id,
              content: results(call),
            })),
            ...(how.more === undefined ? [] : [{ role: 'user' as const, content: how.more }]),
          ],
          options,
        ),
    }
  }
  return (prompt, options) =>
    chatTurn(
      [
        { role: 'developer', content: SYSTEM },
        { role: 'user', content: prompt },
      ],
      options,
    )
}

// ── Responses ────────────────────────────────────────────────────────────────────────────────────────────────────

const responsesSpeaker = (openai: OpenAI, model: string): SendTurn => {
  const responsesTurn = async (input: OpenAI.Responses.ResponseInput, options: TurnOptions): Promise<Turn> => {
    const request = {
      model,
      input,
      instructions: SYSTEM,
      store: false,
      temperature: 0.5,
      ...(options.tools && {
        tools: [
          {
            type: 'function' as const,
            name: 'get_weather',
            parameters: PARAMETERS,
            strict: options.tools === 'strict',
          },
        ],
      }),
      ...options.more,
    }
    const whole = options.stream
      ? await openai.responses.stream(request).finalResponse()
      : await openai.responses.create(request)
    const { usage } = whole
    if (usage) assert.equal(usage.total_tokens, usage.input_tokens + usage.output_tokens)
    const calls = whole.output.flatMap((item) =>
      item.type === 'function_call'
        ? [{ id: item.call_id, name: item.name, input: JSON.parse(item.arguments) as unknown }]
        : [],
    )
    const thoughts = whole.output.flatMap((item) =>
      item.type === 'reasoning' ? [...item.summary, ...(item.content ?? [])].map(({ text }) => text) : [],
    )
    return {
      text: whole.output_text,
      reasoning: thoughts.join(''),
      calls,
      finish: whole.status === 'incomplete' ? 'length' : calls.length > 0 ? 'calls' : 'stop',
      tokens: [usage?.input_tokens, usage?.output_tokens],
      cached: usage?.input_tokens_details.cached_tokens,
      reasoningTokens: usage?.output_tokens_details.reasoning_tokens,
      next: (results, how = {}) =>
        responsesTurn(
          [
            ...input,
            // Sends the output back unchanged.
            ...(whole.output as OpenAI.Responses.ResponseInput).filter(
              ({ type }) => !how.only || type === 'function_call',
            ),
            ...inOrder(calls, how).map((call) => ({
              type: 'function_call_output' as const,
              call_id: call.id,
              output: results(call),
            })),
            ...(how.more === undefined ? [] : [{ role: 'user' as const, content: how.more }]),
          ],
          options,
        ),
    }
  }
  return (prompt, options) => responsesTurn([{ role: 'user', content: prompt }], options)
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────

const messagesSpeaker = (anthropic: Anthropic, model: string): SendTurn => {
  const messagesTurn = async (messages: Anthropic.MessageParam[], options: TurnOptions): Promise<Turn> => {
    const request = {
      model,
      max_tokens: 500,
      system: SYSTEM,
      messages,
      temperature: 0.5,
      ...(options.tools && {
        tools: [{ name: 'get_weather', input_schema: PARAMETERS, strict: options.tools === 'strict' }],
      }),
      ...options.more,
    }
    const whole = options.stream
      ? await anthropic.messages.stream(request).finalMessage()
      : await anthropic.messages.create(request)
    const calls = whole.content.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id, name: block.name, input: block.input }] : [],
    )
    return {
      text: whole.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(''),
      reasoning: whole.content.flatMap((block) => (block.type === 'thinking' ? [block.thinking] : [])).join(''),
      calls,
      finish: { end_turn: 'stop', tool_use: 'calls', max_tokens: 'length' }[String(whole.stop_reason)] ?? 'other',
      tokens: [whole.usage.input_tokens, whole.usage.output_tokens],
      cached: whole.usage.cache_read_input_tokens ?? undefined,
      reasoningTokens: undefined,
      next: (results, how = {}) =>
        messagesTurn(
          [
            ...messages,
            { role: 'assistant', content: whole.content.filter(({ type }) => !how.only || type === 'tool_use') },
            {
              role: 'user',
              content: [
                ...inOrder(calls, how).map((call) => ({
                  type: 'tool_result' as const,
                  tool_use_id: call.id,
                  content: results(call),
                })),
                ...(how.more === undefined ? [] : [{ type: 'text' as const, text: how.more }]),
              ],
            },
          ],
          options,
        ),
    }
  }
  return (prompt, options) => messagesTurn([{ role: 'user', content: prompt }], options)
}

const speakers = (gateway: Started, model: string): { readonly [style in Style]: SendTurn } => {
  const openai = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
  const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })
  return {
    chat: chatSpeaker(openai, model),
    responses: responsesSpeaker(openai, model),
    messages: messagesSpeaker(anthropic, model),
  }
}

// ── The gateway in between ───────────────────────────────────────────────────────────────────────────────────────

export type Conversation = {
  readonly upstream: Upstream
  readonly gateway: Started
  readonly speak: ReturnType<typeof speakers>
  /** The last upstream request. */
  lastRequest(): UpstreamRequest
}

/** Starts an upstream with this script, a gateway in front of it, and clients; all of them end with the file. */
export const startConversation = async (
  script: Script,
  model: string,
  env: (url: string) => Readonly<Record<string, string>>,
): Promise<Conversation> => {
  const { keep } = stage()
  const upstream = await startUpstream(script)
  keep(() => upstream.close())
  const gateway = await start({ env: env(upstream.url) })
  keep(() => gateway.stop())
  return {
    upstream,
    gateway,
    speak: speakers(gateway, model),
    lastRequest() {
      const request = callsOf(upstream).at(-1)
      if (!request) throw new Error('the upstream received no request')
      return request
    },
  }
}
