/**
 * A gateway before three upstreams that speak one wire format each and say the same: what the tests with the official
 * SDKs ask. The model's name decides what is said.
 */
import { piecesOf, refuse, type Said, say } from '../../support/answers.ts'
import { type Asked, type Script, startUpstream, type Upstream } from '../../support/upstream.ts'
import { type Started, start } from './process.ts'

/** Configured names of the upstreams, by the format each speaks. */
export const KINDS = { chat: 'chatty', responses: 'responder', messages: 'anthropic' } as const
export type Kind = keyof typeof KINDS

export const TEXT = 'Hello, wörld: 你好 👋🏽, "quoted" and\nbroken.'
export const CALLS = [
  { id: 'call_paris', name: 'get_weather', arguments: '{"city":"Paris","days":2}' },
  { id: 'call_tokyo', name: 'get_weather', arguments: '{"city":"東京 \\"x\\"","days":1}' },
] as const
export const CITY = { city: 'Paris', people: 2_100_000, rivers: ['Seine'] }

/** What each model says. */
const SAYS: { readonly [model: string]: Said } = {
  text: { text: TEXT, input: 21, output: 7 },
  tools: { tools: CALLS, input: 33, output: 11 },
  both: { text: 'Let me look.', tools: CALLS, input: 33, output: 11 },
  cut: { text: 'It goes on and', cut: true, input: 21, output: 3 },
  json: { text: JSON.stringify(CITY), input: 40, output: 12 },
}

export const script: Script = (asked) => {
  if (asked.method === 'GET')
    return { do: 'answer', body: { object: 'list', data: [...Object.keys(SAYS), 'org/deep'].map(listed) } }
  const { model = '' } = asked
  const said = SAYS[model]
  if (said) return say(asked, said)
  switch (model) {
    case 'bad':
      return refuse(asked, 400, { type: 'invalid_request_error', message: 'The temperature is too high for this.' })
    case 'locked':
      return refuse(asked, 401, { type: 'authentication_error', message: 'No such key.' })
    case 'limited':
      return refuse(asked, 429, { type: 'rate_limit_error', message: 'Slower, please.' }, { 'retry-after': '7' })
    case 'limited-for-long':
      return refuse(asked, 429, { type: 'rate_limit_error', message: 'Tomorrow.' }, { 'retry-after': '600' })
    case 'down':
      return refuse(asked, 500, { type: 'api_error', message: 'It broke.' })
    case 'breaks': {
      const pieces = piecesOf(asked, { text: TEXT.repeat(3) })
      return { do: 'stream', pieces: pieces.slice(0, 8), ending: 'close', gap: 1 }
    }
    default:
      throw new Error(`the script knows no model ${model}`)
  }
}

const listed = (id: string) => ({ id, object: 'model', created: 1_700_000_000, owned_by: 'test' })

export type ThreeKinds = {
  readonly gateway: Started
  readonly upstreams: { readonly [kind in Kind]: Upstream }
  /** The last request an upstream has got. */
  readonly last: (kind: Kind) => Asked
  /** How many calls of this model an upstream has got. */
  readonly calls: (kind: Kind, model: string) => number
  readonly stop: () => Promise<void>
}

export const startThreeKinds = async (): Promise<ThreeKinds> => {
  const [chat, responses, messages] = await Promise.all([
    startUpstream(script),
    startUpstream(script),
    startUpstream(script),
  ])
  const upstreams = { chat, responses, messages }
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
      // Each case is about one upstream: nobody stands in for it.
      FALLBACK: 'none',
    },
  })
  return {
    gateway,
    upstreams,
    last: (kind) => {
      const asked = upstreams[kind].seen.findLast(({ method }) => method === 'POST')
      if (!asked) throw new Error(`the ${kind} upstream was not asked`)
      return asked
    },
    calls: (kind, model) => upstreams[kind].seen.filter((asked) => asked.model === model).length,
    async stop() {
      await gateway.stop()
      await Promise.all([chat.close(), responses.close(), messages.close()])
    },
  }
}
