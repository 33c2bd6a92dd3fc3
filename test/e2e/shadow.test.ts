/** The shadow of a route in a running gateway: copies after the answer, their own account, their limits, and what is shown of them. */
import assert from 'node:assert/strict'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { answerWith, failWith } from '../support/answers.ts'
import { type Act, startUpstream, type UpstreamRequest } from '../support/upstream.ts'
import { type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'hg-admin-token-of-this-test-0123'
const PRICE = '{ provider: "*", model: "*", perMillion: { input: 1, output: 10 } }'

type Given = {
  readonly shadow?: string
  /** Further members of the route. */
  readonly route?: string
  readonly more?: string
  readonly prices?: string
  readonly env?: Readonly<Record<string, string>>
  readonly script?: (call: UpstreamRequest) => Act | undefined
}

const SHADOW = 'shadow: { to: other/fresh, percent: 100, budget: "5.00"'

const fileWith = (url: string, route: string, { more = '', prices = PRICE }: Pick<Given, 'more' | 'prices'> = {}) => `
providers:
  house: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [k], models: [usual], facts: { region: eu } }
  other: { kind: openai-compatible, baseUrl: "${url}/v1", keys: [o], models: [fresh], facts: { region: us } }
fallback: none
prices: [ ${prices} ]
routes:
  fast: { targets: [ house/usual ] ${route} }
auth: { admin: ${ADMIN}, required: false }
${more}
`

const given = async (context: TestContext, { shadow = '', route = '', env = {}, script, ...rest }: Given) => {
  const upstream = await startUpstream(
    (call) => script?.(call) ?? answerWith(call, { text: call.json.model === 'fresh' ? 'a longer hello' : 'hello' }),
  )
  context.after(() => upstream.close())
  const file = fileWith(upstream.url, `, ${SHADOW} ${shadow} } ${route}`, rest)
  const gateway = await start({ env, files: { 'headgate.yaml': file } })
  context.after(() => gateway[Symbol.asyncDispose]())
  const copies = () => upstream.requests.filter(({ json }) => json.model === 'fresh')
  return { upstream, gateway, copies }
}

const post = (gateway: Started, path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })

const chat = (more: object = {}) => ({ model: 'fast', messages: [{ role: 'user', content: 'hi' }], ...more })

const admin = async (gateway: Started, path: string) => {
  const response = await fetch(`${gateway.url}/admin/api/v1${path}`, { headers: { authorization: `Bearer ${ADMIN}` } })
  const text = await response.text()
  assert.equal(response.status, 200, text)
  return JSON.parse(text)
}

const shown = async (gateway: Started) => (await admin(gateway, '/shadows')).data[0]

/** Until `check` holds of the shadow. */
const eventually = async (gateway: Started, check: (shadow: Awaited<ReturnType<typeof shown>>) => boolean) => {
  for (const end = performance.now() + 10_000; ; await new Promise((done) => setTimeout(done, 50))) {
    const shadow = await shown(gateway)
    if (check(shadow)) return shadow
    assert.ok(performance.now() < end, JSON.stringify(shadow))
  }
}

const reasons = (shadow: { left_out: readonly { reason: string; count: number }[] }) =>
  Object.fromEntries(shadow.left_out.map(({ reason, count }) => [reason, count]))

test('shadow: each style is copied after its answer, whole and streamed, and compared', async (context) => {
  const { gateway, copies } = await given(context, {})
  const calls = [
    ['/v1/chat/completions', chat()],
    ['/v1/chat/completions', chat({ stream: true })],
    ['/v1/messages', { ...chat(), max_tokens: 100 }],
    ['/v1/messages', { ...chat(), max_tokens: 100, stream: true }],
    ['/v1/responses', { model: 'fast', input: 'hi' }],
    ['/v1/responses', { model: 'fast', input: 'hi', stream: true }],
    ['/v1beta/models/fast:generateContent', { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] }],
  ] as const
  for (const [at, [path, body]] of calls.entries()) {
    const response = await post(gateway, path, body)
    const text = await response.text()
    assert.equal(response.status, 200, text)
    assert.ok(text.includes('hello') && !text.includes('longer'), text)
    assert.equal(response.headers.get('x-headgate-attempts'), '1')
    await eventually(gateway, ({ answered }) => answered === at + 1)
  }
  assert.equal(copies().length, calls.length)
  assert.ok(copies().every(({ key }) => key === 'o'))
  const { sent, failed, same_finish, same_tools, priced, client, shadow, recent } = await shown(gateway)
  assert.deepEqual([sent, failed, same_finish, same_tools, priced], [7, 0, 7, 7, 7])
  assert.deepEqual([client.characters, shadow.characters], [5, 14])
  assert.equal(recent[0].shadow.model, 'fresh')
  assert.equal(recent[0].client.model, 'usual')
})

test('shadow: a slow target delays neither its client nor the next request of the connection', async (context) => {
  const { gateway } = await given(context, {
    script: (call) => (call.json.model === 'fresh' ? { do: 'hang' } : undefined),
  })
  // Node's fetch keeps the connection, so each request follows the other on it.
  for (let at = 0; at < 30; at++) {
    const began = performance.now()
    assert.equal(
      (await (await post(gateway, '/v1/chat/completions', chat({ stream: at % 2 === 0 }))).text()).length > 0,
      true,
    )
    assert.ok(performance.now() - began < 2_000, `request ${at}`)
  }
  const shadow = await shown(gateway)
  assert.deepEqual([shadow.sent, shadow.waiting], [0, 20])
  await gateway.stop()
  assert.match(gateway.output(), /stopped/)
})

test('shadow: failures of the target touch no circuit of clients, and open one of copies', async (context) => {
  const { gateway, copies } = await given(context, {
    more: 'circuit: { consecutiveFailures: 3 }',
    script: (call) =>
      call.json.model === 'fresh' && call.key === 'o' && JSON.stringify(call.json).includes('hi')
        ? failWith(call, 500, { type: 'server_error', message: 'broken' })
        : undefined,
  })
  for (let at = 0; at < 12; at++) {
    const response = await post(gateway, '/v1/chat/completions', chat())
    assert.equal(response.status, 200)
    await response.text()
    await eventually(gateway, ({ failed, left_out }) => failed + (left_out[0]?.count ?? 0) === at + 1)
  }
  const shadow = await shown(gateway)
  // One attempt for each copy, and none while the circuit of copies is open.
  assert.ok(shadow.failed >= 3 && shadow.failed < 12, JSON.stringify(shadow))
  assert.equal(copies().length, shadow.failed)
  assert.deepEqual(Object.keys(reasons(shadow)), ['unavailable'])
  assert.equal(shadow.recent[0].shadow.status >= 500, true)
  // A client of the same target is served by it at once.
  const own = await post(gateway, '/v1/chat/completions', {
    model: 'other/fresh',
    messages: [{ role: 'user', content: 'a question' }],
  })
  assert.equal(own.status, 200)
  assert.equal(own.headers.get('x-headgate-attempts'), '1')
  const { data } = await admin(gateway, '/providers')
  assert.ok(!JSON.stringify(data).includes('"open"'), JSON.stringify(data))
})

test('shadow: copies are rows of their own with their cost, for the team shadow and its budget', async (context) => {
  const { gateway, copies } = await given(context, { shadow: '' })
  const first = await post(gateway, '/v1/chat/completions', chat(), { 'x-request-id': 'mine-1' })
  assert.equal(first.headers.get('x-request-id'), 'mine-1')
  await first.text()
  const { recent } = await eventually(gateway, ({ answered }) => answered === 1)
  const [pair] = recent
  let row: Record<string, unknown> = {}
  for (const end = performance.now() + 10_000; row.outcome !== 'answered'; ) {
    const { data } = await admin(gateway, `/requests?request_id=${pair.id}`)
    row = data.find(({ id }: { id: string }) => id === pair.copy) ?? {}
    assert.ok(performance.now() < end, JSON.stringify(data))
    await new Promise((done) => setTimeout(done, 100))
  }
  assert.deepEqual([row.style, row.client_request_id, row.provider, row.model], ['shadow', pair.id, 'other', 'fresh'])
  assert.equal((row.team as { name: string }).name, 'shadow')
  assert.equal(row.cost, pair.shadow.cost)
  assert.ok(Number(pair.shadow.cost) > 0)
  const { data: own } = await admin(gateway, `/requests?request_id=mine-1`)
  assert.deepEqual(
    own.map(({ style, attempts }: { style: string; attempts: unknown[] }) => [style, attempts.length]),
    [['chat', 1]],
  )
  const { data: budgets } = await admin(gateway, '/budgets')
  const budget = budgets.find(({ name }: { name: string }) => name === 'shadow fast')
  assert.deepEqual([budget.amount, budget.period, budget.managed], ['5.000000000', 'day', 'file'])
  assert.equal(budget.now.spent, pair.shadow.cost)
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
  assert.match(metrics, /headgate_shadow_copies_total\{route="fast",result="answered"\} 1\n/)
  assert.match(metrics, /headgate_requests_total\{style="chat"[^\n]* 1\n/)
  assert.doesNotMatch(metrics, /style="shadow"/)
  assert.equal(copies().length, 1)
  const lines = await verb(['routes', 'shadow', 'fast'], { cwd: gateway.folder, env: {} })
  assert.deepEqual([lines.code, lines.stderr], [0, ''])
  assert.match(lines.stdout, /^fast {2}other\/fresh {2}100 % of the sessions\n1 copies: 1 answered, 0 failed\n/)
})

test('shadow: the budget of a day and an unknown cost end the copies, not the requests', async (context) => {
  const spent = await given(context, {
    shadow: ', perMinute: 100000',
    prices: '{ provider: "*", model: "*", perMillion: { input: 1, output: 100000 } }',
  })
  const send = async (gateway: Started) => {
    const response = await post(gateway, '/v1/chat/completions', chat({ max_tokens: 20 }))
    await response.text()
    assert.equal(response.status, 200)
  }
  for (let at = 0; at < 12; at++) {
    await send(spent.gateway)
    await eventually(spent.gateway, ({ sent, left_out }) => sent + (left_out[0]?.count ?? 0) === at + 1)
  }
  const shadow = await shown(spent.gateway)
  assert.deepEqual(Object.keys(reasons(shadow)), ['budget'])
  assert.ok(shadow.sent >= 1 && Number(shadow.shadow.cost) <= 5 + 5, JSON.stringify(shadow.shadow))
  assert.equal(spent.copies().length, shadow.sent)

  const unknown = await given(context, {
    prices: '{ provider: house, model: "*", perMillion: { input: 1, output: 10 } }',
  })
  for (let at = 0; at < 3; at++) await send(unknown.gateway)
  await eventually(unknown.gateway, (found) => reasons(found).unpriced === 3)
  assert.equal(unknown.copies().length, 0)
})

test('shadow: what is never copied', async (context) => {
  const { gateway, copies } = await given(context, { shadow: ', perMinute: 4' })
  const send = async (path: string, body: object, headers = {}) => {
    const response = await post(gateway, path, body, headers)
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }
  await send('/v1/chat/completions', chat({ store: true }))
  await send('/v1/chat/completions', chat({ n: 2 }))
  await send('/v1/chat/completions', {
    model: 'fast',
    messages: [{ role: 'user', content: 'x'.repeat(1_100_000) }],
  })
  const { id } = await send('/v1/responses', { model: 'fast', input: 'hi' })
  await send('/v1/responses', { model: 'fast', input: 'again', previous_response_id: id })
  const shadow = await eventually(gateway, (found) => found.answered === 1)
  assert.deepEqual(reasons(shadow), { effects: 2, large: 1, stored: 1 })
  for (let at = 0; at < 5; at++) await send('/v1/chat/completions', chat())
  assert.deepEqual(reasons(await eventually(gateway, (found) => found.answered === 4)), {
    ...{ effects: 2, large: 1, stored: 1, rate: 2 },
  })
  assert.equal(copies().length, 4)
  // The answer of the copy is not stored at the provider, whatever the default of its format is.
  assert.ok(copies().every(({ json }) => json.store !== true))
})

test('shadow: access and data policy of the client hold, and its headers stay with the gateway', async (context) => {
  const { gateway, copies } = await given(context, {
    more: `
keys:
  narrow: { secret: hg-narrow-key-0123456789abcdef, access: { providers: [ house ] } }
  open: { secret: hg-open-key-0123456789abcdefgh }
`,
  })
  for (const key of ['narrow', 'open'] as const) {
    const value = key === 'narrow' ? 'hg-narrow-key-0123456789abcdef' : 'hg-open-key-0123456789abcdefgh'
    const response = await post(gateway, '/v1/chat/completions', chat(), {
      authorization: `Bearer ${value}`,
      'openai-organization': 'org-of-the-client',
      'x-secret': 'secret-of-the-client',
    })
    assert.equal(response.status, 200, await response.text())
  }
  const shadow = await eventually(gateway, (found) => found.answered === 1)
  assert.deepEqual(reasons(shadow), { forbidden: 1 })
  assert.equal(copies().length, 1)
  assert.doesNotMatch(JSON.stringify(copies()[0]?.headers), /of-the-client|hg-open/)
})

test('shadow: a request that may not go to the target is not copied, by its own requirement or that of the route', async (context) => {
  const required = { 'x-headgate-require': 'region=eu' }
  const { gateway, copies } = await given(context, {})
  for (const headers of [required, { 'x-headgate-require': 'region=eu,us' }]) {
    const response = await post(gateway, '/v1/chat/completions', chat(), headers)
    assert.equal(response.status, 200, await response.text())
  }
  const found = await eventually(gateway, ({ answered, left_out }) => answered + left_out.length === 2)
  assert.deepEqual([found.answered, reasons(found)], [1, { forbidden: 1 }])
  assert.equal(copies().length, 1)

  const byRoute = await given(context, { route: ', require: { region: [ eu ] }' })
  const response = await post(byRoute.gateway, '/v1/chat/completions', chat())
  assert.equal(response.status, 200, await response.text())
  await eventually(byRoute.gateway, (shadow) => reasons(shadow).forbidden === 1)
  assert.equal(byRoute.copies().length, 0)
})

test('shadow: the copy has the masks of guards', async (context) => {
  const { gateway, upstream, copies } = await given(context, {
    more: 'guards: { pii: { on: [ request, answer ], find: [ email ], action: mask } }',
  })
  for (const stream of [false, true]) {
    const messages = [{ role: 'user', content: 'Write to ann@example.com' }]
    const response = await post(gateway, '/v1/chat/completions', { model: 'fast', messages, stream })
    assert.equal(response.status, 200, await response.text())
  }
  await eventually(gateway, ({ answered }) => answered === 2)
  assert.equal(copies().length, 2)
  for (const { json } of copies()) assert.match(JSON.stringify(json.messages), /"Write to \[EMAIL_[A-Z0-9]+\]"/)
  assert.doesNotMatch(JSON.stringify(upstream.requests.map(({ json }) => json)), /ann@example/)
})

test('shadow: the counts of several workers are joined', async (context) => {
  const { gateway, copies } = await given(context, { env: { WORKERS: '2' } })
  for (let at = 0; at < 24; at++) {
    // Each request has a connection of its own, so that both workers receive some.
    const response = await post(gateway, '/v1/chat/completions', chat(), { connection: 'close' })
    assert.equal(response.status, 200, await response.text())
  }
  await eventually(gateway, ({ answered }) => answered === 24)
  assert.equal(copies().length, 24)
  // Whichever worker answers.
  for (let at = 0; at < 10; at++) {
    const response = await fetch(`${gateway.url}/admin/api/v1/shadows`, {
      headers: { authorization: `Bearer ${ADMIN}`, connection: 'close' },
    })
    const { data, processes } = (await response.json()) as {
      readonly data: readonly { readonly sent: number; readonly priced: number; readonly recent: readonly unknown[] }[]
      readonly processes: object
    }
    assert.deepEqual(processes, { answered: 2, of: 2 })
    assert.deepEqual(
      data.map(({ sent, priced, recent }) => [sent, priced, recent.length]),
      [[24, 24, 20]],
    )
  }
})

test('shadow: a reload adds a shadow with its budget, and takes it away', async (context) => {
  const upstream = await startUpstream((call) => answerWith(call, { text: 'hello' }))
  context.after(() => upstream.close())
  const gateway = await start({ files: { 'headgate.yaml': fileWith(upstream.url, '') } })
  context.after(() => gateway[Symbol.asyncDispose]())
  const copies = () => upstream.requests.filter(({ json }) => json.model === 'fresh').length
  const ask = async () => {
    const response = await post(gateway, '/v1/chat/completions', chat())
    assert.equal(response.status, 200, await response.text())
  }
  const write = async (route: string) => {
    const file = join(gateway.folder, 'headgate.yaml')
    await writeFile(`${file}.new`, fileWith(upstream.url, route))
    await rename(`${file}.new`, file)
  }
  const budgets = async () => (await admin(gateway, '/budgets')).data.map(({ name }: { name: string }) => name)
  await ask()
  assert.deepEqual([await shown(gateway), await budgets()], [undefined, []])

  await write(`, ${SHADOW} }`)
  await eventually(gateway, (shadow) => shadow !== undefined)
  await ask()
  await eventually(gateway, ({ answered }) => answered === 1)
  assert.deepEqual([copies(), await budgets()], [1, ['shadow fast']])

  await write('')
  await eventually(gateway, (shadow) => shadow === undefined)
  await ask()
  assert.deepEqual(await budgets(), [])
  await gateway.stop()
  assert.equal(copies(), 1)
})

test('shadow: explain names it and why a request has no copy, for operators alone', async (context) => {
  const { gateway } = await given(context, {
    more: 'keys: { narrow: { secret: hg-narrow-key-0123456789abcdef, access: { providers: [ house ] } } }',
  })
  const explain = async (path: string, body: object) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${ADMIN}` },
      body: JSON.stringify(body),
    })
    const text = await response.text()
    assert.equal(response.status, 200, text)
    return JSON.parse(text)
  }
  const of = async (more: object, as?: string) =>
    (await explain('/admin/api/v1/explain', { request: chat(more), ...(as !== undefined && { as }) })).shadow
  const shadow = { provider: 'other', model: 'fresh', percent: 100 }
  assert.deepEqual(await of({}), { ...shadow, left_out: null })
  assert.deepEqual(await of({ store: true }), { ...shadow, left_out: 'effects' })
  const [key] = (await admin(gateway, '/keys')).data
  assert.deepEqual(await of({}, key.id), { ...shadow, left_out: 'forbidden' })
  assert.equal(await of({ model: 'house/usual' }), undefined)
  const own = await post(gateway, '/v1/route', chat())
  assert.doesNotMatch(await own.text(), /shadow/)
  const { stdout, stderr } = await verb(['explain', '-m', 'fast', '--as', 'narrow'], { cwd: gateway.folder, env: {} })
  const line = /^shadow other\/fresh, 100 % of the sessions; no copy of this request: the access or the data policy /m
  assert.match(stdout, line, stderr)
})
