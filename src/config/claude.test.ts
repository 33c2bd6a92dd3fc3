// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'
import { describeChange } from './describe.ts'

const env = { AUTH_ADMIN: 'a-token-of-24-characters-', OTLP_TOKEN: 'canary-of-the-receiver' }
const SSO = `sso:
  publicUrl: https://ai.corp.example
  secret: a-secret-of-the-gateway-0123456789-0123
  providers: { okta: { issuer: "https://corp.okta.com", clientId: abc } }
`
const whole = `${SSO}claude:
  enabled: true
  loginNotice: Call 4357 for help
  policies:
    - settings: { permissions: { deny: [ WebFetch ] }, "a b": { "9": null, "10": [ 1, true, "60000" ] } }
    - { match: { groups: [ devs ], domains: [ "@Corp.Example" ], teams: [ search ] }, settings: {} }
  telemetry:
    forward: [ { url: "https://otlp.corp.example/x/", headers: { Authorization: "Bearer \${OTLP_TOKEN}" }, traces: true } ]
`

test('claude: the section is read with its defaults', () => {
  const { claude } = loaded({ env, yaml: whole }).config
  assert.ok(claude)
  const { policies, receivers, ...texts } = claude
  assert.deepEqual(texts, { loginNotice: 'Call 4357 for help' })
  assert.deepEqual(policies, [
    {
      match: { groups: null, domains: null, teams: null },
      settings: { permissions: { deny: ['WebFetch'] }, 'a b': { 10: [1, true, '60000'] } },
    },
    { match: { groups: ['devs'], domains: ['corp.example'], teams: ['search'] }, settings: {} },
  ])
  assert.equal(receivers[0]?.url, 'https://otlp.corp.example/x')
  assert.deepEqual(receivers[0]?.signals, ['metrics', 'traces'])
  assert.equal(receivers[0]?.headers.authorization?.reveal(), 'Bearer canary-of-the-receiver')
  assert.equal(loaded({ env, yaml: `${SSO}claude: { policies: [] }\n` }).config.claude, null, 'off unless enabled')
  assert.equal(loaded({ env, yaml: SSO }).config.claude, null)
})

test('claude: a changed secret is a change, and is not shown', () => {
  const before = loaded({ env, yaml: whole }).config
  const after = loaded({ env: { ...env, OTLP_TOKEN: 'canary-other' }, yaml: whole }).config
  assert.deepEqual(describeChange(before, after), ['claude: changed'])
  assert.deepEqual(describeChange(before, before), [])
  assert.doesNotMatch(JSON.stringify(after), /canary/)
})

const section = (members: string) => `${SSO}claude:\n  enabled: true\n${members}`
const REFUSED: readonly (readonly [name: string, yaml: string, expected: RegExp])[] = [
  ['without single sign-on', 'claude: { enabled: true }\n', /claude\.enabled: found true without single sign-on/],
  ['large settings', section(`  policies: [ { settings: { a: ${'x'.repeat(66_000)} } } ]\n`), /at most 64 KiB/],
  ['an empty list of groups', section('  policies: [ { match: { groups: [] }, settings: {} } ]\n'), /groups/],
  ['an unknown match', section('  policies: [ { match: { group: [ a ] }, settings: {} } ]\n'), /groups/],
  ['no settings', section('  policies: [ { match: { groups: [ a ] } } ]\n'), /settings/],
  ['another scheme', section('  telemetry: { forward: [ { url: "ftp://a.example" } ] }\n'), /url: found "ftp:/],
  ['a query', section('  telemetry: { forward: [ { url: "https://a.example/?k=v" } ] }\n'), /without a query/],
  [
    'a header that frames the body',
    section('  telemetry: { forward: [ { url: "https://a.example", headers: { Content-Length: "1" } } ] }\n'),
    /found "Content-Length"/,
  ],
  [
    'a value with a line break',
    section('  telemetry: { forward: [ { url: "https://a.example", headers: { A: "canary\\nB: c" } } ] }\n'),
    /headers\.A/,
  ],
  ['a long notice', section(`  loginNotice: ${'x'.repeat(501)}\n`), /loginNotice/],
]
for (const [name, yaml, expected] of REFUSED)
  test(`claude: ${name} is refused`, () => {
    const found = lines({ env, yaml })
    assert.match(found.join('\n'), expected)
    assert.doesNotMatch(found.join('\n'), /canary/)
    assert.equal(found.length, 1, found.join('\n'))
  })
