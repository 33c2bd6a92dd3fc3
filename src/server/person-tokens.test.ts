import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DEFAULT_TEAM, type Directory, FULL_ACCESS, NO_LIMITS, type Team } from '../core/accounts.ts'
import { NO_REQUIRE } from '../core/data-policy.ts'
import { Secret } from '../core/secret.ts'
import type { SignInSettings } from '../core/sign-in.ts'
import { accessClaims } from '../policy/sign-in/access-claims.ts'
import { signAccessToken } from './access-token.ts'
import { PersonTokens } from './person-tokens.ts'

const SETTINGS: SignInSettings = {
  publicUrl: 'https://ai.example',
  secrets: [new Secret('a-secret-of-more-than-32-characters-0123')],
  providers: [
    {
      ...{ name: 'corp', issuer: 'https://idp.example', clientId: 'headgate', clientSecret: null },
      ...{ scopes: [], groups: 'groups', domains: [], parameters: {} },
    },
  ],
  roles: [],
  teams: [{ group: 'devs', provider: null, team: 'default' }],
  session: { idle: 1, max: 1, recheck: 1 },
}
const ANN = { id: 'usr_a', signIn: 'sgn_a', provider: 'corp', email: 'ann@corp.example', name: null, groups: ['devs'] }
const TEAM: Team = {
  ...DEFAULT_TEAM,
  status: 'active',
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  cache: null,
  tags: {},
  managed: 'api',
}
const DIRECTORY: Directory = {
  teams: new Map([[TEAM.id, TEAM]]),
  keys: new Map(),
  budgets: new Map(),
  prices: [],
  routes: new Map(),
}

const given = () => {
  const state = { settings: SETTINGS as SignInSettings | null, ended: new Set<string>(), now: 0 }
  const tokens = new PersonTokens({
    settings: () => state.settings,
    directory: () => DIRECTORY,
    ended: () => state.ended,
    now: () => state.now,
  })
  const token = signAccessToken(SETTINGS.secrets, accessClaims(SETTINGS, ANN, 0))
  const found = () => {
    const result = tokens.find('digest')
    return result === undefined ? 'unknown' : result.ok ? result.value.id : result.failure.kind
  }
  const verified = async () => {
    const result = await tokens.verify(token, 'digest')
    return result.ok ? result.value : result.failure.kind
  }
  return { state, tokens, found, verified }
}

test('a person is a client of the paying team, with the e-mail address as the user', async () => {
  const { tokens, found, verified } = given()
  assert.equal(found(), 'unknown')
  const client = await verified()
  assert.ok(typeof client === 'object')
  assert.deepEqual(
    [client.id, client.owner, client.name, client.user, client.team.id],
    ['usr_a', 'usr_a', 'ann@corp.example', 'ann@corp.example', DEFAULT_TEAM.id],
  )
  assert.equal(found(), 'usr_a')
  assert.equal(tokens.nameOf('usr_a'), 'ann@corp.example')
  assert.equal(tokens.clientNow('usr_a')?.id, 'usr_a')
})

test('a token ends with its time, with its sign-in and with single sign-on', async () => {
  for (const end of [
    (state: ReturnType<typeof given>['state']) => {
      state.now = 3_600_000
    },
    (state: ReturnType<typeof given>['state']) => {
      state.ended = new Set(['sgn_a'])
    },
  ]) {
    const { state, tokens, found, verified } = given()
    await verified()
    end(state)
    assert.equal(found(), 'unauthenticated')
    assert.equal(await verified(), 'unauthenticated')
    assert.equal(tokens.clientNow('usr_a'), null)
  }
  const { state, verified } = given()
  state.settings = null
  assert.equal(await verified(), 'unauthenticated')
})

test('other settings count at once: a secret, an issuer or a rule that was taken away', async () => {
  for (const [changed, expected] of [
    [{ secrets: [new Secret('another-secret-of-more-than-32-characters')] }, 'unauthenticated'],
    [{ providers: [] }, 'unauthenticated'],
    [{ teams: [] }, 'team_unknown'],
  ] as const) {
    const { state, found, verified } = given()
    await verified()
    state.settings = { ...SETTINGS, ...changed }
    assert.equal(found(), 'unknown')
    assert.equal(await verified(), expected)
  }
})
