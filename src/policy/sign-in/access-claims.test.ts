import assert from 'node:assert/strict'
import { test } from 'node:test'
import { accessClaims, readAccessClaims } from './access-claims.ts'

const SETTINGS = {
  publicUrl: 'https://ai.example',
  roles: [],
  teams: [{ group: 'search', provider: null, team: 'search' }],
}
const ANN = {
  id: 'usr_a',
  signIn: 'sgn_a',
  provider: 'corp',
  email: 'ann@corp.example',
  name: null,
  groups: ['search'],
}

test('claims are read as they were made, for one hour', () => {
  const claims = accessClaims(SETTINGS, ANN, 1_500)
  assert.deepEqual(readAccessClaims(claims, 'https://ai.example', 2_000), { ...ANN, until: 3_601_000 })
  assert.equal(readAccessClaims(claims, 'https://ai.example', 3_601_000), 'exp')
})

test('claims of another gateway, for another audience or without a person are refused', () => {
  const claims = accessClaims(SETTINGS, ANN, 0)
  assert.equal(readAccessClaims(claims, 'https://other.example', 0), 'iss')
  assert.equal(readAccessClaims({ ...claims, aud: 'x' }, 'https://ai.example', 0), 'aud')
  for (const member of ['sub', 'sid', 'idp', 'groups'])
    assert.equal(readAccessClaims({ ...claims, [member]: 1 }, 'https://ai.example', 0), 'form')
})

test('the groups that rules name are in the token, however many a person has', () => {
  const groups = [...Array.from({ length: 200 }, (_, n) => `g${n}`), 'search']
  const claims = accessClaims(SETTINGS, { ...ANN, groups }, 0)
  const read = readAccessClaims(claims, 'https://ai.example', 0)
  assert.ok(typeof read === 'object')
  assert.equal(read.groups.length, 50)
  assert.equal(read.groups[0], 'search')
})
