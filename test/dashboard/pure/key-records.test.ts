/** What the pages derive from keys and budgets. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { dollarsOf, nanoOf } from '../../../dashboard/src/format.ts'
import {
  amountEffect,
  type BudgetRecord,
  budgetShare,
  budgetsOf,
  conflictsIn,
  entriesOf,
  fullCounts,
  type KeyRecord,
  keyHint,
  keyState,
  negated,
  sortedBudgets,
} from '../../../dashboard/src/key-records.ts'
import { holdsRole } from '../../../dashboard/src/roles.ts'

const NOW = Date.parse('2026-11-23T10:00:00Z')
const ago = (days: number) => new Date(NOW - days * 86_400_000).toISOString()
const common = { created_by: 'a', rev: 1, managed: 'api', created_at: ago(100) } as const
const key = (members: Partial<KeyRecord> = {}): KeyRecord => ({
  ...common,
  id: 'key_a',
  object: 'key',
  name: 'ci',
  status: 'active',
  team: 'team_a',
  expires_at: null,
  access: { models: null, routes: null, providers: null, styles: null, ips: null, passThrough: null },
  limits: { requestsPerMinute: null, tokensPerMinute: null, concurrent: null },
  require: { region: null, retention: null, training: null },
  defaultRoute: null,
  cache: null,
  logBodies: false,
  requireSession: false,
  loops: null,
  tags: {},
  prefix: 'hgk_',
  last4: '9f21',
  last_used_at: ago(1),
  secrets: [],
  ...members,
})
const ALL = { teams: null, keys: null, tags: null, models: null, providers: null }
const budget = (id: string, members: Partial<BudgetRecord> = {}, spent = '5'): BudgetRecord => ({
  ...common,
  id,
  object: 'budget',
  name: id,
  status: 'active',
  amount: '10',
  currency: 'USD',
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  mode: 'hard',
  per: 'all',
  alerts: [],
  appliesTo: ALL,
  now: {
    period_start: ago(3),
    period_end: null,
    spent,
    reserved: '0',
    remaining: null,
    as_of: ago(0),
    authority: 'ok',
  },
  owners: null,
  ...members,
})

test('a role for a team is none for others, and a higher role includes the lower', () => {
  const session = {
    actor: { kind: 'token', id: 't', name: 'n' },
    roles: [
      { role: 'operator', team: 'team_a' },
      { role: 'viewer', team: null },
    ],
    csrf: null,
    expires_at: null,
    version: '1',
  } as const
  assert.ok(holdsRole(session, 'operator', { team: 'team_a' }))
  assert.ok(holdsRole(session, 'viewer', { team: 'team_b' }))
  assert.ok(!holdsRole(session, 'operator', { team: 'team_b' }))
  assert.ok(!holdsRole(session, 'operator', 'all'))
  assert.ok(!holdsRole(null, 'viewer', 'any'))
})

test('a key has one state', () => {
  for (const [members, word] of [
    [{}, 'active'],
    [{ status: 'blocked', expires_at: ago(1) }, 'blocked'],
    [{ status: 'revoked' }, 'revoked'],
    [{ expires_at: ago(0) }, 'expired'],
    [{ expires_at: ago(-1) }, 'active'],
    [{ last_used_at: ago(30) }, 'unused'],
    [{ last_used_at: null }, 'unused'],
    [{ last_used_at: null, created_at: null }, 'active'],
  ] as const)
    assert.equal(keyState(key(members), NOW).word, word, JSON.stringify(members))
})

test('the overlap of a rotation lasts until the last older secret ends', () => {
  const secret = (until: string | null) => ({ last4: 'aaaa', created_at: null, until })
  const secrets = [secret(null), secret(ago(-2)), secret(ago(-1)), secret(ago(1))]
  assert.equal(keyState(key({ secrets }), NOW).overlap, 2 * 86_400_000)
  assert.equal(keyState(key({ secrets: [secret(null), secret(ago(1))] }), NOW).overlap, null)
})

test('a key is named by its prefix and its end', () => {
  assert.equal(keyHint(key()), 'hgk_…9f21')
  assert.equal(keyHint({ prefix: null, last4: null }), '…')
})

test('the budgets of a key are those that count it: its own first, then the fullest', () => {
  const budgets = [
    budget('everyone', {}, '1'),
    budget('team', { appliesTo: { ...ALL, teams: ['team_a'] } }, '9'),
    budget('other-team', { appliesTo: { ...ALL, teams: ['team_b'] } }),
    budget('own', { appliesTo: { ...ALL, keys: ['key_a'] } }, '2'),
    budget('opus', { appliesTo: { ...ALL, models: ['*opus*'] } }, '10.17'),
    budget('own-opus', { appliesTo: { ...ALL, keys: ['key_a'], models: ['*opus*'] } }, '1'),
    budget('tagged', { appliesTo: { ...ALL, tags: { app: 'x' } } }, '3'),
    budget('other-tag', { appliesTo: { ...ALL, tags: { app: 'y' } } }),
    budget('each', { per: 'key' }, '99'),
    budget('users', { per: 'user' }),
  ]
  const counters = [
    { budget: 'other', spent: '8' },
    { budget: 'each', spent: '4' },
  ]
  assert.deepEqual(
    budgetsOf(key({ tags: { app: 'x' }, counters }), budgets).map(({ budget: { id }, owner, share }) => [
      id,
      owner,
      share,
    ]),
    [
      ['each', 'key', 0.4],
      ['own', 'key', 0.2],
      ['team', 'team', 0.9],
      ['tagged', 'all', 0.3],
      ['everyone', 'all', 0.1],
      // What counts some models only is last, however full.
      ['own-opus', 'key', 0.1],
      ['opus', 'all', 1.017],
    ],
  )
})

describe('another amount of a budget', () => {
  const spent = (amount: string, mode: 'hard' | 'soft' = 'hard') => ({
    amount,
    mode,
    now: budget('b', {}, '92.000000001').now,
  })
  for (const [amount, mode, next, kind, left] of [
    ['100', 'hard', '92', 'blocks', '-0.000000001'],
    ['100', 'hard', '92.000000001', 'blocks', '0.000000000'],
    ['90', 'hard', '100', 'unblocks', '7.999999999'],
    ['100', 'hard', '110', 'leaves', '17.999999999'],
    ['100', 'soft', '1', 'leaves', '-91.000000001'],
    ['100', 'hard', '1e3', 'invalid', '0'],
    ['100', 'hard', '-5', 'invalid', '0'],
    ['100', 'hard', '', 'invalid', '0'],
  ] as const)
    test(`${mode}, ${amount} to "${next}": ${kind}`, () => {
      assert.deepEqual(amountEffect(spent(amount, mode), next), { kind, left })
    })
})

test('a negated amount is the same with the other sign', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(10n ** 15n), max: 10n ** 15n }), (value) => {
      assert.equal(nanoOf(negated(dollarsOf(value))), -value)
    }),
  )
})

test('a field has entries, or none', () => {
  assert.deepEqual(entriesOf(' a, b\nc,,'), ['a', 'b', 'c'])
  assert.equal(entriesOf(' ,\n '), null)
})

test('a conflict names the members that two writers changed', () => {
  const now = { name: 'new', limits: { requestsPerMinute: 5, concurrent: 1 }, access: null }
  assert.deepEqual(conflictsIn({ name: 'new', limits: { requestsPerMinute: 9 }, access: { models: ['a'] } }, now), [
    { name: 'limits.requestsPerMinute', mine: '9', theirs: '5' },
    { name: 'access', mine: '{"models":["a"]}', theirs: '–' },
  ])
})

describe('the list of budgets', () => {
  const owners = (spent: string, count = 3) => ({
    count,
    spent: 0,
    near: 0,
    fullest: { of: 'key_a', spent, reserved: '0', remaining: '0', period_start: ago(3) },
  })
  const list = [
    budget('a', {}, '8'),
    budget('b', {}, '10'),
    budget('c', {}, '7.9'),
    // The sum of its counters is far above the amount of each.
    budget('d', { per: 'end_user', owners: owners('9') }, '427.1'),
    budget('e', { per: 'key', owners: { ...owners('0', 0), fullest: null } }, '0'),
    budget('nothing', { amount: '0' }, '0'),
  ]

  test('counts those that are spent, and those that are near', () => {
    assert.deepEqual(fullCounts(list, 0.8), { spent: 2, near: 2 })
    assert.deepEqual(fullCounts([], 0.8), { spent: 0, near: 0 })
  })

  test('is sorted by fullness or name; of a budget for each owner its fullest counts', () => {
    const ids = (by: string) => sortedBudgets(list, by).map(({ id }) => id)
    assert.deepEqual(ids('-share'), ['b', 'nothing', 'd', 'a', 'c', 'e'])
    assert.deepEqual(ids('share'), ['e', 'c', 'a', 'd', 'b', 'nothing'])
    assert.deepEqual(ids('-name'), ['nothing', 'e', 'd', 'c', 'b', 'a'])
    assert.equal(budgetShare(budget('x', { per: 'team', owners: owners('10.1') }, '99')), 1.01)
  })
})
