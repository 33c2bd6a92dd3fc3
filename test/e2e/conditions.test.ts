/** Conditions of targets, routes by glob and rules, in a running gateway: every style, the trail, the plan and the errors. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { run, type Started, start } from './support/process.ts'

const IMAGE = 'data:image/png;base64,iVBORw0KGgo='
const LONG = 'word '.repeat(3_000)

/** One request in each style, with and without tools. */
const STYLES = {
  '/v1/chat/completions': (text: string) => ({ messages: [{ role: 'user', content: text }] }),
  '/v1/responses': (text: string) => ({ input: text }),
  '/v1/messages': (text: string) => ({ max_tokens: 10, messages: [{ role: 'user', content: text }] }),
  '/v1/completions': (text: string) => ({ prompt: text }),
} as const

const TOOLS = {
  '/v1/chat/completions': { tools: [{ type: 'function', function: { name: 't', parameters: { type: 'object' } } }] },
  '/v1/responses': { tools: [{ type: 'function', name: 't', parameters: { type: 'object' } }] },
  '/v1/messages': { tools: [{ name: 't', input_schema: { type: 'object' } }] },
} as const

const configOf = (url: string) => `
coalesce: true
providers:
  small: { kind: openai-compatible, baseUrl: "${url}/small/v1", keys: [k], models: [s], styles: [chat, responses, messages] }
  large: { kind: openai-compatible, baseUrl: "${url}/large/v1", keys: [k], models: [l], styles: [chat, responses, messages] }
routes:
  fast:
    targets:
      - { provider: small, model: s, when: { inputTokens: { below: 1000 }, tools: false } }
      - { provider: large, model: l }
  strict:
    targets:
      - { provider: small, model: s, when: { inputTokens: { below: 1000 } } }
  spare:
    targets:
      - { provider: small, model: s, when: { header: { X-Tier: gold } } }
    fallback: [ { provider: large, model: l, when: { style: [chat, messages] } } ]
  "claude-*": { targets: [ { provider: small, model: s } ] }
  "claude-opus-*": { targets: [ { provider: large, model: l } ] }
  claude-opus-4-5: { targets: [ { provider: small, model: exact } ] }
rules:
  - { when: { media: [image] }, route: claude-opus-4-5 }
  - { when: { header: { x-tier: gold } }, route: spare }
`

describe('conditions', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await startUpstream((call) => {
      const act = answerWith(call, { text: 'hello' })
      return act.do === 'answer' && call.body.includes('hold on') ? { ...act, after: 300 } : act
    })
    gateway = await start({ files: { 'headgate.yaml': configOf(upstream.url) } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  const post = async (path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const providerOf = async (...call: Parameters<typeof post>) => {
    const { status, headers, text } = await post(...call)
    assert.equal(status, 200, text)
    return headers.get('x-headgate-provider')
  }

  for (const [path, bodyOf] of Object.entries(STYLES))
    test(`conditions: ${path} reaches the target whose condition it meets`, async () => {
      assert.equal(await providerOf(path, { model: 'fast', ...bodyOf('hi') }), 'small')
      const { status, headers, text } = await post(path, { model: 'fast', ...bodyOf(LONG) })
      assert.equal(status, 200, text)
      assert.match(headers.get('x-headgate-trail') ?? '', /^small:when, large#[0-9a-f]+:200$/)
      if (path in TOOLS) {
        const { tools } = TOOLS[path as keyof typeof TOOLS]
        assert.equal(await providerOf(path, { model: 'fast', ...bodyOf('hi'), tools }), 'large')
      }
      const refused = await post(path, { model: 'strict', ...bodyOf(LONG) })
      assert.equal(refused.status, 400, refused.text)
      const { type, error } = JSON.parse(refused.text)
      assert.match(error.message, /^No target of "strict" takes this request: inputTokens [\d,]+ is not below 1,000\./)
      assert.equal(refused.headers.get('x-headgate-trail'), 'small:when')
      if (path === '/v1/messages') assert.deepEqual([type, error.type], ['error', 'invalid_request_error'])
      else
        assert.deepEqual(
          [error.code, error.type, error.param],
          ['no_matching_target', 'invalid_request_error', 'model'],
        )
    })

  test('conditions: the fallback of the route answers, if its own condition holds, and no other provider', async () => {
    const chat = { model: 'spare', ...STYLES['/v1/chat/completions']('hi') }
    assert.equal(await providerOf('/v1/chat/completions', chat), 'large')
    assert.equal(await providerOf('/v1/chat/completions', chat, { 'x-tier': 'gold' }), 'small')
    const { status, text } = await post('/v1/responses', { model: 'spare', input: 'hi' })
    assert.equal(status, 400, text)
    assert.match(text, /header X-Tier does not match; style does not match/)
  })

  test('conditions: counting tokens has the same targets', async () => {
    const body = { model: 'strict', messages: [{ role: 'user', content: LONG }] }
    assert.equal((await post('/v1/messages/count_tokens', body)).status, 400)
    assert.equal(
      (await post('/v1/messages/count_tokens', { ...body, messages: [{ role: 'user', content: 'hi' }] })).status,
      200,
    )
  })

  test('conditions: POST /v1/route shows the fact, and the admin API also the condition', async () => {
    const { text } = await post('/v1/route', { model: 'fast', ...STYLES['/v1/chat/completions'](LONG) })
    const plan = JSON.parse(text)
    assert.deepEqual(
      plan.targets.slice(0, 1).map(({ provider }: { provider: string }) => provider),
      ['large'],
    )
    assert.match(plan.skipped[0].why, /^when: inputTokens [\d,]+ is not below 1,000$/)
    const asked = { request: { model: 'fast', ...STYLES['/v1/chat/completions']('hi') } }
    const explained = JSON.parse((await post('/admin/api/v1/explain', asked)).text)
    assert.equal(explained.targets[0].when, 'inputTokens below 1,000; tools no')
    const shown = JSON.parse((await post('/v1/route', asked.request)).text)
    assert.equal(shown.targets[0].when, undefined)
  })

  test('conditions: the exact name of a route comes before globs, and the longest glob before others', async () => {
    const body = STYLES['/v1/chat/completions']('hi')
    const modelOf = async (model: string) =>
      (await post('/v1/chat/completions', { model, ...body })).headers.get('x-headgate-model')
    assert.equal(await modelOf('claude-opus-4-5'), 'exact')
    assert.equal(await modelOf('claude-opus-4-6'), 'l')
    assert.equal(await modelOf('Claude-Haiku-4-5'), 's')
    const { data } = JSON.parse(await (await fetch(`${gateway.url}/v1/models`)).text())
    assert.ok(!data.some(({ id }: { id: string }) => id.includes('*')), 'a glob is no name that clients can send')
  })

  test('conditions: rules choose the route of requests that name no known model', async () => {
    const image = { role: 'user', content: [{ type: 'image_url', image_url: { url: IMAGE } }] }
    const { targets } = JSON.parse((await post('/v1/route', { model: 'auto', messages: [image] })).text)
    assert.equal(targets[0].model, 'exact')
    const tier = { 'x-tier': 'gold' }
    const { headers } = await post(
      '/v1/chat/completions',
      { model: 'auto', ...STYLES['/v1/chat/completions']('hi') },
      tier,
    )
    assert.equal(headers.get('x-headgate-provider'), 'small')
    const named = await post(
      '/v1/chat/completions',
      { model: 'large/l', ...STYLES['/v1/chat/completions']('hi') },
      tier,
    )
    assert.equal(named.headers.get('x-headgate-provider'), 'large', 'a known name is not replaced')
  })

  test('conditions: equal requests that differ in a header of a condition are not answered together', async () => {
    const body = { model: 'spare', temperature: 0, ...STYLES['/v1/chat/completions']('hold on') }
    const sent = ['gold', 'silver'].map((tier) => providerOf('/v1/chat/completions', body, { 'x-tier': tier }))
    assert.deepEqual(await Promise.all(sent), ['small', 'large'])
  })

  const mistakes: readonly (readonly [string, string, RegExp])[] = [
    ['a fact', 'when: { inputToken: { below: 5 } }', /headgate\.yaml:\d+:\d+.*inputToken.*did you mean inputTokens\?/s],
    ['a level', 'when: { effort: [hgih] }', /headgate\.yaml:\d+:\d+.*effort.*hgih/s],
    ['a range', 'when: { inputTokens: { from: 9, below: 9 } }', /headgate\.yaml:\d+:\d+.*`from` less than `below`/s],
    [
      'a header with credentials',
      'when: { header: { Authorization: "Bearer x" } }',
      /headgate\.yaml:\d+:\d+.*Authorization/s,
    ],
  ]
  for (const [what, when, expected] of mistakes)
    test(`conditions: a wrong file names the line: ${what}`, async () => {
      const file = `providers: { house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [k] } }
routes:
  fast:
    targets:
      - { provider: house, model: m, ${when} }
`
      const { exited, output } = await run({ files: { 'headgate.yaml': file } })
      assert.equal(await exited, 1, output())
      assert.match(output(), expected)
    })

  test('conditions: a rule whose route does not exist names the nearest', async () => {
    const file = `providers: { house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [k] } }
routes: { vision: { targets: [house/m] } }
rules: [ { when: { media: [image] }, route: visoin } ]
`
    const { exited, output } = await run({ files: { 'headgate.yaml': file } })
    await exited
    assert.match(output(), /headgate\.yaml:3:\d+.*visoin.*did you mean vision\?/s)
  })
})
