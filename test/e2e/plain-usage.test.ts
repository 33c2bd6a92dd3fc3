/**
 * The usual request of most programs: a system and a user message, a temperature, a tool, no credential, any model
 * name. In both styles, whole and streamed, with every kind of provider, each configured by its environment variables.
 */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import { isObject, type JsonObject, list, object } from '../../src/core/json.ts'
import type { Provider } from '../../src/core/provider.ts'
import { answerWith } from '../support/answers.ts'
import { type RecordedRequest, startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

const KEY = 'sk-upstream-000000000000'
const SERVED = 'served-model'
const SAID = {
  text: 'Let me look it up.',
  tools: [{ id: 'call_abc12', name: 'get_weather', arguments: '{"city":"Zürich"}' }],
  input: 31,
  output: 17,
}
const PARAMETERS = {
  type: 'object',
  properties: { city: { type: 'string', description: 'The city.' } },
  required: ['city'],
  additionalProperties: false,
}

const chatRequest = (stream: boolean) => ({
  model: 'whatever-the-program-has-always-used',
  messages: [
    { role: 'system', content: 'You are brief.' },
    { role: 'user', content: 'What is the weather in Zürich?' },
  ],
  temperature: 0.2,
  stream,
  tools: [
    {
      type: 'function',
      function: { name: 'get_weather', description: 'Says the weather.', parameters: PARAMETERS, strict: true },
    },
  ],
})
const responsesRequest = (stream: boolean) => ({
  model: 'whatever-the-program-has-always-used',
  input: 'What is the weather in Zürich?',
  temperature: 0.2,
  stream,
  tools: [{ type: 'function', name: 'get_weather', description: 'Says the weather.', parameters: PARAMETERS }],
})

/** The vendors' differences from the default, according to their documentation. */
type Expected = {
  /** The path of its base URL. */
  readonly base: string
  readonly env?: Readonly<Record<string, string>>
  readonly chat: string
  /** Its path for streams, if different. */
  readonly stream?: string
  /** Its path for responses calls, if it has a responses API. */
  readonly responses?: string
  readonly auth: string
  readonly headers?: Readonly<Record<string, string>>
  readonly models?: string
  /** It rejects `stream_options` and sends usage without them. */
  readonly noStreamOptions?: true
  /** Its default model refuses every temperature but its own. */
  readonly fixedTemperature?: true
}
const USUAL: Expected = { base: '/v1', chat: '/v1/chat/completions', auth: 'authorization' }
const OWN: { readonly [name: string]: Partial<Expected> } = {
  openai: { responses: '/v1/responses' },
  xai: { responses: '/v1/responses' },
  deepseek: { responses: '/v1/responses' },
  'bedrock-mantle': { responses: '/v1/responses' },
  vertex: {
    base: '/v1',
    chat: '/v1/publishers/google/models/gemini-2.5-flash:generateContent',
    stream: '/v1/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    auth: 'x-goog-api-key',
  },
  anthropic: {
    base: '',
    chat: '/v1/messages',
    auth: 'x-api-key',
    headers: { 'anthropic-version': '2023-06-01' },
    models: '/v1/models?limit=1000',
  },
  gemini: {
    base: '/v1beta',
    chat: '/v1beta/models/gemini-2.5-flash:generateContent',
    stream: '/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    auth: 'x-goog-api-key',
    models: '/v1beta/models?pageSize=1000',
  },
  cohere: { base: '/v2', chat: '/v2/chat', noStreamOptions: true },
  mistral: { noStreamOptions: true },
  moonshot: { fixedTemperature: true },
  'azure-openai': {
    base: '/openai/v1',
    chat: '/openai/v1/chat/completions',
    responses: '/openai/v1/responses',
    auth: 'api-key',
    env: { AZURE_OPENAI_MODELS: 'my-deployment' },
  },
  bedrock: {
    base: '',
    chat: '/model/openai.gpt-oss-120b-1%3A0/converse',
    stream: '/model/openai.gpt-oss-120b-1%3A0/converse-stream',
  },
  ollama: { base: '', chat: '/api/chat', models: '/v1/models', noStreamOptions: true },
}
const expectedOf = ({ name }: Provider): Expected => ({ ...USUAL, ...OWN[name] })

/** The credential, as each header carries it. */
const credential = (auth: string) => (auth === 'authorization' ? `Bearer ${KEY}` : KEY)

const providers = [...(await loadProviders()).values()].filter(({ builtin, speaks }) => !builtin && speaks.length > 0)

/** The `.env` of a user with only this provider. */
const dotenv = (provider: Provider, upstream: Upstream): string => {
  const prefix = provider.generic ? 'MY_LLM' : provider.name.toUpperCase().replaceAll('-', '_')
  const { base, env = {} } = expectedOf(provider)
  const lines = { [`${prefix}_API_KEY`]: KEY, [`${prefix}_BASE_URL`]: upstream.url + base, ...env }
  return Object.entries(lines)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

let upstream: Upstream
let gateway: Started
/** Whether the fake vendor reports usage without a request for it. */
let counting = false
before(async () => {
  upstream = await startUpstream((upstreamRequest) =>
    upstreamRequest.method === 'GET'
      ? { do: 'answer', body: { object: 'list', data: [{ id: SERVED }], models: [{ name: SERVED }] } }
      : answerWith(
          counting
            ? { ...upstreamRequest, json: { ...upstreamRequest.json, stream_options: { include_usage: true } } }
            : upstreamRequest,
          SAID,
        ),
  )
  const [first] = providers
  assert.ok(first)
  gateway = await start({ files: { '.env': dotenv(first, upstream) } })
})
after(async () => {
  await gateway.stop()
  await upstream.close()
})

/** Reconfigures the running gateway to use this provider only. */
const use = async (provider: Provider): Promise<void> => {
  await writeFile(join(gateway.folder, '.env'), dotenv(provider, upstream))
  gateway.child.kill('SIGHUP')
  const id = provider.generic ? 'my-llm' : provider.name
  await eventually(`${id} is in use`, '/providers/status', (page) =>
    page.startsWith(`{"object":"list","data":[{"id":"${id}",`),
  )
  if (provider.models && provider.defaultModel === undefined)
    await eventually(`the models of ${id} are known`, '/v1/models', (page) => page.includes(SERVED))
}

const eventually = async (what: string, path: string, check: (page: string) => boolean): Promise<void> => {
  for (const end = performance.now() + 120_000; ; await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (check(await (await fetch(gateway.url + path)).text())) return
    assert.ok(performance.now() < end, `not within 5 s: ${what}`)
  }
}

/** Checks the upstream request, in the format it was sent in. */
const assertRequest = (
  upstreamRequest: UpstreamRequest,
  provider: Provider,
  style: 'chat' | 'responses',
  stream: boolean,
): void => {
  const expected = expectedOf(provider)
  const direct = style === 'responses' && expected.responses !== undefined
  assert.equal(
    upstreamRequest.path,
    direct ? expected.responses : stream ? (expected.stream ?? expected.chat) : expected.chat,
  )
  assert.equal(upstreamRequest.headers[expected.auth], credential(expected.auth))
  for (const other of ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key'])
    if (other !== expected.auth) assert.equal(upstreamRequest.headers[other], undefined, other)
  for (const [name, value] of Object.entries(expected.headers ?? {})) assert.equal(upstreamRequest.headers[name], value)
  assert.match(upstreamRequest.headers['content-type'] ?? '', /^application\/json/)
  for (const name of ['cookie', 'x-forwarded-for', 'forwarded', 'via'])
    assert.equal(upstreamRequest.headers[name], undefined)

  const { json } = upstreamRequest
  const model =
    expected.env === undefined
      ? (provider.defaultModel ?? provider.knownModels?.[0] ?? (provider.models ? SERVED : chatRequest(false).model))
      : 'my-deployment'
  assert.equal(upstreamRequest.model, model)
  assert.equal(upstreamRequest.stream, stream)
  const { temperature } = object(json.generationConfig) ?? object(json.inferenceConfig) ?? object(json.options) ?? json
  assert.equal(temperature, expected.fixedTemperature ? undefined : 0.2)
  const system = style === 'chat'
  if (upstreamRequest.path.endsWith('/messages')) {
    assert.equal(typeof json.max_tokens, 'number')
    assert.equal(JSON.stringify(json.system ?? '').includes('You are brief.'), system)
    assert.deepEqual(
      list(json.messages)
        .filter(isObject)
        .map(({ role }) => role),
      ['user'],
    )
    assertTool(object(list(json.tools)[0]), 'input_schema')
  } else if (upstreamRequest.path.includes('/converse')) {
    assert.deepEqual(json.system, system ? [{ text: 'You are brief.' }] : undefined)
    assert.deepEqual(
      list(json.messages)
        .filter(isObject)
        .map(({ role }) => role),
      ['user'],
    )
    const spec = object(object(list(object(json.toolConfig)?.tools)[0])?.toolSpec)
    assertTool({ ...spec, ...object(spec?.inputSchema) }, 'json')
  } else if (expected.stream !== undefined) {
    assert.deepEqual(json.systemInstruction, system ? { parts: [{ text: 'You are brief.' }] } : undefined)
    assert.deepEqual(
      list(json.contents)
        .filter(isObject)
        .map(({ role }) => role),
      ['user'],
    )
    assertTool(object(list(object(list(json.tools)[0])?.functionDeclarations)[0]), 'parametersJsonSchema')
  } else if (direct) {
    assert.equal(json.input, responsesRequest(stream).input)
    assertTool(object(list(json.tools)[0]), 'parameters')
  } else {
    const messages = list(json.messages).filter(isObject)
    assert.deepEqual(
      messages.map(({ role }) => role),
      system ? ['system', 'user'] : ['user'],
    )
    assert.match(JSON.stringify(messages.at(-1)), /What is the weather in Zürich\?/)
    const tool = object(list(json.tools)[0])
    assert.equal(tool?.type, 'function')
    assertTool(object(tool?.function), 'parameters')
    assert.deepEqual(json.stream_options, stream && !expected.noStreamOptions ? { include_usage: true } : undefined)
  }
}

const assertTool = (tool: JsonObject | undefined, schema: string): void => {
  assert.equal(tool?.name, 'get_weather')
  assert.equal(tool?.description, 'Says the weather.')
  assert.deepEqual(tool?.[schema], PARAMETERS)
}

// ── The client's view ────────────────────────────────────────────────────────────────────────────────────────────

/** The content of an answer of either style, whole or streamed. */
type ClientView = {
  text: string
  name: string
  args: string
  finish: string
  tokens: readonly [number | undefined, number | undefined]
}

// biome-ignore lint/suspicious/noExplicitAny: the tests read bodies of every shape
type Any = any

const eventsOf = (text: string): Any[] =>
  text.split('\n').flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []))

const viewReaders = {
  chat: (body: Any): ClientView => {
    const [choice] = body.choices
    const [call] = choice.message.tool_calls
    return {
      text: choice.message.content,
      name: call.function.name,
      args: call.function.arguments,
      finish: choice.finish_reason,
      tokens: [body.usage?.prompt_tokens, body.usage?.completion_tokens],
    }
  },
  chatStream: (text: string): ClientView => {
    assert.ok(text.endsWith('data: [DONE]\n\n'))
    const view: ClientView = { text: '', name: '', args: '', finish: '', tokens: [undefined, undefined] }
    for (const { choices, usage } of eventsOf(text)) {
      // Usage was not requested, so it is absent.
      assert.ok(usage === undefined || usage === null)
      const { delta, finish_reason } = choices[0]
      view.text += delta.content ?? ''
      for (const call of delta.tool_calls ?? []) {
        view.name += call.function.name ?? ''
        view.args += call.function.arguments ?? ''
      }
      view.finish += finish_reason ?? ''
    }
    return view
  },
  responses: (body: Any): ClientView => {
    const call = body.output.find(({ type }: Any) => type === 'function_call')
    return {
      text: body.output.find(({ type }: Any) => type === 'message').content[0].text,
      name: call.name,
      args: call.arguments,
      finish: body.status,
      tokens: [body.usage.input_tokens, body.usage.output_tokens],
    }
  },
  responsesStream: (text: string): ClientView => {
    assert.ok(text.endsWith('data: [DONE]\n\n'))
    const events = eventsOf(text)
    const deltas = (type: string) => events.flatMap((event) => (event.type === type ? [event.delta] : [])).join('')
    const whole = viewReaders.responses(events.at(-1).response)
    assert.equal(deltas('response.output_text.delta'), whole.text)
    assert.equal(deltas('response.function_call_arguments.delta'), whole.args)
    return whole
  },
}

const assertView = ({ args, ...view }: ClientView, style: 'chat' | 'responses', stream: boolean): void => {
  assert.deepEqual(JSON.parse(args), { city: 'Zürich' })
  assert.deepEqual(view, {
    text: SAID.text,
    name: 'get_weather',
    finish: style === 'chat' ? 'tool_calls' : 'completed',
    tokens: style === 'chat' && stream ? [undefined, undefined] : [SAID.input, SAID.output],
  })
}

describe('plain usage', () => {
  for (const provider of providers)
    test(`plain usage: ${provider.name}`, async () => {
      await use(provider)
      counting = expectedOf(provider).noStreamOptions === true
      const id = provider.generic ? 'my-llm' : provider.name
      for (const style of ['chat', 'responses'] as const)
        for (const stream of [false, true]) {
          const path = style === 'chat' ? '/chat/completions' : '/responses'
          const request = style === 'chat' ? chatRequest(stream) : responsesRequest(stream)
          const answer = await post(gateway.base + path, request)
          const which = `${style}${stream ? ', streamed' : ''}`
          // A vendor without tool support receives no request with tools.
          if (provider.speaks.every(({ lacks }) => lacks?.includes('tools'))) {
            assert.equal(answer.status, 400)
            assert.match(answer.text, /tools\[0\]/)
            continue
          }
          assert.equal(answer.status, 200, `${which}: ${answer.text}`)
          assert.equal(answer.headers.get('x-headgate-provider'), id)
          const dropped = answer.headers.get('x-headgate-dropped')?.split(', ') ?? []
          assert.equal(dropped.includes('temperature'), expectedOf(provider).fixedTemperature === true, which)
          const upstreamRequest = upstream.requests.findLast(({ method }) => method === 'POST')
          assert.ok(upstreamRequest)
          assertRequest(upstreamRequest, provider, style, stream)
          assert.equal(answer.headers.get('x-headgate-model'), upstreamRequest.model)
          const view = stream ? viewReaders[`${style}Stream`](answer.text) : viewReaders[style](answer.json())
          assertView(view, style, stream)
        }
      assertListed(provider)
    })
})

/** The model list was requested where the vendor has one, with the credential. */
const assertListed = (provider: Provider): void => {
  const wanted = OWN[provider.name]?.models
  const upstreamRequest: RecordedRequest | undefined = upstream.requests.findLast(({ method }) => method === 'GET')
  if (!provider.models || !upstreamRequest) return
  if (wanted !== undefined) assert.equal(upstreamRequest.path, wanted)
  const { auth } = expectedOf(provider)
  assert.equal(upstreamRequest.headers[auth], credential(auth))
}

test('plain usage: no client credential is sent, and no log line contains the key', async () => {
  await gateway.logged()
  assert.doesNotMatch(gateway.output(), new RegExp(KEY))
  assert.ok(providers.length >= 37, `${providers.length} kinds of provider`)
})
