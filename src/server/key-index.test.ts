import assert from 'node:assert/strict'
import crypto, { randomBytes } from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import { test } from 'node:test'
import { type ClientKey, DEFAULT_TEAM, FULL_ACCESS, NO_LIMITS, type Team } from '../core/accounts.ts'
import { NO_REQUIRE } from '../core/data-policy.ts'
import type { Settings } from '../core/settings.ts'
import { createKey, keyKindOf } from '../policy/accounts/client-key.ts'
import { plainDigest } from '../records/entities/secret-digest.ts'
import { clientNow, KeyIndex } from './key-index.ts'

const NO_DIRECTORY = { teams: new Map(), keys: new Map(), budgets: new Map(), prices: [], routes: new Map() }
const configured = (keys: readonly string[], rest: Partial<Settings['auth']> = {}) =>
  new KeyIndex({ auth: { keys: [...keys], required: 'auto', ...rest }, directory: NO_DIRECTORY, tokens: [] })
const idOf = (index: KeyIndex, presented: string): string | undefined => {
  const known = index.find(presented)
  return known?.kind === 'static' ? known.client.id : undefined
}

const keys = (count: number) => Array.from({ length: count }, (_, n) => `client-key-${n}`)

const cases: readonly (readonly [string, readonly string[], string, boolean])[] = [
  ['no keys, one presented', [], 'a', false],
  ['nothing presented', ['a'], '', false],
  ['the only one', ['a'], 'a', true],
  ['the last of many', keys(1_000), 'client-key-999', true],
  ['one too many', keys(1_000), 'client-key-1000', false],
  ['a prefix of a key', ['secret-key'], 'secret-ke', false],
  ['a key and one more character', ['secret-key'], 'secret-key1', false],
  ['characters beyond ASCII', ['schlüssel-🔑'], 'schlüssel-🔑', true],
  ['another Unicode normalization', ['schl\u00fcssel'], 'schlu\u0308ssel', false],
]
for (const [name, known, presented, found] of cases)
  test(`keys: ${name}`, () => assert.equal(idOf(configured(known), presented) !== undefined, found))

test('keys: each has a unique ID, the same in every process, that is no part of the key', () => {
  const index = configured(keys(1_000))
  const ids = keys(1_000).map((key) => idOf(index, key) ?? '')
  assert.equal(new Set(ids).size, 1_000)
  for (const [at, id] of ids.entries()) assert.match(id, /^[0-9a-f]{4,}$/, `key ${at}`)
  assert.equal(idOf(configured(['client-key-7']), 'client-key-7'), ids[7]?.slice(0, 4))
})

test('keys: a look-up computes one digest and compares no key, for any number of keys', (context) => {
  const counted = (['hash', 'createHash', 'timingSafeEqual'] as const).map((name) => context.mock.method(crypto, name))
  syncBuiltinESMExports()
  try {
    const index = configured(keys(1_000))
    for (const presented of ['client-key-0', 'client-key-999', 'a guess']) {
      for (const { mock } of counted) mock.resetCalls()
      index.find(presented)
      assert.equal(
        counted.reduce((sum, { mock }) => sum + mock.callCount(), 0),
        1,
        presented,
      )
    }
  } finally {
    context.mock.restoreAll()
    syncBuiltinESMExports()
  }
})

test('keys: a connection that presents the same credential again needs no digest', (context) => {
  const index = configured(['client-key-1', 'client-key-2', 'k\u0141'])
  const last = { text: '', digest: '' }
  const hash = context.mock.method(crypto, 'hash')
  syncBuiltinESMExports()
  try {
    const idOfNext = (presented: string) => {
      hash.mock.resetCalls()
      const known = index.find(presented, last)
      assert.equal(known?.kind === 'static' ? known.client.id : undefined, idOf(index, presented), presented)
      return hash.mock.callCount() - 1
    }
    const digests = ['client-key-1', 'client-key-1', 'client-key-3', 'client-key-1', 'client-key-2', 'k\u0141', 'kA']
    assert.deepEqual(digests.map(idOfNext), [1, 0, 1, 0, 1, 1, 1])
  } finally {
    context.mock.restoreAll()
    syncBuiltinESMExports()
  }
})

test('keys: one that is mistyped is compared with no stored key', (context) => {
  const team: Team = {
    ...DEFAULT_TEAM,
    status: 'active',
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require: NO_REQUIRE,
    cache: null,
    tags: {},
    managed: 'api',
  }
  const secret = createKey('client', randomBytes)
  const stored: ClientKey = {
    id: 'key_a',
    name: 'a',
    team: team.id,
    status: 'active',
    createdAt: 0,
    expiresAt: null,
    secrets: [{ digest: plainDigest(secret), last4: '', createdAt: 0, until: null }],
    access: FULL_ACCESS,
    limits: NO_LIMITS,
    require: NO_REQUIRE,
    defaultRoute: null,
    cache: null,
    logBodies: false,
    tags: {},
    managed: 'api',
  }
  const directory = { ...NO_DIRECTORY, teams: new Map([[team.id, team]]), keys: new Map([[stored.id, stored]]) }
  const index = new KeyIndex({ auth: { keys: [], required: 'auto' }, directory, tokens: [] })
  const hash = context.mock.method(crypto, 'hash')
  syncBuiltinESMExports()
  try {
    const digestsFor = (presented: string) => {
      hash.mock.resetCalls()
      const known = index.find(presented)
      return [known?.kind, hash.mock.callCount()]
    }
    // The salted digest, and that of the stored form.
    assert.deepEqual(digestsFor(createKey('client', randomBytes)), [undefined, 2])
    assert.deepEqual(digestsFor(secret), ['key', 2])
    assert.deepEqual(digestsFor(secret), ['key', 1])
    for (let at = 0; at < secret.length; at++) {
      const changed = `${secret.slice(0, at)}${secret[at] === 'x' ? 'y' : 'x'}${secret.slice(at + 1)}`
      if (keyKindOf(changed) !== undefined) assert.deepEqual(digestsFor(changed), [undefined, 1], changed)
    }
  } finally {
    context.mock.restoreAll()
    syncBuiltinESMExports()
  }
})

test('keys: a client is found again by its ID only while its key may be used', () => {
  const directory = (key: Partial<ClientKey>, blocked = false) => {
    const team: Team = {
      id: 'team_a',
      name: 'a',
      status: blocked ? 'blocked' : 'active',
      access: FULL_ACCESS,
      limits: NO_LIMITS,
      require: NO_REQUIRE,
      cache: null,
      tags: {},
      managed: 'api',
    }
    const known: ClientKey = {
      id: 'key_a',
      name: 'a',
      team: team.id,
      status: 'active',
      secrets: [],
      createdAt: 0,
      expiresAt: null,
      access: FULL_ACCESS,
      limits: NO_LIMITS,
      require: NO_REQUIRE,
      defaultRoute: null,
      cache: null,
      logBodies: false,
      tags: {},
      managed: 'api',
      ...key,
    }
    return { ...NO_DIRECTORY, teams: new Map([[team.id, team]]), keys: new Map([[known.id, known]]) }
  }
  const auth = { keys: ['static-key'], required: 'auto' as const }
  const found = (id: string, owner: string, of = directory({})) =>
    clientNow({ auth, directory: of }, { id, owner }, 1_000)
  assert.equal(found('key_a', 'key_a')?.team.name, 'a')
  for (const of of [
    directory({ status: 'revoked' }),
    directory({ status: 'blocked' }),
    directory({ expiresAt: 1_000 }),
    directory({}, true),
  ])
    assert.equal(found('key_a', 'key_a', of), null)
  assert.equal(found('key_b', 'key_b'), null)
  assert.equal(found('key_a', 'another'), null)
  const known = new KeyIndex({ auth, directory: NO_DIRECTORY, tokens: [] }).find('static-key')
  assert.ok(known?.kind === 'static')
  const { id, owner } = known.client
  assert.deepEqual(found(id, owner), known.client)
  assert.equal(found(id, 'another'), null)
  assert.equal(found('', '')?.id, '')
  assert.equal(found('', 'another'), null)
})
