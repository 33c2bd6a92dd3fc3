/** Attacks on signed tokens (RFC 8725, section 2): each is refused with one text, whatever is wrong. */
import assert from 'node:assert/strict'
import { createHmac, randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { issuerKey, jwkOf, signToken } from '../support/issuer.ts'
import { resultOf, tokenAccess } from '../support/token-access.ts'

const ISSUER = 'https://a.example'
const OTHER = 'https://b.example'
const rsa = issuerKey('RS256', 'rsa')
const ec = issuerKey('ES256', 'ec')
const ed = issuerKey('EdDSA', 'ed')
const foreign = issuerKey('ES256', 'foreign')
const attacker = issuerKey('ES256', 'attacker')
const attackerRsa = issuerKey('RS256', 'rsa')
const YAML = `teams: { search: {} }
keys: { known: { secret: "eyJ0eXAiOiJKV1QifQ.eyJyb2xlIjoiYW5vbiJ9.a-key-with-the-form-of-a-token" } }
auth:
  jwt:
    - { name: a, issuer: "${ISSUER}", audience: [headgate], require: { sub: "user:*" }, team: { claim: team, map: { search: search } } }
    - { name: b, issuer: "${OTHER}", audience: [headgate], algorithms: [ES256] }
`
const access = () => tokenAccess(YAML, { [ISSUER]: [rsa, ec, ed], [OTHER]: [foreign] })

const now = Math.floor(Date.now() / 1_000)
const CLAIMS = { iss: ISSUER, aud: 'headgate', sub: 'user:alice', team: 'search', iat: now, exp: now + 600 }
const part = (value: unknown): string =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
const hmac = (algorithm: string, secret: string | Buffer): string => {
  const text = `${part({ alg: algorithm, kid: 'rsa' })}.${part(CLAIMS)}`
  return `${text}.${createHmac(`sha${algorithm.slice(2)}`, secret)
    .update(text)
    .digest('base64url')}`
}
const pem = rsa.publicKey.export({ format: 'pem', type: 'spki' })
const der = rsa.publicKey.export({ format: 'der', type: 'spki' })
const valid = signToken(ec, CLAIMS)
const [validHead = '', validClaims = '', validSignature = ''] = valid.split('.')
const swapped = (claims: object): string => `${validHead}.${part({ ...CLAIMS, ...claims })}.${validSignature}`
const withClaims = (claims: object): string => signToken(ec, { ...CLAIMS, ...claims })
const zeros = Buffer.alloc(64).toString('base64url')

const ATTACKS: readonly (readonly [string, string])[] = [
  ['no signature, alg none', `${part({ alg: 'none' })}.${part(CLAIMS)}.`],
  ['no signature, alg none with a signature', `${part({ alg: 'none', kid: 'ec' })}.${part(CLAIMS)}.${validSignature}`],
  ['no signature, alg None', `${part({ alg: 'None' })}.${part(CLAIMS)}.YQ`],
  ['an empty signature', `${validHead}.${validClaims}.`],
  ['HMAC with the public key as PEM', hmac('HS256', pem)],
  ['HMAC with the public key as DER', hmac('HS256', der)],
  ['HMAC with SHA-512 and the public key', hmac('HS512', pem)],
  ['HMAC with the modulus', hmac('HS256', Buffer.from(String(jwkOf(rsa).n), 'base64url'))],
  ['HMAC with an empty secret', hmac('HS256', '')],
  ['claims changed after signing', swapped({ sub: 'user:admin' })],
  ['audience changed after signing', swapped({ aud: 'other' })],
  [
    'a header changed after signing',
    `${part({ alg: 'ES256', kid: 'ec', typ: 'at+jwt' })}.${validClaims}.${validSignature}`,
  ],
  ['a signature of zeros (CVE-2022-21449)', `${validHead}.${validClaims}.${zeros}`],
  ['a signature in DER', `${validHead}.${validClaims}.${Buffer.from('3006020101020101', 'hex').toString('base64url')}`],
  ['a truncated signature', valid.slice(0, -2)],
  ['a key of its own with a known ID', signToken({ ...attacker, kid: 'ec' }, CLAIMS)],
  ['an RSA key of its own with a known ID', signToken(attackerRsa, CLAIMS)],
  ['a key in the header (jwk)', signToken(attacker, CLAIMS, { jwk: jwkOf(attacker) })],
  ['a key in the header with a known ID', signToken(attacker, CLAIMS, { kid: 'ec', jwk: jwkOf(attacker) })],
  ['an address of keys (jku)', signToken(attacker, CLAIMS, { jku: 'https://attacker.example/jwks' })],
  ['an address inside (jku)', signToken(attacker, CLAIMS, { jku: 'http://169.254.169.254/latest' })],
  ['a certificate address (x5u)', signToken(attacker, CLAIMS, { x5u: 'https://attacker.example/cert' })],
  ['a certificate chain (x5c)', signToken(attacker, CLAIMS, { x5c: ['MIIB'] })],
  ['an ID that is a path', signToken(attacker, CLAIMS, { kid: '../../dev/null' })],
  ['an ID that is a statement', signToken(attacker, CLAIMS, { kid: "' UNION SELECT 'secret" })],
  ['an ID that is a member of every object', signToken(attacker, CLAIMS, { kid: 'constructor' })],
  ['no ID in a set of several keys', signToken(ec, CLAIMS, { kid: undefined })],
  ['another algorithm than that of the key', signToken({ ...rsa, algorithm: 'PS256' }, CLAIMS)],
  ['an algorithm that the rule does not accept', signToken({ ...rsa, kid: 'foreign' }, { ...CLAIMS, iss: OTHER })],
  ['a critical extension', signToken(ec, CLAIMS, { crit: ['b64'], b64: false })],
  ['an unknown critical extension', signToken(ec, CLAIMS, { crit: ['x'], x: 1 })],
  ['a key of another issuer', signToken(foreign, CLAIMS)],
  ['a token of one issuer that names another', signToken(ec, { ...CLAIMS, iss: OTHER })],
  ['an issuer that is not configured', withClaims({ iss: 'https://attacker.example' })],
  ['an issuer with a slash more', withClaims({ iss: `${ISSUER}/` })],
  ['issuers as a list', withClaims({ iss: [ISSUER] })],
  ['a token for another service', withClaims({ aud: 'billing' })],
  ['no audience', withClaims({ aud: undefined })],
  ['an audience that contains ours', withClaims({ aud: 'headgate.attacker.example' })],
  [
    'a logout token',
    signToken(
      ec,
      { ...CLAIMS, events: { 'http://schemas.openid.net/event/backchannel-logout': {} } },
      { typ: 'logout+jwt' },
    ),
  ],
  ['a security event', signToken(ec, CLAIMS, { typ: 'secevent+jwt' })],
  ['an expired token', withClaims({ iat: now - 900, exp: now - 300 })],
  ['no end', withClaims({ exp: undefined })],
  ['an end as a text', withClaims({ exp: String(now + 600) })],
  ['an end in milliseconds', withClaims({ exp: (now + 600) * 1_000 })],
  ['a token of the future', withClaims({ nbf: now + 300 })],
  ['a subject that is not required', withClaims({ sub: 'admin' })],
  ['a subject that hides its end', withClaims({ sub: 'user:alice\u0000' })],
  ['two objects in one segment', `${validHead}.${part(`${JSON.stringify(CLAIMS)}{}`)}.${validSignature}`],
  ['a token in a token', signToken(ec, valid as unknown as object)],
  ['a long token', withClaims({ padding: 'a'.repeat(9_000) })],
]

test('forged tokens: each is refused with the same text, and a valid one is accepted', async () => {
  const { ask, state } = access()
  assert.equal(resultOf(await ask(valid)), 'client user:alice')
  const texts = new Set<string>()
  for (const [name, token] of ATTACKS) {
    const outcome = await ask(token)
    assert.ok(!outcome.ok, name)
    assert.equal(outcome.failure.kind, 'unauthenticated', `${name}: ${resultOf(outcome)}`)
    if (token.split('.').every((one) => one !== '') && token.startsWith('eyJ')) texts.add(outcome.failure.message)
    // Refused again, and not kept as something else.
    assert.equal(resultOf(await ask(token)), resultOf(outcome), name)
  }
  assert.equal(texts.size, 1, [...texts].join('\n'))
  assert.equal(resultOf(await ask(valid)), 'client user:alice')
  // Both sets, and one fetch for unknown key IDs of each issuer.
  assert.ok(state.fetches <= 4, `${state.fetches} fetches`)
})

test('flood of tokens: random key IDs cause one fetch in 30 s', async () => {
  const { ask, state } = access()
  assert.ok((await ask(valid)).ok)
  const before = state.fetches
  const [, claims, signature] = valid.split('.')
  for (let n = 0; n < 5_000; n++) {
    const outcome = await ask(`${part({ alg: 'ES256', kid: randomUUID() })}.${claims}.${signature}`)
    assert.ok(!outcome.ok && outcome.failure.kind === 'unauthenticated')
  }
  assert.equal(state.fetches, before + 1)
  state.now += 30_000
  await ask(`${part({ alg: 'ES256', kid: randomUUID() })}.${claims}.${signature}`)
  assert.equal(state.fetches, before + 2)
  assert.ok((await ask(valid)).ok)
})

test('forged identity: a subject of one issuer or claim is not the same subject of another', async () => {
  const { ask, clients } = access()
  const one = await ask(signToken(ec, { ...CLAIMS, sub: 'user:alice' }))
  const other = await ask(signToken(foreign, { ...CLAIMS, iss: OTHER, sub: 'user:alice' }))
  assert.ok(one.ok && other.ok)
  assert.notEqual(one.value.id, other.value.id)
  assert.notEqual(one.value.owner, other.value.owner)
  assert.match(one.value.id, /^jwt_[a-z]{12}$/)
  assert.match(one.value.owner, /^[0-9a-f]{32}$/)
  assert.ok(!JSON.stringify(clients.seen()).includes(one.value.owner))
})

test('forged tokens: a second credential does not replace a key, and a known key with the form of a token stays one', async () => {
  const { send } = access()
  const known = 'eyJ0eXAiOiJKV1QifQ.eyJyb2xlIjoiYW5vbiJ9.a-key-with-the-form-of-a-token'
  assert.equal(resultOf(await send({ authorization: `Bearer ${known}` })), 'client known')
  assert.equal(resultOf(await send({ authorization: `Bearer ${known}`, 'x-api-key': valid })), 'client known')
  assert.equal(resultOf(await send({ authorization: `Bearer ${valid}`, 'x-api-key': valid })), 'client user:alice')
  assert.equal(resultOf(await send({ authorization: 'Bearer placeholder', 'x-api-key': valid })), 'client user:alice')
})

test('blocked identities: a blocked subject is refused with every token, and no other', async () => {
  const { ask, state } = access()
  assert.ok((await ask(valid)).ok)
  state.blocked = new Map([[`${ISSUER} sub user:alice`, Number.POSITIVE_INFINITY]])
  assert.equal(resultOf(await ask(valid)), 'unauthenticated jwt a: blocked')
  assert.equal(resultOf(await ask(withClaims({ jti: '2' }))), 'unauthenticated jwt a: blocked')
  assert.ok((await ask(withClaims({ sub: 'user:bob' }))).ok)
  state.blocked = null
  assert.ok((await ask(valid)).ok)
})

test('escalation by claims: a team that is not mapped or does not exist is 403, and never another team', async () => {
  const { ask, directory, useTeams } = access()
  const team = await ask(valid)
  assert.ok(team.ok && team.value.team.name === 'search')
  for (const claim of [undefined, 'default', 'Search', ['x'], { search: true }, 'team_default'])
    assert.match(resultOf(await ask(withClaims({ team: claim }))), /^team_unknown/)
  const { teams, ...others } = directory()
  useTeams({ ...others, teams: new Map([...teams].filter(([, { name }]) => name !== 'search')) })
  assert.match(resultOf(await ask(valid)), /^team_unknown jwt a: there is no team "search"/)
})
