/**
 * A gateway before four upstreams that speak one wire format each and say the same: what real clients are tested
 * against. The model's name decides what is said, as in three-kinds.ts.
 */
import { isList, type Json, type JsonObject, list, object, text } from '../../../src/core/json.ts'
import { say } from '../../support/answers.ts'
import { type Asked, type Script, startUpstream, type Upstream } from '../../support/upstream.ts'
import { type Started, start } from './process.ts'
import { CITY, script } from './three-kinds.ts'

export { CALLS, CITY, TEXT } from './three-kinds.ts'

/** Configured names of the upstreams, by the format each speaks. */
export const PROVIDERS = { chat: 'chatty', responses: 'responder', messages: 'anthropic', gemini: 'gemini' } as const
export type Format = keyof typeof PROVIDERS
export const ALL_FORMATS = Object.keys(PROVIDERS) as readonly Format[]

const VECTOR = [0.25, -0.5]

/** As many vectors as were asked for, in the way they were asked for; everything else as in three-kinds.ts. */
const answer: Script = (asked) => {
  const { path, json } = asked
  const vectors = (of: Json | undefined) => (isList(of) ? of : [of]).map(() => VECTOR)
  if (path.includes(':batchEmbedContents'))
    return { do: 'answer', body: { embeddings: vectors(json.requests).map((values) => ({ values })) } }
  if (path.includes(':embedContent')) return { do: 'answer', body: { embedding: { values: VECTOR } } }
  const tool = asked.model === 'json' ? toolIn(json) : undefined
  // Some clients ask for an object by a tool that takes one.
  if (tool !== undefined)
    return say(asked, { tools: [{ id: 'call_json', name: tool, arguments: JSON.stringify(CITY) }] })
  if (!path.endsWith('/embeddings')) return script(asked)
  const base64 = Buffer.from(new Float32Array(VECTOR).buffer).toString('base64')
  const data = vectors(json.input).map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: json.encoding_format === 'base64' ? base64 : vector,
  }))
  return { do: 'answer', body: { object: 'list', data, model: 'text', usage: { prompt_tokens: 3, total_tokens: 3 } } }
}

/** The name of the first function a request offers, whatever its format. */
const toolIn = ({ tools }: JsonObject): string | undefined => {
  const first = object(list(tools)[0])
  return text(first?.name ?? object(first?.function)?.name ?? object(list(first?.functionDeclarations)[0])?.name)
}

export type Formats = {
  readonly gateway: Started
  readonly upstreams: { readonly [format in Format]: Upstream }
  /** The last question an upstream has got. */
  readonly last: (format: Format) => Asked
  /** How many questions it has got. */
  readonly calls: (format: Format) => number
  readonly stop: () => Promise<void>
}

export const startFormats = async (): Promise<Formats> => {
  const [chat, responses, messages, gemini] = await Promise.all([
    startUpstream(answer),
    startUpstream(answer),
    startUpstream(answer),
    startUpstream(answer),
  ])
  const upstreams = { chat, responses, messages, gemini }
  const gateway = await start({
    env: {
      CHATTY_API_KEY: 'sk-chatty-0000000000',
      CHATTY_BASE_URL: `${chat.url}/v1`,
      CHATTY_STYLES: 'chat',
      CHATTY_MODELS: 'text',
      RESPONDER_API_KEY: 'sk-responder-0000000000',
      RESPONDER_BASE_URL: `${responses.url}/v1`,
      RESPONDER_STYLES: 'responses',
      RESPONDER_MODELS: 'text',
      ANTHROPIC_API_KEY: 'sk-ant-0000000000',
      ANTHROPIC_BASE_URL: messages.url,
      ANTHROPIC_MODELS: 'text',
      GEMINI_API_KEY: 'AIza-test-0123456789',
      GEMINI_BASE_URL: `${gemini.url}/v1beta`,
      GEMINI_MODELS: 'text',
      // Each case is about one upstream: nobody stands in for it.
      FALLBACK: 'none',
      // However often it has failed in another case.
      CIRCUIT_WHEN_ALL_OPEN: 'try',
    },
  })
  const questions = (format: Format) => upstreams[format].seen.filter(({ method }) => method === 'POST')
  return {
    gateway,
    upstreams,
    calls: (format) => questions(format).length,
    last: (format) => {
      const asked = questions(format).at(-1)
      if (!asked) throw new Error(`the ${format} upstream was not asked`)
      return asked
    },
    async stop() {
      await gateway.stop()
      await Promise.all(Object.values(upstreams).map((upstream) => upstream.close()))
    },
  }
}
