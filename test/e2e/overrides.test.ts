/** What a target of a route changes in requests, in a running gateway: settings, members, headers, betas, times and retries. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { run, type Started, start } from './support/process.ts'

const configOf = (url: string) => `
providers:
  house: { kind: openai-compatible, baseUrl: "${url}/house/v1", keys: [k], models: [m], styles: [chat, responses, messages] }
  claude: { kind: openai-compatible, baseUrl: "${url}/claude/v1", keys: [k], models: [m], styles: [messages] }
  slow: { kind: openai-compatible, baseUrl: "${url}/slow/v1", keys: [k], models: [m], styles: [chat] }
  broken: { kind: openai-compatible, baseUrl: "${url}/broken/v1", keys: [k], models: [m], styles: [chat] }
fallback: same-model
routes:
  set:
    targets:
      - { provider: house, model: m, set: { temperature: 0.3, maxOutputTokens: { max: 50 } }, default: { user: search }, remove: [seed],
          extra: { x_vendor: { a: 1 } }, headers: { X-Team: search } }
  claude:
    targets:
      - { provider: claude, model: m, set: { effort: low }, extra: { x_vendor: 1 }, betas: { add: [new-beta-1], drop: [old-beta-1] } }
  quick: { targets: [ { provider: slow, model: m, timeout: { firstByte: 300 } } ], fallback: [ house/m ] }
  whole: { targets: [ { provider: slow, model: m, timeout: { request: 300 } } ], fallback: [ house/m ] }
  twice: { targets: [ { provider: broken, model: m, retries: 2 } ], fallback: [ house/other ] }
  once: { targets: [ { provider: broken, model: m, retries: 0 } ], fallback: [ house/other ] }
`
const messages = [{ role: 'user', content: 'hi' }]

describe('overrides', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await startUpstream((call) => {
      if (call.path.startsWith('/broken')) return { do: 'answer', status: 502, body: { error: { message: 'broken' } } }
      const act = answerWith(call, { text: 'hello' })
      return call.path.startsWith('/slow') && act.do === 'answer' ? { ...act, after: 5_000 } : act
    })
    gateway = await start({ files: { 'headgate.yaml': configOf(upstream.url) } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  const post = async (path: string, body: object, headers: Readonly<Record<string, string>> = {}) => {
    const from = upstream.requests.length
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    const sent = upstream.requests.slice(from)
    return { headers: response.headers, text, sent, last: sent.at(-1) ?? assert.fail() }
  }

  test('overrides: settings, members and headers of the target reach it in the format of the client', async () => {
    const chat = await post('/v1/chat/completions', {
      model: 'set',
      messages,
      seed: 1,
      max_tokens: 900,
      temperature: 1,
    })
    assert.deepEqual(chat.last.json, {
      ...{ model: 'm', messages, max_tokens: 50, temperature: 0.3, user: 'search', x_vendor: { a: 1 } },
    })
    assert.equal(chat.last.headers['x-team'], 'search')
    const { json } = (await post('/v1/responses', { model: 'set', input: 'hi', store: false, user: 'me' })).last
    assert.deepEqual([json.max_output_tokens, json.temperature, json.user, json.x_vendor], [50, 0.3, 'me', { a: 1 }])
    const message = await post('/v1/messages', { model: 'set', messages, max_tokens: 20, metadata: { user_id: 'u' } })
    const { max_tokens, temperature, metadata } = message.last.json
    assert.deepEqual([max_tokens, temperature, metadata], [20, 0.3, { user_id: 'u' }])
  })

  test('overrides: another format receives the settings, and extra members are named as dropped', async () => {
    const { last, headers } = await post('/v1/chat/completions', { model: 'claude', messages })
    assert.deepEqual([last.json.output_config, last.json.x_vendor], [{ effort: 'low' }, undefined])
    assert.match(headers.get('x-headgate-dropped') ?? '', /\bextra\b/)
  })

  test('overrides: betas are added and left out', async () => {
    const body = { model: 'claude', messages, max_tokens: 20 }
    const both = await post('/v1/messages', body, { 'anthropic-beta': 'old-beta-1,mine-2' })
    assert.equal(both.last.headers['anthropic-beta'], 'mine-2,new-beta-1')
    const none = await post('/v1/messages', body)
    assert.equal(none.last.headers['anthropic-beta'], 'new-beta-1')
  })

  for (const model of ['quick', 'whole'])
    test(`overrides: a target has its own time limit (${model})`, async () => {
      const began = performance.now()
      const { headers } = await post('/v1/chat/completions', { model, messages })
      assert.match(headers.get('x-headgate-trail') ?? '', /^slow#[0-9a-f]+:timeout, house#[0-9a-f]+:200$/)
      assert.ok(performance.now() - began < 4_000)
    })

  for (const [model, count] of [
    ['twice', 3],
    ['once', 1],
  ] as const)
    test(`overrides: a target is tried ${count} times before another one (${model})`, async () => {
      const { headers } = await post('/v1/chat/completions', { model, messages })
      const trail = (headers.get('x-headgate-trail') ?? '').split(', ').map((one) => one.replace(/#[0-9a-f]+/, ''))
      assert.deepEqual(trail, [...Array.from({ length: count }, () => 'broken:502'), 'house:200'])
    })

  test('overrides: the plan names them for operators', async () => {
    const response = await fetch(`${gateway.url}/admin/api/v1/explain`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ request: { model: 'set', messages } }),
    })
    const { targets } = JSON.parse(await response.text())
    assert.equal(
      targets[0].override,
      'set temperature 0.3; set maxOutputTokens at most 50; default user search; without seed; extra x_vendor; headers x-team',
    )
  })

  const mistakes: readonly (readonly [string, string, RegExp])[] = [
    ['a setting', 'set: { temprature: 1 }', /headgate\.yaml:4:\d+.*temprature.*did you mean temperature\?/s],
    ['a header with credentials', 'headers: { X-Api-Key: secret-value-1 }', /headgate\.yaml:4:\d+.*X-Api-Key/s],
    ['a member that decides the target', 'extra: { model: other }', /headgate\.yaml:4:\d+.*"model"/s],
    ['too many retries', 'retries: 9', /headgate\.yaml:4:\d+.*retries.*9/s],
  ]
  for (const [what, members, expected] of mistakes)
    test(`overrides: a wrong file names the line: ${what}`, async () => {
      const file = `providers: { house: { kind: openai-compatible, baseUrl: "http://127.0.0.1:9/v1", keys: [k] } }
routes:
  fast:
    targets: [ { provider: house, model: m, ${members} } ]
`
      const { exited, output } = await run({ files: { 'headgate.yaml': file } })
      assert.equal(await exited, 1, output())
      assert.match(output(), expected)
      assert.doesNotMatch(output(), /secret-value-1/)
    })
})
