/** The admin API of a real process: every row is called with its example, and with every kind of credentials. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { ROLES } from '../../src/server/admin/actor.ts'
import type { AdminRow } from '../../src/server/admin/row.ts'
import { TABLE } from '../../src/server/admin/table.ts'
import { type Started, start } from './support/process.ts'

const ADMIN = 'operator-token-0123456789'
const CLIENT = 'client-key-0123456789'

const ERROR = z.object({
  error: z.object({
    code: z.string(),
    message: z.string(),
    param: z.string().nullable(),
    errors: z.array(z.object({ path: z.string(), message: z.string() })).default([]),
  }),
})

const nameOf = ({ method, path }: AdminRow): string => `${method} ${path}`
const CREATED = z.looseObject({ id: z.string(), rev: z.int() })
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Calls rows with their examples. Each call of a row with an ID has a new object of the team `a`. */
class Caller {
  readonly #url: string
  /** All secrets that were shown. */
  readonly secrets: string[] = []
  #known: string | null = null
  #count = 0

  constructor({ url }: Started) {
    this.#url = `${url}/admin/api/v1`
  }

  async create(kind: string, body: object): Promise<z.infer<typeof CREATED>> {
    const { status, text } = await this.send('POST', `/${kind}`, bearer(ADMIN), body)
    assert.equal(status, 201, text)
    const made = CREATED.parse(JSON.parse(text))
    if (typeof made.secret === 'string') this.secrets.push(made.secret)
    return made
  }

  async send(method: string, path: string, headers: Readonly<Record<string, string>>, body?: unknown) {
    const type = typeof body === 'string' ? 'application/yaml' : 'application/json'
    const response = await fetch(this.#url + path, {
      method,
      headers: { ...(body !== undefined && { 'content-type': type }), ...headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const { status, headers: received } = response
    // A stream of events has no end.
    const isEndless = received.get('content-type')?.startsWith('text/event-stream') === true
    if (isEndless) await response.body?.cancel()
    return { status, headers: received, text: isEndless ? '' : await response.text() }
  }

  /** `ifMatch`: the condition for an object with this revision; null: none. */
  async call(
    row: AdminRow,
    headers: Readonly<Record<string, string>>,
    ifMatch: (rev: number) => string | null = (rev) => `"${rev}"`,
  ) {
    const { path, example, method, conditional } = row
    // A name that contains 429 is refused.
    const n = [...String(++this.#count)].join('-')
    const [, kind = ''] = path.split('/')
    const body = BODIES[nameOf(row)]?.(n) ?? example.body
    const target = path.includes('{id}') ? await this.#target(kind, n) : { id: '', rev: 0 }
    const query = new URLSearchParams(example.query).toString()
    const filled =
      path.replace('{id}', encodeURIComponent(target.id)).replace('{kid}', await this.#credential(path)) +
      (query === '' ? '' : `?${query}`)
    const condition = conditional ? ifMatch(target.rev) : null
    return this.send(method, filled, { ...(condition !== null && { 'if-match': condition }), ...headers }, body)
  }

  /** The fingerprint of the key of the demo provider. */
  async #credential(path: string): Promise<string> {
    if (!path.includes('{kid}')) return ''
    const { text } = await this.send('GET', '/providers/demo', bearer(ADMIN))
    return String(JSON.parse(text).keys[0].id)
  }

  /** A model call of the default team, in a session. */
  async #request(): Promise<{ readonly id: string; readonly session: string }> {
    const answer = await fetch(`${this.#url.replace('/admin/api', '')}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-headgate-session': 'one', ...bearer(CLIENT) },
      body: JSON.stringify({ model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }),
    })
    assert.equal(answer.status, 200, await answer.text())
    const id = answer.headers.get('x-request-id') ?? ''
    // The ledger stores it within a second, on a busy machine later.
    for (const end = performance.now() + 120_000; performance.now() < end; ) {
      const { status, text } = await this.send('GET', `/requests/${id}`, bearer(ADMIN))
      if (status === 200) return { id, session: String(JSON.parse(text).session) }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    return assert.fail(`the request ${id} was not stored`)
  }

  /** The session of all model calls, once it is stored. */
  async #session(): Promise<string> {
    this.#known ??= (await this.#request()).session
    return this.#known
  }

  /** The text that the gateway accepted at its start. */
  async #version(): Promise<string> {
    const { text } = await this.send('GET', '/config/history', bearer(ADMIN))
    const [version] = z.object({ data: z.array(z.object({ id: z.string() })).min(1) }).parse(JSON.parse(text)).data
    return version?.id ?? ''
  }

  async #target(kind: string, n: string) {
    if (kind === 'providers') return { id: 'demo', rev: 0 }
    if (kind === 'people') return { id: UNKNOWN_PERSON, rev: 1 }
    if (kind === 'config') return { id: await this.#version(), rev: 0 }
    if (kind === 'requests') return { id: (await this.#request()).id, rev: 0 }
    if (kind === 'sessions') return { id: await this.#session(), rev: 0 }
    const make = TARGETS[kind]
    return make ? this.create(kind, make(n)) : { id: 'demo', rev: 0 }
  }
}

/** People exist by sign-ins, which test/e2e/sign-in.test.ts makes: here their rows find none. */
const UNKNOWN_PERSON = 'usr_aaaaaaaaaaaa'
const isOfPerson = ({ path }: AdminRow): boolean =>
  path.startsWith('/people/{id}') || path.startsWith('/sign-ins/{id}') || path === '/claude/policies'
/** A route with a canary needs providers: test/e2e/canary.test.ts has one. */
const isOfCanary = ({ path, method }: AdminRow): boolean => path === '/canaries' && method === 'POST'
/** A drilled route needs one in the file: test/e2e/drill.test.ts has them. */
const isOfDrill = ({ path }: AdminRow): boolean => path === '/drill/{route}'
const successOf = (row: AdminRow): number =>
  isOfPerson(row) || isOfCanary(row) || isOfDrill(row) ? 404 : (row.status ?? 200)

/** Rows for those who have no credentials yet. */
const PUBLIC: ReadonlySet<string> = new Set(['POST /session', 'GET /sign-in'])

const TARGETS: { readonly [kind: string]: (n: string) => object } = {
  teams: (n) => ({ name: `team ${n}` }),
  keys: (n) => ({ name: `key ${n}`, team: 'a' }),
  // At most 16 budgets may count the same request.
  budgets: (n) => ({ name: `budget ${n}`, amount: '10', period: 'day', appliesTo: { models: [`model-${n}`] } }),
  prices: (n) => ({ provider: 'demo', model: `model-${n}`, prices: { input: 1 } }),
  routes: (n) => ({ name: `route-${n}`, team: 'a', spec: { targets: ['demo/echo'] } }),
  tokens: (n) => ({ name: `token ${n}`, bindings: [{ role: 'viewer' }] }),
}

/** Bodies that differ from the example: names are unique, and the token is that of the gateway. */
const BODIES: { readonly [name: string]: (n: string) => unknown } = {
  'POST /session': () => ({ token: ADMIN }),
  'POST /usage/reconcile': () => ({ provider: 'demo', invoice: 'day,model,amount\n2026-11-22,echo,1.84\n' }),
  'POST /what-if': () => ({ assume: { down: ['demo'] } }),
  'POST /routes/test': () => ({ team: 'a', spec: { targets: ['demo/echo'] } }),
  'PATCH /routes/{id}': () => ({ spec: { targets: ['demo/flaky'] } }),
  ...Object.fromEntries(Object.entries(TARGETS).map(([kind, make]) => [`POST /${kind}`, make])),
}

describe('the admin API', () => {
  let gateway: Started
  before(async () => {
    gateway = await start({
      env: { AUTH_ADMIN: ADMIN, AUTH_KEYS: CLIENT, BODIES_SAMPLE: '1', DRILL_SHAPES: 'true' },
      // A receiver and an issuer that no test needs: the port is closed.
      files: {
        'headgate.yaml': `
alerts: { url: "http://127.0.0.1:9/hook" }
auth: { jwt: [{ name: cluster, issuer: "http://127.0.0.1:9", audience: [headgate], team: { value: default } }] }
`,
      },
    })
  })
  after(() => gateway?.stop())

  const send = (path: string, init: RequestInit = {}) =>
    fetch(`${gateway.url}/admin/api/v1${path}`, { ...init, headers: { ...bearer(ADMIN), ...init.headers } })
  const errorOf = async (response: Response) => ERROR.parse(await response.json()).error

  let caller: Caller
  const tokens: Record<string, string> = {}
  before(async () => {
    caller = new Caller(gateway)
    const teams = await Promise.all(['a', 'b'].map((name) => caller.create('teams', { name })))
    const bindings = {
      ...Object.fromEntries(ROLES.map((role) => [role, { role, team: null }])),
      own: { role: 'admin', team: teams[0]?.id },
      other: { role: 'admin', team: teams[1]?.id },
    }
    for (const [name, binding] of Object.entries(bindings))
      tokens[name] = String((await caller.create('tokens', { name, bindings: [binding] })).secret)
  })

  for (const row of TABLE) {
    test(`${nameOf(row)}: answers its example by its schema`, async () => {
      const { status, headers, text } = await caller.call(row, bearer(ADMIN))
      assert.equal(status, successOf(row), text)
      assert.equal(headers.get('cache-control'), 'no-store')
      assert.doesNotMatch(text, new RegExp(`${ADMIN}|${CLIENT}`))
      const showsSecrets = /^POST \/(?:keys|tokens|keys\/\{id\}\/rotate)$/.test(nameOf(row))
      // The description contains examples of secrets.
      const secrets =
        row.path === '/openapi.json' ? [] : [...text.matchAll(/hg[ka]_[0-9A-Za-z]{38}/g)].map(([secret]) => secret)
      assert.equal(secrets.length, showsSecrets ? 1 : 0, text)
      caller.secrets.push(...secrets)
      if (row.answer instanceof z.ZodType && status !== 204 && status !== 404) row.answer.parse(JSON.parse(text))
    })

    test(`${nameOf(row)}: refuses a request without an admin's credentials`, async () => {
      if (PUBLIC.has(nameOf(row))) return
      for (const [headers, status, code] of [
        [{}, 401, 'invalid_api_key'],
        [{ cookie: 'headgate=no-such-session' }, 401, 'invalid_api_key'],
        [bearer(CLIENT), 403, 'forbidden'],
        [{ 'x-api-key': CLIENT }, 403, 'forbidden'],
      ] as const) {
        const answer = await caller.call(row, headers)
        assert.equal(answer.status, status, answer.text)
        assert.equal(JSON.parse(answer.text).error.code, code)
      }
    })

    if (row.conditional && !isOfPerson(row))
      test(`${nameOf(row)}: changes nothing without the revision that was read`, async () => {
        const conditions = [
          [() => null, 428, 'precondition_required'],
          [(rev: number) => `"${rev + 1}"`, 412, 'precondition_failed'],
          [(rev: number) => `"${rev - 1}"`, 412, 'precondition_failed'],
        ] as const
        for (const [ifMatch, status, code] of conditions) {
          const answer = await caller.call(row, bearer(ADMIN), ifMatch)
          assert.deepEqual([answer.status, JSON.parse(answer.text).error.code], [status, code], answer.text)
        }
      })

    test(`${nameOf(row)}: obeys the roles`, async () => {
      const success = successOf(row)
      for (const [at, role] of ROLES.entries()) {
        const may = row.role === null || ROLES.indexOf(row.role) <= at
        const { status, text } = await caller.call(row, bearer(tokens[role] ?? ''))
        assert.equal(status, may ? success : 403, `${role}: ${text}`)
      }
      const own = await caller.call(row, bearer(tokens.own ?? ''))
      const other = await caller.call(row, bearer(tokens.other ?? ''))
      if (row.role === null || row.scope === 'any') assert.deepEqual([own.status, other.status], [success, success])
      else if (row.scope === 'all') assert.deepEqual([own.status, other.status], [403, 403])
      else {
        // No role is bound to a new team or to the default one; budgets without teams concern all teams.
        const ownStatus = /^\/(?:teams|requests|sessions)\/\{/.test(row.path) ? 404 : success
        assert.equal(own.status, ownStatus, own.text)
        const isOfTeamA = /^\/(?:keys|routes|teams|requests|sessions)\/\{/.test(row.path)
        const expected = isOfTeamA ? 404 : /^POST \/(?:keys|routes|routes\/test)$/.test(nameOf(row)) ? 403 : success
        assert.equal(other.status, expected, other.text)
      }
    })
  }

  test('an export is compressed if the client accepts gzip, and has the same text', async () => {
    await caller.send('GET', '/usage', bearer(ADMIN))
    const path = `${gateway.url}/admin/api/v1/usage/export?format=jsonl&to=${new Date().toISOString()}`
    const plain = await fetch(path, { headers: { ...bearer(ADMIN), 'accept-encoding': 'identity' } })
    const zipped = await fetch(path, { headers: { ...bearer(ADMIN), 'accept-encoding': 'gzip' } })
    assert.equal(plain.headers.get('content-encoding'), null)
    assert.equal(zipped.headers.get('content-encoding'), 'gzip')
    const text = await plain.text()
    assert.ok(text.split('\n').length > 5, text)
    assert.equal(await zipped.text(), text)
  })

  test('shows each secret once, and stores none', async () => {
    assert.ok(caller.secrets.length > 10)
    const lists = await Promise.all(
      ['/keys?limit=200', '/tokens?limit=200', '/audit?limit=200', '/session'].map(async (path) =>
        (await send(path)).text(),
      ),
    )
    const stored = readdirSync(join(gateway.folder, '.headgate'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'latin1'))
    assert.ok(stored.length > 0)
    const everything = [...lists, ...stored, gateway.output()].join('\n')
    for (const secret of caller.secrets) assert.ok(!everything.includes(secret.slice(4, 30)), secret.slice(-4))
  })

  test('a change needs the revision that was read, and a second one is refused', async () => {
    const { id, rev } = await caller.create('teams', { name: 'changing' })
    const patch = (headers: Readonly<Record<string, string>>, query = '') =>
      caller.send('PATCH', `/teams/${id}${query}`, { ...bearer(ADMIN), ...headers }, { limits: { concurrent: 5 } })
    assert.equal((await patch({})).status, 428)
    assert.equal((await patch({ 'if-match': 'x' })).status, 412)
    const first = await patch({ 'if-match': `"${rev}"` })
    assert.equal(first.status, 200, first.text)
    assert.equal(first.headers.get('etag'), `"${rev + 1}"`)
    const lost = await patch({ 'if-match': `"${rev}"` })
    assert.equal(lost.status, 412)
    assert.equal(JSON.parse(lost.text).error.code, 'precondition_failed')
    assert.equal((await patch({}, '?force=true')).status, 200)
    assert.equal((await patch({ 'if-match': '*' })).status, 200)
  })

  test('a list that has not changed is not sent again', async () => {
    const path = '/teams?limit=1&q=unchanged'
    await caller.create('teams', { name: 'unchanged' })
    const first = await caller.send('GET', path, bearer(ADMIN))
    const etag = first.headers.get('etag') ?? ''
    assert.match(etag, /^"[\w-]{27}"$/)
    const same = await caller.send('GET', path, { ...bearer(ADMIN), 'if-none-match': `"x", W/${etag}` })
    assert.deepEqual([same.status, same.text, same.headers.get('etag')], [304, '', etag])
    await caller.create('teams', { name: 'unchanged too' })
    const other = await caller.send('GET', path, { ...bearer(ADMIN), 'if-none-match': etag })
    assert.equal(other.status, 200)
    assert.notEqual(other.headers.get('etag'), etag)
  })

  test('a repeated creation with one Idempotency-Key acts once, and shows no secret again', async () => {
    const create = (body: object) =>
      caller.send('POST', '/keys', { ...bearer(ADMIN), 'idempotency-key': 'create-once' }, body)
    const [first, second] = [await create({ name: 'once' }), await create({ name: 'once' })]
    assert.deepEqual([first.status, second.status], [201, 201])
    assert.equal(second.headers.get('x-headgate-idempotent'), 'stored')
    assert.equal(JSON.parse(second.text).id, JSON.parse(first.text).id)
    assert.equal(JSON.parse(second.text).secret, null)
    assert.equal((await create({ name: 'twice' })).status, 422)
    assert.equal((await create({ name: 'with space' })).status, 422)
    const bad = await caller.send('POST', '/keys', { ...bearer(ADMIN), 'idempotency-key': 'a b' }, { name: 'x' })
    assert.equal(bad.status, 400)
  })

  test('null takes a value away, and an omitted member stays', async () => {
    const { id } = await caller.create('keys', {
      name: 'limited',
      limits: { concurrent: 5, requestsPerMinute: 60 },
      tags: { app: 'x', stage: 'test' },
    })
    const patched = await caller.send('PATCH', `/keys/${id}?force=true`, bearer(ADMIN), {
      limits: { concurrent: null },
      tags: { app: null },
    })
    const { limits, tags } = JSON.parse(patched.text)
    assert.deepEqual(limits, { concurrent: null, requestsPerMinute: 60, tokensPerMinute: null })
    assert.deepEqual(tags, { stage: 'test' })
  })

  for (const [what, body, path] of [
    ['a name with control characters', { name: 'a\u0000b' }, 'name'],
    ['a role', { name: 'x', role: 'admin' }, 'role'],
    ['a list for a limit', { name: 'x', limits: { concurrent: [1] } }, 'limits.concurrent'],
    ['a huge limit', { name: 'x', limits: { concurrent: 1e300 } }, 'limits.concurrent'],
    ['a negative limit', { name: 'x', limits: { concurrent: -1 } }, 'limits.concurrent'],
    ['a short secret', { name: 'x', secret: 'abc' }, 'secret'],
    ['an unknown access dimension', { name: 'x', access: { model: [] } }, 'access.model'],
    ['denials only', { name: 'x', access: { models: ['!gpt'] } }, 'access.models'],
    ['a date without a time', { name: 'x', expires_at: '2026-12-01' }, 'expires_at'],
  ] as const)
    test(`a key with ${what} is refused with the path of the member`, async () => {
      const { status, text } = await caller.send('POST', '/keys', bearer(ADMIN), body)
      assert.equal(status, 400, text)
      const { errors } = ERROR.parse(JSON.parse(text)).error
      assert.deepEqual([...new Set(errors.map((error) => error.path))], [path])
    })

  let tagged = 0
  for (const name of ['<img src=x onerror=alert(1)>', "x'; DROP TABLE record; --", '=cmd()', '\u{1f600} \u05d0'])
    test(`the text ${JSON.stringify(name)} is refused as a name, and is data as a tag`, async () => {
      const refused = await caller.send('POST', '/keys', bearer(ADMIN), { name })
      assert.equal(ERROR.parse(JSON.parse(refused.text)).error.param, 'name')
      const { id } = await caller.create('keys', { name: `tagged ${++tagged}`, tags: { app: name } })
      const shown = await caller.send('GET', `/keys/${id}`, bearer(ADMIN))
      assert.equal(JSON.parse(shown.text).tags.app, name)
      assert.equal(shown.headers.get('content-type'), 'application/json')
      const found = await caller.send('GET', `/keys?tag=${encodeURIComponent(`app:${name}`)}`, bearer(ADMIN))
      assert.equal(JSON.parse(found.text).data.length, 1)
    })

  test('a search takes any text literally', async () => {
    for (const q of ["' OR 1=1 --", '%', '_', '\u0000', '"', '\\', 'x'.repeat(200)]) {
      const { status, text } = await caller.send('GET', `/keys?q=${encodeURIComponent(q)}`, bearer(ADMIN))
      assert.equal(status, 200, text)
      assert.deepEqual(JSON.parse(text).data, [], q)
    }
  })

  test('refuses a foreign web page and a foreign host, whatever the credentials', async () => {
    for (const headers of [{ origin: 'https://evil.example' }, { 'sec-fetch-site': 'cross-site' }]) {
      const response = await send('/system', { headers })
      assert.equal(response.status, 403)
      assert.equal((await errorOf(response)).code, 'origin_not_allowed')
    }
  })

  test('names the methods of a path, and answers HEAD and OPTIONS', async () => {
    const wrong = await send('/system', { method: 'DELETE' })
    assert.equal(wrong.status, 405)
    assert.equal(wrong.headers.get('allow'), 'GET, HEAD, OPTIONS')
    const head = await send('/system', { method: 'HEAD' })
    assert.equal(head.status, 200)
    assert.equal(await head.text(), '')
    const options = await send('/session', { method: 'OPTIONS' })
    assert.equal(options.status, 204)
    assert.equal(options.headers.get('allow'), 'GET, HEAD, POST, OPTIONS')
  })

  test('names the nearest path', async () => {
    const response = await send('/sytem')
    assert.equal(response.status, 404)
    assert.match((await errorOf(response)).message, /\/admin\/api\/v1\/system\?/)
    assert.equal((await send('/providers/%ff')).status, 400)
    assert.equal((await fetch(`${gateway.url}/admin/api/v10/system`, { headers: bearer(ADMIN) })).status, 404)
  })

  test('refuses unknown members and parameters with every problem listed', async () => {
    const parameters = await send('/models?limt=1&qq=x')
    assert.equal(parameters.status, 400)
    assert.deepEqual(
      (await errorOf(parameters)).errors.map(({ path }) => path),
      ['limt', 'qq'],
    )
    const body = await send('/explain', {
      method: 'POST',
      body: '{"request":{},"__proto__":{"role":"admin"}}',
      headers: { 'content-type': 'application/json' },
    })
    assert.equal(body.status, 400)
    assert.equal((await errorOf(body)).param, '__proto__')
  })

  test('a list of keys with a wrong name or action is refused with the nearest one', async () => {
    for (const [body, path, message] of [
      [{ action: 'block', id: ['key_x'] }, 'id', 'Unknown name. Did you mean "ids"?'],
      [{ action: 'blok', ids: ['key_x'] }, 'action', 'It must be one of block, unblock, revoke. Did you mean "block"?'],
      [{ action: 'block', filter: { stauts: ['active'] } }, 'filter.stauts', 'Unknown name. Did you mean "status"?'],
    ] as const) {
      const { status, text } = await caller.send('POST', '/keys/bulk', bearer(ADMIN), body)
      const { errors } = ERROR.parse(JSON.parse(text)).error
      assert.deepEqual([status, errors.find((error) => error.path === path)?.message], [400, message], text)
    }
  })

  test('takes JSON only, of a limited size', async () => {
    const form = await send('/explain', { method: 'POST', body: 'a=1', headers: { 'content-type': 'text/plain' } })
    assert.equal(form.status, 415)
    const broken = await send('/explain', {
      method: 'POST',
      body: '{',
      headers: { 'content-type': 'application/json' },
    })
    assert.equal((await errorOf(broken)).code, 'invalid_json')
    const large = await send('/config/check', { method: 'POST', body: 'x'.repeat(1_048_577) })
    assert.equal(large.status, 413)
  })

  test('a session gives access by its cookie, and writes with its CSRF value', async () => {
    const begun = await fetch(`${gateway.url}/admin/api/v1/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: new URL(gateway.url).origin },
      body: JSON.stringify({ token: ADMIN }),
    })
    assert.equal(begun.status, 201)
    const { csrf } = z.looseObject({ csrf: z.string() }).parse(await begun.json())
    const cookie = begun.headers.get('set-cookie')?.split(';')[0] ?? ''
    assert.match(cookie, /^headgate-[0-9]+=./)
    const session = (path: string, method = 'GET', headers: Readonly<Record<string, string>> = {}) =>
      fetch(`${gateway.url}/admin/api/v1${path}`, { method, headers: { cookie, ...headers } })
    assert.equal((await session('/system')).status, 200)
    assert.equal((await session('/system/reload', 'POST')).status, 403)
    assert.equal((await session('/system/reload', 'POST', { 'x-headgate-csrf': csrf })).status, 200)
    assert.equal((await session('/session/logout', 'POST', { 'x-headgate-csrf': csrf })).status, 200)
    assert.equal((await session('/system')).status, 401)
  })

  test('a check of a configuration shows no value of the environment', async () => {
    const [admin, client] = ['AUTH_ADMIN', 'AUTH_KEYS'].map((name) => `\${${name}}`)
    for (const text of [
      `circuit:\n  timeout: "${admin}"\n`,
      `providers:\n  east:\n    kind: openai-compatible\n    baseUrl: "https://${admin}.example/v1"\n    models: ["${client}"]\n`,
      `hosts: ["${admin}"]\nstrategy: "${client}"\n`,
      `strategy: "${'x'.repeat(40)}${admin}"\n`,
    ]) {
      const answer = await (await send('/config/check', { method: 'POST', body: text })).text()
      assert.match(answer, /"object":"config_check"/)
      assert.doesNotMatch(answer.toLowerCase(), /operator-token|client-key/)
    }
  })
  test('wrong tokens from one address are limited, and a correct admin token is not', async () => {
    let limited = 0
    for (let n = 0; n < 25; n++)
      if ((await send('/system', { headers: bearer(`wrong-${n}`) })).status === 429) limited++
    assert.ok(limited >= 4, String(limited))
    assert.equal((await send('/system', { headers: bearer(tokens.viewer ?? '') })).status, 200)
  })
})

test('a check compares what refers to variables with what runs', async () => {
  const text = (key: string) =>
    `providers:\n  east:\n    kind: openai-compatible\n    baseUrl: "https://\${EAST_HOST}/v1"\n    keys: ["${key}"]\n    models: [m]\n`
  const files = { 'headgate.yaml': text(`\${EAST_KEY}`) }
  const env = {
    AUTH_ADMIN: ADMIN,
    EAST_HOST: 'east.example',
    EAST_KEY: 'sk-east-0123456789',
    OTHER: 'sk-other-012345678',
  }
  await using gateway = await start({ env, files })
  const check = async (body: string) => {
    const url = `${gateway.url}/admin/api/v1/config/check`
    const answer = await fetch(url, { method: 'POST', headers: bearer(ADMIN), body })
    return z.looseObject({ ok: z.literal(true), changes: z.array(z.string()) }).parse(await answer.json()).changes
  }
  assert.deepEqual(await check(files['headgate.yaml']), [])
  assert.deepEqual(await check(text(`\${OTHER}`)), ['providers.east.keys'])
  // More than 16 budgets for one model are refused: whether the value of a variable has a prefix must not show.
  const budget = (name: string, model: string) =>
    `  ${name}: { amount: "1", period: day, appliesTo: { models: ["${model}"] } }\n`
  const guess = (prefix: string) =>
    `${files['headgate.yaml']}auth:\n  admin: "\${AUTH_ADMIN}"\nbudgets:\n${budget('one', `\${OTHER}`)}${Array.from({ length: 16 }, (_, at) => budget(`b${'x'.repeat(at)}`, `${prefix}*`)).join('')}`
  assert.deepEqual(await check(guess('sk-other')), await check(guess('sk-never')))
})

test('behind a trusted proxy, each client has its own attempts, and the audit log has its address', async () => {
  await using gateway = await start({ env: { AUTH_ADMIN: ADMIN, TRUSTED_PROXIES: '127.0.0.1' } })
  const send = (path: string, client: string, token: string, body?: object) =>
    fetch(`${gateway.url}/admin/api/v1${path}`, {
      headers: { ...bearer(token), 'content-type': 'application/json', 'x-forwarded-for': client },
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
    })
  let status = 0
  for (let n = 0; n < 1_000 && status !== 429; n++) ({ status } = await send('/system', '203.0.113.7', `wrong-${n}`))
  assert.equal(status, 429)
  assert.equal((await send('/teams', '2001:db8::1:2', ADMIN, { name: 'search' })).status, 201)
  const log = await (await send('/audit', '2001:db8::1:2', ADMIN)).json()
  const { data } = z.object({ data: z.array(z.looseObject({ from: z.string() })) }).parse(log)
  assert.deepEqual(
    data.map(({ from }) => from),
    ['2001:db8::1:2'],
  )
})

test('without a token, only this machine has access, and only outside production', async () => {
  await using gateway = await start()
  const status = async (headers: Readonly<Record<string, string>> = {}) =>
    (await fetch(`${gateway.url}/admin/api/v1/system`, { headers })).status
  assert.equal(await status(), 200)
  assert.equal(await status({ 'x-forwarded-for': '203.0.113.7' }), 401)
  assert.equal(await status({ origin: 'https://evil.example' }), 403)
  await using production = await start({ env: { NODE_ENV: 'production', HOST: '127.0.0.1', AUTH_KEYS: CLIENT } })
  for (const path of ['/admin/api/v1/system', '/metrics', '/providers/status'])
    assert.equal((await fetch(production.url + path)).status, 401, path)
})

test('a disabled key of a provider is skipped, with its reason, also after a restart, until it is enabled', async () => {
  const dataFolder = await mkdtemp(join(tmpdir(), 'headgate-disabled-'))
  try {
    const settings = { env: { DATA_DIR: dataFolder } }
    const given = (gateway: Started) => {
      const send = async (path: string, body?: object) => {
        const answer = await fetch(gateway.url + path, {
          headers: { 'content-type': 'application/json' },
          ...(body && { method: 'POST', body: JSON.stringify(body) }),
        })
        return { status: answer.status, text: await answer.text() }
      }
      const question = { model: 'demo/echo', messages: [{ role: 'user', content: 'Hello' }] }
      const calls = async () => (await send('/v1/chat/completions', question)).status
      const becomes = async (status: number) => {
        for (const end = performance.now() + 120_000; performance.now() < end; ) {
          if ((await calls()) === status) return
          await new Promise((resolve) => setTimeout(resolve, 50))
        }
        assert.fail(`calls do not have the status ${status}`)
      }
      return { send, question, calls, becomes }
    }
    let path = ''
    {
      await using gateway = await start(settings)
      const { send, question, becomes } = given(gateway)
      await becomes(200)
      const { keys } = JSON.parse((await send('/admin/api/v1/providers/demo')).text)
      path = `/admin/api/v1/providers/demo/keys/${keys[0].id}`
      assert.equal((await send(`${path}/disable`, { reason: 'x', until: '2020-01-01T00:00:00Z' })).status, 400)
      assert.equal((await send(`${path}0000/disable`, { reason: 'x' })).status, 404)
      assert.equal((await send(`${path}/disable`, { reason: 'The key leaked' })).status, 200)
      await becomes(502)
      const shown = JSON.parse((await send('/admin/api/v1/providers/demo')).text)
      assert.deepEqual(
        [shown.status, shown.keys[0].status, shown.keys[0].reason],
        ['unavailable', 'disabled', 'The key leaked'],
      )
      const plan = await send('/v1/route', question)
      assert.match(plan.text, /"because":"disabled","until":null/)
      assert.doesNotMatch(plan.text, /leaked/)
      const shownToOperators = await send('/admin/api/v1/explain', { request: question, style: 'chat' })
      assert.match(shownToOperators.text, /"because":"disabled","until":null,"reason":"The key leaked"/)
    }
    await using again = await start(settings)
    const { send, calls, becomes } = given(again)
    assert.equal(await calls(), 502)
    assert.equal((await send(`${path}/enable`, {})).status, 200)
    await becomes(200)
  } finally {
    await rm(dataFolder, { recursive: true, force: true })
  }
})
