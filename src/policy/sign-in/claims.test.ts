import assert from 'node:assert/strict'
import { test } from 'node:test'
import { claimAt, groupsIn, hasAllowedDomain, shownClaim } from './claims.ts'

const GROUPS = [
  ['a list', { groups: ['a', 'b', 'a'] }, 'groups', { groups: ['a', 'b'] }],
  ['one name', { hd: 'corp.example' }, 'hd', { groups: ['corp.example'] }],
  ['an empty list', { groups: [] }, 'groups', { groups: [] }],
  [
    'a name with slashes (Auth0)',
    { 'https://corp.example/groups': ['a'] },
    'https://corp.example/groups',
    { groups: ['a'] },
  ],
  ['a pointer (Keycloak)', { realm_access: { roles: ['a'] } }, '/realm_access/roles', { groups: ['a'] }],
  ['a pointer with an escape', { 'a/b': { c: ['x'] } }, '/a~1b/c', { groups: ['x'] }],
  ['none', { sub: '1' }, 'groups', 'absent'],
  ['null', { groups: null }, 'groups', 'absent'],
  ['a member of the prototype', {}, '/constructor/name', 'absent'],
  ['overage', { _claim_names: { groups: 'src1' }, _claim_sources: {} }, 'groups', 'overage'],
  ['overage as a flag', { hasgroups: true }, 'groups', 'overage'],
  ['overage as a text', { hasgroups: 'true' }, 'groups', 'overage'],
  ['objects', { groups: [{ name: 'a' }] }, 'groups', 'invalid'],
  ['numbers', { groups: [1] }, 'groups', 'invalid'],
  ['too many', { groups: Array.from({ length: 1_001 }, (_, n) => `g${n}`) }, 'groups', 'invalid'],
  ['a long name', { groups: ['a'.repeat(257)] }, 'groups', 'invalid'],
] as const

for (const [name, claims, path, expected] of GROUPS)
  test(`sign-in: groups in claims: ${name}`, () => assert.deepEqual(groupsIn(claims, path), expected))

const DOMAINS = [
  ['verified', { email: 'ann@corp.example', email_verified: true }, true],
  ['verified as a text', { email: 'ann@corp.example', email_verified: 'true' }, true],
  ['capitals', { email: 'Ann@CORP.example', email_verified: true }, true],
  ['not verified', { email: 'ann@corp.example', email_verified: false }, false],
  ['not stated as verified', { email: 'ann@corp.example' }, false],
  ['another domain', { email: 'ann@corp.example.evil', email_verified: true }, false],
  ['a subdomain', { email: 'ann@x.corp.example', email_verified: true }, false],
  ['two at signs', { email: '"a@corp.example"@evil', email_verified: true }, false],
  ['the domain alone', { email: 'corp.example', email_verified: true }, false],
  ['no address', { email_verified: true }, false],
] as const

for (const [name, claims, expected] of DOMAINS)
  test(`sign-in: the domain of an e-mail address: ${name}`, () => {
    assert.equal(hasAllowedDomain(claims, { domains: ['corp.example'] }), expected)
    assert.equal(hasAllowedDomain(claims, { domains: [] }), true)
  })

test('sign-in: shown claims have no control characters and are bounded', () => {
  assert.equal(shownClaim({ name: ' Ann\r\nLee ' }, 'name'), 'AnnLee')
  assert.equal(shownClaim({ name: 'x'.repeat(1_000) }, 'name')?.length, 320)
  assert.equal(shownClaim({ name: ' ' }, 'name'), null)
  assert.equal(shownClaim({ name: 7 }, 'name'), null)
  assert.equal(claimAt([], 'length'), undefined)
})
