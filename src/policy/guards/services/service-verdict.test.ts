import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loaded } from '../../../../test/support/config.ts'
import type { GuardRule } from '../../../core/guard.ts'
import { afterAnswer, isPaused, NO_PAUSE } from '../../egress/pause.ts'
import { ALLOWED, type FoundPart, found, maskedParts, type ServiceFinding } from './service-call.ts'
import { actionOf, serviceVerdict, unavailableVerdict } from './service-verdict.ts'

const ACTIONS = ['block', 'mask', 'flag', 'log'] as const
type Action = (typeof ACTIONS)[number]

const rule = (action: Action, more: Partial<GuardRule> = {}): GuardRule => {
  const service = '{ kind: headgate, url: "http://guard:8080" }'
  const yaml = `guards: { shield: { action: ${action}, service: ${service} } }`
  const [one] = loaded({ env: {}, yaml }).config.guards ?? []
  assert.ok(one)
  return { ...one, ...more }
}
const asked = (one: GuardRule, ...texts: readonly string[]) => ({
  rule: one,
  phase: 'request' as const,
  texts: texts.map((text) => ({ text, role: 'user', kind: 'text' as const })),
  ms: 3,
})
const span = (text: string, part: string, more: Partial<FoundPart> = {}): FoundPart => {
  const start = text.indexOf(part)
  return { i: 0, start, end: start + part.length, label: 'PERSON', ...more }
}

test('service verdict: the action of the rule bounds what the service decides', () => {
  const of = (finding: ServiceFinding['action']) => ACTIONS.map((action) => actionOf(rule(action), finding))
  assert.deepEqual(of('allow'), [null, null, null, null])
  assert.deepEqual(of('flag'), ['flag', 'flag', 'flag', 'log'])
  assert.deepEqual(of('mask'), ['block', 'mask', 'flag', 'log'])
  assert.deepEqual(of('block'), ['block', 'block', 'flag', 'log'])
})

test('service verdict: a refusal names the rule and categories, and the rule or the service advises', () => {
  const finding = found('block', ['violence', 'hate'], 'Be kind.')
  const { verdict, refuse } = serviceVerdict(asked(rule('block'), 'x'), finding)
  assert.deepEqual(verdict, {
    ...{ guard: 'shield', phase: 'request', action: 'block', ms: 3 },
    counts: { violence: 1, hate: 1 },
  })
  assert.equal(refuse?.kind, 'guardrail_blocked')
  assert.equal(refuse?.message, 'Blocked by the rule "shield", which found: violence, hate. Be kind.')
  const own = serviceVerdict(asked(rule('block', { message: 'Ask legal.' }), 'x'), found('block', []))
  assert.equal(own.refuse?.message, 'Blocked by the rule "shield". Ask legal.')
  assert.deepEqual(own.verdict?.counts, { service: 1 })
})

test('service verdict: spans become masks, and no part of a mask is masked again', () => {
  const text = 'ask [EMAIL_K7Q2M4] or bob'
  const one = asked(rule('mask'), text)
  assert.deepEqual(serviceVerdict(one, maskedParts([span(text, 'bob')])).spans, [
    { text, start: 22, end: 25, label: 'PERSON' },
  ])
  const across = serviceVerdict(one, maskedParts([span(text, 'ask [EMAIL_K7Q2M4] or bob')]))
  assert.deepEqual(
    across.spans?.map(({ start, end }) => text.slice(start, end)),
    ['ask ', ' or bob'],
  )
  // A service that takes a mask for a name blocks nothing by it.
  for (const action of ACTIONS)
    assert.deepEqual(serviceVerdict(asked(rule(action), text), maskedParts([span(text, 'EMAIL_K7Q2M4')])), {
      verdict: null,
    })
  const labelled = serviceVerdict(asked(rule('mask', { label: 'STAFF' }), text), maskedParts([span(text, 'bob')]))
  assert.equal(labelled.spans?.[0]?.label, 'STAFF')
})

test('service verdict: a replaced text has no masks that could be restored', () => {
  const text = 'ann and bob'
  const spans = [span(text, 'bob', { label: '', replacement: '{NAME}' }), span(text, 'ann')]
  const made = serviceVerdict(asked(rule('mask'), text), maskedParts(spans))
  assert.deepEqual(made.spans, [])
  assert.deepEqual([...(made.replace ?? [])], [[text, '[PERSON] and {NAME}']])
})

test('service verdict: nothing is changed by flag and log', () => {
  const text = 'ask bob'
  for (const action of ['flag', 'log'] as const) {
    const made = serviceVerdict(asked(rule(action), text), maskedParts([span(text, 'bob')]))
    assert.deepEqual(Object.keys(made), ['verdict'])
    assert.equal(made.verdict?.action, action)
  }
  assert.deepEqual(serviceVerdict(asked(rule('block'), text), ALLOWED), { verdict: null })
})

test('service verdict: a request that is not checked is refused, unless the operator lets it pass', () => {
  const one = rule('flag')
  const refused = unavailableVerdict(asked(one, 'x'), 'status 500')
  assert.equal(refused.verdict?.action, 'error')
  assert.deepEqual([refused.refuse?.kind, refused.refuse?.retryAfter], ['guard_unavailable', 2_000])
  assert.ok(one.service)
  const passed = unavailableVerdict(asked({ ...one, service: { ...one.service, onError: 'allow' } }, 'x'), 'status 500')
  assert.deepEqual([passed.verdict?.action, passed.refuse], ['error', undefined])
})

test('pause: it begins after five failures in succession, lasts 30 s, and one failure after it begins the next', () => {
  let pause = NO_PAUSE
  for (let failure = 0; failure < 4; failure++) pause = afterAnswer(pause, true, 0)
  assert.equal(isPaused(pause, 0), false)
  assert.equal(isPaused(afterAnswer(afterAnswer(pause, false, 0), true, 0), 0), false)
  pause = afterAnswer(pause, true, 1_000)
  assert.deepEqual([isPaused(pause, 1_000), isPaused(pause, 30_999), isPaused(pause, 31_000)], [true, true, false])
  assert.equal(isPaused(afterAnswer(pause, true, 31_000), 31_001), true)
  assert.deepEqual(afterAnswer(pause, false, 31_000), NO_PAUSE)
})
