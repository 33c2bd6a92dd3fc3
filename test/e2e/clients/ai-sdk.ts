/** Vercel's AI SDK with three of its providers, one of which supports two formats. */
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  generateText,
  jsonSchema,
  type LanguageModel,
  type ModelMessage,
  Output,
  streamText,
  type ToolSet,
} from 'ai'
import { z } from 'zod'
import { type Client, QUESTION, SYSTEM, TOOL } from './client.ts'

const City = z.object({ city: z.string(), people: z.number(), rivers: z.array(z.string()) })
const Where = jsonSchema<{ city: string; days: number }>({
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
})
// The SDK's types do not support `exactOptionalPropertyTypes`, so the tool set has a wider type.
const tools: ToolSet = {
  [TOOL.name]: {
    description: TOOL.description,
    inputSchema: Where as ToolSet[string]['inputSchema'],
  } as ToolSet[string],
}
const asking = { system: SYSTEM, maxRetries: 0, temperature: 0.3, maxOutputTokens: 99 }
const QUESTIONS: ModelMessage[] = [{ role: 'user', content: QUESTION }]

/** The AI SDK with a provider of it. */
export const aiSdkClient = (
  name: string,
  style: Client['style'],
  modelOf: (model: string) => LanguageModel,
): Client => {
  /** `streamText` reports failures to a callback; its promises only reject with "no output". */
  const streamed = (options: Parameters<typeof streamText>[0]) => {
    let failure: unknown
    const result = streamText({
      ...options,
      onError: ({ error }) => {
        failure ??= error
      },
    })
    const check = () => {
      if (failure !== undefined) throw failure
    }
    return { result, check }
  }
  return {
    name,
    style,
    async plain(model) {
      const { text, usage } = await generateText({ ...asking, model: modelOf(model), messages: QUESTIONS })
      return { text, tokens: [usage.inputTokens, usage.outputTokens] }
    },
    async stream(model, got) {
      const { result, check } = streamed({ ...asking, model: modelOf(model), messages: QUESTIONS })
      for await (const piece of result.textStream) got(piece)
      check()
    },
    async tools({ stream, calls, answers, resultOf }) {
      const options = { ...asking, model: modelOf(calls), messages: QUESTIONS, tools }
      const first = stream ? streamText(options) : await generateText(options)
      const found = (await first.toolCalls).map(({ toolCallId, toolName, input }) => ({
        id: toolCallId,
        name: toolName,
        arguments: input,
      }))
      const { messages } = await first.response
      const content = found.map((call) => ({
        type: 'tool-result' as const,
        toolCallId: call.id,
        toolName: call.name,
        output: { type: 'text' as const, value: resultOf(call) },
      }))
      const turns = [...QUESTIONS, ...messages, { role: 'tool' as const, content }]
      const { text } = await generateText({ ...asking, model: modelOf(answers), messages: turns, tools })
      return { calls: found, text }
    },
    async structured(model) {
      const output = Output.object({ schema: City, name: 'city' })
      return (await generateText({ ...asking, model: modelOf(model), messages: QUESTIONS, output })).output
    },
    problem: (error) => (APICallError.isInstance(error) ? { status: error.statusCode, message: error.message } : null),
  }
}

export const aiSdkClients = (base: string): readonly Client[] => {
  const settings = { baseURL: base, apiKey: 'any' }
  const openai = createOpenAI(settings)
  const compatible = createOpenAICompatible({
    ...settings,
    name: 'gateway',
    includeUsage: true,
    supportsStructuredOutputs: true,
  })
  const anthropic = createAnthropic(settings)
  return [
    aiSdkClient('ai-sdk openai, chat', 'chat', (model) => openai.chat(model)),
    aiSdkClient('ai-sdk openai, responses', 'responses', (model) => openai.responses(model)),
    aiSdkClient('ai-sdk openai-compatible', 'chat', (model) => compatible(model)),
    aiSdkClient('ai-sdk anthropic', 'messages', (model) => anthropic(model)),
  ]
}
