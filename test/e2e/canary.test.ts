/** A canary in a running gateway with two workers: its share by session, its stop on faults, its state after a restart, and the operator. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { answerWith } from '../support/answers.ts'
import { startUpstream, until } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'hg-admin-token-of-this-test-0123'
const configOf = (url: string, hook: string) => `
providers:
  house: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [k], models: [usual, fresh] }
fallback: none
routes:
  fast: { targets: [ house/usual, house/fresh ], canary: { target: 1, steps: [40, 100], every: 3600000 } }
auth: { admin: ${ADMIN}, required: false }
alerts: { url: "${hook}", rules: { circuitOpen: 0, failedShare: 0 } }
`

const receiver = async () => {
  const types: string[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    types.push(JSON.parse(text).type)
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  // A server on a port has an address object.
  const { port } = server.address() as AddressInfo
  return { types, url: `http://127.0.0.1:${port}/`, close: () => server.close(() => {}) }
}

const send = async (gateway: Started, session: string) => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-headgate-session': session },
    body: JSON.stringify({ model: 'fast', messages: [{ role: 'user', content: 'hi' }] }),
  })
  await response.arrayBuffer()
  return { status: response.status, model: response.headers.get('x-headgate-model') }
}

type Shown = {
  readonly status: string
  readonly share: number
  readonly reason: string | null
  readonly target: string
}

const canary = async (gateway: Started, action?: string): Promise<Shown> => {
  const response = await fetch(`${gateway.url}/admin/api/v1/canaries`, {
    headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json' },
    ...(action !== undefined && { method: 'POST', body: JSON.stringify({ route: 'fast', action }) }),
  })
  // The test reads members of a known answer.
  const body = (await response.json()) as Shown & { readonly data?: readonly Shown[] }
  assert.equal(response.status, 200, JSON.stringify(body))
  return body.data?.[0] ?? body
}

/** Until the check holds in both workers, at most for 30 s. */
const eventually = async (what: string, check: () => Promise<boolean>): Promise<void> => {
  for (const end = performance.now() + 30_000; !(await check()); await new Promise((done) => setTimeout(done, 100)))
    assert.ok(performance.now() < end, what)
}

test('canary: sessions stay, faults stop it in every worker, and clients see none of them', async (context) => {
  const hook = await receiver()
  let isBroken = false
  const upstream = await startUpstream((call) =>
    isBroken && call.json.model === 'fresh'
      ? { do: 'answer', status: 500, body: { error: { message: 'broken' } } }
      : answerWith(call, { text: 'hello' }),
  )
  const data = await mkdtemp(join(tmpdir(), 'headgate-canary-'))
  const options = {
    env: { DATA_DIR: data, WORKERS: '2' },
    files: { 'headgate.yaml': configOf(upstream.url, hook.url) },
  }
  let gateway = await start(options)
  context.after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream.close()
    hook.close()
    await rm(data, { recursive: true, force: true })
  })

  const sessions = Array.from({ length: 120 }, (_, at) => `session-${at}`)
  const served = async () => {
    const found: (string | null)[] = []
    for (let at = 0; at < sessions.length; at += 8)
      for (const { status, model } of await Promise.all(sessions.slice(at, at + 8).map((one) => send(gateway, one)))) {
        assert.equal(status, 200)
        found.push(model)
      }
    return found
  }
  const first = await served()
  const share = first.filter((model) => model === 'fresh').length / sessions.length
  assert.ok(share > 0.25 && share < 0.55, `share ${share}`)
  assert.deepEqual(await served(), first)
  assert.deepEqual(
    [(await canary(gateway)).status, (await canary(gateway)).share, (await canary(gateway)).target],
    ['running', 40, 'house/fresh'],
  )

  isBroken = true
  await eventually('it is stopped', async () => {
    // The other target answers in its place.
    assert.ok((await served()).every((model) => model === 'usual'))
    return (await canary(gateway)).status === 'stopped'
  })
  assert.match(
    (await canary(gateway)).reason ?? '',
    /^[0-9.]+ % of [0-9]+ requests failed, 0 % of [0-9]+ of the other targets$/,
  )
  await eventually('no worker tries it', async () => {
    const before = upstream.requests.length
    await served()
    return upstream.requests.slice(before).every(({ json }) => json.model === 'usual')
  })
  await until('the alert is received', () => hook.types.includes('canary.stopped'), 30_000)

  const shown = await verb(['routes', 'canary', 'fast'], { cwd: gateway.folder, env: { DATA_DIR: data } })
  assert.deepEqual([shown.code, shown.stderr], [0, ''])
  assert.match(shown.stdout, /^fast {2}house\/fresh {2}stopped, step 1 of 2, 0 % of the sessions: [0-9.]+ % of/)

  await gateway.stop()
  gateway = await start(options)
  isBroken = false
  assert.equal((await canary(gateway)).status, 'stopped')
  assert.equal((await canary(gateway, 'resume')).share, 40)
  await eventually('it serves again', async () => (await served()).filter((model) => model === 'fresh').length > 20)
  assert.equal((await canary(gateway, 'promote')).share, 100)
  await eventually('it serves all', async () => (await served()).every((model) => model === 'fresh'))
  assert.equal((await canary(gateway, 'back')).share, 0)
  await eventually('it serves none', async () => (await served()).every((model) => model === 'usual'))
})
