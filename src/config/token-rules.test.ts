import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, load, loaded } from '../../test/support/config.ts'
import { describeChange } from './describe.ts'

const env = { OPENAI_API_KEY: 'k' }
const rule = (more = '', issuer = 'https://a.example') => `{ name: a, issuer: "${issuer}", audience: [x]${more} }`
const yamlOf = (...rules: readonly string[]) => `auth:\n  required: true\n  jwt: [ ${rules.join(', ')} ]\n`

test('auth.jwt: defaults, and all members', () => {
  const all = `{ name: cluster, issuer: "https://b.example/id", audience: [headgate], jwks: "https://10.0.0.1:6443/openid/v1/jwks",
    tokenFile: /t, caFile: /ca, algorithms: [ES256], require: { sub: "system:*:*", groups: [a, b] }, subject: email,
    team: { claim: /kubernetes.io/namespace, map: { search: search, "search-*": search }, default: default }, user: email,
    tags: { sa: /kubernetes.io/serviceaccount/name }, skew: 0, maxAge: 3600000, limits: { requestsPerMinute: 60 }, access: { models: ["a*"] } }`
  const { config, warnings } = loaded({ env, yaml: yamlOf(rule(), all) })
  assert.deepEqual(warnings, [])
  const [plain, whole] = config.tokenRules
  assert.deepEqual(plain?.keys, { issuer: 'https://a.example', url: null, file: null, tokenFile: null, caFile: null })
  assert.deepEqual(plain.team, { kind: 'value', team: 'default' })
  assert.deepEqual(plain.algorithms, ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])
  assert.deepEqual([plain.skew, plain.maxAge, plain.subject, plain.user], [30_000, 86_400_000, 'sub', null])
  assert.deepEqual(whole?.require, [
    ['sub', ['system:*:*']],
    ['groups', ['a', 'b']],
  ])
  assert.deepEqual(whole.team, {
    kind: 'claim',
    claim: '/kubernetes.io/namespace',
    map: [
      ['search', 'search'],
      ['search-*', 'search'],
    ],
    fallback: 'default',
  })
  assert.deepEqual(whole.tags, [['sa', '/kubernetes.io/serviceaccount/name']])
  assert.equal(config.settings.auth.required, true)
  assert.ok(!('jwt' in config.settings.auth))
})

const REFUSED = [
  ['no list', 'auth: { jwt: { name: a } }\n', /auth\.jwt: found .*; allowed: a list/],
  ['a symmetric algorithm', yamlOf(rule(', algorithms: [HS256]')), /algorithms.*allowed: one of RS256/],
  ['no signature', yamlOf(rule(', algorithms: [none]')), /algorithms.*allowed: one of RS256/],
  [
    'no audience',
    yamlOf('{ name: a, issuer: "https://a.example", audience: [] }'),
    /auth\.jwt\.0\.audience: found an empty list/,
  ],
  ['an unknown member', yamlOf(rule(', audiences: [x]')), /unknown name "audiences"; allowed: did you mean audience\?/],
  ['plain HTTP', yamlOf(rule('', 'http://a.example')), /issuer: found "http:\/\/a\.example".*https:\/\//],
  ['a name that begins like this machine', yamlOf(rule('', 'http://localhost.a.example')), /issuer: found/],
  ['an address with credentials', yamlOf(rule(', jwks: "https://u:p@a.example/k"')), /jwks: found/],
  ['two places', yamlOf(rule(', jwks: "https://a.example/k", jwksFile: k.json')), /allowed: one of them/],
  ['a file with a certificate', yamlOf(rule(', jwksFile: k.json, caFile: ca.pem')), /jwksFile/],
  [
    'a public issuer',
    yamlOf(rule('', 'https://token.actions.githubusercontent.com')),
    /auth\.jwt\.0\.require: found no requirement.*repository_owner_id/,
  ],
  ['a team of two kinds', yamlOf(rule(', team: { value: a, claim: b, map: { c: d } }')), /auth\.jwt\.0\.team/],
  ['a team without a map', yamlOf(rule(', team: { claim: b }')), /auth\.jwt\.0\.team/],
  ['a route that does not exist', yamlOf(rule(', defaultRoute: fast')), /defaultRoute: found the route "fast"/],
  ['two rules of one name', yamlOf(rule(), rule('', 'https://b.example')), /auth\.jwt\.1\.name/],
  [
    'two places for one issuer',
    yamlOf(rule(), rule(', jwksFile: k.json').replace('name: a', 'name: b')),
    /auth\.jwt\.1\.issuer/,
  ],
] as const

for (const [name, yaml, message] of REFUSED)
  test(`auth.jwt: refused: ${name}`, () => {
    assert.match(lines({ env, yaml }).join('\n'), message)
  })

test('auth.jwt: this machine needs no TLS, and an issuer with a place of keys need not be an address', () => {
  for (const one of [
    rule('', 'http://127.0.0.1:1'),
    rule('', 'http://[::1]:1'),
    rule(', jwksFile: k.json', 'kubernetes/serviceaccount'),
  ])
    assert.ok(load({ env, yaml: yamlOf(one) }).ok, one)
})

test('auth.jwt: a changed rule is a change of the configuration', () => {
  const one = loaded({ env, yaml: yamlOf(rule()) }).config
  assert.deepEqual(describeChange(one, loaded({ env, yaml: yamlOf(rule(', skew: 1')) }).config), ['auth.jwt: changed'])
  assert.deepEqual(describeChange(one, loaded({ env, yaml: yamlOf(rule()) }).config), [])
})
