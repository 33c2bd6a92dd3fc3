/** Text of clients in alerts: a receiver must show it as text. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { alertBody, slackBody, testBody } from '../../src/observe/alerts/webhook.ts'
import { type AlertView, alertConditions } from '../../src/policy/alerts/conditions.ts'
import { testBudget } from '../support/accounts.ts'

const rules = {
  budget: [80],
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
  keyExpiry: [7],
  canaryStopped: true,
  modelRetires: [],
  drillLost: 0,
  certExpiry: [],
}
const view: AlertView = {
  now: 0,
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
const spentBy = (owner: string) => ({
  budgets: [{ budget: testBudget(100, { per: 'end_user' }), owner, periodStart: 0, periodEnd: 9, spent: 90 }],
})
const textOf = (more: Partial<AlertView>): string => {
  const [condition] = alertConditions(rules, { ...view, ...more })
  assert.ok(condition)
  return (slackBody({ condition, isResolved: false }, 'node') as { text: string }).text // The body has one member.
}

for (const [spelling, name] of [
  ['a mention of all', '<!channel> <https://evil.example|Sign in again>'],
  ['a mention of a group', '<!subteam^S123|ops>'],
  ['escaped markup', '&lt;!everyone&gt;'],
  ['the end of code', 'a` <!here> https://evil.example `'],
  ['the end of a quote', 'a" <!here> https://evil.example "'],
  ['other quotes', 'a\u201d <!here> \u201c'],
  ['a line of its own', 'a\n\n[critical] *The gateway was stopped* https://evil.example'],
  ['unusual line ends', 'a\u2028[critical]\u0085\v\f https://evil.example'],
] as const) {
  const check = (text: string) => {
    const [, span, rest] = /^[^`]*`([^`]*)`([^`]*)$/.exec(text.replace('`any`', 'any')) ?? assert.fail(text)
    assert.doesNotMatch(text, /[<>\p{Cc}\u2028\u2029]/u)
    assert.doesNotMatch(rest ?? '', /evil|here|channel/)
    assert.ok(span)
  }
  test(`alert injection: the name of an end user is code in Slack (${spelling})`, () => {
    check(textOf({ budgets: spentBy(name).budgets.map((one) => ({ ...one, budget: { ...one.budget, name: 'any' } })) }))
  })
  test(`alert injection: the name of a key is code in Slack (${spelling})`, () => {
    check(textOf({ keys: [{ id: 'key_a', name, status: 'active', expiresAt: 1_000 }] }))
  })
}

for (const node of ['<!channel>', '<https://evil.example|host>', 'a&<!here>', 'a\n[critical] <!everyone>', '"<@U1>"'])
  test(`alert injection: the name of the machine is text in Slack (${JSON.stringify(node)})`, () => {
    const at = { id: 'a', at: 0, node }
    const [condition] = alertConditions(rules, { ...view, ...spentBy('any') })
    assert.ok(condition)
    for (const body of [testBody('slack', at), slackBody({ condition, isResolved: false }, node)])
      assert.doesNotMatch((body as { text: string }).text, /[<>\p{Cc}]/u) // The body has one member.
  })

test('alert injection: names of providers, routes, stores, and their reasons are text in Slack', () => {
  const name = 'a<!channel>&<https://evil.example|b>\u2028c'
  const rule = { ...rules, circuitOpen: 1, keyDead: true, storeDown: 1 }
  const conditions = alertConditions(rule, {
    ...view,
    openCircuits: [name],
    closedRoutes: [name],
    deadKeys: [{ provider: name, key: 'k', why: name }],
    brokenStores: [{ store: name, reason: name }],
    budgets: [{ budget: testBudget(100, { name }), owner: name, periodStart: 0, periodEnd: 9, spent: 90 }],
  })
  assert.equal(conditions.length, 5)
  for (const condition of conditions)
    for (const isResolved of [false, true]) {
      const { text } = slackBody({ condition, isResolved }, 'node') as { text: string } // The body has one member.
      assert.doesNotMatch(text, /[<>\p{Cc}\u2028]/u)
      const { message } = alertBody({ condition, isResolved }, { id: 'a', at: 0, node: 'node' }) as { message: string }
      assert.doesNotMatch(message, /[\p{Cc}\u2028]/u)
    }
})
