/** Google's SDK in two major versions, and the AI SDK's provider for Google. */
import type { LanguageModel } from 'ai'
import { aiSdkClient } from './ai-sdk.ts'
import { type Client, QUESTION, SYSTEM, TOOL } from './client.ts'
import { type GoogleAnswer, type GoogleClient, type GoogleSdk, loadSdk, skipSdks } from './sdks.ts'

/** The class of its errors is not exported by version 1. */
const statusOf = (error: unknown): number | undefined =>
  error instanceof Error && 'status' in error && typeof error.status === 'number' ? error.status : undefined

const parameters = {
  type: 'object',
  properties: { city: { type: 'string' }, days: { type: 'integer' } },
  required: ['city', 'days'],
}
const TOOLS = [{ functionDeclarations: [{ ...TOOL, parametersJsonSchema: parameters }] }]
const CITY = {
  type: 'OBJECT',
  properties: {
    city: { type: 'STRING' },
    people: { type: 'NUMBER' },
    rivers: { type: 'ARRAY', items: { type: 'STRING' } },
  },
}
const config = { systemInstruction: SYSTEM, temperature: 0.3, maxOutputTokens: 99 }
const CONTENTS = [{ role: 'user', parts: [{ text: QUESTION }] }]

const partsOf = ({ candidates }: GoogleAnswer) => candidates?.[0]?.content?.parts ?? []

const client = (name: string, google: GoogleClient): Client => ({
  name,
  style: 'gemini',
  async plain(model) {
    const { text = '', usageMetadata = {} } = await google.models.generateContent({ model, contents: CONTENTS, config })
    const { promptTokenCount = 0, totalTokenCount = 0 } = usageMetadata
    return { text, tokens: [promptTokenCount, totalTokenCount - promptTokenCount] }
  },
  async stream(model, got) {
    const chunks = await google.models.generateContentStream({ model, contents: CONTENTS, config })
    for await (const { text } of chunks) got(text ?? '')
  },
  async tools({ stream, calls, answers, resultOf }) {
    const request = { model: calls, contents: CONTENTS, config: { ...config, tools: TOOLS } }
    const turns: GoogleAnswer[] = []
    if (stream) for await (const chunk of await google.models.generateContentStream(request)) turns.push(chunk)
    else turns.push(await google.models.generateContent(request))
    const found = turns
      .flatMap(({ functionCalls = [] }) => functionCalls)
      .map(({ id = '', name: called = '', args }) => ({ id, name: called, arguments: args }))
    const results = found.map((call) => ({
      functionResponse: { id: call.id, name: call.name, response: { output: resultOf(call) } },
    }))
    const contents = [...CONTENTS, { role: 'model', parts: turns.flatMap(partsOf) }, { role: 'user', parts: results }]
    const { text = '' } = await google.models.generateContent({ ...request, model: answers, contents })
    return { calls: found, text }
  },
  async structured(model) {
    const format = { responseMimeType: 'application/json', responseSchema: CITY }
    const { text = '' } = await google.models.generateContent({
      model,
      contents: CONTENTS,
      config: { ...config, ...format },
    })
    return JSON.parse(text)
  },
  problem: (error) => {
    const status = statusOf(error)
    return error instanceof Error && error.name === 'ApiError' ? { status, message: error.message } : null
  },
})

type AiSdkGoogle = {
  readonly createGoogleGenerativeAI: (settings: object) => (model: string) => LanguageModel
}

/** `url`: of the gateway. None where they are not installed. */
export const googleClients = (url: string): readonly Client[] => {
  if (skipSdks !== false) return []
  const clients = (['genai-3', 'genai-1'] as const).flatMap((name) => {
    const { GoogleGenAI } = loadSdk<GoogleSdk>(name)
    const settings = { apiKey: 'any', httpOptions: { baseUrl: url } }
    return [
      client(`google ${name}`, new GoogleGenAI(settings)),
      client(`google ${name}, as Vertex`, new GoogleGenAI({ ...settings, vertexai: true })),
    ]
  })
  const google = loadSdk<AiSdkGoogle>('@ai-sdk/google').createGoogleGenerativeAI({
    baseURL: `${url}/v1beta`,
    apiKey: 'any',
  })
  return [...clients, aiSdkClient('ai-sdk google', 'gemini', (model) => google(model))]
}
