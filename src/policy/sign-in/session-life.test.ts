import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCheckDue, retriedCheck, sessionEnd } from './session-life.ts'

const HOUR = 3_600_000
const RULES = { idle: 2 * HOUR, max: 24 * HOUR, recheck: HOUR }

test('sign-in: a session ends after its last use, or after its whole time', () => {
  assert.equal(sessionEnd({ begun: 0, used: HOUR, isCheckable: true }, RULES), 3 * HOUR)
  assert.equal(sessionEnd({ begun: 0, used: 23 * HOUR, isCheckable: true }, RULES), 24 * HOUR)
})

test('sign-in: without a refresh token a session lasts eight hours at most', () => {
  assert.equal(sessionEnd({ begun: 0, used: 7 * HOUR, isCheckable: false }, RULES), 8 * HOUR)
  assert.equal(sessionEnd({ begun: 0, used: 0, isCheckable: false }, { ...RULES, max: HOUR }), HOUR)
})

test('sign-in: access is checked once in the time of the setting, and soon again if the issuer does not answer', () => {
  assert.equal(isCheckDue(0, RULES, HOUR - 1), false)
  assert.equal(isCheckDue(0, RULES, HOUR), true)
  const checked = retriedCheck(RULES, 5 * HOUR)
  assert.equal(isCheckDue(checked, RULES, 5 * HOUR), false)
  assert.equal(isCheckDue(checked, RULES, 5 * HOUR + 60_000), true)
})
