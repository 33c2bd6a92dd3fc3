/** Live events and sessions of real processes: one listener receives the requests of all workers. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isObject, type JsonObject, text } from '../../src/core/json.ts'
import { skipWithoutProc } from './support/gauges.ts'
import { MAIN, post, type Started, start } from './support/process.ts'

/** Waits at most 30 s. */
const until = async (check: () => boolean | Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 120_000; !(await check()); await sleep(10))
    if (performance.now() > end) throw new Error(`not within 30 s: ${check}`)
}

const ADMIN = 'operator-token-0123456789'
const bearer = { authorization: `Bearer ${ADMIN}` }
const BODY = { model: 'demo/echo', messages: [{ role: 'user', content: 'a prompt that no event contains' }] }

/** Each request has a connection of its own, so that all workers receive some. Returns its ID. */
const ask = async ({ base }: Pick<Started, 'base'>): Promise<string> => {
  const answer = await post(`${base}/chat/completions`, BODY, { connection: 'close' })
  assert.equal(answer.status, 200)
  return answer.headers.get('x-request-id') ?? ''
}

type LiveStream = {
  readonly text: () => string
  readonly rows: () => readonly JsonObject[]
  readonly ended: Promise<void>
  readonly leave: () => void
}

const follow = async (
  { url }: Pick<Started, 'url'>,
  headers: Readonly<Record<string, string>> = bearer,
  query = '?topics=requests',
): Promise<LiveStream> => {
  const leaving = new AbortController()
  const response = await fetch(`${url}/admin/api/v1/live${query}`, { headers, signal: leaving.signal })
  assert.equal(response.status, 200)
  let received = ''
  const read = async () => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) received += decoder.decode(chunk, { stream: true })
  }
  const rows = () =>
    [...received.matchAll(/^event: request\ndata: (.+)$/gm)].map(([, data = '']) => JSON.parse(data)).filter(isObject)
  return { text: () => received, rows, ended: read().catch(() => {}), leave: () => leaving.abort() }
}

const idsOf = (stream: LiveStream): readonly unknown[] => stream.rows().map(({ id }) => id)

describe('live events', () => {
  let gateway: Started
  before(async () => {
    gateway = await start({ env: { AUTH_ADMIN: ADMIN, USAGE_END_USER: 'true' } })
  })
  after(() => gateway?.stop())

  test('a listener receives the row of each request, without its text', async () => {
    const stream = await follow(gateway)
    const ids = [await ask(gateway), await ask(gateway)]
    await until(() => stream.rows().length === 2)
    assert.deepEqual(idsOf(stream), ids)
    const [row] = stream.rows()
    assert.deepEqual([row?.outcome, row?.status, row?.provider], ['answered', 200, 'demo'])
    assert.ok(!stream.text().includes('a prompt'))
    stream.leave()
  })

  test('a row has the values of the list', async () => {
    const stream = await follow(gateway)
    const ids = await Promise.all(Array.from({ length: 50 }, () => ask(gateway)))
    for (const model of ['unknown/model', 'demo/down', 'demo/chain']) {
      const response = await post(`${gateway.base}/chat/completions`, { ...BODY, model })
      ids.push(response.headers.get('x-request-id') ?? '')
    }
    for (const _ of ['first', 'repeated']) {
      const response = await post(`${gateway.base}/chat/completions`, BODY, { 'idempotency-key': 'one-answer' })
      ids.push(response.headers.get('x-request-id') ?? '')
    }
    await until(() => stream.rows().length === ids.length)
    assert.deepEqual(
      stream.rows().map(({ cache }) => cache),
      ids.map((_, at) => (at === ids.length - 1 ? 'shared' : 'off')),
    )
    let data: readonly JsonObject[] = []
    await until(async () => {
      const response = await fetch(`${gateway.url}/admin/api/v1/requests?limit=${ids.length}`, { headers: bearer })
      data = ((await response.json()) as { readonly data: readonly JsonObject[] }).data
      return ids.every((id) => data.some((row) => row.id === id && row.ended_at !== null))
    })
    // Times of the end are of another clock, and attempts have fewer members.
    const measured = ['ended_at', 'total_ms', 'first_content_ms', 'overhead_us', 'attempts', 'object']
    for (const row of stream.rows()) {
      const found = data.find(({ id }) => id === row.id)
      // The ledger has sums, which are 0 without an answer.
      const others = row.outcome === 'answered' ? measured : [...measured, 'usage']
      for (const [name, value] of Object.entries(row))
        if (!others.includes(name)) assert.deepEqual([name, value], [name, found?.[name]])
    }
    stream.leave()
  })

  test('a stream continues after the last event that the client has received', async () => {
    const first = await follow(gateway)
    await ask(gateway)
    await until(() => first.rows().length === 1)
    first.leave()
    const missed = await ask(gateway)
    const [, last = ''] = /^id: (.+)$/m.exec(first.text()) ?? []
    const second = await follow(gateway, { ...bearer, 'last-event-id': last })
    await until(() => second.rows().length === 1)
    assert.deepEqual(idsOf(second), [missed])
    assert.ok(!second.text().includes('event: gap'))
    second.leave()
  })

  test('an unknown topic is refused, and HEAD has no stream', async () => {
    const bad = await fetch(`${gateway.url}/admin/api/v1/live?topics=weather`, { headers: bearer })
    assert.equal(bad.status, 400, await bad.text())
    const head = await fetch(`${gateway.url}/admin/api/v1/live`, { method: 'HEAD', headers: bearer })
    assert.equal(head.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  })

  test('headgate logs -f prints requests as they end', async () => {
    const env = { PATH: process.env.PATH ?? '', AUTH_ADMIN: ADMIN }
    const child = spawn(process.execPath, [MAIN, 'logs', '-f', '--json'], { cwd: gateway.folder, env })
    let [printed, ids] = ['', [] as string[]]
    child.stdout.on('data', (part) => (printed += part))
    try {
      // Until the command listens, requests are not printed.
      await until(async () => {
        ids = [...ids, await ask(gateway)]
        await sleep(100)
        return printed.includes('\n')
      })
      const next = await ask(gateway)
      await until(() => printed.includes(next))
      for (const line of printed.trim().split('\n')) {
        const row: unknown = JSON.parse(line)
        assert.ok(isObject(row) && [...ids, next].includes(text(row.id) ?? ''))
      }
    } finally {
      child.kill()
    }
  })

  test('headgate logs -f filters as the list does, by text of errors and end user', async () => {
    const env = { PATH: process.env.PATH ?? '', AUTH_ADMIN: ADMIN }
    const followers = [
      ['--text', 'MODEL DOWN ALWAYS'],
      ['--end-user', 'eve 4711'],
      ['--model', 'demo/echo', '--end-user', 'eve 4711'],
    ].map((filter) => {
      const child = spawn(process.execPath, [MAIN, 'logs', '-f', '--json', ...filter], { cwd: gateway.folder, env })
      const follower = { child, printed: '' }
      child.stdout.on('data', (part) => (follower.printed += part))
      return follower
    })
    const send = (body: object) => post(`${gateway.base}/chat/completions`, { ...BODY, ...body })
    try {
      await until(async () => {
        await send({ model: 'demo/chain' })
        await send({ model: 'demo/echo', user: 'eve 4711' })
        await sleep(100)
        return followers.every(({ printed }) => printed.includes('\n'))
      })
      for (const line of followers[1]?.printed.trim().split('\n') ?? [])
        assert.equal(JSON.parse(line).end_user, 'eve 4711')
    } finally {
      for (const { child } of followers) child.kill()
    }
  })

  test('a stream ends within a second of the logout of its session', async () => {
    const signedIn = await post(`${gateway.url}/admin/api/v1/session`, { token: ADMIN })
    assert.equal(signedIn.status, 201)
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
    const session: unknown = signedIn.json()
    const stream = await follow(gateway, { cookie })
    const csrf = isObject(session) ? (text(session.csrf) ?? '') : ''
    const headers = { cookie, 'x-headgate-csrf': csrf }
    const left = await fetch(`${gateway.url}/admin/api/v1/session/logout`, { method: 'POST', headers })
    assert.equal(left.status, 200)
    await stream.ended
    const again = await fetch(`${gateway.url}/admin/api/v1/session`, { headers: { cookie } })
    assert.equal(again.status, 401)
  })

  test('all streams end at shutdown', async () => {
    await using own = await start({ env: { AUTH_ADMIN: ADMIN } })
    const stream = await follow(own)
    const stopped = own.stop()
    await stream.ended
    assert.equal(await stopped, 0)
  })
})

describe('several workers', { skip: skipWithoutProc }, () => {
  test('one listener receives the requests of all, and a session is valid in all', async () => {
    const env = { AUTH_ADMIN: ADMIN, WORKERS: '2' }
    await using gateway = await start({ env })
    const stream = await follow(gateway)
    const nodes = () => new Set(stream.rows().map(({ node }) => node))
    await until(async () => {
      await ask(gateway)
      return nodes().size === 2
    })
    const ids = await Promise.all(Array.from({ length: 20 }, () => ask(gateway)))
    await until(() => ids.every((id) => idsOf(stream).includes(id)))
    stream.leave()

    const signedIn = await post(`${gateway.url}/admin/api/v1/session`, { token: ADMIN })
    const cookie = signedIn.headers.get('set-cookie')?.split(';')[0] ?? ''
    const statuses = await Promise.all(
      Array.from({ length: 20 }, async () => {
        const headers = { cookie, connection: 'close' }
        return (await fetch(`${gateway.url}/admin/api/v1/session`, { headers })).status
      }),
    )
    assert.deepEqual([...new Set(statuses)], [200])
  })
})
