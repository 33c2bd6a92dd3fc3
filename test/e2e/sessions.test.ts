/** Sessions: recognised in every API style, recorded with their agents, and listed by a running gateway. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const messages = [{ role: 'user', content: 'hi' }]
const MODEL = 'demo/echo'
type Headers = Readonly<Record<string, string>>

const STYLES: readonly (readonly [path: string, body: object])[] = [
  ['/v1/chat/completions', { model: MODEL, messages }],
  ['/v1/chat/completions', { model: MODEL, messages, stream: true }],
  ['/v1/responses', { model: MODEL, input: 'hi' }],
  ['/v1/messages', { model: MODEL, messages, max_tokens: 10 }],
  ['/v1/messages/count_tokens', { model: MODEL, messages }],
  ['/v1/completions', { model: MODEL, prompt: 'hi' }],
  ['/v1/embeddings', { model: 'demo/embed', input: 'hi' }],
]

describe('sessions', { concurrency: false }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { SESSIONS_GUESS: 'true' } })
  })
  after(() => gateway[Symbol.asyncDispose]())

  const post = async (path: string, body: object, headers: Headers = {}) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }
  // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
  const admin = async (path: string): Promise<any> => {
    const response = await fetch(`${gateway.url}/admin/api/v1${path}`)
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }

  test('sessions: requests of every style have their session and agent', async () => {
    for (const [path, body] of STYLES) {
      const { status, text } = await post(path, body, { 'session-id': 'one', 'thread-id': 'two' })
      assert.equal(status, 200, `${path} ${text}`)
    }
    const { data } = await admin('/requests?agent=two')
    assert.equal(data.length, STYLES.length)
    const [{ session }] = data
    assert.match(session, /^ses_[a-z]{12}$/)
    assert.ok(data.every((one: { session: string }) => one.session === session))
    assert.equal((await admin(`/requests?session=${session}`)).data.length, STYLES.length)
    const logs = await verb(['logs', '--session', session], { env: { HEADGATE_URL: gateway.url } })
    assert.equal(logs.stdout.trim().split('\n').length, STYLES.length, logs.stdout)
  })

  test('sessions: turns of a conversation without a name are one guessed session', async () => {
    const first = [...messages]
    const second = [...messages, { role: 'assistant', content: 'hi' }, { role: 'user', content: 'more' }]
    for (const turn of [first, second]) await post('/v1/chat/completions', { model: MODEL, messages: turn })
    await post('/v1/chat/completions', { model: MODEL, messages: [{ role: 'user', content: 'other' }] })
    const { data } = await admin('/requests?limit=3')
    const [other, later, earlier] = data.map((one: { session: string }) => one.session)
    assert.match(earlier, /^gss_[a-z]{12}$/)
    assert.equal(later, earlier)
    assert.notEqual(other, earlier)
  })
})
