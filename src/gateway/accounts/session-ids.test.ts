import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testAccounts, testClient } from '../../../test/support/accounts.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { SESSION_ID } from '../../core/session.ts'
import { sessionLetters } from '../../server/session-letters.ts'
import { SessionIds } from './session-ids.ts'

const [one, other] = [testClient({}, 'key_a'), testClient({}, 'key_b')]

test('session IDs: a name belongs to its client, and has the same ID after a restart', () => {
  const ids = new SessionIds(sessionLetters)
  const { id, name } = ids.named(one, 'n')
  assert.match(id, SESSION_ID)
  assert.equal(name, 'n')
  assert.notEqual(ids.named(other, 'n').id, id)
  assert.equal(ids.named(one, 'n').id, id)
  assert.equal(new SessionIds(sessionLetters).named(one, 'n').id, id)
  assert.notEqual(ids.named(one, 'm').id, id)
})

test('session IDs: a guessed one has another prefix and no name', () => {
  const ids = new SessionIds(sessionLetters)
  const { id, name } = ids.guessed(one, 'n')
  assert.match(id, /^gss_[a-z]{12}$/)
  assert.equal(name, null)
})

test('session IDs: one digest for all requests of a session', () => {
  let digests = 0
  const ids = new SessionIds((text) => {
    digests++
    return sessionLetters(text)
  })
  const first = ids.named(one, 'n')
  for (let request = 0; request < 100; request++) assert.equal(ids.named(one, 'n'), first)
  assert.equal(digests, 1)
})

test('account: only a session that the request names decides its provider key', () => {
  const accounts = testAccounts(stillWorld())
  const open = (headers: Readonly<Record<string, string>>) => {
    const lookup = (name: string) => headers[name]
    const account = accounts.open({ id: 'req_1', client: one, method: 'POST', headers: lookup }, 'chat')
    assert.equal(account.identify({ members: {}, headers: lookup }), null)
    return account.session
  }
  assert.equal(open({}), null)
  assert.match(open({ 'session-id': 'a' }) ?? '', SESSION_ID)
  assert.equal(
    accounts.sessionOf(one, (name) => (name === 'session-id' ? 'a' : undefined), {}),
    open({ 'session-id': 'a' }),
  )
})
