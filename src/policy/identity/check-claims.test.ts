import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FULL_ACCESS, NO_LIMITS } from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import type { JsonObject } from '../../core/json.ts'
import type { TokenRule } from '../../core/token-rule.ts'
import { checkClaims } from './check-claims.ts'

const NOW = 1_800_000_000_000
const SECONDS = NOW / 1_000
const RULE: TokenRule = {
  name: 'cluster',
  keys: { issuer: 'https://issuer.example', url: null, file: null, tokenFile: null, caFile: null },
  audience: ['headgate', 'other'],
  algorithms: ['RS256'],
  require: [],
  subject: 'sub',
  team: { kind: 'value', team: 'search' },
  user: null,
  tags: [],
  skew: 30_000,
  maxAge: 86_400_000,
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  dataPolicy: NO_REQUIRE,
  defaultRoute: null,
  cache: null,
  logBodies: false,
}
const CLAIMS: JsonObject = {
  iss: 'https://issuer.example',
  aud: 'headgate',
  sub: 'system:serviceaccount:search:indexer',
  iat: SECONDS - 10,
  nbf: SECONDS - 10,
  exp: SECONDS + 3_600,
}

const check = (claims: JsonObject, rule: Partial<TokenRule> = {}) =>
  checkClaims({ ...RULE, ...rule }, { ...CLAIMS, ...claims }, NOW)
const reasonOf = (claims: JsonObject, rule?: Partial<TokenRule>): string => {
  const result = check(claims, rule)
  return result.ok ? '' : result.reason
}

const CASES: readonly (readonly [string, JsonObject, Partial<TokenRule>, string])[] = [
  ['a list of audiences, one of which is listed', { aud: ['a', 'other'] }, {}, ''],
  ['another audience', { aud: ['a'] }, {}, 'aud'],
  ['an audience that contains the listed one', { aud: 'headgate2' }, {}, 'aud'],
  ['an issuer with a slash more', { iss: 'https://issuer.example/' }, {}, 'iss'],
  ['an issuer as a list', { iss: ['https://issuer.example'] }, {}, 'iss'],
  ['no end', { exp: null }, {}, 'exp'],
  ['an end as text', { exp: String(SECONDS + 60) }, {}, 'exp'],
  ['ended within the skew', { exp: SECONDS - 29 }, {}, ''],
  ['ended at the skew', { exp: SECONDS - 30 }, {}, 'exp'],
  ['an end with a fraction', { exp: SECONDS + 0.5 }, {}, ''],
  ['begins within the skew', { nbf: SECONDS + 30 }, {}, ''],
  ['begins later', { nbf: SECONDS + 31 }, {}, 'nbf'],
  ['issued in the future', { iat: SECONDS + 31 }, {}, 'iat'],
  ['issued at no number', { iat: 'now' }, {}, 'iat'],
  ['a life of 24 h', { iat: SECONDS, exp: SECONDS + 86_400 }, {}, ''],
  ['a longer life', { iat: SECONDS, exp: SECONDS + 86_431 }, {}, 'maxAge'],
  ['an endless token', { iat: SECONDS, exp: 9e9 }, {}, 'maxAge'],
  ['a glob', {}, { require: [['sub', ['system:serviceaccount:*:*']]] }, ''],
  ['a glob in another case', { sub: 'System:serviceaccount:a:b' }, { require: [['sub', ['system:*']]] }, 'require sub'],
  ['a number', { id: 12345 }, { require: [['id', ['12345']]] }, ''],
  [
    'a number that a double cannot represent',
    { id: 2 ** 53 },
    { require: [['id', ['9007199254740992']]] },
    'require id',
  ],
  ['one of a list', { groups: ['a', 'b'] }, { require: [['groups', ['c', 'b']]] }, ''],
  ['a missing claim', {}, { require: [['groups', ['*']]] }, 'require groups'],
  [
    'all must hold',
    { a: 'x' },
    {
      require: [
        ['a', ['x']],
        ['b', ['x']],
      ],
    },
    'require b',
  ],
  ['an inherited name', {}, { require: [['toString', ['*']]] }, 'require toString'],
  [
    'a pointer to a name with dots',
    { 'kubernetes.io': { namespace: 'search' } },
    { require: [['/kubernetes.io/namespace', ['search']]] },
    '',
  ],
  [
    'a pointer with escapes',
    { 'https://corp/claims': { 'a~b': 'x' } },
    { require: [['/https:~1~1corp~1claims/a~0b', ['x']]] },
    '',
  ],
  ['a name that is an address', { 'https://corp/groups': ['x'] }, { require: [['https://corp/groups', ['x']]] }, ''],
  ['no subject', { sub: '' }, {}, 'subject sub'],
  ['several subjects', { sub: ['a', 'b'] }, {}, 'subject sub'],
  ['a subject with a line break', { sub: 'a\nb' }, {}, 'subject sub'],
  ['a subject with a character of no width', { sub: 'a\u200bb' }, {}, 'subject sub'],
  ['a long subject', { sub: 'a'.repeat(201) }, {}, 'subject sub'],
  ['a user that is missing', {}, { user: 'email' }, 'user email'],
  ['a tag that is missing', {}, { tags: [['repo', 'repository']] }, ''],
  ['a tag that is too long', { repository: 'a'.repeat(201) }, { tags: [['repo', 'repository']] }, 'tags repo'],
  ['a tag with several values', { ref: ['a', 'b'] }, { tags: [['ref', 'ref']] }, 'tags ref'],
]

for (const [name, claims, rule, reason] of CASES)
  test(`claims: ${name}`, () => assert.equal(reasonOf(claims, rule), reason))

test('claims: the first glob of the map decides the team', () => {
  const team: TokenRule['team'] = {
    kind: 'claim',
    claim: 'groups',
    map: [
      ['search', 'first'],
      ['search-*', 'second'],
    ],
    fallback: null,
  }
  const teamFor = (groups: readonly string[], rule: TokenRule['team'] = team) => {
    const result = check({ groups }, { team: rule })
    return result.ok ? result.identity.team : result.noTeam
  }
  assert.equal(teamFor(['search-a', 'search']), 'first')
  assert.equal(teamFor(['search-a']), 'second')
  assert.equal(teamFor(['Search']), true)
  assert.equal(teamFor(['x'], { ...team, fallback: 'default' }), 'default')
})

test('claims: identity of a workload', () => {
  const result = check(
    { 'kubernetes.io': { serviceaccount: { name: 'indexer' } }, email: 'a@corp.example' },
    { user: 'email', tags: [['sa', '/kubernetes.io/serviceaccount/name']] },
  )
  assert.ok(result.ok)
  const { subject, user, tags, until } = result.identity
  assert.deepEqual(
    { subject, user, tags, until },
    {
      subject: 'system:serviceaccount:search:indexer',
      user: 'a@corp.example',
      tags: { sa: 'indexer' },
      until: NOW + 3_630_000,
    },
  )
})
