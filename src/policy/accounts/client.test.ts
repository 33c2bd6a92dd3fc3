import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClientKey, FULL_ACCESS, NO_LIMITS, type Team } from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { clientOf, isCurrent, type KeyState, keyState } from './client.ts'

const team: Team = {
  id: 'team_search',
  name: 'search',
  status: 'active',
  managed: 'api',
  access: { ...FULL_ACCESS, models: ['openai/*'] },
  limits: { ...NO_LIMITS, concurrent: 50 },
  require: NO_REQUIRE,
  cache: null,
  tags: { app: 'search', cost_center: '7' },
}
const key: ClientKey = {
  id: 'key_alice',
  name: 'alice',
  team: team.id,
  status: 'active',
  managed: 'api',
  secrets: [],
  createdAt: 0,
  expiresAt: null,
  access: FULL_ACCESS,
  defaultRoute: 'fast',
  limits: { ...NO_LIMITS, requestsPerMinute: 60 },
  require: NO_REQUIRE,
  cache: null,
  logBodies: false,
  tags: { app: 'chat', created_for: 'alice@example.com' },
}

const states: readonly (readonly [key: Partial<ClientKey>, team: Partial<Team>, state: KeyState])[] = [
  [{}, {}, 'active'],
  [{ expiresAt: 1_001 }, {}, 'active'],
  [{ expiresAt: 1_000 }, {}, 'expired'],
  [{ expiresAt: 0 }, {}, 'expired'],
  [{ status: 'blocked' }, {}, 'blocked'],
  [{ status: 'revoked', expiresAt: 5_000 }, {}, 'revoked'],
  [{}, { status: 'blocked' }, 'team_blocked'],
  // The state of the key comes first: a revoked key must not show that its team exists.
  [{ status: 'revoked' }, { status: 'blocked' }, 'revoked'],
  [{ expiresAt: 999 }, { status: 'blocked' }, 'expired'],
]
for (const [keyPart, teamPart, state] of states)
  test(`client: a key with ${JSON.stringify(keyPart)} of a team with ${JSON.stringify(teamPart)} is ${state}`, () =>
    assert.equal(keyState({ ...key, ...keyPart }, { ...team, ...teamPart }, 1_000), state))

test('client: has access and limits of team and key, and the tags of the key over those of the team', () =>
  assert.deepEqual(clientOf(key, team), {
    id: 'key_alice',
    owner: 'key_alice',
    name: 'alice',
    team: { id: 'team_search', name: 'search' },
    user: 'alice@example.com',
    access: [team.access, key.access],
    limits: [
      { id: 'team_search', limits: team.limits },
      { id: 'key_alice', limits: key.limits },
    ],
    tags: { app: 'chat', cost_center: '7', created_for: 'alice@example.com' },
    defaultRoute: 'fast',
    cache: null,
  }))

test('client: the cache rules of the key replace those of the team', () => {
  const rules = { ttl: 60, scope: 'team', anyTemperature: false, tools: false, requestControl: true } as const
  assert.equal(clientOf(key, { ...team, cache: rules }).cache, rules)
  const off = { ...rules, ttl: 0 }
  assert.equal(clientOf({ ...key, cache: off }, { ...team, cache: rules }).cache, off)
})

test('client: the user is null without the tag', () => assert.equal(clientOf({ ...key, tags: {} }, team).user, null))

test('client: a previous secret is valid until its end', () => {
  const secret = { digest: 's1:00', last4: 'Xq3d', createdAt: 0 }
  assert.equal(isCurrent({ ...secret, until: null }, 1_000), true)
  assert.equal(isCurrent({ ...secret, until: 1_001 }, 1_000), true)
  assert.equal(isCurrent({ ...secret, until: 1_000 }, 1_000), false)
})
