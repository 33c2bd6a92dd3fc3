/**
 * A gateway with three upstreams, one per wire format, that give the same answers: the counterpart of the official
 * SDKs. The model name selects the answer.
 */
import { type AnswerContent, answerWith, failWith, piecesOf } from '../../support/answers.ts'
import { type Script, startUpstream, type Upstream, type UpstreamRequest } from '../../support/upstream.ts'
import { type Started, start } from './process.ts'
import { callsOf } from './stage.ts'

/** Configured names of the upstreams, by format. */
export const KINDS = { chat: 'chatty', responses: 'responder', messages: 'anthropic' } as const
export type Kind = keyof typeof KINDS

export const TEXT = 'Hello, wörld: 你好 👋🏽, "quoted" and\nbroken.'
export const CALLS = [
  { id: 'call_paris', name: 'get_weather', arguments: '{"city":"Paris","days":2}' },
  { id: 'call_tokyo', name: 'get_weather', arguments: '{"city":"東京 \\"x\\"","days":1}' },
] as const
export const CITY = { city: 'Paris', people: 2_100_000, rivers: ['Seine'] }

/** The answer of each model. */
const ANSWERS: { readonly [model: string]: AnswerContent } = {
  text: { text: TEXT, input: 21, output: 7 },
  tools: { tools: CALLS, input: 33, output: 11 },
  both: { text: 'Let me look.', tools: CALLS, input: 33, output: 11 },
  cut: { text: 'It goes on and', cut: true, input: 21, output: 3 },
  json: { text: JSON.stringify(CITY), input: 40, output: 12 },
}

export const script: Script = (request) => {
  if (request.method === 'GET')
    return { do: 'answer', body: { object: 'list', data: [...Object.keys(ANSWERS), 'org/deep'].map(listed) } }
  const { model = '' } = request
  const content = ANSWERS[model]
  if (content) return answerWith(request, content)
  switch (model) {
    case 'bad':
      return failWith(request, 400, { type: 'invalid_request_error', message: 'The temperature is too high for this.' })
    case 'locked':
      return failWith(request, 401, { type: 'authentication_error', message: 'No such key.' })
    case 'limited':
      return failWith(request, 429, { type: 'rate_limit_error', message: 'Slower, please.' }, { 'retry-after': '7' })
    case 'limited-for-long':
      return failWith(request, 429, { type: 'rate_limit_error', message: 'Tomorrow.' }, { 'retry-after': '600' })
    case 'down':
      return failWith(request, 500, { type: 'api_error', message: 'It broke.' })
    case 'breaks': {
      const pieces = piecesOf(request, { text: TEXT.repeat(3) })
      return { do: 'stream', pieces: pieces.slice(0, 8), ending: 'close', gap: 1 }
    }
    default:
      throw new Error(`the script knows no model ${model}`)
  }
}

const listed = (id: string) => ({ id, object: 'model', created: 1_700_000_000, owned_by: 'test' })

/** Upstreams of these kinds and a gateway in front of them. */
export type Kinds<Each extends string> = {
  readonly gateway: Started
  readonly upstreams: { readonly [kind in Each]: Upstream }
  /** The last call an upstream received. */
  readonly last: (kind: Each) => UpstreamRequest
  /** The number of calls an upstream received, or of those for this model. */
  readonly calls: (kind: Each, model?: string) => number
  readonly stop: () => Promise<void>
}
export type ThreeKinds = Kinds<Kind>

/** Settings that configure one upstream for each kind. */
type ProviderEnv<Each extends string> = { readonly [kind in Each]: (url: string) => Readonly<Record<string, string>> }

export const PROVIDER_ENV: ProviderEnv<Kind> = {
  chat: (url) => ({
    CHATTY_API_KEY: 'sk-chatty-0000000000',
    CHATTY_BASE_URL: `${url}/v1`,
    CHATTY_STYLES: 'chat',
    CHATTY_MODELS: 'text',
  }),
  responses: (url) => ({
    RESPONDER_API_KEY: 'sk-responder-0000000000',
    RESPONDER_BASE_URL: `${url}/v1`,
    RESPONDER_STYLES: 'responses',
    RESPONDER_MODELS: 'text',
  }),
  messages: (url) => ({ ANTHROPIC_API_KEY: 'sk-ant-0000000000', ANTHROPIC_BASE_URL: url, ANTHROPIC_MODELS: 'text' }),
}

export const startKinds = async <Each extends string>(
  providerEnv: ProviderEnv<Each>,
  script: Script,
  settings: Readonly<Record<string, string>> = {},
): Promise<Kinds<Each>> => {
  // The names of the table.
  const kinds = Object.keys(providerEnv) as Each[]
  const started = await Promise.all(kinds.map(async (kind) => [kind, await startUpstream(script)] as const))
  // One entry for each kind.
  const upstreams = Object.fromEntries(started) as { readonly [kind in Each]: Upstream }
  const env = Object.assign({}, ...kinds.map((kind) => providerEnv[kind](upstreams[kind].url)))
  // Each case tests one upstream, so failover is off.
  const gateway = await start({ env: { ...env, FALLBACK: 'none', ...settings } })
  return {
    gateway,
    upstreams,
    last: (kind) => {
      const request = callsOf(upstreams[kind]).at(-1)
      if (!request) throw new Error(`the ${kind} upstream received no call`)
      return request
    },
    calls: (kind, model) =>
      callsOf(upstreams[kind]).filter((request) => model === undefined || request.model === model).length,
    async stop() {
      await gateway.stop()
      await Promise.all(started.map(([, upstream]) => upstream.close()))
    },
  }
}

export const startThreeKinds = (): Promise<ThreeKinds> => startKinds(PROVIDER_ENV, script)
