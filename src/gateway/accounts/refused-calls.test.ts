import assert from 'node:assert/strict'
import { test } from 'node:test'
import { memoryJournal, testAccounts } from '../../../test/support/accounts.ts'
import { stillWorld } from '../../../test/support/still-world.ts'
import { fail } from '../../core/failure.ts'
import type { RequestEnded } from '../../core/journal.ts'
import type { RefusedCall, RefusedOwner } from './refused-calls.ts'

const given = () => {
  const world = stillWorld()
  const { journal, records } = memoryJournal(world)
  const accounts = testAccounts(world, { journal: () => journal })
  let looked = 0
  let count = 0
  const refuse = (more: Partial<RefusedCall> = {}, owner: RefusedOwner | null = null) =>
    accounts.refused({
      id: `req_${++count}`,
      style: 'openai-chat',
      method: 'POST',
      path: '/v1/chat/completions',
      status: 401,
      failure: fail('unauthenticated', 'Unknown API key.'),
      headers: (name) => (name === 'user-agent' ? 'OpenAI/Python 1.2.3' : undefined),
      source: '203.0.113.7',
      isIdentified: false,
      owner: () => {
        looked++
        return owner
      },
      ...more,
    })
  // Only ends of requests are recorded.
  return { world, refuse, rows: records as RequestEnded[], looked: () => looked }
}

test('refused calls: one is recorded as a request without an attempt', () => {
  const { refuse, rows } = given()
  refuse({ ownId: 'req_own' }, { key: 'key_a', team: 'team_a', why: 'The key was revoked.' })
  const [row] = rows
  assert.deepEqual(
    [row?.request, row?.clientRequestId, row?.status, row?.code, row?.key, row?.team, row?.outcome, row?.client],
    ['req_own', 'req_1', 401, 'invalid_api_key', 'key_a', 'team_a', 'refused', 'openai-sdk'],
  )
  assert.equal(row?.message, 'POST /v1/chat/completions: Unknown API key. The key was revoked.')
})

test('refused calls: a flood of one client is counted, and the next row states the number', async () => {
  const { world, refuse, rows, looked } = given()
  for (let n = 0; n < 10_000; n++) refuse()
  assert.equal(rows.length, 20)
  assert.equal(looked(), 20)
  await world.advance(3_000)
  refuse()
  assert.match(rows.at(-1)?.message ?? '', / 9980 earlier ones of this client are not listed\.$/)
  await world.advance(3_000)
  refuse()
  assert.doesNotMatch(rows.at(-1)?.message ?? '', /not listed/)
})

test('refused calls: a flood from many addresses is bounded, and requests with a key are still listed', async () => {
  const { world, refuse, rows } = given()
  for (let n = 0; n < 50_000; n++) refuse({ source: `198.51.${n >> 8}.${n & 255}` })
  assert.equal(rows.length, 60)
  for (let n = 0; n < 5; n++) refuse({ source: 'key key_a', isIdentified: true, status: 413 })
  assert.equal(rows.length, 65)
  await world.advance(600_000)
  for (let n = 0; n < 50_000; n++) refuse({ source: `10.0.${n >> 8}.${n & 255}` })
  assert.equal(rows.length, 125)
})

test('refused calls: a path of any length is cut', () => {
  const { refuse, rows } = given()
  refuse({ path: `/${'a'.repeat(16_000)}` })
  assert.ok((rows[0]?.message ?? '').length < 500)
})

test('refused calls: nothing is recorded without a ledger', () => {
  const accounts = testAccounts(stillWorld())
  const failure = fail('unauthenticated', 'x')
  const call = { id: 'a', style: '', method: 'GET', path: '/', status: 401, failure, source: '', isIdentified: false }
  accounts.refused({ ...call, owner: () => assert.fail() })
})
