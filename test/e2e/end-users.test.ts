/** Blocked end users: refused in every API style, by each name that a request gives them, until they are unblocked. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const messages = [{ role: 'user', content: 'hi' }]
const MODEL = 'demo/echo'

const requests = (user: string): readonly (readonly [string, object])[] => [
  ['/v1/chat/completions', { model: MODEL, messages, user }],
  ['/v1/chat/completions', { model: MODEL, messages, user, stream: true }],
  ['/v1/chat/completions', { model: MODEL, messages, safety_identifier: 'another', user }],
  ['/v1/responses', { model: MODEL, input: 'hi', safety_identifier: user }],
  ['/v1/messages', { model: MODEL, messages, max_tokens: 10, metadata: { user_id: user } }],
  ['/v1/completions', { model: MODEL, prompt: 'hi', user }],
]

describe('end users', { concurrency: false }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { USAGE_END_USER: 'true' } })
  })
  after(() => gateway[Symbol.asyncDispose]())

  const post = async (path: string, body: object) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, text: await response.text() }
  }
  const run = (...words: string[]) => verb(['end-users', ...words], { env: { HEADGATE_URL: gateway.url } })

  test('end users: a blocked one is refused in every style, others are served', async () => {
    const blocked = await run('block', 'user 4711', '--reason', 'abuse', '--until', '7d')
    assert.equal(blocked.stdout, 'user 4711 is blocked in all teams\n', blocked.stderr)
    for (const [path, body] of requests('user 4711')) {
      const { status, text } = await post(path, body)
      assert.equal(status, 403, `${path} ${JSON.stringify(body)}`)
      assert.match(text, /end_user_blocked|The end user of this request is blocked/)
    }
    for (const [path, body] of requests('user 471')) assert.equal((await post(path, body)).status, 200, path)
    const list = await run('list')
    assert.match(list.stdout, /user 4711 +all +20.* +abuse/)
  })

  test('end users: the list of requests filters by them', async () => {
    const logs = await verb(['logs', '--end-user', 'user 4711', '--status', '403'], {
      env: { HEADGATE_URL: gateway.url },
    })
    assert.ok(logs.stdout.trim().split('\n').length >= 5, logs.stdout)
    assert.match(logs.stdout, /end_user_blocked/)
  })

  test('end users: a block of one team refuses nothing elsewhere, and a block ends', async () => {
    assert.equal((await run('unblock', 'user 4711')).code, 0)
    assert.equal((await run('block', 'eve', '--team', 'default')).code, 0)
    for (const [path, body] of requests('user 4711')) assert.equal((await post(path, body)).status, 200, path)
    for (const [path, body] of requests('eve')) assert.equal((await post(path, body)).status, 403, path)
    const unknown = await run('block', 'eve', '--team', 'none')
    assert.notEqual(unknown.code, 0)
    assert.match(unknown.stderr, /No team has this ID or name/)
  })
})
