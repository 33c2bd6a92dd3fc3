/** LangChain's client for OpenAI, in both formats it supports. */
import { ChatOpenAI } from '@langchain/openai'
import { z } from 'zod'
import { type Client, QUESTION, SYSTEM, TOOL } from './client.ts'

const City = z.object({ city: z.string(), people: z.number(), rivers: z.array(z.string()) })
const TOOLS = [
  {
    type: 'function' as const,
    function: {
      ...TOOL,
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' }, days: { type: 'integer' } },
        required: ['city', 'days'],
      },
    },
  },
]
const QUESTIONS = [
  { role: 'system', content: SYSTEM },
  { role: 'user', content: QUESTION },
]

const client = (name: string, style: Client['style'], base: string, useResponsesApi: boolean): Client => {
  const modelOf = (model: string) =>
    new ChatOpenAI({
      model,
      apiKey: 'any',
      configuration: { baseURL: base },
      maxRetries: 0,
      temperature: 0.3,
      maxTokens: 99,
      useResponsesApi,
    })
  return {
    name,
    style,
    async plain(model) {
      const answer = await modelOf(model).invoke(QUESTIONS)
      const usage: { input_tokens?: number; output_tokens?: number } = answer.usage_metadata ?? {}
      return { text: answer.text, tokens: [usage.input_tokens, usage.output_tokens] }
    },
    async stream(model, got) {
      for await (const chunk of await modelOf(model).stream(QUESTIONS)) got(chunk.text)
    },
    async tools({ stream, calls, answers, resultOf }) {
      const boundModel = modelOf(calls).bindTools(TOOLS)
      let first = stream ? undefined : await boundModel.invoke(QUESTIONS)
      if (stream)
        for await (const chunk of await boundModel.stream(QUESTIONS)) first = first ? first.concat(chunk) : chunk
      if (!first) throw new Error('the answer is empty')
      const found = (first.tool_calls ?? []).map(({ id = '', name, args }) => ({ id, name, arguments: args }))
      const results = found.map((call) => ({ role: 'tool', tool_call_id: call.id, content: resultOf(call) }))
      const { text } = await modelOf(answers)
        .bindTools(TOOLS)
        .invoke([...QUESTIONS, first, ...results])
      return { calls: found, text }
    },
    structured: (model) =>
      modelOf(model).withStructuredOutput(City, { name: 'city', method: 'jsonSchema' }).invoke(QUESTIONS),
    problem: (error) =>
      error instanceof Error && 'status' in error && classesOf(error).includes('APIError')
        ? { status: Number(error.status), message: error.message }
        : null,
  }
}

/** The class names of an error. LangChain bundles its own `openai`, so its classes cannot be compared with ours. */
const classesOf = (error: object): string[] => {
  const parent = Object.getPrototypeOf(error)
  return parent === null ? [] : [String(parent.constructor.name), ...classesOf(parent)]
}

export const langchainClients = (base: string): readonly Client[] => [
  client('langchain, chat', 'chat', base, false),
  client('langchain, responses', 'responses', base, true),
]
