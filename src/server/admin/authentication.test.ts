import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { NO_ACCOUNTS } from '../../core/accounts.ts'
import { good } from '../../core/failure.ts'
import { settingsSchema } from '../../core/settings.ts'
import { ControlDatabase } from '../../records/store/control-database.ts'
import { SESSION_AGE } from '../../records/store/logins.ts'
import type { ControlOperation } from '../../records/store/record-operations.ts'
import { refused } from '../../records/store/results.ts'
import type { AdminRequest } from '../admin-request.ts'
import { FailedAttempts } from '../failed-attempts.ts'
import { type AdminActor, hasRole, teamsOf } from './actor.ts'
import { Authentication } from './authentication.ts'
import { Sessions } from './sessions.ts'

const ADMIN = 'operator-secret'
const LONG = 'operator-secret-of-many-characters'
const TOKEN = 'hga_token'
const tokenActor: AdminActor = {
  kind: 'token',
  id: 'adm_abcdefghijkl',
  name: 'ci',
  bindings: [{ role: 'viewer', team: 'team_a' }],
}

const folder = mkdtempSync(join(tmpdir(), 'headgate-sessions-'))
after(() => rmSync(folder, { recursive: true, force: true }))

let folders = 0
/** A process. `path`: the folder of its database; several processes may have the same. */
const given = async ({ production = false, path = join(folder, String(folders++)) } = {}) => {
  const state = { now: 1_700_000_000_000, current: true, fails: false, isStored: true }
  const database = await ControlDatabase.open(
    { folder: path, database: null },
    { pepper: null, configured: [], auditDays: 365, file: NO_ACCOUNTS },
  )
  after(() => database.close())
  const operations: ControlOperation[] = []
  const sessions = new Sessions({
    now: () => state.now,
    rules: () => null,
    isStored: () => state.isStored,
    run: async (operation, context) => {
      operations.push(operation)
      return state.fails ? refused(503, 'control_unavailable', 'no disk') : database.run(operation, context, state.now)
    },
  })
  const authentication = new Authentication({
    now: () => state.now,
    production,
    sessions,
    tokens: {
      actorOf: (token) => (token === TOKEN ? tokenActor : undefined),
      current: (actor) => (state.current ? actor : undefined),
    },
  })
  return { state, authentication, path, operations }
}

const requestWith = (
  headers: Readonly<Record<string, string>> = {},
  more: Partial<AdminRequest> & { readonly admin?: string | undefined } = {},
): AdminRequest => {
  const { admin, ...rest } = more
  return {
    id: 'req_x',
    method: 'GET',
    path: '/admin/api/v1/session',
    query: '',
    headers: (name) => headers[name],
    hosts: ['localhost:3000'],
    local: true,
    address: '203.0.113.7',
    settings: settingsSchema.parse(admin === undefined ? {} : { auth: { admin } }),
    accessPolicy: {
      loopback: false,
      keyed: false,
      port: 3000,
      hosts: [],
      origins: ['https://app.example'],
      exposed: '',
    },
    isClientKey: (key) => key === 'client-key',
    failed: new FailedAttempts(Date.now),
    readBody: () => Promise.resolve(good('')),
    beginCall: () => null,
    refuse: () => assert.fail('the request was refused'),
    ...rest,
  }
}

const outcome = async (authentication: Authentication, request: AdminRequest): Promise<string> => {
  const found = await authentication.authenticate(request)
  return found.ok ? found.value.actor.kind : found.failure.kind
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

describe('without credentials', () => {
  for (const [what, expected, headers, more, options] of [
    ['a local request', 'local', {}, {}, {}],
    ['a request of another machine', 'unauthenticated', {}, { local: false }, {}],
    ['a local request where a token is configured', 'unauthenticated', {}, { admin: ADMIN }, {}],
    ['a local request in production', 'unauthenticated', {}, {}, { production: true }],
    ['a foreign name in Host', 'unauthenticated', {}, { hosts: ['evil.example'] }, {}],
    ['a page of another origin', 'unauthenticated', { origin: 'https://evil.example' }, {}, {}],
    ['a page that may call models', 'unauthenticated', { origin: 'https://app.example' }, {}, {}],
    ['a cross-site request', 'unauthenticated', { 'sec-fetch-site': 'cross-site' }, {}, {}],
    ['a page of the gateway itself', 'local', { origin: 'http://localhost:3000' }, {}, {}],
  ] as const)
    test(`${what}: ${expected}`, async () => {
      const { authentication } = await given(options)
      assert.equal(await outcome(authentication, requestWith(headers, more)), expected)
    })
})

describe('a presented token', () => {
  for (const [what, token, expected] of [
    ['of the configuration', ADMIN, 'bootstrap'],
    ['of the database', TOKEN, 'token'],
    ['of a client', 'client-key', 'forbidden'],
    ['that is unknown', 'x', 'unauthenticated'],
  ] as const)
    test(`${what}: ${expected}`, async () => {
      const { authentication } = await given()
      assert.equal(await outcome(authentication, requestWith(bearer(token), { admin: ADMIN })), expected)
    })

  test('beside the credential of a sign-in in front of the gateway', async () => {
    const { authentication } = await given()
    for (const [key, expected] of [
      [ADMIN, 'bootstrap'],
      [TOKEN, 'token'],
      ['client-key', 'forbidden'],
    ] as const) {
      const headers = { ...bearer('eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl'), 'x-api-key': key }
      assert.equal(await outcome(authentication, requestWith(headers, { admin: ADMIN })), expected)
    }
  })

  test('that is wrong is refused where none would be needed', async () => {
    const { authentication } = await given()
    assert.equal(await outcome(authentication, requestWith(bearer('x'))), 'unauthenticated')
  })

  test('that is wrong twenty times locks guesses from this address for a while, and never a token that is long', async () => {
    const { authentication, state } = await given()
    const failed = new FailedAttempts(() => state.now)
    const of = (token: string, admin: string, address = '203.0.113.7') =>
      outcome(authentication, requestWith(bearer(token), { admin, failed, address }))
    for (let n = 0; n < 20; n++) assert.equal(await of('x', ADMIN), 'unauthenticated')
    assert.equal(await of('x', ADMIN), 'too_many_attempts')
    // A short token could be found by guessing: it is not even compared, unless this address has used it before.
    assert.equal(await of(ADMIN, ADMIN), 'too_many_attempts')
    assert.equal(await of('client-key', ADMIN), 'too_many_attempts')
    assert.equal(await of(TOKEN, ADMIN), 'token')
    assert.equal(await of(LONG, LONG), 'bootstrap')
    assert.equal(await of(ADMIN, ADMIN, '203.0.113.8'), 'bootstrap')
    state.now += 3_001
    assert.equal(await of(ADMIN, ADMIN), 'bootstrap')
    for (let n = 0; n < 20; n++) await of('x', ADMIN)
    assert.equal(await of('x', ADMIN), 'too_many_attempts')
    assert.equal(await of(ADMIN, ADMIN), 'bootstrap')
  })
})

describe('a session', () => {
  const cookieOf = (cookie: string) => cookie.split(';')[0] ?? ''
  const begun = async ({ secure = false, path = '', fails = false } = {}) => {
    const made = await given(path === '' ? {} : { path })
    made.state.fails = fails
    const headers = secure ? { origin: 'https://gate.example' } : {}
    const place = { admin: ADMIN, ...(secure && { hosts: ['gate.example'], local: false }) }
    const request = requestWith(headers, place)
    const found = await made.authentication.begin(ADMIN, request)
    assert.ok(found.ok)
    const { cookie, session } = found.value
    const requestOf = (method: string, more: Readonly<Record<string, string>> = {}) =>
      requestWith({ ...headers, cookie: `other=1; ${cookieOf(cookie)}`, ...more }, { ...place, method })
    const call = (method: string, more: Readonly<Record<string, string>> = {}) =>
      outcome(made.authentication, requestOf(method, more))
    return { ...made, cookie, session, call, requestOf }
  }

  test('has a host-bound cookie over https', async () => {
    const { cookie, call } = await begun({ secure: true })
    assert.match(cookie, /^__Host-headgate=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure$/)
    assert.equal(await call('GET'), 'bootstrap')
  })
  test('has a plain cookie on a loopback address', async () => {
    const { cookie, call } = await begun()
    assert.match(cookie, /^headgate-3000=[\w-]{43}; HttpOnly; SameSite=Lax$/)
    assert.equal(await call('GET'), 'bootstrap')
  })
  test('has a cookie of its own for each port of a loopback host', async () => {
    const { authentication } = await given()
    for (const [host, name] of [
      ['localhost:4000', 'headgate-4000'],
      ['127.0.0.1', 'headgate-80'],
      ['[::1]', 'headgate-80'],
      ['[::1]:3000', 'headgate-3000'],
    ] as const) {
      const found = await authentication.begin(ADMIN, requestWith({}, { admin: ADMIN, hosts: [host] }))
      assert.ok(found.ok && found.value.cookie.startsWith(`${name}=`), host)
    }
  })
  test('is not created over plain http from another machine', async () => {
    const { authentication } = await given()
    for (const [origin, host] of [
      ['http://10.0.0.5:3000', '10.0.0.5:3000'],
      ['http://gate.example', 'gate.example'],
      // Through a proxy that replaces `Host`.
      ['http://gate.example', '127.0.0.1:3000'],
      ['http://localhost.gate.example', 'localhost:3000'],
      ['null', 'localhost:3000'],
    ] as const) {
      const elsewhere = requestWith({ origin }, { admin: ADMIN, hosts: [host], local: false })
      const found = await authentication.begin(ADMIN, elsewhere)
      assert.ok(!found.ok && found.failure.kind === 'invalid_request', `${origin} ${host}`)
    }
  })
  test('is created for a browser that calls its own machine, also where the peer is the bridge of a container', async () => {
    const { authentication } = await given({ production: true })
    const more = { admin: ADMIN, hosts: ['localhost:3000'], address: '172.17.0.1', local: false }
    const found = await authentication.begin(ADMIN, requestWith({ origin: 'http://localhost:3000' }, more))
    assert.ok(found.ok)
    const [cookie = ''] = found.value.cookie.split(';')
    assert.equal(await outcome(authentication, requestWith({ cookie }, more)), 'bootstrap')
  })
  test('needs its CSRF value for a write', async () => {
    const { call, session } = await begun()
    assert.equal(await call('POST'), 'forbidden')
    assert.equal(await call('POST', { 'x-headgate-csrf': 'x' }), 'forbidden')
    assert.equal(await call('POST', { 'x-headgate-csrf': session.csrf }), 'bootstrap')
  })
  test('is renewed by use, and ends 8 hours after it', async () => {
    const { call, state } = await begun()
    state.now += SESSION_AGE - 1
    assert.equal(await call('GET'), 'bootstrap')
    state.now += SESSION_AGE - 1
    assert.equal(await call('GET'), 'bootstrap')
    state.now += SESSION_AGE
    assert.equal(await call('GET'), 'unauthenticated')
  })
  test('ends at logout', async () => {
    const { call, authentication, requestOf } = await begun()
    assert.match(await authentication.end(requestOf('POST')), /^headgate-3000=; Max-Age=0;/)
    assert.equal(await call('GET'), 'unauthenticated')
  })
  test('ends when its token does', async () => {
    const { call, state } = await begun()
    state.current = false
    assert.equal(await call('GET'), 'unauthenticated')
  })
  test('ends when the token of auth.admin is another one', async () => {
    const { authentication, requestOf } = await begun()
    const { settings } = requestWith({}, { admin: 'another-token' })
    assert.equal(await outcome(authentication, { ...requestOf('GET'), settings }), 'unauthenticated')
  })
  test('is valid in another process, and a logout there ends it here within a second', async () => {
    const { call, path, state, requestOf, session } = await begun()
    const other = await given({ path })
    assert.equal(await outcome(other.authentication, requestOf('GET')), 'bootstrap')
    const write = requestOf('POST', { 'x-headgate-csrf': session.csrf })
    assert.equal(await outcome(other.authentication, write), 'bootstrap')
    assert.equal(await call('GET'), 'bootstrap')
    await other.authentication.end(requestOf('POST'))
    state.now += 1_000
    assert.equal(await call('GET'), 'unauthenticated')
  })
  test('is read from the database at most twice a second', async () => {
    const { call, operations } = await begun()
    operations.length = 0
    for (let n = 0; n < 20; n++) assert.equal(await call('GET'), 'bootstrap')
    assert.equal(operations.length, 0)
  })
  test('stays valid while the database fails, and begins without it', async () => {
    const { call, state } = await begun()
    state.fails = true
    state.now += 60_000
    assert.equal(await call('GET'), 'bootstrap')
    state.now += SESSION_AGE
    assert.equal(await call('GET'), 'unauthenticated')
    const unstored = await begun({ fails: true })
    unstored.state.now += 60_000
    assert.equal(await unstored.call('GET'), 'bootstrap')
  })
  test('that is unknown is searched for at most twenty times a minute from one address', async () => {
    const { authentication, operations } = await given()
    const guess = (n: number) =>
      requestWith({ cookie: `headgate-3000=${String(n).padStart(43, '0')}` }, { admin: ADMIN })
    for (let n = 0; n < 50; n++) assert.equal(await outcome(authentication, guess(n)), 'unauthenticated')
    assert.equal(operations.length, 20)
  })
  test('is not searched for where nothing is stored, so that no cookie creates the database', async () => {
    const { authentication, operations, state } = await given()
    state.isStored = false
    const unknown = requestWith({ cookie: `headgate-3000=${'0'.repeat(43)}` }, { admin: ADMIN })
    assert.equal(await outcome(authentication, unknown), 'unauthenticated')
    await authentication.end(unknown)
    assert.deepEqual(operations, [])
  })
  test('is stored without the value of its cookie and without the token', async () => {
    const { operations, cookie } = await begun()
    const text = JSON.stringify(operations)
    const [, secret = ''] = cookieOf(cookie).split('=')
    assert.match(text, /login_create/)
    for (const part of [secret, ADMIN]) assert.ok(part !== '' && !text.includes(part))
  })
})

describe('roles', () => {
  const actor = (...bindings: AdminActor['bindings']): AdminActor => ({
    kind: 'token',
    id: 'adm_x',
    name: 'x',
    bindings,
  })

  test('include the ones below', () => {
    const operator = actor({ role: 'operator', team: null })
    assert.deepEqual(
      (['viewer', 'operator', 'admin'] as const).map((role) => hasRole(operator, role, 'all')),
      [true, true, false],
    )
  })
  test('of a team hold for that team only', () => {
    const admin = actor({ role: 'admin', team: 'team_a' }, { role: 'viewer', team: 'team_b' })
    assert.deepEqual(teamsOf(admin, 'viewer'), ['team_a', 'team_b'])
    assert.deepEqual(teamsOf(admin, 'admin'), ['team_a'])
    assert.ok(hasRole(admin, 'admin', 'team'))
    assert.ok(!hasRole(admin, 'admin', 'all'))
  })
  test('none is no access', () => {
    for (const scope of ['all', 'team', 'any'] as const) assert.ok(!hasRole(actor(), 'viewer', scope))
  })
})
