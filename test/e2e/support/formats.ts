/**
 * A gateway with four upstreams, one per wire format, that give the same answers: the counterpart of real clients. The
 * model name selects the answer, as in three-kinds.ts.
 */
import { isList, type Json, type JsonObject, list, object, text } from '../../../src/core/json.ts'
import { answerWith } from '../../support/answers.ts'
import type { Script } from '../../support/upstream.ts'
import { CITY, KINDS, type Kinds, PROVIDER_ENV, script, startKinds } from './three-kinds.ts'

export { CALLS, CITY, TEXT } from './three-kinds.ts'

/** Configured names of the upstreams, by format. */
export const PROVIDERS = { ...KINDS, gemini: 'gemini' } as const
export type Format = keyof typeof PROVIDERS
export const ALL_FORMATS = Object.keys(PROVIDERS) as readonly Format[]

const VECTOR = [0.25, -0.5]

/** Embedding requests get the requested number and encoding of vectors; all others are handled as in three-kinds.ts. */
const answer: Script = (request) => {
  const { path, json } = request
  const vectors = (of: Json | undefined) => (isList(of) ? of : [of]).map(() => VECTOR)
  if (path.includes(':batchEmbedContents'))
    return { do: 'answer', body: { embeddings: vectors(json.requests).map((values) => ({ values })) } }
  if (path.includes(':embedContent')) return { do: 'answer', body: { embedding: { values: VECTOR } } }
  const tool = request.model === 'json' ? toolIn(json) : undefined
  // Some clients request an object through a tool with one parameter object.
  if (tool !== undefined)
    return answerWith(request, { tools: [{ id: 'call_json', name: tool, arguments: JSON.stringify(CITY) }] })
  if (!path.endsWith('/embeddings')) return script(request)
  const base64 = Buffer.from(new Float32Array(VECTOR).buffer).toString('base64')
  const data = vectors(json.input).map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: json.encoding_format === 'base64' ? base64 : vector,
  }))
  return { do: 'answer', body: { object: 'list', data, model: 'text', usage: { prompt_tokens: 3, total_tokens: 3 } } }
}

/** The name of the first function in a request, in any format. */
const toolIn = ({ tools }: JsonObject): string | undefined => {
  const first = object(list(tools)[0])
  return text(first?.name ?? object(first?.function)?.name ?? object(list(first?.functionDeclarations)[0])?.name)
}

export type Formats = Kinds<Format>

export const startFormats = (): Promise<Formats> => {
  const gemini = (url: string) => ({
    GEMINI_API_KEY: 'AIza-test-0123456789',
    GEMINI_BASE_URL: `${url}/v1beta`,
    GEMINI_MODELS: 'text',
  })
  // Earlier cases may have opened the circuit.
  return startKinds({ ...PROVIDER_ENV, gemini }, answer, { CIRCUIT_WHEN_ALL_OPEN: 'try' })
}
