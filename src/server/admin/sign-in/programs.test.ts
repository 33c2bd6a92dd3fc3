import assert from 'node:assert/strict'
import { test } from 'node:test'
import { good } from '../../../core/failure.ts'
import type { JsonObject } from '../../../core/json.ts'
import { Secret } from '../../../core/secret.ts'
import type { SignInSettings } from '../../../core/sign-in.ts'
import type { ControlOperation, ControlResult } from '../../../records/store/record-operations.ts'
import type { AdminRequest } from '../../admin-request.ts'
import { type IssuerCalls, IssuerUnavailable, SignInRefused } from './issuer.ts'
import { digestOf, Programs } from './programs.ts'
import { seal } from './sealing.ts'

const SECRETS = [new Secret('a-secret-of-more-than-32-characters-0123')]
const SETTINGS: SignInSettings = {
  publicUrl: 'https://ai.example',
  secrets: SECRETS,
  providers: [
    {
      ...{ name: 'corp', issuer: 'https://idp.example', clientId: 'headgate', clientSecret: null },
      ...{ scopes: [], groups: 'groups', domains: [], parameters: {} },
    },
  ],
  roles: [],
  teams: [],
  session: { idle: 1, max: 1, recheck: 1 },
}
const PERSON = {
  ...{ id: 'usr_a', issuer: 'https://idp.example', subject: '1', provider: 'corp', email: null, name: null },
  ...{ groups: ['devs'], bindings: [] },
}
const LOGIN = { begun: 0, checked: 0, idToken: null, refreshToken: seal(SECRETS, 'token', 'of the issuer') }
const GROUPS = { iss: PERSON.issuer, sub: PERSON.subject, email: 'a@corp.example', groups: ['others'] }

/** A refresh of a sign-in that is due for a check, with the answer of the issuer. */
const refresh = async (issuer: () => JsonObject, settings = SETTINGS) => {
  const ran: ControlOperation[] = []
  const answers: { readonly [name: string]: JsonObject } = {
    sign_in_use: { id: 'sgn_a', person: PERSON, login: LOGIN, isCheckDue: true },
    sign_in_rotate: { id: 'sgn_a', person: PERSON, next: 0 },
  }
  const run = async (operation: ControlOperation): Promise<ControlResult> => {
    ran.push(operation)
    return { ok: true, status: 200, value: answers[operation.do] ?? {} }
  }
  const issuers = {
    refresh: async () => ({ claims: issuer(), idToken: null, accessToken: '', refreshToken: 'newer' }),
  }
  // The part of each that a refresh uses.
  const programs = new Programs({
    claude: () => null,
    issuers: issuers as unknown as IssuerCalls,
    run,
    now: () => 1_000,
    report() {},
  })
  const request = {
    ...{ address: '192.0.2.1', id: 'req_a' },
    readBody: async () => good('grant_type=refresh_token&refresh_token=r0'),
  } as unknown as AdminRequest
  let status = 0
  let text = ''
  const reply = {
    writeHead(given: number) {
      status = given
    },
    end(given = '') {
      text = given
    },
    write: () => true,
    abort() {},
    onDrain() {},
    onDisconnect() {},
  }
  await programs.exchange({ settings, request, reply })
  return { status, body: JSON.parse(text), ran }
}

test('a refresh stores what the issuer states now, and rotates the token', async () => {
  const { status, body, ran } = await refresh(() => GROUPS)
  assert.equal(status, 200)
  const rotated = ran.find((one) => one.do === 'sign_in_rotate')
  assert.ok(rotated?.do === 'sign_in_rotate')
  assert.deepEqual(rotated.person?.groups, ['others'])
  assert.equal(rotated.refresh, digestOf('r0'))
  assert.deepEqual(rotated.next, [digestOf(body.refresh_token)])
  assert.equal((await refresh(() => GROUPS)).body.refresh_token, body.refresh_token, 'the same answer')
})

test('while the issuer is away the program keeps its token, and the next refresh is checked', async () => {
  const { status, body, ran } = await refresh(() => {
    throw new IssuerUnavailable('no answer')
  })
  assert.deepEqual([status, body.error], [503, 'temporarily_unavailable'])
  assert.deepEqual(
    ran.map((one) => one.do),
    ['sign_in_use', 'sign_in_unchecked'],
  )
})

const ENDINGS = [
  ['the issuer refuses', () => assert.fail(new SignInRefused('gone', 'invalid_grant')), SETTINGS],
  ['another subject comes back', () => ({ ...GROUPS, sub: '2' }), SETTINGS],
  ['the issuer is no longer configured', () => GROUPS, { ...SETTINGS, providers: [] }],
  [
    'the secret has changed',
    () => GROUPS,
    { ...SETTINGS, secrets: [new Secret('another-secret-0123456789-0123456789')] },
  ],
] as const

for (const [name, issuer, settings] of ENDINGS)
  test(`a sign-in ends with 401 if ${name}`, async () => {
    const { status, body, ran } = await refresh(issuer, settings)
    assert.deepEqual([status, body.error], [401, 'invalid_grant'])
    assert.deepEqual(
      ran.map((one) => one.do),
      ['sign_in_use', 'sign_in_end'],
    )
  })
