/** Anthropic's SDKs for Bedrock and Vertex AI, with the gateway in place of the cloud. */
import type Anthropic from '@anthropic-ai/sdk'
import { type Client, QUESTION, SYSTEM, TOOL } from './client.ts'
import { loadSdk, skipSdks } from './sdks.ts'

const input_schema = {
  type: 'object' as const,
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
}
const CITY = {
  type: 'object',
  properties: {
    city: { type: 'string' },
    people: { type: 'number' },
    rivers: { type: 'array', items: { type: 'string' } },
  },
  required: ['city', 'people', 'rivers'],
  additionalProperties: false,
}
const TOOLS = [{ ...TOOL, input_schema }]
const asking = { max_tokens: 99, system: SYSTEM, messages: [{ role: 'user' as const, content: QUESTION }] }

const textIn = ({ content }: Anthropic.Message): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('')

const client = (name: string, { messages }: Pick<Anthropic, 'messages'>): Client => ({
  name,
  style: 'messages',
  async plain(model) {
    const message = await messages.create({ ...asking, model })
    return { text: textIn(message), tokens: [message.usage.input_tokens, message.usage.output_tokens] }
  },
  async stream(model, got) {
    for await (const event of await messages.create({ ...asking, model, stream: true }))
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') got(event.delta.text)
  },
  async tools({ stream, calls, answers, resultOf }) {
    const request = { ...asking, model: calls, tools: TOOLS }
    const first = stream ? await messages.stream(request).finalMessage() : await messages.create(request)
    const found = first.content.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id, name: block.name, arguments: block.input }] : [],
    )
    const content = found.map((call) => ({
      type: 'tool_result' as const,
      tool_use_id: call.id,
      content: resultOf(call),
    }))
    const turns = [...asking.messages, { role: 'assistant' as const, content: first.content }]
    const second = await messages.create({
      ...request,
      model: answers,
      messages: [...turns, { role: 'user' as const, content }],
    })
    return { calls: found, text: textIn(second) }
  },
  async structured(model) {
    const format = { type: 'json_schema' as const, schema: CITY }
    return JSON.parse(textIn(await messages.create({ ...asking, model, output_config: { format } })))
  },
  problem: (error) =>
    error instanceof Error && 'status' in error && typeof error.status === 'number'
      ? { status: error.status, message: error.message }
      : null,
})

type Clouds = {
  readonly AnthropicBedrock: new (options: object) => Pick<Anthropic, 'messages'>
  readonly AnthropicVertex: new (options: object) => Pick<Anthropic, 'messages'>
}

/** `url`: of the gateway. None where they are not installed. */
export const cloudClients = (url: string): readonly Client[] => {
  if (skipSdks !== false) return []
  const { AnthropicBedrock } = loadSdk<Clouds>('@anthropic-ai/bedrock-sdk')
  const { AnthropicVertex } = loadSdk<Clouds>('@anthropic-ai/vertex-sdk')
  const bedrock = { baseURL: `${url}/bedrock`, awsRegion: 'us-east-1', apiKey: 'any', maxRetries: 0 }
  // Its sign-in has a client of Google's library, which would call Google.
  const authClient = { getRequestHeaders: async () => new Headers({ authorization: 'Bearer any' }) }
  const vertex = { baseURL: `${url}/vertex/v1`, region: 'global', projectId: 'p-1', authClient, maxRetries: 0 }
  return [
    client('anthropic bedrock-sdk', new AnthropicBedrock(bedrock)),
    client('anthropic vertex-sdk', new AnthropicVertex(vertex)),
  ]
}
