/** Guesses of keys and tokens: what the limit takes from a guesser, and what it leaves to the owner. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { settingsSchema } from '../../src/core/settings.ts'
import { AccessRules } from '../../src/server/access-rules.ts'
import { type ApiRoute, ROUTES } from '../../src/server/routes.ts'
import { load } from '../support/config.ts'

const LONG = 'a-token-of-at-least-24-characters'
const SHORT = 'short-key'
const CHAT: ApiRoute = { name: 'chat', ...ROUTES.chat }
const METRICS: ApiRoute = { name: 'metrics', ...ROUTES.metrics }

const gate = (auth: { readonly keys?: string[]; readonly admin?: string }) => {
  const rules = new AccessRules(undefined, { production: true })
  const settings = settingsSchema.parse({ auth })
  return (route: ApiRoute, headers: Readonly<Record<string, string>>, address = '192.0.2.1') => {
    const request = { route, address, hosts: ['gw.example'], version: '1.1', headers: (name: string) => headers[name] }
    const result = rules.check(settings, request)
    return result.ok ? 'admitted' : result.failure.kind
  }
}
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

for (const [route, auth] of [
  [CHAT, 'keys'],
  [METRICS, 'admin'],
] as const) {
  test(`guessing: on ${route.path} a right long credential is accepted while wrong ones are limited`, () => {
    const ask = gate(auth === 'keys' ? { keys: [LONG] } : { admin: LONG })
    for (let n = 0; n < 60; n++) ask(route, bearer(`guess-${n}`))
    assert.equal(ask(route, bearer('guess')), 'too_many_attempts')
    assert.equal(ask(route, bearer(LONG)), 'admitted')
    assert.equal(ask(route, { 'x-api-key': LONG }), 'admitted')
  })

  test(`guessing: on ${route.path} a short credential is not found while wrong ones are limited`, () => {
    const ask = gate(auth === 'keys' ? { keys: [SHORT] } : { admin: SHORT })
    for (let n = 0; n < 60; n++) ask(route, bearer(`guess-${n}`))
    assert.equal(ask(route, bearer(SHORT)), 'too_many_attempts')
    // Its owner has used it before, at another address.
    assert.equal(ask(route, bearer(SHORT), '198.51.100.1'), 'admitted')
    for (let n = 0; n < 60; n++) ask(route, bearer(`guess-${n}`), '198.51.100.1')
    assert.equal(ask(route, bearer('guess'), '198.51.100.1'), 'too_many_attempts')
    assert.equal(ask(route, bearer(SHORT), '198.51.100.1'), 'admitted')
  })
}

test('guessing: failures on pages and model calls count together, and each credential of a request counts', () => {
  const ask = gate({ keys: [SHORT], admin: LONG })
  const three = (n: number) => ({ ...bearer(`a-${n}`), 'x-api-key': `b-${n}`, 'api-key': `c-${n}` })
  for (let n = 0; n < 7; n++) assert.equal(ask(n % 2 === 0 ? CHAT : METRICS, three(n)), 'unauthenticated')
  assert.equal(ask(CHAT, bearer('x')), 'too_many_attempts')
  assert.equal(ask(METRICS, bearer('x')), 'too_many_attempts')
})

test('guessing: a token of auth.admin below 24 characters is a warning, and in production refused', () => {
  for (const [given, yaml] of [
    [{ AUTH_ADMIN: 'a'.repeat(23) }, ''],
    [{}, `auth: { admin: "${'a'.repeat(23)}" }\n`],
  ] as const) {
    const env = { OPENAI_API_KEY: 'sk-x', ...given }
    const open = load({ env, yaml })
    assert.ok(open.ok)
    assert.match(open.warnings.join(), /found a token of 23 characters, which can be guessed/)
    const closed = load({ env: { ...env, NODE_ENV: 'production' }, yaml })
    assert.match(closed.ok ? '' : JSON.stringify(closed.problems), /a token of 23 characters/)
  }
  const long = load({ env: { OPENAI_API_KEY: 'sk-x', NODE_ENV: 'production', AUTH_ADMIN: 'a'.repeat(24) }, yaml: '' })
  assert.ok(long.ok)
  assert.doesNotMatch(long.warnings.join(), /characters/)
})
