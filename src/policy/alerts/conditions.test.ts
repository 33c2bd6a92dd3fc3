import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Budget } from '../../core/accounts.ts'
import type { Alerts } from '../../core/config.ts'
import { type AlertView, alertConditions } from './conditions.ts'

const rules: Alerts['rules'] = {
  budget: [80, 100],
  circuitOpen: 60_000,
  failedShare: 20,
  failedWindow: 300_000,
  failedLeast: 20,
  keyDead: true,
  policyBreach: true,
  guardErrors: 5,
  loop: true,
  breakGlass: true,
  storeDown: 60_000,
  ledgerLag: 60_000,
  estimatedShare: 20,
  keyExpiry: [7, 1],
  canaryStopped: true,
  modelRetires: [30, 7, 1],
  drillLost: 1,
  certExpiry: [30, 7, 1],
}
const NO_RULES: Alerts['rules'] = {
  budget: [],
  circuitOpen: 0,
  failedShare: 0,
  failedWindow: 300_000,
  failedLeast: 20,
  keyDead: false,
  policyBreach: false,
  guardErrors: 0,
  loop: false,
  breakGlass: false,
  storeDown: 0,
  ledgerLag: 0,
  estimatedShare: 0,
  keyExpiry: [],
  canaryStopped: true,
  modelRetires: [],
  drillLost: 0,
  certExpiry: [],
}
const quiet: AlertView = {
  now: 1_000_000,
  budgets: [],
  openCircuits: [],
  closedRoutes: [],
  deadKeys: [],
  brokenStores: [],
  ledgerLag: 0,
  keys: [],
  answers: { all: 0, estimated: 0 },
  requests: { all: 0, failed: 0 },
}
const budget = (alerts: readonly number[] = []): Budget => ({
  id: 'bud_a',
  name: 'research',
  amount: 100e9,
  period: 'month',
  timezone: 'UTC',
  startDay: 1,
  per: 'all',
  appliesTo: { teams: null, keys: null, tags: null, models: null, providers: null },
  mode: 'hard',
  reserve: 'typical',
  onOverrun: 'finish',
  enforcement: 'fast',
  countFrom: 'creation',
  createdAt: 0,
  alerts,
  managed: 'file',
})
const spent = (dollars: number, alerts?: readonly number[], owner = ''): Partial<AlertView> => ({
  budgets: [{ budget: budget(alerts), owner, periodStart: 5, periodEnd: 9, spent: dollars * 1e9 }],
})
/** The owners of a budget of 100 dollars, which have spent 90 to 91 dollars. */
const owners = (count: number, owner = (index: number) => `user-${index}`): Partial<AlertView> => ({
  budgets: Array.from({ length: count }, (_, index) => ({
    budget: { ...budget([90]), per: 'end_user' },
    owner: owner(index),
    periodStart: 5,
    periodEnd: 9,
    spent: 90e9 + Math.round((index / count) * 1e9),
  })),
})
const key = { id: 'key_a', name: 'search', status: 'active', expiresAt: null } as const
const DAY = 24 * 3_600_000
const expiring = (ms: number, status: 'active' | 'revoked' = 'active'): Partial<AlertView> => ({
  keys: [{ ...key, status, expiresAt: quiet.now + ms }],
})

const cases: readonly (readonly [name: string, view: Partial<AlertView>, expected: readonly string[]])[] = [
  ['nothing', {}, []],
  ['a budget below its first threshold', spent(79.99), []],
  ['a budget at its first threshold', spent(80), ['budget.threshold warning bud_a 80 5']],
  ['a budget used up', spent(100), ['budget.threshold warning bud_a 80 5', 'budget.threshold critical bud_a 100 5']],
  ['a budget with thresholds of its own', spent(50, [50]), ['budget.threshold warning bud_a 50 5']],
  ['the budget of one owner', spent(90, [90], 'key_b'), ['budget.threshold warning bud_a 90 5']],
  ['the budget of many owners', owners(3_000), ['budget.threshold warning bud_a 90 5']],
  ['an open circuit', { openCircuits: ['openai'] }, ['circuit.open critical openai  ']],
  ['a route without a target', { closedRoutes: ['fast'] }, ['route.unavailable critical fast  ']],
  ['few failed requests', { requests: { all: 19, failed: 19 } }, []],
  ['failed requests below the limit', { requests: { all: 100, failed: 19 } }, []],
  ['failed requests', { requests: { all: 100, failed: 20 } }, ['requests.failed critical requests  ']],
  [
    'a dead key',
    { deadKeys: [{ provider: 'openai', key: 'a1f3', why: 'suspended' }] },
    ['key.dead critical openai#a1f3  '],
  ],
  [
    'a use of auth.admin where people sign in',
    { breakGlass: [{ address: '203.0.113.7' }] },
    ['auth.break_glass critical bootstrap 203.0.113.7 '],
  ],
  [
    'a loop',
    { loops: [{ session: 'ses_a', team: 'search', detector: 'repeat', tool: 'bash', times: 5 }] },
    ['session.loop warning ses_a  '],
  ],
  ['few errors of a guard', { guardErrors: [{ guard: 'shield', count: 4 }] }, []],
  [
    'errors of a guard',
    {
      guardErrors: [
        { guard: 'shield', count: 5 },
        { guard: 'other', count: 4 },
      ],
    },
    ['guard.errors critical shield  '],
  ],
  [
    'a breach of the data policy',
    { breaches: [{ provider: 'openai', model: 'm', lack: 'region us' }] },
    ['policy.breach critical openai m '],
  ],
  [
    'a broken store',
    { brokenStores: [{ store: 'responses', reason: 'the disk is full' }] },
    ['store.down critical responses  '],
  ],
  ['a lag below the limit', { ledgerLag: 59_999 }, []],
  ['a lag', { ledgerLag: 60_000 }, ['ledger.lag warning usage  ']],
  ['few answers', { answers: { all: 19, estimated: 19 } }, []],
  ['a share below the limit', { answers: { all: 100, estimated: 19 } }, []],
  ['a share', { answers: { all: 100, estimated: 20 } }, ['usage.estimated warning usage  ']],
  ['a key that expires in 8 days', expiring(8 * DAY), []],
  ['a key that expires in 7 days', expiring(7 * DAY), [`key.expiry warning key_a 7d ${quiet.now + 7 * DAY}`]],
  [
    'a key that expires in a day',
    expiring(DAY),
    [`key.expiry warning key_a 7d ${quiet.now + DAY}`, `key.expiry warning key_a 1d ${quiet.now + DAY}`],
  ],
  ['a revoked key', expiring(DAY, 'revoked'), []],
  ['an expired key', expiring(0), []],
]
for (const [name, view, expected] of cases)
  test(`alert conditions: ${name}`, () => {
    const found = alertConditions(rules, { ...quiet, ...view })
    assert.deepEqual(
      found.map(({ type, severity, object, threshold, occasion }) =>
        [type, severity, object.id, threshold, occasion].join(' '),
      ),
      expected,
    )
    assert.deepEqual(
      alertConditions(NO_RULES, { ...quiet, ...(name.includes('of its own') || name.includes('owner') ? {} : view) }),
      [],
    )
  })

test('alert conditions: amounts are in dollars', () => {
  const [condition] = alertConditions(rules, { ...quiet, ...spent(81.5) })
  assert.deepEqual([condition?.value, condition?.limit, condition?.until], [81.5, 100, 9])
  assert.match(condition?.message ?? '', /has spent 81\.50 of 100\.00 dollars \(80 % reached\)/)
})

test('alert conditions: a budget of several owners names how many there are, and those that spent the most', () => {
  const messageOf = (view: Partial<AlertView>) =>
    alertConditions(rules, { ...quiet, ...view }).map(({ message }) => message)
  assert.deepEqual(messageOf(owners(1)), [
    'The budget "research" is 90 % spent for 1 owner: "user-0" (90.00 of 100.00 dollars).',
  ])
  assert.deepEqual(messageOf(owners(1, () => '')), [
    'The budget "research" is 90 % spent for 1 owner: requests without a user (90.00 of 100.00 dollars).',
  ])
  assert.deepEqual(messageOf(owners(4_000)), [
    'The budget "research" is 90 % spent for 4000 owners, the most by "user-3999", "user-3998", "user-3997" (90.99975 of 100.00 dollars).',
  ])
})

for (const [what, owner] of [
  ['line ends', 'a\r\nb\u2028c\u0085[critical] The provider openai refuses the key'],
  ['quotes', 'a" has spent "b'],
  ['characters that change the direction of text', 'a\u202Eb\u2066c\u200Bd\uFEFFe'],
  ['length', 'x'.repeat(100_000)],
  ['half a character', '\u{1F600}'.repeat(60)],
] as const)
  test(`alert conditions: the name of an owner cannot change the rest of the message (${what})`, () => {
    const [condition] = alertConditions(rules, { ...quiet, ...owners(1, () => owner) })
    const [, name] =
      /^The budget "research" is 90 % spent for 1 owner: "([^"]{0,64})" \(90\.00 of 100\.00 dollars\)\.$/.exec(
        condition?.message ?? '',
      ) ?? assert.fail(condition?.message)
    assert.doesNotMatch(name ?? '', /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u)
  })

test('alerts: the end of a model is announced once for each number of days, and not after it', () => {
  const DAY = 24 * 3_600_000
  const now = Date.parse('2026-11-28T00:00:00Z')
  const at = Date.parse('2026-12-11T00:00:00Z')
  const found = (time: number, successor: string | null = null) =>
    alertConditions(rules, { ...quiet, now: time, retiring: [{ provider: 'openai', model: 'gpt-5', at, successor }] })
  assert.deepEqual(
    [at - 31 * DAY, now, at - 7 * DAY, at - DAY, at - 1, at].map((time) => found(time).map((one) => one.threshold)),
    [[], ['30d'], ['30d', '7d'], ['30d', '7d', '1d'], ['30d', '7d', '1d'], []],
  )
  const [alert] = found(now, 'gpt-6.1-sol')
  assert.deepEqual(
    [alert?.type, alert?.object.id, alert?.occasion, alert?.message],
    [
      'model.retires',
      'openai/gpt-5',
      String(at),
      'The provider ends the model "openai/gpt-5" at 2026-12-11T00:00:00.000Z. Its successor is "gpt-6.1-sol".',
    ],
  )
  assert.deepEqual(
    alertConditions(NO_RULES, { ...quiet, now, retiring: [{ provider: 'o', model: 'm', at, successor: null }] }),
    [],
  )
})

test('alerts: a certificate of the port is named before its end, and critical after it', () => {
  const DAY = 24 * 3_600_000
  const shown = (left: number, wanted = rules) =>
    alertConditions(wanted, { ...quiet, certificates: [{ file: '/run/tls.crt', notAfter: quiet.now + left }] }).map(
      ({ rule, severity, threshold, message }) => [rule, severity, threshold, message.replace(/ at .*/, '')],
    )
  const warning = (threshold: string) => [
    'certExpiry',
    'warning',
    threshold,
    'The certificate "/run/tls.crt" of the port expires',
  ]
  assert.deepEqual(shown(31 * DAY), [])
  assert.deepEqual(shown(30 * DAY), [warning('30d')])
  assert.deepEqual(shown(DAY), [warning('30d'), warning('7d'), warning('1d')])
  assert.deepEqual(shown(0), [
    ['certExpiry', 'critical', 'expired', 'The certificate "/run/tls.crt" of the port has expired'],
  ])
  assert.deepEqual(shown(0, NO_RULES), [])
})

test('alerts: a route whose fallback would refuse requests', () => {
  const loss = { route: 'fast', unit: 'openai', lost: 0.12, requests: 100, message: 'route `fast` would lose 12 %' }
  const shown = (more: Partial<typeof loss>, given = rules) =>
    alertConditions(given, { ...quiet, drillLosses: [{ ...loss, ...more }] }).map(({ type, value, message }) => [
      type,
      value,
      message,
    ])
  assert.deepEqual(shown({}), [['drill.lost', 12, 'Route `fast` would lose 12 %.']])
  assert.deepEqual(shown({ lost: 0.009 }), [])
  assert.deepEqual(shown({ requests: 19 }), [])
  assert.deepEqual(shown({}, NO_RULES), [])
})
