/**
 * The members by which clients state their targets, in a running gateway: bodies of OpenRouter's SDK, fallbacks as LiteLLM's clients
 * write them, and Anthropic's own.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { object } from '../../src/core/json.ts'
import { answerWith, failWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

/** As `@openrouter/sdk` 1.3.19 wrote `chat.send` and `beta.responses.send` to a local port (2026-11-28). */
const SDK = {
  chat: '{"messages":[{"content":"hello","role":"user"}],"model":"m","models":["l"],"provider":{"allow_fallbacks":true,"max_price":{"completion":"100","prompt":"100"},"order":["right","left"],"quantizations":["fp8"],"sort":"price"},"stream":false}',
  responses:
    '{"input":"hello","model":"m","models":["l"],"provider":{"ignore":["left"],"sort":"latency"},"service_tier":"auto","store":false,"stream":false}',
  noModel:
    '{"messages":[{"content":"hello","role":"user"}],"models":["m","l"],"provider":{"only":["right"]},"stream":true}',
}

const configOf = (url: string) => `
fallback: same-model
circuit: { consecutiveFailures: 0, errorThreshold: 100 }
retry: { sameModelWait: 0 }
providers:
  left: { kind: openai-compatible, baseUrl: "${url}/left/v1", keys: [k], models: [m, l], styles: [chat, responses] }
  right: { kind: openai-compatible, baseUrl: "${url}/right/v1", keys: [k], models: [m], styles: [chat, responses] }
  openrouter: { baseUrl: "${url}/openrouter/v1", keys: [k], models: ["qwen/qwen-3"] }
  anthropic: { baseUrl: "${url}/anthropic/v1", keys: [k], models: [claude-5, claude-4] }
prices:
  - { provider: "*", model: m, perMillion: { input: 1, output: 2 } }
keys:
  all: { secret: all-secret-0123456789abcdef }
  narrow: { secret: narrow-secret-0123456789ab, access: { models: ["qwen/*", "openrouter/qwen/*", claude-5, m] } }
`

const KEYS = { all: 'all-secret-0123456789abcdef', narrow: 'narrow-secret-0123456789ab' }

describe('preferences', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await startUpstream((call) =>
      call.body.includes('please fail') && call.model === 'm'
        ? failWith(call, 503, { type: 'overloaded', message: 'busy' })
        : answerWith(call, { text: 'hello' }),
    )
    gateway = await start({ files: { 'headgate.yaml': configOf(upstream.url) } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  const post = async (path: string, body: string | object, key: keyof typeof KEYS = 'all') => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${KEYS[key]}` },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
    const { headers, status } = response
    return { status, text: await response.text(), of: (name: string) => headers.get(`x-headgate-${name}`) }
  }
  const chat = (body: object, key: keyof typeof KEYS = 'all') =>
    post('/v1/chat/completions', { model: 'm', messages: [{ role: 'user', content: 'hello' }], ...body }, key)
  const lastBody = () => upstream.requests.at(-1)?.body ?? ''
  const membersSent = () => Object.keys(object(JSON.parse(lastBody())) ?? {}).sort()

  test("preferences: a chat request of OpenRouter's SDK is ordered, and its members stay here", async () => {
    const { status, text, of } = await post('/v1/chat/completions', SDK.chat)
    assert.equal(status, 200, text)
    assert.deepEqual([of('provider'), of('dropped')], ['right', 'provider.quantizations'])
    assert.deepEqual(membersSent(), ['messages', 'model', 'stream'])
  })

  test('preferences: a response of the same SDK', async () => {
    const { status, text, of } = await post('/v1/responses', SDK.responses)
    assert.equal(status, 200, text)
    assert.deepEqual([of('provider'), of('dropped')], ['right', null])
    assert.equal(membersSent().includes('provider'), false)
  })

  test('preferences: the first of `models` is the model of a request without one', async () => {
    const { status, text, of } = await post('/v1/chat/completions', SDK.noModel)
    assert.equal(status, 200, text)
    assert.deepEqual([of('provider'), of('model')], ['right', 'm'])
  })

  test("preferences: fallbacks of LiteLLM's clients answer when the model fails", async () => {
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: KEYS.all, maxRetries: 0 })
    const more: object = { fallbacks: ['nothing/of-this', 'l'], num_retries: 2, mock_response: 'no' }
    const { data, response } = await client.chat.completions
      .create({ model: 'm', messages: [{ role: 'user', content: 'please fail' }], ...more })
      .withResponse()
    assert.equal(data.choices[0]?.message.content, 'hello')
    const { headers } = response
    assert.equal(headers.get('x-headgate-model'), 'l')
    assert.equal(headers.get('x-headgate-dropped'), 'num_retries, mock_response')
    assert.deepEqual(membersSent(), ['messages', 'model'])
  })

  test('preferences: if only OpenRouter has the model, it reads the members itself, byte for byte', async () => {
    const body =
      '{"model":"qwen/qwen-3", "models":[ "a/b" ],"provider":{"order":["deepinfra"],"only":7 },"transforms":["middle-out"],"messages":[{"role":"user","content":"hello"}]}'
    const { status, text, of } = await post('/v1/chat/completions', body)
    assert.equal(status, 200, text)
    assert.deepEqual([of('provider'), of('dropped'), lastBody()], ['openrouter', null, body])
  })

  test('preferences: a provider chooses no further model for a key with limited access', async () => {
    const asked = { model: 'qwen/qwen-3', models: ['a/b'], provider: { order: ['deepinfra'] } }
    const { status, text } = await chat(asked, 'narrow')
    assert.equal(status, 200, text)
    assert.deepEqual(membersSent(), ['messages', 'model', 'provider'])
    const claude = await post(
      '/v1/messages',
      {
        model: 'claude-5',
        max_tokens: 5,
        fallbacks: [{ model: 'claude-4' }],
        messages: [{ role: 'user', content: 'x' }],
      },
      'narrow',
    )
    assert.equal(claude.status, 200, claude.text)
    assert.deepEqual(membersSent(), ['max_tokens', 'messages', 'model'])
  })

  test('preferences: Anthropic receives its own fallbacks, with all their members', async () => {
    const client = new Anthropic({ baseURL: gateway.url, apiKey: KEYS.all, maxRetries: 0 })
    await client.beta.messages.create({
      model: 'claude-5',
      max_tokens: 5,
      messages: [{ role: 'user', content: 'hello' }],
      fallbacks: [{ model: 'claude-4', max_tokens: 3 }],
    })
    assert.deepEqual(upstream.requests.at(-1)?.json.fallbacks, [{ model: 'claude-4', max_tokens: 3 }])
  })

  test('preferences: other targets read them as further models', async () => {
    const messages = [{ role: 'user', content: 'please fail' }]
    const { status, text, of } = await post('/v1/messages', {
      model: 'm',
      max_tokens: 5,
      fallbacks: [{ model: 'l' }],
      messages,
    })
    assert.equal(status, 200, text)
    assert.deepEqual([of('model'), of('dropped')], ['l', null])
    const refused = await post('/v1/messages', {
      model: 'm',
      max_tokens: 5,
      fallbacks: [{ model: 'l', speed: 'fast' }],
      messages,
    })
    assert.equal(refused.status, 400, refused.text)
    assert.match(refused.text, /`fallbacks\[0\]` is not valid/)
  })

  const refusals: readonly (readonly [string, object, string, string])[] = [
    ['only', { provider: { only: ['groq'] } }, 'no_matching_target', 'provider.only'],
    ['ignore', { provider: { ignore: ['left', 'right'] } }, 'no_matching_target', 'provider.ignore'],
    ['max_price', { provider: { max_price: { prompt: 0.5 } } }, 'no_matching_target', 'provider.max_price'],
    ['order', { provider: { order: ['groq'], allow_fallbacks: false } }, 'no_matching_target', 'provider.order'],
    ['a wrong type', { provider: { allow_fallbacks: 'no' } }, 'invalid_value', 'provider.allow_fallbacks'],
    ['a list', { models: 'l' }, 'invalid_value', 'models'],
  ]
  for (const [what, body, code, param] of refusals)
    test(`preferences: a refusal names the member: ${what}`, async () => {
      const { status, text } = await chat(body)
      assert.equal(status, 400, text)
      const { error } = JSON.parse(text)
      assert.deepEqual([error.code, error.param], [code, param])
    })

  test('preferences: with require_parameters a target that loses a member is not tried', async () => {
    const provider = { require_parameters: true }
    const translated = await chat({ model: 'claude-5', seed: 5, provider })
    assert.equal(translated.status, 400, translated.text)
    assert.match(translated.text, /seed/)
    assert.equal((await chat({ model: 'claude-5', provider })).status, 200)
    assert.equal((await chat({ seed: 5, provider })).status, 200)
  })

  test('preferences: POST /v1/route shows what each member has done', async () => {
    const body = { model: 'm', models: ['l'], provider: { only: ['right', 'left'], ignore: ['right'] } }
    const { targets, skipped } = JSON.parse(
      (await post('/v1/route', { ...body, messages: [{ role: 'user', content: 'hello' }] })).text,
    )
    assert.deepEqual(
      targets.map(({ provider, model, because }: Record<string, string>) => [provider, model, because]),
      [
        ['left', 'm', 'left has it'],
        ['left', 'l', 'left has it, for the further model "l"'],
      ],
    )
    assert.deepEqual(
      skipped.filter(({ why }: { why: string }) => why.startsWith('preference')),
      [{ provider: 'right', model: 'm', why: 'preference: provider.ignore' }],
    )
  })

  test('preferences: the setting turns them off', async () => {
    const off = await start({
      files: { 'headgate.yaml': `${configOf(upstream.url)}routing: { requestMembers: false }\n` },
    })
    try {
      const response = await fetch(`${off.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${KEYS.all}` },
        body: SDK.chat,
      })
      assert.equal(response.headers.get('x-headgate-provider'), 'left')
      assert.equal(membersSent().includes('provider'), true)
    } finally {
      await off[Symbol.asyncDispose]()
    }
  })
})
