/**
 * One conversation with tools, held by the official SDKs as they are in each of the three styles, streamed and not: what
 * a client is told, and what it sends back when it keeps what it was given.
 */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import type { JsonObject } from '../../../src/core/json.ts'
import type { Started } from './process.ts'

export type Call = { readonly id: string; readonly name: string; readonly input: unknown }

/** What a client was told, whatever its style. */
export type Turn = {
  readonly text: string
  readonly thoughts: string
  readonly calls: readonly Call[]
  /** `stop`, `calls` or `length`. */
  readonly finish: string
  /** Input and output. */
  readonly tokens: readonly [number | undefined, number | undefined]
  /** Goes on with what the calls gave. */
  next(results: (call: Call) => string, more?: string): Promise<Turn>
}

export type Wishes = {
  readonly stream: boolean
  readonly tools: boolean
  /** Members of the style itself, beside the usual ones. */
  readonly more?: JsonObject
}

export type Speaker = (question: string, wishes: Wishes) => Promise<Turn>

const PARAMETERS = { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] }
const SYSTEM = 'Be brief.'

export const speakers = (
  gateway: Started,
  model: string,
): { readonly [style in 'chat' | 'responses' | 'messages']: Speaker } => {
  const openai = new OpenAI({ baseURL: gateway.base, apiKey: 'any', maxRetries: 0 })
  const anthropic = new Anthropic({ baseURL: gateway.url, apiKey: 'any', maxRetries: 0 })

  // ── Chat completions ───────────────────────────────────────────────────────────────────────────────────────────

  type ChatMessage = OpenAI.Chat.ChatCompletionMessageParam
  const chatTurn = async (messages: ChatMessage[], wishes: Wishes): Promise<Turn> => {
    const asked = {
      model,
      messages,
      temperature: 0.5,
      ...(wishes.tools && {
        tools: [{ type: 'function' as const, function: { name: 'get_weather', parameters: PARAMETERS } }],
      }),
      ...wishes.more,
    }
    let thoughts = ''
    const whole = async () => {
      if (!wishes.stream) return await openai.chat.completions.create(asked)
      const runner = openai.chat.completions.stream({ ...asked, stream_options: { include_usage: true } })
      for await (const { choices } of runner) {
        // Not in OpenAI's own types.
        const delta = choices[0]?.delta as { reasoning_content?: string } | undefined
        thoughts += delta?.reasoning_content ?? ''
      }
      return await runner.finalChatCompletion()
    }
    const { choices, usage } = await whole()
    const [choice] = choices
    if (!choice) throw new Error('no choice')
    const message = choice.message as OpenAI.Chat.ChatCompletionMessage & { reasoning_content?: string }
    thoughts ||= message.reasoning_content ?? ''
    const calls = (message.tool_calls ?? []).flatMap((call) =>
      call.type === 'function'
        ? [{ id: call.id, name: call.function.name, input: JSON.parse(call.function.arguments) as unknown }]
        : [],
    )
    const kept = { ...message, ...(thoughts && { reasoning_content: thoughts }) }
    return {
      text: message.content ?? '',
      thoughts,
      calls,
      finish: choice.finish_reason === 'tool_calls' ? 'calls' : choice.finish_reason,
      tokens: [usage?.prompt_tokens, usage?.completion_tokens],
      next: (results, more) =>
        chatTurn(
          [
            ...messages,
            kept,
            ...calls.map((call) => ({ role: 'tool' as const, tool_call_id: call.id, content: results(call) })),
            ...(more === undefined ? [] : [{ role: 'user' as const, content: more }]),
          ],
          wishes,
        ),
    }
  }

  // ── Responses ──────────────────────────────────────────────────────────────────────────────────────────────────

  const responsesTurn = async (input: OpenAI.Responses.ResponseInput, wishes: Wishes): Promise<Turn> => {
    const asked = {
      model,
      input,
      instructions: SYSTEM,
      store: false,
      temperature: 0.5,
      ...(wishes.tools && {
        tools: [{ type: 'function' as const, name: 'get_weather', parameters: PARAMETERS, strict: false }],
      }),
      ...wishes.more,
    }
    const whole = wishes.stream
      ? await openai.responses.stream(asked).finalResponse()
      : await openai.responses.create(asked)
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
      thoughts: thoughts.join(''),
      calls,
      finish: whole.status === 'incomplete' ? 'length' : calls.length > 0 ? 'calls' : 'stop',
      tokens: [whole.usage?.input_tokens, whole.usage?.output_tokens],
      next: (results, more) =>
        responsesTurn(
          [
            ...input,
            // What it was given, as it was given it.
            ...(whole.output as OpenAI.Responses.ResponseInput),
            ...calls.map((call) => ({
              type: 'function_call_output' as const,
              call_id: call.id,
              output: results(call),
            })),
            ...(more === undefined ? [] : [{ role: 'user' as const, content: more }]),
          ],
          wishes,
        ),
    }
  }

  // ── Messages ───────────────────────────────────────────────────────────────────────────────────────────────────

  const messagesTurn = async (messages: Anthropic.MessageParam[], wishes: Wishes): Promise<Turn> => {
    const asked = {
      model,
      max_tokens: 500,
      system: SYSTEM,
      messages,
      temperature: 0.5,
      ...(wishes.tools && { tools: [{ name: 'get_weather', input_schema: PARAMETERS }] }),
      ...wishes.more,
    }
    const whole = wishes.stream
      ? await anthropic.messages.stream(asked).finalMessage()
      : await anthropic.messages.create(asked)
    const calls = whole.content.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id, name: block.name, input: block.input }] : [],
    )
    return {
      text: whole.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join(''),
      thoughts: whole.content.flatMap((block) => (block.type === 'thinking' ? [block.thinking] : [])).join(''),
      calls,
      finish: { end_turn: 'stop', tool_use: 'calls', max_tokens: 'length' }[String(whole.stop_reason)] ?? 'other',
      tokens: [whole.usage.input_tokens, whole.usage.output_tokens],
      next: (results, more) =>
        messagesTurn(
          [
            ...messages,
            { role: 'assistant', content: whole.content },
            {
              role: 'user',
              content: [
                ...calls.map((call) => ({
                  type: 'tool_result' as const,
                  tool_use_id: call.id,
                  content: results(call),
                })),
                ...(more === undefined ? [] : [{ type: 'text' as const, text: more }]),
              ],
            },
          ],
          wishes,
        ),
    }
  }

  return {
    chat: (question, wishes) =>
      chatTurn(
        [
          { role: 'developer', content: SYSTEM },
          { role: 'user', content: question },
        ],
        wishes,
      ),
    responses: (question, wishes) => responsesTurn([{ role: 'user', content: question }], wishes),
    messages: (question, wishes) => messagesTurn([{ role: 'user', content: question }], wishes),
  }
}
