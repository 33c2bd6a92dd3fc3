import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import {
  type Access,
  type AccountRecords,
  type ClientKey,
  FULL_ACCESS,
  NO_ACCOUNTS,
  NO_LIMITS,
  type Team,
} from '../core/accounts.ts'
import { NO_REQUIRE } from '../core/data-policy.ts'
import { settingsSchema } from '../core/settings.ts'
import { createKey } from '../policy/accounts/client-key.ts'
import { buildDirectory } from '../policy/accounts/directory.ts'
import { pepperedDigest, plainDigest } from '../records/entities/secret-digest.ts'
import type { AdminToken } from '../records/store/record-operations.ts'
import { AccessRules, NOT_LOOKED_UP } from './access-rules.ts'
import { FORWARDING, isLocal } from './local-request.ts'
import { type ApiRoute, ROUTES } from './routes.ts'

const NOW = Date.parse('2026-11-23T12:00:00Z')
const HOUR = 3_600_000

const team = (rest: Partial<Team> = {}): Team => ({
  id: 'team_search',
  name: 'search',
  status: 'active',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed: 'api',
  ...rest,
})
const key = (secret: string, rest: Partial<ClientKey> = {}): ClientKey => ({
  id: 'key_a',
  name: 'a',
  team: 'team_search',
  status: 'active',
  createdAt: 0,
  expiresAt: null,
  secrets: [{ digest: plainDigest(secret), last4: secret.slice(-4), createdAt: 0, until: null }],
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  defaultRoute: null,
  cache: null,
  logBodies: false,
  tags: {},
  managed: 'api',
  ...rest,
})
const newKey = () => createKey('client', randomBytes)

/** A bearer token, then `x-api-key` and `api-key`. */
const credentialHeaders = (...keys: readonly string[]): ReadonlyMap<string, string> =>
  new Map(
    keys.map((key, at) => (at === 0 ? ['authorization', `Bearer ${key}`] : [at === 1 ? 'x-api-key' : 'api-key', key])),
  )

type Given = {
  readonly settings?: Parameters<typeof settingsSchema.parse>[0]
  readonly records?: Partial<AccountRecords>
  readonly tokens?: readonly AdminToken[]
  readonly unavailable?: boolean
  readonly production?: boolean
}
const given = (options: Given = {}) => {
  const { settings = {}, records = {}, tokens = [], unavailable = false, production = false } = options
  const all = { ...NO_ACCOUNTS, teams: [team()], ...records }
  const state = { directory: buildDirectory(NO_ACCOUNTS, all), now: NOW, unavailable }
  const used: string[] = []
  const source = {
    directory: () => state.directory,
    tokens: () => tokens,
    isNamed: () => state.directory.keys.size > 0,
    isUnavailable: () => state.unavailable,
    used: (id: string) => used.push(id),
  }
  const rules = new AccessRules(source, { now: () => state.now, production })
  const parsed = settingsSchema.parse(settings)
  // All requests are those of one connection.
  const lastCredential = { text: '', digest: '' }
  /** `forwarded`: the header `x-forwarded-for`. */
  const check = (
    presented: string | readonly string[] = [],
    { route = ROUTES.chat as ApiRoute, address = '192.0.2.1', forwarded = '', host = 'localhost:3000' } = {},
  ) => {
    const credentials = credentialHeaders(...[presented].flat())
    const headers = (name: string) =>
      name === 'x-forwarded-for' && forwarded !== '' ? forwarded : credentials.get(name)
    const result = rules.check(parsed, { route, version: '1.1', address, hosts: [host], headers, lastCredential })
    return result.ok ? result.value : result.failure.kind
  }
  /** The ID of the client, or the kind of the failure. */
  const idOf = (...args: Parameters<typeof check>) => {
    const result = check(...args)
    return typeof result === 'string' ? result : result.id
  }
  const replace = (changed: Partial<AccountRecords>) => {
    state.directory = buildDirectory(NO_ACCOUNTS, { ...all, ...changed })
  }
  return { state, used, rules, parsed, check, idOf, replace }
}

test('access: a key of the database has the client of key and team, and owns its responses by its ID', () => {
  const secret = newKey()
  const access: Access = { ...FULL_ACCESS, models: ['openai/*'] }
  const { check, used } = given({ records: { keys: [key(secret, { access, tags: { app: 'x' } })] } })
  const client = check(secret)
  assert.ok(typeof client !== 'string')
  assert.equal(client.owner, 'key_a')
  assert.deepEqual(client.team, { id: 'team_search', name: 'search' })
  assert.deepEqual(client.access, [FULL_ACCESS, access])
  assert.equal(check(secret), client)
  assert.deepEqual(used, ['key_a'])
})

describe('access: a key that is not known is looked up once', () => {
  const REQUEST = { route: ROUTES.chat as ApiRoute, version: '1.1' as const, address: '192.0.2.1', hosts: ['x'] }
  const stored = (isRead = true) => {
    const state = { directory: buildDirectory(NO_ACCOUNTS, { ...NO_ACCOUNTS, teams: [team()] }), now: NOW, lookUps: 0 }
    const later: ClientKey[] = []
    const rules = new AccessRules(
      {
        directory: () => state.directory,
        tokens: () => [],
        isNamed: () => true,
        isUnavailable: () => false,
        used() {},
        async lookUp() {
          state.lookUps++
          state.directory = buildDirectory(NO_ACCOUNTS, { ...NO_ACCOUNTS, teams: [team()], keys: later })
          return isRead
        },
      },
      { now: () => state.now },
    )
    const settings = settingsSchema.parse({})
    /** The ID of the client, or the kind of the failure. */
    const ask = async (secret: string) => {
      const request = { ...REQUEST, headers: (name: string) => (name === 'x-api-key' ? secret : undefined) }
      const first = rules.check(settings, request)
      const found = !first.ok && first.failure === NOT_LOOKED_UP ? await rules.lookUp(settings, request) : first
      return found.ok ? found.value.id : found.failure.kind
    }
    return { state, later, ask }
  }

  test('one that another gateway has stored is valid at its first use, also after many wrong ones', async () => {
    const { state, later, ask } = stored()
    for (let n = 0; n < 30; n++) await ask(newKey())
    assert.equal(await ask(newKey()), 'too_many_attempts')
    const secret = newKey()
    later.push(key(secret))
    assert.equal(await ask(secret), 'key_a')
    const { lookUps } = state
    assert.equal(await ask(secret), 'key_a')
    assert.equal(state.lookUps, lookUps)
  })

  test('one that was not found is refused without another look, for two seconds', async () => {
    const { state, ask } = stored()
    const secret = newKey()
    assert.deepEqual([await ask(secret), await ask(secret)], ['unauthenticated', 'unauthenticated'])
    assert.equal(state.lookUps, 1)
    state.now += 2_000
    await ask(secret)
    assert.equal(state.lookUps, 2)
  })

  test('mistyped and short ones are not looked up', async () => {
    const { state, ask } = stored()
    const secret = newKey()
    for (const wrong of [`${secret.slice(0, -1)}!`, 'short']) assert.equal(await ask(wrong), 'unauthenticated')
    assert.equal(state.lookUps, 0)
  })

  test('while the database cannot be read, the answer is 503, not 401', async () => {
    const { ask } = stored(false)
    assert.equal(await ask(newKey()), 'keys_unavailable')
  })
})

test('access: keys of auth.keys have the team default, and own their responses by the digest', () => {
  const { check } = given({ settings: { auth: { keys: ['static-key-of-a-client'] } } })
  const client = check('static-key-of-a-client')
  assert.ok(typeof client !== 'string')
  assert.equal(client.team.id, 'team_default')
  assert.equal(client.owner, plainDigest('static-key-of-a-client').slice(3, 35))
  assert.deepEqual([client.access, client.limits], [[], []])
})

test('access: keys of auth.keys and requests without a key have what the team default has', () => {
  const access = { ...FULL_ACCESS, models: ['a'] }
  const limits = { ...NO_LIMITS, concurrent: 3 }
  const cache = { ttl: 60, scope: 'team', anyTemperature: false, tools: false, requestControl: true } as const
  const teams = [team({ id: 'team_default', name: 'default', access, limits, cache, tags: { app: 'x' } })]
  const { check } = given({ settings: { auth: { keys: ['static-key'], required: false } }, records: { teams } })
  for (const client of [check('static-key'), check()]) {
    assert.ok(typeof client !== 'string')
    assert.deepEqual([client.access, client.cache, client.tags], [[access], cache, { app: 'x' }])
    assert.deepEqual(client.limits, [{ id: 'team_default', limits }])
  }
})

test('access: keys with a pepper, and imported keys without the form of a key, are found', () => {
  const [made, imported] = [newKey(), 'sk-litellm-0123456789']
  const pepper = 'a pepper of some length'
  const peppered = { digest: pepperedDigest(made, pepper), last4: '', createdAt: 0, until: null }
  const keys = [key('', { id: 'key_p', secrets: [peppered] }), key(imported, { id: 'key_i', name: 'i' })]
  const { idOf } = given({ settings: { auth: { pepper } }, records: { keys } })
  assert.deepEqual([idOf(made), idOf(imported), idOf(newKey())], ['key_p', 'key_i', 'unauthenticated'])
  assert.equal(given({ records: { keys } }).idOf(made), 'unauthenticated')
})

test('access: blocked, revoked, expired and unknown keys have the same answer', () => {
  const secret = newKey()
  const { rules, parsed, replace } = given({ records: { keys: [key(secret)] } })
  const answer = (presented: string) => {
    const request = {
      route: ROUTES.chat as ApiRoute,
      version: '1.1',
      address: '',
      hosts: [],
      headers: (name: string) => credentialHeaders(presented).get(name),
    }
    const result = rules.check(parsed, request)
    assert.ok(!result.ok)
    return result.failure
  }
  const unknown = answer(newKey())
  for (const rest of [{ status: 'blocked' }, { status: 'revoked' }, { expiresAt: NOW }] as const) {
    replace({ keys: [key(secret, rest)] })
    assert.deepEqual(answer(secret), unknown, JSON.stringify(rest))
  }
  assert.match(answer(`${secret.slice(0, -1)}!`).message, /mistyped/)
})

test('access: both secrets of a rotated key are valid until the end of the older one', () => {
  const [old, fresh] = [newKey(), newKey()]
  const secrets = [
    { digest: plainDigest(fresh), last4: '', createdAt: 1, until: null },
    { digest: plainDigest(old), last4: '', createdAt: 0, until: NOW + HOUR },
  ]
  const { state, idOf } = given({ records: { keys: [key('', { secrets })] } })
  for (let n = 0; n < 10_000; n++) {
    state.now = NOW + (n * HOUR) / 10_000
    assert.equal(idOf(n % 2 === 0 ? old : fresh), 'key_a')
  }
  state.now = NOW + HOUR
  for (let n = 0; n < 100; n++) assert.notEqual(idOf(old), 'key_a')
  assert.equal(idOf(fresh), 'key_a')
})

test('access: expiry and revocation act on keys that were used before', () => {
  const secret = newKey()
  const { state, idOf, replace } = given({ records: { keys: [key(secret, { expiresAt: NOW + 1 })] } })
  assert.equal(idOf(secret), 'key_a')
  state.now = NOW + 1
  assert.equal(idOf(secret), 'unauthenticated')
  replace({ keys: [key(secret)] })
  assert.equal(idOf(secret), 'key_a')
  replace({ keys: [key(secret, { status: 'revoked' })] })
  assert.equal(idOf(secret), 'unauthenticated')
})

test('access: a blocked team refuses its keys, also the keys of auth.keys and requests without a key', () => {
  const secret = newKey()
  const blocked = team({ status: 'blocked' })
  assert.equal(given({ records: { teams: [blocked], keys: [key(secret)] } }).idOf(secret), 'team_blocked')
  const teams = [team({ id: 'team_default', name: 'default', status: 'blocked' })]
  const settings = { auth: { keys: ['static-key'] } }
  assert.equal(given({ settings, records: { teams } }).idOf('static-key'), 'team_blocked')
  assert.equal(given({ records: { teams } }).idOf(), 'team_blocked')
})

/** Each list as it restricts the address 192.0.2.1. */
const LISTS: readonly (readonly [list: Access['ips'], allowed: boolean])[] = [
  [null, true],
  [[], false],
  [['192.0.2.0/24'], true],
  [['198.51.100.0/24'], false],
  [['192.0.2.0/24', '!192.0.2.1'], false],
]
for (const [ips, allowed] of LISTS)
  for (const owner of ['team', 'key'] as const)
    test(`access: ips ${JSON.stringify(ips)} of the ${owner} ${allowed ? 'allow' : 'refuse'} the address`, () => {
      const secret = newKey()
      const access = { ...FULL_ACCESS, ips }
      const records =
        owner === 'team' ? { teams: [team({ access })], keys: [key(secret)] } : { keys: [key(secret, { access })] }
      assert.equal(given({ records }).idOf(secret), allowed ? 'key_a' : 'address_not_allowed')
    })

test('access: X-Forwarded-For counts only behind trusted proxies', () => {
  const secret = newKey()
  const records = { keys: [key(secret, { access: { ...FULL_ACCESS, ips: ['198.51.100.7'] } })] }
  const from = { address: '10.0.0.1', forwarded: '198.51.100.7' }
  assert.equal(given({ records }).idOf(secret, from), 'address_not_allowed')
  const { idOf } = given({ records, settings: { trustedProxies: ['10.0.0.0/8'] } })
  assert.equal(idOf(secret, from), 'key_a')
  assert.equal(idOf(secret, { ...from, address: '192.0.2.1' }), 'address_not_allowed')
})

const REQUIRED: readonly (readonly [
  required: 'auto' | boolean,
  keys: 'none' | 'settings' | 'stored' | 'revoked',
  needed: boolean,
])[] = [
  ['auto', 'none', false],
  ['auto', 'settings', true],
  ['auto', 'stored', true],
  ['auto', 'revoked', true],
  [true, 'none', true],
  [false, 'stored', false],
  [false, 'settings', false],
]
for (const [required, keys, needed] of REQUIRED)
  test(`access: auth.required ${required} with keys: ${keys}, ${needed ? 'needs' : 'needs no'} key`, () => {
    const secret = newKey()
    const status = keys === 'revoked' ? keys : 'active'
    const { idOf, rules, parsed } = given({
      settings: { auth: { required, keys: keys === 'settings' ? ['static-key'] : [] } },
      records: { keys: keys === 'stored' || keys === 'revoked' ? [key(secret, { status })] : [] },
    })
    assert.equal(rules.isKeyRequired(parsed), needed)
    assert.equal(idOf(), needed ? 'unauthenticated' : '')
    assert.equal(idOf('placeholder'), needed ? 'unauthenticated' : '')
    // A wrong key of this gateway is not taken for a placeholder where keys exist.
    if (keys !== 'none') assert.equal(idOf(newKey()), 'unauthenticated')
    if (keys === 'stored') assert.equal(idOf(secret), 'key_a')
  })

test('access: while the database cannot be read, unknown keys are 503, and configured ones work', () => {
  const { idOf, state } = given({ settings: { auth: { keys: ['static-key'] } }, unavailable: true })
  assert.equal(idOf(newKey()), 'keys_unavailable')
  assert.equal(idOf('imported-key-of-a-client'), 'keys_unavailable')
  assert.notEqual(idOf('static-key'), 'keys_unavailable')
  assert.equal(idOf('hgk_mistyped'), 'unauthenticated')
  assert.equal(idOf(), 'keys_unavailable')
  state.unavailable = false
  assert.equal(idOf(), 'unauthenticated')
  assert.equal(idOf(newKey()), 'unauthenticated')
})

test('access: wrong keys are limited per network, and never lock out a valid one', () => {
  const secret = newKey()
  const { idOf, state } = given({ records: { keys: [key(secret)] } })
  const wrong = Array.from({ length: 25 }, () => idOf(newKey()))
  assert.deepEqual(wrong, [...Array(20).fill('unauthenticated'), ...Array(5).fill('too_many_attempts')])
  assert.equal(idOf(secret), 'key_a')
  assert.equal(idOf(newKey(), { address: '198.51.100.1' }), 'unauthenticated')
  state.now += 60_000
  assert.equal(idOf(newKey()), 'unauthenticated')
})

describe('access: pages for operators', () => {
  const [secret, admin, ended, ofTeam] = [newKey(), ...Array.from({ length: 3 }, () => createKey('admin', randomBytes))]
  const token = (id: string, text: string | undefined, rest: Partial<AdminToken> = {}): AdminToken => ({
    id,
    name: id,
    status: 'active',
    expiresAt: null,
    digests: [plainDigest(text ?? '')],
    bindings: [{ role: 'viewer', team: null }],
    ...rest,
  })
  const tokens = [
    token('adm_a', admin),
    token('adm_b', ended, { expiresAt: NOW }),
    token('adm_c', ofTeam, { bindings: [{ role: 'admin', team: 'team_search' }] }),
  ]
  const settings = { auth: { keys: ['static-key'], admin: 'operator-token' } }
  const defaultTeam = team({ id: 'team_default', name: 'default' })
  for (const name of ['metrics', 'providersStatus'] as const) {
    const page = { route: ROUTES[name] as ApiRoute }

    test(`${name} have figures of all teams: tokens for all teams only`, () => {
      const { idOf, check } = given({ settings, records: { keys: [key(secret)] }, tokens })
      assert.deepEqual(
        [secret, 'static-key', ofTeam ?? '', admin ?? '', 'operator-token', ended ?? '', 'other'].map((one) =>
          idOf(one, page),
        ),
        ['forbidden', 'forbidden', 'forbidden', '', '', 'unauthenticated', 'unauthenticated'],
      )
      for (const operator of [admin ?? '', 'operator-token']) assert.equal(idOf(operator), 'unauthenticated')
      assert.notEqual(check('static-key'), 'forbidden')
    })

    test(`${name}: without other teams, keys of auth.keys see their own figures`, () => {
      const keys = [key(secret, { team: defaultTeam.id })]
      const { idOf } = given({ settings, records: { teams: [defaultTeam], keys } })
      assert.match(idOf('static-key', page), /^[0-9a-f]{4,}$/)
      assert.equal(idOf(secret, page), 'forbidden')
      const deleted = team({ status: 'deleted' })
      assert.equal(given({ settings, records: { teams: [deleted] } }).idOf('static-key', page), 'forbidden')
      assert.equal(given({ settings, unavailable: true }).idOf('static-key', page), 'keys_unavailable')
    })

    test(`${name}: in production no request is local once a credential exists`, () => {
      const here = { ...page, address: '127.0.0.1' }
      const credentials: readonly Given[] = [
        { settings: { auth: { admin: 'operator-token' } } },
        { settings: { auth: { keys: ['static-key'] } } },
        { records: { keys: [key(secret, { status: 'revoked' })] } },
        { tokens },
        { settings: { auth: { required: true } } },
        { unavailable: true },
      ]
      for (const one of credentials) {
        assert.equal(given(one).idOf([], here), '', JSON.stringify(one))
        assert.equal(given({ ...one, production: true }).idOf([], here), 'unauthenticated', JSON.stringify(one))
      }
      assert.equal(given({ production: true }).idOf([], here), '')
    })

    test(`${name}: only a request for a loopback name without forwarding is local`, () => {
      const { idOf } = given({ settings: { ...settings, hosts: ['gate.example'] } })
      for (const host of ['localhost', '127.0.0.1:3000', '[::1]:3000', 'app.localhost'])
        assert.equal(idOf([], { ...page, address: '::ffff:127.0.0.1', host }), '', host)
      for (const host of ['gate.example', 'evil.example', '10.0.0.5', 'localhost.evil.example', ''])
        assert.equal(idOf([], { ...page, address: '127.0.0.1', host }), 'unauthenticated', host)
      assert.equal(idOf([], { ...page, address: '127.0.0.1', forwarded: '127.0.0.1' }), 'unauthenticated')
      assert.equal(idOf([], { ...page, address: '10.0.0.5' }), 'unauthenticated')
    })
  }
})

describe('access: without a key, a name that DNS can rebind', () => {
  const settings = { hosts: ['gate.example'] }
  const list = { route: ROUTES.models as ApiRoute }
  for (const host of [
    'evil.example',
    'EVIL.example.:3000',
    '127.0.0.1.evil.example',
    'localhost.evil.example',
    '10.0.0.5.evil',
    '',
  ])
    test(`reads nothing: ${JSON.stringify(host)}`, () => {
      assert.equal(given({ settings }).idOf([], { ...list, host }), 'host')
      // A page can add any header to a request to its own origin.
      assert.equal(given({ settings }).idOf('placeholder', { ...list, host }), 'host')
      assert.equal(given({ settings: { auth: { required: false, keys: ['k'] } } }).idOf([], { ...list, host }), 'host')
    })
  for (const host of ['localhost:3000', '10.0.0.5:3000', '[fd00::1]', 'gate.example', 'GATE.example:8080'])
    test(`reads as ever: ${host}`, () => assert.equal(given({ settings }).idOf([], { ...list, host }), ''))
  test('does not matter with a key, for a POST and for open pages', () => {
    const host = 'evil.example'
    assert.match(
      given({ settings: { auth: { keys: ['static-key'] } } }).idOf('static-key', { ...list, host }),
      /^[0-9a-f]{4,}$/,
    )
    for (const name of ['chat', 'health', 'openapi'] as const)
      assert.equal(given().idOf([], { route: ROUTES[name] as ApiRoute, host }), '')
  })
})

test('access: paths never show a key, known or of the same form', () => {
  const imported = 'imported-key-of-client'
  const { rules, parsed } = given({ records: { keys: [key(imported)] } })
  const unknown = newKey()
  assert.equal(rules.shownPath(parsed, `/v1/${imported}/chat`, true), '/v1/[key]/chat')
  assert.equal(rules.shownPath(parsed, `/v1/responses/${unknown}`, true), '/v1/responses/[key]')
  assert.equal(rules.shownPath(parsed, `/${createKey('admin', randomBytes)}`, true), '/[key]')
})

test('access: of 100,000 keys each is found', () => {
  const secrets = Array.from({ length: 100_000 }, (_, n) => `imported-${n}-${'x'.repeat(20)}`)
  const keys = secrets.map((secret, n) => key(secret, { id: `key_${n}`, name: String(n) }))
  const { idOf } = given({ records: { keys } })
  for (const n of [0, 1, 49_999, 99_999]) assert.equal(idOf(secrets[n]), `key_${n}`)
  for (const secret of secrets.slice(0, 20_000)) assert.ok(idOf(secret).startsWith('key_'))
  assert.equal(idOf(`${secrets[0]}y`), 'unauthenticated')
})

test('access: each forwarding header makes a loopback request foreign', () => {
  const from = (address: string, name = '') => ({
    version: '1.1',
    address,
    hosts: ['localhost:3000'],
    headers: (asked: string) => (asked === name ? '' : undefined),
  })
  assert.deepEqual([isLocal(from('127.0.0.1')), isLocal(from('::1')), isLocal(from('10.0.0.5'))], [true, true, false])
  for (const name of FORWARDING) assert.equal(isLocal(from('127.0.0.1', name)), false, name)
  // nginx sends 1.0 by default, with the host of the gateway.
  assert.equal(isLocal({ ...from('127.0.0.1'), version: '1.0' }), false)
  assert.equal(isLocal({ ...from('127.0.0.1'), hosts: [] }), false)
  assert.equal(isLocal({ ...from('127.0.0.1'), hosts: ['localhost', 'localhost'] }), false)
})

test('access: after a change of some keys the others stay as they are, and each change acts', () => {
  const [kept, rotated, gone, added] = [newKey(), newKey(), newKey(), newKey()]
  const keys = [key(kept), key(rotated, { id: 'key_r', name: 'r' }), key(gone, { id: 'key_g', name: 'g' })]
  const { check, idOf, replace } = given({ records: { keys } })
  const client = check(kept)
  assert.deepEqual([idOf(rotated), idOf(gone), idOf(added)], ['key_r', 'key_g', 'unauthenticated'])
  const newest = newKey()
  const next = [...keys.slice(0, 1), key(newest, { id: 'key_r', name: 'r' }), key(added, { id: 'key_n', name: 'n' })]
  replace({ keys: next })
  assert.equal(check(kept), client)
  assert.deepEqual(
    [idOf(rotated), idOf(newest), idOf(gone), idOf(added)],
    ['unauthenticated', 'key_r', 'unauthenticated', 'key_n'],
  )
  // A secret that another key has now.
  replace({ keys: [key(added, { id: 'key_o', name: 'o' }), ...next.slice(0, 2)] })
  assert.equal(idOf(added), 'key_o')
  replace({ keys: next, teams: [team({ status: 'blocked' })] })
  assert.deepEqual([idOf(kept), idOf(added)], ['team_blocked', 'team_blocked'])
  replace({ keys: next, teams: [team({ tags: { app: 'x' } })] })
  const changed = check(kept)
  assert.ok(typeof changed !== 'string')
  assert.deepEqual(changed.tags, { app: 'x' })
})

describe('access: several credentials in one request', () => {
  const foreign = 'sk-ant-oat01-token-of-another-service'
  const other = 'eyJhbGciOiJSUzI1NiJ9.e30.c2lnbmF0dXJl'
  const made = newKey()
  const settings = { auth: { keys: ['static-key-of-a-client'], admin: 'the-token-of-the-operator' } }
  const records = { keys: [key(made)] }

  test('the first that is a key of this gateway counts, in any place', () => {
    const { idOf } = given({ settings, records })
    assert.equal(idOf([foreign, made]), 'key_a')
    assert.equal(idOf([made, foreign]), 'key_a')
    assert.equal(idOf([foreign, other, made]), 'key_a')
    assert.match(idOf([foreign, 'static-key-of-a-client']), /^[0-9a-f]{4,}$/)
    const route = ROUTES.metrics as ApiRoute
    assert.equal(idOf([foreign, 'the-token-of-the-operator'], { route }), '')
  })

  test('two wrong ones are refused, and count as two failed attempts', () => {
    const { idOf } = given({ settings, records })
    const failures = () => {
      let count = 0
      while (idOf(['wrong-1', 'wrong-2']) === 'unauthenticated') count++
      return count
    }
    const single = given({ settings, records })
    let expected = 0
    while (single.idOf('wrong-1') === 'unauthenticated') expected++
    assert.equal(failures(), expected / 2)
  })

  test('a revoked key is not replaced by a second credential', () => {
    const { idOf, replace } = given({ settings, records })
    replace({ keys: [key(made, { status: 'revoked' })] })
    assert.equal(idOf([made, 'static-key-of-a-client']), 'unauthenticated')
    assert.equal(idOf([foreign, made]), 'unauthenticated')
  })

  test('without a required key, a wrong key with the form of ours is refused beside a foreign token', () => {
    const open = given({ settings: { auth: { required: false, admin: 'the-token-of-the-operator' } } })
    assert.equal(open.idOf([foreign, 'placeholder']), '')
    assert.equal(open.idOf([foreign, newKey()]), 'unauthenticated')
  })
})

test('access: the owner of a refused key is known, with the reason, and that of another text is not', () => {
  const [active, revoked, expired, rotated] = [newKey(), newKey(), newKey(), newKey()]
  const old = { digest: plainDigest(rotated), last4: '', createdAt: 0, until: NOW - 1 }
  const keys = [
    key(active),
    key(revoked, { id: 'key_b', name: 'b', status: 'revoked' }),
    key(expired, { id: 'key_c', name: 'c', expiresAt: NOW }),
    key(newKey(), { id: 'key_d', name: 'd', secrets: [old] }),
  ]
  const { rules, parsed } = given({ records: { keys }, settings: { auth: { keys: ['static-key'] } } })
  const ownerOf = (...presented: readonly string[]) => {
    const headers = credentialHeaders(...presented)
    const owner = rules.ownerOf(parsed, (name) => headers.get(name))
    return owner && `${owner.key} ${owner.team}: ${owner.why ?? 'usable'}`
  }
  assert.equal(ownerOf(active), 'key_a team_search: usable')
  assert.equal(ownerOf(revoked), 'key_b team_search: The key was revoked.')
  assert.equal(ownerOf('wrong', expired), 'key_c team_search: The key has expired.')
  assert.match(ownerOf(rotated) ?? '', /^key_d team_search: The key was rotated/)
  assert.match(ownerOf('static-key') ?? '', /: usable$/)
  for (const wrong of ['', 'sk-wrong', newKey(), `${revoked}x`]) assert.equal(ownerOf(wrong), null)
})
