import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blockedUserId, isBlockedUser, namedUsers, parseBlockedUser } from './blocked-users.ts'

const blocked = new Map([
  [blockedUserId({ team: null, user: 'eve' }), Number.POSITIVE_INFINITY],
  [blockedUserId({ team: 'team_a', user: 'bob smith' }), Number.POSITIVE_INFINITY],
  [blockedUserId({ team: null, user: 'late' }), 1_000],
])
const cases: readonly (readonly [string, string, readonly string[], number, boolean])[] = [
  ['everywhere', 'team_b', ['eve'], 0, true],
  ['of one team', 'team_a', ['bob smith'], 0, true],
  ['of another team', 'team_b', ['bob smith'], 0, false],
  ['a second name', 'team_b', ['adam', 'eve'], 0, true],
  ['no user', 'team_a', [], 0, false],
  ['a name that begins with the ID of a team', 'x', ['team_a bob smith'], 0, false],
  ['a name that is part of one', 'team_a', ['bob'], 0, false],
  ['before its end', 'team_a', ['late'], 999, true],
  ['after its end', 'team_a', ['late'], 1_000, false],
]
for (const [name, team, users, now, expected] of cases)
  test(`blocked users: ${name}`, () => assert.equal(isBlockedUser(blocked, { team, users, now }), expected))

test('blocked users: an ID is read again', () => {
  for (const one of [
    { team: null, user: 'a b' },
    { team: 'team_a', user: ' a' },
  ])
    assert.deepEqual(parseBlockedUser(blockedUserId(one)), one)
})

test('blocked users: the names of a request, in the order in which they count', () => {
  const metadata = { user_id: 'c' }
  assert.deepEqual(namedUsers({ metadata, user: 'b', safety_identifier: 'a' }), ['a', 'b', 'c'])
  assert.deepEqual(namedUsers({ user: '', metadata }), ['c'])
  assert.deepEqual(namedUsers({ user: 'x'.repeat(257) }), ['x'.repeat(256)])
  for (const none of [{}, { user: 7 }, { user: '' }, { metadata: 'c' }, { metadata: {} }])
    assert.deepEqual(namedUsers(none), [])
})

test('end users: each session of Claude Code is of the same person', () => {
  const [account, device] = ['0d5b7c3a-8f7e-4d6b-9c55-0b6f3a2d1e47', 'ab12'.repeat(16)]
  const sessions = ['0c6a3bd4-58b7-4b0e-9f3e-7a5d2c1b0e9f', 'f3b1c2d4-1a2b-4c3d-8e4f-5a6b7c8d9e0f']
  const names = (id: (session: string) => string) => [
    ...new Set(sessions.flatMap((session) => namedUsers({ metadata: { user_id: id(session) } }))),
  ]
  const json = (account_uuid: string) => (session_id: string) =>
    JSON.stringify({ device_id: device, account_uuid, session_id })
  assert.deepEqual(names(json(account)), [account])
  assert.deepEqual(names(json('')), [device])
  assert.deepEqual(
    names((session) => `user_${device}_account__session_${session}`),
    [`user_${device}_account_`],
  )
  assert.deepEqual(
    names((session) => JSON.stringify({ session_id: session })),
    [],
  )
  // Names of other programs stay as they are.
  for (const id of ['ann', '{"team":"a"}', 'user_1_session_2'])
    assert.deepEqual(
      names(() => id),
      [id],
    )
})
