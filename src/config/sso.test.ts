// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to variables are under test
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { lines, loaded } from '../../test/support/config.ts'
import { describeChange } from './describe.ts'

const SECRET = 'canary-0123456789-0123456789-0123456789'
const env = { SSO_KEY: SECRET, OKTA_SECRET: 'canary-of-the-client' }
const yamlWith = (more: string, secret = '"${SSO_KEY}"') => `sso:
  publicUrl: https://ai.corp.example/
  secret: ${secret}
${more}`
const PROVIDERS = `  providers:
    okta: { issuer: https://corp.okta.com, clientId: abc, clientSecret: "\${OKTA_SECRET}", scopes: [ openid, groups ], domains: [ corp.example ] }
    google: { issuer: "https://accounts.google.com", clientId: xyz, groups: hd, parameters: { access_type: offline } }
`
const whole =
  yamlWith(`${PROVIDERS}  roles: [ { group: ai-admins, role: admin }, { group: leads, role: operator, team: search, provider: okta } ]
  teams: [ { group: devs, team: search }, { team: default } ]
  session: { idle: 3600000 }
`)

test('sso: the section is read with its defaults', () => {
  const { sso } = loaded({ env, yaml: whole }).config
  assert.ok(sso)
  assert.equal(sso.publicUrl, 'https://ai.corp.example')
  assert.deepEqual(
    sso.secrets.map((one) => one.reveal()),
    [SECRET],
  )
  const [okta, google] = sso.providers
  assert.equal(okta?.clientSecret?.reveal(), 'canary-of-the-client')
  assert.deepEqual(
    { ...google, issuer: null },
    {
      name: 'google',
      issuer: null,
      clientId: 'xyz',
      clientSecret: null,
      scopes: ['openid', 'profile', 'email'],
      groups: 'hd',
      domains: [],
      parameters: { access_type: 'offline' },
    },
  )
  assert.deepEqual(sso.roles[1], { group: 'leads', provider: 'okta', role: 'operator', team: 'search' })
  assert.deepEqual(sso.teams[1], { group: null, provider: null, team: 'default' })
  assert.deepEqual(sso.session, { idle: 3_600_000, max: 86_400_000, recheck: 3_600_000 })
  assert.equal(loaded({ env, yaml: 'providers: {}\n' }).config.sso, null)
})

const PLAIN = `sso:
${PROVIDERS}`

test('sso: single values may be in the environment, which is above the file', () => {
  const variables = {
    ...env,
    SSO_PUBLIC_URL: 'https://other.example',
    SSO_SECRET: 'canary-of-the-environment-0123456789-012',
    SSO_SESSION_MAX: '7200000',
  }
  for (const yaml of [PLAIN, whole]) {
    const { sso } = loaded({ env: variables, yaml }).config
    assert.equal(sso?.publicUrl, 'https://other.example')
    assert.deepEqual(
      sso?.secrets.map((one) => one.reveal()),
      ['canary-of-the-environment-0123456789-012'],
    )
    assert.deepEqual(sso?.session, {
      idle: yaml === whole ? 3_600_000 : 28_800_000,
      max: 7_200_000,
      recheck: 3_600_000,
    })
  }
})

test('sso: the secret may be in a file that a variable names', () => {
  const files = new Map([['/run/secrets/sso', { text: 'canary-of-the-file-0123456789-0123456789' }]])
  const variables = { ...env, SSO_PUBLIC_URL: 'https://other.example', SSO_SECRET_FILE: '/run/secrets/sso' }
  const { sso } = loaded({ env: variables, yaml: PLAIN, files }).config
  assert.equal(sso?.secrets[0]?.reveal(), 'canary-of-the-file-0123456789-0123456789')
})

test('sso: variables without the section are a warning, and no sign-in', () => {
  const { config, warnings } = loaded({ env: { SSO_PUBLIC_URL: 'https://other.example' }, yaml: 'providers: {}\n' })
  assert.equal(config.sso, null)
  assert.match(warnings.join(), /SSO_PUBLIC_URL without the section sso/)
})

for (const [name, variables, expected] of [
  ['a section without an address', { SSO_SECRET: SECRET }, /sso: found a section without publicUrl; .*SSO_PUBLIC_URL/],
  [
    'a section without a secret',
    { SSO_PUBLIC_URL: 'https://a.example' },
    /sso: found a section without secret; .*SSO_SECRET/,
  ],
  ['a short secret', { SSO_PUBLIC_URL: 'https://a.example', SSO_SECRET: 'canary' }, /^SSO_SECRET: found a value .*32/m],
  [
    'a time that is no number',
    { SSO_PUBLIC_URL: 'https://a.example', SSO_SECRET: SECRET, SSO_SESSION_IDLE: '8h' },
    /^SSO_SESSION_IDLE: found "8h"/m,
  ],
  [
    'a time that is too short',
    { SSO_PUBLIC_URL: 'https://a.example', SSO_SECRET: SECRET, SSO_SESSION_MAX: '1' },
    /^SSO_SESSION_MAX: found "1"/m,
  ],
  [
    'an address without https',
    { SSO_PUBLIC_URL: 'http://a.example', SSO_SECRET: SECRET },
    /sso\.publicUrl: found "http:\/\/a\.example"/,
  ],
] as const)
  test(`sso: refuses ${name} of the environment`, () => {
    const text = lines({ env: { ...env, ...variables }, yaml: PLAIN }).join('\n')
    assert.match(text, expected)
    assert.doesNotMatch(text, /canary/)
  })

test('sso: without auth.admin there is a warning, which doctor shows', () => {
  assert.match(loaded({ env, yaml: whole }).warnings.join(), /sso is set without auth\.admin/)
  assert.deepEqual(loaded({ env: { ...env, AUTH_ADMIN: 'a-token-of-24-characters-' }, yaml: whole }).warnings, [])
})

test('sso: several secrets are a list, of which the first is used', () => {
  const { sso } = loaded({
    env,
    yaml: yamlWith(PROVIDERS, '[ "${SSO_KEY}", another-secret-of-forty-characters-0123 ]'),
  }).config
  assert.equal(sso?.secrets.length, 2)
})

test('sso: a changed secret is a change, and is not shown', () => {
  const before = loaded({ env, yaml: whole }).config
  const after = loaded({ env: { ...env, OKTA_SECRET: 'canary-other' }, yaml: whole }).config
  assert.deepEqual(describeChange(before, after), ['sso: changed'])
  assert.deepEqual(describeChange(before, before), [])
  assert.doesNotMatch(JSON.stringify(after), /canary/)
})

const one = (members: string) => yamlWith(`  providers: { okta: { clientId: a, ${members} } }\n`)
const REFUSED: readonly (readonly [name: string, yaml: string, expected: RegExp])[] = [
  [
    'a short secret',
    yamlWith(PROVIDERS, 'canary-short'),
    /sso\.secret: found a value that is not shown.*at least 32 characters/,
  ],
  ['no provider', yamlWith('  providers: {}\n'), /no identity provider/],
  [
    'an issuer over http',
    one('issuer: "http://idp.corp.example"'),
    /issuer: found "http:\/\/idp.corp.example"; allowed: an https/,
  ],
  ['an issuer with a password', one('issuer: "https://u:canary@idp.example"'), /issuer: found/],
  ['no openid', one('issuer: "https://a.example", scopes: [ profile ]'), /scopes: found a list without openid/],
  [
    'groups of an e-mail address',
    one('issuer: "https://a.example", groups: email'),
    /the claim "email", which is no group/,
  ],
  ['a parameter of the gateway', one('issuer: "https://a.example", parameters: { State: x }'), /found "State"/],
  [
    'a name with a space',
    yamlWith('  providers: { "a b": { issuer: "https://a.example", clientId: a } }\n'),
    /found "a b"/,
  ],
  [
    'a rule of an unknown provider',
    `${yamlWith(PROVIDERS)}  roles: [ { role: admin, provider: octa } ]\n`,
    /did you mean okta\?/,
  ],
  ['an unknown role', `${yamlWith(PROVIDERS)}  roles: [ { role: owner } ]\n`, /one of viewer, operator, admin/],
  ['a unit', `${yamlWith(PROVIDERS)}  session: { idle: 8h }\n`, /write 28800000/],
]
for (const [name, yaml, expected] of REFUSED)
  test(`sso: ${name} is refused`, () => {
    const found = lines({ env, yaml })
    assert.match(found.join('\n'), expected)
    assert.equal(found.length, 1, found.join('\n'))
  })

for (const yaml of [
  `sso: ${SECRET}\n`,
  yamlWith(PROVIDERS, `{ a: ${SECRET} }`),
  yamlWith(`  providers: { okta: ${SECRET} }\n`),
  yamlWith(`  providers: { okta: { issuer: "https://a.example", clientId: a, clientSecret: [ ${SECRET} ] } }\n`),
])
  test(`sso: a secret in the wrong place is not shown: ${JSON.stringify(yaml.replaceAll(SECRET, '…'))}`, () => {
    const found = lines({ env: {}, yaml })
    assert.ok(found.length > 0)
    assert.doesNotMatch(found.join('\n'), /canary/)
  })
