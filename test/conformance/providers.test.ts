/**
 * Every provider file with every kind of request: the encoded request is valid for the provider's format, what it cannot
 * carry is reported by the client's own path, and nothing disappears. New files are covered automatically.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { loadProviders } from '../../src/config/catalogue/load-providers.ts'
import type { ProtocolName } from '../../src/core/chat.ts'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import type { Instance, Provider } from '../../src/core/provider.ts'
import { type OutboundRequest, prepareRequest } from '../../src/gateway/upstream/outbound-request.ts'
import { parseRequest } from '../../src/gateway/upstream/parse-request.ts'
import { clientProtocolByStyle } from '../../src/protocols/index.ts'
import { clientRequests, requireRecordings, skipWithoutRecordings } from '../support/recordings.ts'
import { problemsIfPresent, requireSchemas, type SchemaName } from '../support/schemas.ts'
import { defaultSettings } from '../support/settings.ts'
import { isRedundant, isReported, membersOf, pathExists, withoutIndices } from './request-members.ts'
import { Tally } from './tally.ts'

const providers = [...(await loadProviders()).values()].filter(({ speaks }) => speaks.length > 0)

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const SCHEMA: JsonObject = {
  type: 'object',
  properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['c', 'f'] } },
  required: ['city', 'unit'],
  additionalProperties: false,
}
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const weather = { name: 'weather', description: 'The weather in a city.', parameters: SCHEMA }

type Case = {
  readonly style: string
  readonly name: string
  readonly body: JsonObject
  /** Every provider must be fit for it, unless it lacks tools. */
  readonly required?: true
}

const CASES: readonly Case[] = [
  {
    style: 'chat',
    name: 'a tool and a setting',
    required: true,
    body: {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'What is the weather in Bern?' },
      ],
      temperature: 0.2,
      stream: true,
      tools: [{ type: 'function', function: { ...weather, strict: true } }],
    },
  },
  {
    style: 'responses',
    name: 'a tool and a setting',
    required: true,
    body: {
      input: 'What is the weather in Bern?',
      temperature: 0.2,
      stream: true,
      tools: [{ type: 'function', ...weather }],
    },
  },
  {
    style: 'messages',
    name: 'a tool and a setting',
    required: true,
    body: {
      max_tokens: 500,
      system: 'Be brief.',
      messages: [{ role: 'user', content: 'What is the weather in Bern?' }],
      temperature: 0.2,
      stream: true,
      tools: [{ name: weather.name, description: weather.description, input_schema: SCHEMA }],
    },
  },
  {
    style: 'chat',
    name: 'two calls and their results',
    required: true,
    body: {
      messages: [
        { role: 'developer', content: 'Be brief.' },
        { role: 'user', content: [{ type: 'text', text: 'Bern or Basel?' }] },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'call_abcdefgh1', type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } },
            { id: 'call_abcdefgh2', type: 'function', function: { name: 'weather', arguments: '{"city":"Basel"}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'call_abcdefgh1', content: 'sun' },
        { role: 'tool', tool_call_id: 'call_abcdefgh2', content: 'rain' },
        { role: 'user', content: 'And now?' },
      ],
      tools: [{ type: 'function', function: weather }],
      tool_choice: 'required',
      parallel_tool_calls: false,
    },
  },
  {
    style: 'responses',
    name: 'two calls and their results',
    required: true,
    body: {
      instructions: 'Be brief.',
      input: [
        { role: 'user', content: [{ type: 'input_text', text: 'Bern or Basel?' }] },
        { type: 'function_call', call_id: 'call_abcdefgh1', name: 'weather', arguments: '{"city":"Bern"}' },
        { type: 'function_call', call_id: 'call_abcdefgh2', name: 'weather', arguments: '{"city":"Basel"}' },
        { type: 'function_call_output', call_id: 'call_abcdefgh1', output: 'sun' },
        { type: 'function_call_output', call_id: 'call_abcdefgh2', output: 'rain' },
        { role: 'user', content: 'And now?' },
      ],
      tools: [{ type: 'function', ...weather, strict: false }],
      tool_choice: { type: 'function', name: 'weather' },
      parallel_tool_calls: false,
      max_output_tokens: 700,
    },
  },
  {
    style: 'chat',
    name: 'an image',
    body: {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL}`, detail: 'low' } },
            { type: 'image_url', image_url: { url: 'https://images.example/cat.png' } },
          ],
        },
      ],
      max_tokens: 300,
    },
  },
  {
    style: 'responses',
    name: 'an image',
    body: {
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: 'What is this?' },
            { type: 'input_image', image_url: `data:image/png;base64,${PIXEL}`, detail: 'low' },
          ],
        },
      ],
    },
  },
  {
    style: 'chat',
    name: 'structured output',
    body: {
      messages: [{ role: 'user', content: 'Bern, in Celsius.' }],
      response_format: { type: 'json_schema', json_schema: { name: 'place', strict: true, schema: SCHEMA } },
    },
  },
  {
    style: 'responses',
    name: 'structured output',
    body: {
      input: 'Bern, in Celsius.',
      text: { format: { type: 'json_schema', name: 'place', strict: true, schema: SCHEMA } },
    },
  },
  {
    style: 'chat',
    name: 'every setting',
    body: {
      messages: [
        { role: 'system', content: 'Be brief.', name: 'rules' },
        { role: 'user', content: 'Hello', name: 'ann' },
        { role: 'assistant', content: 'Hi.', refusal: null },
        { role: 'user', content: 'Count.' },
      ],
      max_completion_tokens: 900,
      temperature: 1.2,
      top_p: 0.9,
      stop: ['END', 'STOP'],
      seed: 7,
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      logit_bias: { 50256: -100 },
      logprobs: true,
      top_logprobs: 2,
      reasoning_effort: 'low',
      verbosity: 'low',
      user: 'ann',
      safety_identifier: 'ann-hashed',
      prompt_cache_key: 'k',
      service_tier: 'auto',
      metadata: { trace: 'abc' },
      store: false,
      stream: true,
      stream_options: { include_usage: true },
    },
  },
  {
    style: 'responses',
    name: 'every setting',
    body: {
      instructions: 'Be brief.',
      input: 'Count.',
      max_output_tokens: 900,
      temperature: 0.7,
      top_p: 0.9,
      top_logprobs: 2,
      reasoning: { effort: 'low', summary: 'auto' },
      text: { verbosity: 'low' },
      include: ['reasoning.encrypted_content'],
      safety_identifier: 'ann-hashed',
      prompt_cache_key: 'k',
      service_tier: 'auto',
      metadata: { trace: 'abc' },
      max_tool_calls: 3,
      truncation: 'auto',
      store: false,
      stream: true,
    },
  },
  {
    style: 'messages',
    name: 'every setting',
    body: {
      max_tokens: 4_000,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'assistant', content: [{ type: 'text', text: 'Hi.' }] },
        { role: 'user', content: [{ type: 'text', text: 'Count.' }] },
      ],
      stop_sequences: ['END'],
      thinking: { type: 'enabled', budget_tokens: 2_000 },
      metadata: { user_id: 'ann' },
      service_tier: 'auto',
      stream: true,
    },
  },
]

/** Model names that quirks depend on. */
const MODELS = [
  'some-model',
  'gpt-5.2',
  'gpt-4o-mini',
  'o3-mini',
  'claude-sonnet-4-5',
  'claude-opus-4-7',
  'mistral-large',
]

// ── Encoding ─────────────────────────────────────────────────────────────────────────────────────────────────────

const instanceOf = (provider: Provider): Instance => ({
  id: provider.name,
  provider,
  baseUrl: provider.baseUrl ?? 'http://127.0.0.1:9/v1',
  keys: [{ id: '0000', secret: null, weight: 1 }],
  models: [],
  speaks: provider.speaks,
  variables: Object.fromEntries(Object.entries(provider.variables ?? {}).map(([name, value]) => [name, value ?? 'x'])),
})

const prepare = (provider: Provider, style: string, model: string, body: JsonObject): OutboundRequest | string => {
  const protocol = clientProtocolByStyle.get(style)
  assert.ok(protocol)
  const request = parseRequest(
    protocol,
    { body: { text: JSON.stringify(body) }, headers: () => undefined },
    defaultSettings.limit,
  )
  if (!request.ok) return `${request.failure.param}: ${request.failure.message}`
  const candidate = { instance: instanceOf(provider), model, because: 'asked', weight: 1 }
  return prepareRequest(request.value, candidate, { maxOutputTokens: 8_192 }) ?? 'no protocol'
}

const schemaOf = (protocol: ProtocolName): readonly [SchemaName, string] => {
  if (protocol === 'mistral') return ['mistral', 'ChatCompletionRequest']
  if (protocol === 'ollama') return ['ollama', 'ChatRequest']
  if (protocol === 'gemini') return ['gemini', 'GenerateContentRequest']
  if (protocol === 'bedrock-converse') return ['bedrock', 'ConverseRequest']
  if (protocol === 'cohere') return ['cohere', 'Request']
  if (protocol === 'openai-chat') return ['openai', 'CreateChatCompletionRequest']
  return protocol === 'openai-responses' ? ['openai', 'CreateResponse'] : ['anthropic', 'BetaCreateMessageParams']
}

/** Paths that select streaming, where the path has the model. */
const STREAM_PATH = /:streamGenerateContent\?|:streamRawPredict$|\/converse-stream$|\/invoke-with-response-stream$/

/** The body as published: on Vertex, Claude's model is in the path and the version of the format in the body. */
const asPublished = ({ anthropic_version: version, ...body }: JsonObject, model: string): JsonObject =>
  version === undefined ? body : { model, ...body }

/** Throws if the encoded request is wrong. Returns the reason if the provider is unfit. */
const checkRequest = (provider: Provider, style: string, model: string, request: JsonObject): string | undefined => {
  const made = prepare(provider, style, model, request)
  if (typeof made === 'string') assert.fail(made)
  assert.ok(URL.canParse(made.url), made.url)
  const { baseUrl, speaks } = instanceOf(provider)
  assert.ok(made.url.startsWith(speaks.some(({ atHost }) => atHost) ? new URL(baseUrl).origin : baseUrl), made.url)
  for (const path of [...made.dropped, ...made.unfit])
    assert.ok(pathExists(request, path), `reported, but not in the request: ${path}`)
  if (made.unfit.length > 0) return `unfit for ${[...new Set(made.unfit.map(withoutIndices))].join(', ')}`
  const body: unknown = JSON.parse(made.body.text)
  assert.ok(isObject(body))
  const isInPath = !Object.hasOwn(body, 'model')
  if (isInPath) assert.ok(made.url.includes(encodeURIComponent(model)), made.url)
  assert.equal(isInPath || body.model === model, true, 'another model')
  const streams = isInPath ? STREAM_PATH.test(made.url) : body.stream === true
  assert.equal(streams, request.stream === true)
  const [schema, definition] = schemaOf(made.protocol.name)
  const problem = problemsIfPresent(schema, definition, asPublished(body, model))
  // A passed-through body is the client's own; some recorded clients omit members that the schema requires.
  if (made.protocol.style === style && problem === problemsIfPresent(schema, definition, request)) return undefined
  assert.equal(problem, undefined)
  return undefined
}

/** Members whose removal changes neither the encoded request nor the reported losses. */
const lostMembers = (provider: Provider, { style, body }: Case, model: string): string[] => {
  const outcome = (request: JsonObject): string => {
    const made = prepare(provider, style, model, request)
    return typeof made === 'string' ? made : JSON.stringify([made.url, made.body, made.dropped, made.unfit])
  }
  const made = prepare(provider, style, model, body)
  if (typeof made === 'string') return [made]
  const named = [...made.dropped, ...made.unfit]
  const before = outcome(body)
  return [...membersOf(body)].flatMap(({ path, value, without }) =>
    outcome(without) !== before ||
    isReported(named, path) ||
    isRedundant(withoutIndices(path), JSON.stringify(value), made.protocol.name) ||
    path === 'model'
      ? []
      : [`${path} ${JSON.stringify(value).slice(0, 60)}`],
  )
}

// ── Tests ────────────────────────────────────────────────────────────────────────────────────────────────────────

requireRecordings()
requireSchemas()

const tally = new Tally()

const lacksTools = ({ speaks }: Provider): boolean => speaks.every(({ lacks }) => lacks?.includes('tools') === true)

describe('every provider with every request', () => {
  for (const provider of providers)
    test(provider.name, () => {
      const each = CASES.flatMap((one) => MODELS.map((model) => ({ one, model })))
      const nameOf = ({ one, model }: (typeof each)[number]) => `${one.style}: ${one.name}, ${model}`
      const wrong = tally.checkEach(provider.name, each, nameOf, ({ one, model }) => {
        const body = { model: 'anything', ...one.body }
        const unfit = checkRequest(provider, one.style, model, body)
        if (one.required && !('tools' in body && lacksTools(provider))) assert.equal(unfit, undefined)
        assert.deepEqual(lostMembers(provider, { ...one, body }, model), [], 'disappears')
        return unfit
      })
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
  after(() => tally.print())
})

describe('every provider, in each format it also accepts', () => {
  for (const provider of providers)
    for (const wire of provider.alsoSpeaks ?? [])
      test(`${provider.name} in ${wire.protocol}`, () => {
        const alone: Provider = { ...provider, speaks: [wire] }
        for (const { style, name, body, required } of CASES) {
          const unfit = checkRequest(alone, style, 'some-model', { model: 'anything', ...body })
          if (required) assert.equal(unfit, undefined, `${style}: ${name}`)
        }
      })
})

const BY_MODEL = [
  ['bedrock', 'openai.gpt-5.5', '/openai/v1/responses'],
  ['bedrock', 'us.openai.gpt-5.6-luna', '/openai/v1/responses'],
  ['bedrock', 'openai.gpt-oss-120b-1:0', '/model/openai.gpt-oss-120b-1%3A0/converse'],
  [
    'bedrock',
    'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
    '/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke',
  ],
] as const

for (const [name, model, path] of BY_MODEL) {
  const provider = providers.find((one) => one.name === name)
  assert.ok(provider)
  const wholeCases = CASES.filter(({ required, body }) => required && !body.stream)
  test(`${name} receives requests for ${model} at ${path}`, () => {
    for (const { style, body } of wholeCases) {
      const made = prepare(provider, style, model, { model: 'anything', ...body })
      assert.ok(typeof made !== 'string' && made.url.endsWith(path), JSON.stringify(made))
    }
  })
  test(`${name} receives valid bodies for ${model}`, () => {
    for (const { style, body } of wholeCases)
      assert.equal(checkRequest(provider, style, model, { model: 'anything', ...body }), undefined)
  })
}

// ── Recorded clients ────────────────────────────────────────────────────────────────────────────────────────────

const clientTally = new Tally()

describe('requests of recorded clients, prepared for six providers', { skip: skipWithoutRecordings }, () => {
  const requests = clientRequests().flatMap((request) => {
    const style = [...clientProtocolByStyle.values()].find(({ path }) => request.path === `/v1${path}`)?.style
    return style === undefined ? [] : [{ ...request, style }]
  })
  test('enough requests', () => assert.ok(requests.length > 30, String(requests.length)))
  for (const name of ['openai', 'anthropic', 'gemini', 'mistral', 'ollama', 'openai-compatible'])
    test(name, () => {
      const provider = providers.find((one) => one.name === name)
      assert.ok(provider)
      const wrong = clientTally.checkEach(
        `clients → ${name}`,
        requests,
        (request) => request.name,
        ({ style, body, name: client }) => {
          const unfit = checkRequest(provider, style, 'some-model', { ...body })
          return unfit && `${client.split(':')[0]} ${unfit}`
        },
      )
      assert.equal(wrong.length, 0, wrong.join('\n'))
    })
  after(() => clientTally.print())
})
