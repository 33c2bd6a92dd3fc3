/** Requests that are refused at the door: an operator finds them, and they tell nothing about a key. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type Started, start } from '../e2e/support/process.ts'
import { verb } from '../e2e/support/verb.ts'

const ADMIN = 'the-token-of-the-operator'
const WRONG = 'sk-proj-Wr0ngWr0ngWr0ngWr0ng4711'

type Row = {
  readonly id: string
  readonly client_request_id: string | null
  readonly status: number
  readonly code: string
  readonly message: string
  readonly key: { readonly id: string } | null
}

describe('refused requests', { concurrency: false }, () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { AUTH_KEYS: 'client-key-4711', AUTH_ADMIN: ADMIN, LIMIT_BODY: '2000' } })
  })
  after(() => gateway[Symbol.asyncDispose]())

  const send = async (
    path: string,
    headers: Record<string, string>,
    body = '{"model":"demo/echo","messages":[{"role":"user","content":"hi"}]}',
  ) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })
    await response.arrayBuffer()
    return { status: response.status, id: response.headers.get('x-request-id') ?? '' }
  }
  const list = async (query = ''): Promise<readonly Row[]> => {
    const response = await fetch(`${gateway.url}/admin/api/v1/requests?limit=200${query}`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    const { data } = (await response.json()) as { readonly data: readonly Row[] } // The admin API.
    return data
  }
  const client = { authorization: 'Bearer client-key-4711' }

  test('refused requests: each kind is in the list and in explain, by both IDs', async () => {
    const sent = [
      [await send('/v1/chat/completions', { authorization: `Bearer ${WRONG}` }), 401, null],
      [await send('/v1/messages', { 'x-api-key': WRONG, 'x-request-id': 'of-the-client-1' }), 401, null],
      [await send('/v1/responses', {}), 401, null],
      [await send('/v1/chat/completion', client), 404, null],
      [await send(`/v1/${WRONG}/chat/completions`, {}), 404, null],
      [await send('/v1/chat/completions', client, ' '.repeat(3_000)), 413, 'key'],
      [await send('/v1/chat/completions', { ...client, origin: 'https://evil.example' }), 403, null],
    ] as const
    const rows = await list()
    for (const [{ id, status }, expected, key] of sent) {
      assert.equal(status, expected)
      const row = rows.find((one) => one.id === id || one.client_request_id === id) ?? assert.fail(`${expected} ${id}`)
      assert.equal(row.status, expected)
      if (key) assert.notEqual(row.key, null)
    }
    const env = { AUTH_ADMIN: ADMIN, HEADGATE_URL: gateway.url }
    const explained = await verb(['explain', 'of-the-client-1'], { env })
    assert.match(explained.stdout, /401 .*\n(.*\n)*.*failed because: POST \/v1\/messages: Unknown API key/)
  })

  test('refused requests: no part of a wrong key is in a row', async () => {
    const text = JSON.stringify(await list())
    for (const part of ['Wr0ng', '4711', 'sk-proj', 'ng4711']) assert.ok(!text.includes(part), part)
  })

  test('refused requests: no secret is in a row, wherever a mistaken client puts it', async () => {
    const key = encodeURIComponent(WRONG).replaceAll('-', '%2D')
    const requests: readonly (readonly [path: string, headers: Record<string, string>])[] = [
      [`/v1/chat/completions?key=${WRONG}`, {}],
      [`/v1/chat;key=${WRONG}/completions`, {}],
      [`/v1/${key.replaceAll('%', '%25')}/chat`, {}],
      [`/v1/%22${WRONG}%22`, {}],
      [`/v1/%00${WRONG}%0a`, {}],
      [`/v1/${'a'.repeat(130)}/${WRONG}`, {}],
      [`/v1/${WRONG}/${'b'.repeat(7_000)}`, {}],
      ['/v1/chat/completions', { traceparent: WRONG }],
      ['/v1/chat/completions', { 'x-request-id': WRONG, 'user-agent': WRONG, 'idempotency-key': WRONG }],
      ['/v1/chat/completions', { authorization: `Bearer  ${WRONG}\u00e9` }],
      ['/v1/chat/completions', { authorization: `Basic ${WRONG}`, cookie: `a=${WRONG}` }],
    ]
    for (const [path, headers] of requests) assert.ok((await send(path, headers)).status >= 400, path)
    const rows = await list()
    for (const row of rows) assert.doesNotMatch(JSON.stringify(row), /wr0ng|4711/i)
    assert.ok(rows.every(({ message }) => message.length <= 512))
  })

  test('refused requests: a flood of wrong keys does not fill the list', async () => {
    for (let round = 0; round < 20; round++)
      await Promise.all(
        Array.from({ length: 25 }, (_, n) => send('/v1/chat/completions', { 'x-api-key': `${WRONG}${round}-${n}` })),
      )
    assert.ok((await list('&status=401&status=429')).length <= 40)
    assert.equal((await send('/v1/chat/completions', client)).status, 200)
  })
})
