import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isTokenLike, MAX_TOKEN, readToken } from './token-form.ts'

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const token = (header: unknown, claims: unknown = { sub: 'a' }): string => `${part(header)}.${part(claims)}.c2ln`

const ACCEPTED = [
  ['an ID token', { alg: 'RS256', typ: 'JWT', kid: 'k' }],
  ['an access token', { alg: 'ES256', typ: 'at+jwt' }],
  ['an access token by its media type', { alg: 'PS256', typ: 'application/at+jwt' }],
  ['a token without a type, as of Kubernetes', { alg: 'RS256', kid: 'k' }],
  ['keys that it brings along are ignored', { alg: 'EdDSA', jwk: {}, jku: 'https://a', x5u: 'https://a', x5c: ['a'] }],
  ['the newer name of EdDSA', { alg: 'Ed25519' }],
] as const

for (const [name, header] of ACCEPTED)
  test(`token form: ${name}`, () => {
    const read = readToken(token(header))
    assert.ok(read.ok)
    assert.deepEqual(read.claims, { sub: 'a' })
    assert.equal(read.kid, 'kid' in header ? 'k' : undefined)
    assert.equal(read.algorithm, header.alg === 'Ed25519' ? 'EdDSA' : header.alg)
  })

const REFUSED = [
  ['no signature', token({ alg: 'none' }), 'alg'],
  ['no signature, in other letters', token({ alg: 'nOnE' }), 'alg'],
  ['a symmetric signature', token({ alg: 'HS256' }), 'alg'],
  ['an algorithm that is no text', token({ alg: ['RS256'] }), 'alg'],
  ['no algorithm', token({}), 'alg'],
  ['a critical extension', token({ alg: 'RS256', crit: ['exp'], exp: 1 }), 'crit'],
  ['an empty list of critical extensions', token({ alg: 'RS256', crit: [] }), 'crit'],
  ['a logout token', token({ alg: 'RS256', typ: 'logout+jwt' }), 'typ'],
  ['a logout token without its type', token({ alg: 'RS256' }, { sub: 'a', events: {} }), 'typ'],
  ['a key ID that is no text', token({ alg: 'RS256', kid: 7 }), 'kid'],
  ['a key ID that is too long', token({ alg: 'RS256', kid: 'k'.repeat(513) }), 'kid'],
  ['claims that are a list', token({ alg: 'RS256' }, []), 'form'],
  ['a header that is no JSON', `${Buffer.from('{"alg"').toString('base64url')}.${part({})}.c2ln`, 'form'],
  [
    'claims that are not UTF-8',
    `${part({ alg: 'RS256' })}.${Buffer.from('{"a":"\xff"}', 'latin1').toString('base64url')}.c2ln`,
    'form',
  ],
  ['a token that is too long', token({ alg: 'RS256' }, { sub: 'a'.repeat(MAX_TOKEN) }), 'size'],
] as const

for (const [name, text, reason] of REFUSED)
  test(`token form: refused: ${name}`, () => {
    const read = readToken(text)
    assert.ok(!read.ok && read.reason.startsWith(reason), JSON.stringify(read))
  })

test('token form: only three segments of base64url that begin with an object are tokens', () => {
  assert.ok(isTokenLike(token({ alg: 'RS256' })))
  for (const text of ['', 'eyJ', 'eyJ.a', 'eyJ.a.b.c', 'eyJ..b', 'eyJ=.a.b', ' eyJ.a.b', 'hgk_a.b.c', 'sk-a.b.c'])
    assert.ok(!isTokenLike(text), text)
})
