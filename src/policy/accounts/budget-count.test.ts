import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Budget,
  type ClientKey,
  DEFAULT_TEAM,
  type FileAccounts,
  FULL_ACCESS,
  NO_ACCOUNTS,
  NO_LIMITS,
} from '../../core/accounts.ts'
import { NO_REQUIRE } from '../../core/data-policy.ts'
import { budgetOverlap } from './budget-count.ts'
import { buildDirectory } from './directory.ts'

const key: ClientKey = {
  id: 'key_a',
  name: 'a',
  team: DEFAULT_TEAM.id,
  status: 'active',
  secrets: [],
  createdAt: 0,
  expiresAt: null,
  access: FULL_ACCESS,
  limits: NO_LIMITS,
  require: NO_REQUIRE,
  defaultRoute: null,
  cache: null,
  logBodies: false,
  tags: {},
  managed: 'api',
}
const budget = (n: number, appliesTo: Partial<Budget['appliesTo']>): Budget => ({
  id: `bud_${n}`,
  name: `b${n}`,
  amount: 1_000,
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  per: 'all',
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  createdAt: 0,
  alerts: [],
  managed: 'api',
  appliesTo: { teams: null, keys: null, tags: null, models: null, providers: null, ...appliesTo },
})

const many = (count: number, appliesTo: (n: number) => Partial<Budget['appliesTo']>) =>
  Array.from({ length: count }, (_, n) => budget(n, appliesTo(n)))

const cases: readonly (readonly [string, readonly Budget[], readonly [string, number] | null])[] = [
  ['16 budgets for all', many(16, () => ({})), null],
  ['17 budgets for all', many(17, () => ({})), ['', 17]],
  ['17 budgets for one key', many(17, () => ({ keys: ['key_a'] })), ['a', 17]],
  ['17 budgets for 17 keys', many(17, (n) => ({ keys: [`key_${n}`] })), null],
  ['17 budgets for 17 models', many(17, (n) => ({ models: [`m-${n}.`] })), null],
  [
    '17 budgets whose globs overlap',
    many(17, (n) => ({ models: [`${'gpt-5-mini-2026-05'.slice(0, n + 1)}*`] })),
    ['', 17],
  ],
  ['17 budgets for 17 providers', many(17, (n) => ({ providers: [`p${n}.`] })), null],
  [
    '17 budgets for a provider and its models',
    many(17, (n) => ({ [n % 2 ? 'models' : 'providers']: ['x*'] })),
    ['', 17],
  ],
]
for (const [name, budgets, expected] of cases)
  test(`budgets of one request: ${name}`, () => {
    const records: FileAccounts = { ...NO_ACCOUNTS, keys: [key], budgets }
    const overlap = budgetOverlap(buildDirectory(NO_ACCOUNTS, records))
    assert.deepEqual(overlap ? [overlap.client.name, overlap.budgets.length] : null, expected)
  })

test('budgets of one request: those of a revoked key do not count', () => {
  const records = {
    ...NO_ACCOUNTS,
    keys: [{ ...key, status: 'revoked' as const }],
    budgets: many(17, () => ({ keys: ['key_a'] })),
  }
  assert.equal(budgetOverlap(buildDirectory(NO_ACCOUNTS, records)), undefined)
})
