/** Cache breakpoints that the gateway adds: by a target, by a request, in both formats, and the bytes that stay. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { isList, isObject, type Json, list } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'

const LONG = 'word '.repeat(2_000)
const MARK = { type: 'ephemeral' }

const configOf = (url: string) => `
providers:
  anthropic: { baseUrl: "${url}/v1", keys: [k], models: [claude-sonnet-5] }
  other: { kind: openai-compatible, baseUrl: "${url}/other/v1", keys: [k], models: [o], styles: [messages] }
routes:
  marked: { targets: [ { provider: anthropic, model: claude-sonnet-5, cacheBreakpoints: auto } ] }
  plain: { targets: [anthropic/claude-sonnet-5] }
  whole: { cacheBreakpoints: auto, targets: [ { provider: other, model: missing, when: { tag: { a: b } } } ], fallback: [anthropic/claude-sonnet-5] }
  foreign: { targets: [ { provider: other, model: o, cacheBreakpoints: auto } ] }
`

const messages = [
  { role: 'user', content: LONG },
  { role: 'assistant', content: 'yes' },
  { role: 'user', content: 'go on' },
]

describe('cache breakpoints', { concurrency: false }, () => {
  let upstream: Upstream
  let gateway: Started
  before(async () => {
    upstream = await startUpstream((call) => answerWith(call, { text: 'hello' }))
    gateway = await start({ files: { 'headgate.yaml': configOf(upstream.url) } })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
  })

  const sent = async (path: string, body: string, headers: Readonly<Record<string, string>> = {}) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })
    assert.equal(response.status, 200, await response.text())
    assert.equal(response.headers.get('x-headgate-dropped'), null)
    const last = upstream.requests.at(-1)
    assert(last)
    assert.equal(last.headers['x-headgate-cache-breakpoints'], undefined)
    return last
  }
  const marksIn = (value: Json): number => {
    if (isList(value)) return value.reduce<number>((sum, one) => sum + marksIn(one), 0)
    if (!isObject(value)) return 0
    return Object.entries(value).reduce(
      (sum, [name, one]) => sum + (name === 'cache_control' ? 1 : marksIn(one ?? null)),
      0,
    )
  }
  const bodyOf = (model: string, more: object = {}) =>
    JSON.stringify({ model, max_tokens: 5, system: 'be kind', ...more, messages })

  test('cache breakpoints: a target marks the instructions and the last message, and other bytes stay', async () => {
    const body = `{ "max_tokens" : 5,"metadata":{ "user_id":"u"},"model":"marked", "system":"be kind","stop_sequences":[ "x" ],"messages":${JSON.stringify(messages)}}`
    const { json, body: text } = await sent('/v1/messages', body)
    assert.deepEqual(json.system, [{ type: 'text', text: 'be kind', cache_control: MARK }])
    assert.deepEqual(list(json.messages).at(-1), {
      role: 'user',
      content: [{ type: 'text', text: 'go on', cache_control: MARK }],
    })
    assert.equal(marksIn(json), 2)
    assert(text.startsWith('{"max_tokens" : 5,"metadata":{ "user_id":"u"},"model":"claude-sonnet-5","system":'))
    assert(text.includes('"stop_sequences":[ "x" ],'))
  })

  test('cache breakpoints: a client of another format has them too', async () => {
    const { json } = await sent('/v1/chat/completions', JSON.stringify({ model: 'marked', messages }))
    assert.equal(marksIn(json), 1)
    const { json: whole } = await sent(
      '/v1/chat/completions',
      JSON.stringify({ model: 'marked', messages: [{ role: 'system', content: 'be kind' }, ...messages] }),
    )
    assert.equal(marksIn(whole), 2)
  })

  test('cache breakpoints: those of a route are those of its targets', async () => {
    assert.equal(marksIn((await sent('/v1/messages', bodyOf('whole'))).json), 2)
  })

  test('cache breakpoints: a request states them, and refuses those of the target', async () => {
    assert.equal(marksIn((await sent('/v1/messages', bodyOf('plain'))).json), 0)
    assert.equal(
      marksIn((await sent('/v1/messages', bodyOf('plain'), { 'x-headgate-cache-breakpoints': 'auto' })).json),
      2,
    )
    assert.equal(
      marksIn((await sent('/v1/messages', bodyOf('marked'), { 'x-headgate-cache-breakpoints': 'off' })).json),
      0,
    )
  })

  test('cache breakpoints: a request with marks of its own has no others', async () => {
    const tools = [1, 2, 3, 4].map((n) => ({ name: `t${n}`, input_schema: { type: 'object' }, cache_control: MARK }))
    assert.equal(marksIn((await sent('/v1/messages', bodyOf('marked', { tools }))).json), 4)
  })

  test('cache breakpoints: neither a short request nor a single turn without tools and session has any', async () => {
    const short = { model: 'marked', max_tokens: 5, messages: [{ role: 'user', content: 'hi' }], tools: [] }
    assert.equal(marksIn((await sent('/v1/messages', JSON.stringify(short))).json), 0)
    const single = JSON.stringify({ ...short, messages: messages.slice(0, 1) })
    assert.equal(marksIn((await sent('/v1/messages', single)).json), 0)
    assert.equal(marksIn((await sent('/v1/messages', single, { 'x-headgate-session': 's' })).json), 1)
  })

  test('cache breakpoints: other servers of the format have none', async () => {
    assert.equal(marksIn((await sent('/v1/messages', bodyOf('foreign'))).json), 0)
  })
})
