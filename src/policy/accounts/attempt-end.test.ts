import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type FailureKind, fail, rowOf } from '../../core/failure.ts'
import { endOfFailed, outcomeOfFailed, recordedCode } from './attempt-end.ts'
import type { ChargedEnd } from './charge.ts'

/** How a failed attempt is charged, before and after its first content. */
const ENDS = [
  // The gateway stopped reading.
  ['client_gone', 'given_up', 'given_up'],
  ['deadline', 'given_up', 'given_up'],
  ['shutdown', 'given_up', 'given_up'],
  ['unauthenticated', 'given_up', 'given_up'],
  ['budget_exceeded', 'given_up', 'given_up'],
  ['timeout', 'given_up', 'given_up'],
  ['no_first_content', 'given_up', 'given_up'],
  ['stalled', 'given_up', 'given_up'],
  ['malformed', 'given_up', 'given_up'],
  // The connection broke.
  ['reset', 'given_up', 'interrupted'],
  ['truncated', 'given_up', 'interrupted'],
  // The upstream ended it.
  ['error_in_stream', 'refused', 'interrupted'],
  ['overloaded', 'refused', 'interrupted'],
  ['content_policy', 'refused', 'interrupted'],
] as const satisfies readonly (readonly [FailureKind, ChargedEnd, ChargedEnd])[]

for (const [kind, before, after] of ENDS)
  test(`attempt end: ${kind}`, () => {
    assert.equal(endOfFailed(fail(kind, ''), false), before)
    assert.equal(endOfFailed(fail(kind, '', { status: 200 }), true), after)
    assert.equal(endOfFailed(fail(kind, '', { unsent: true }), false), 'refused')
    assert.equal(endOfFailed(fail(kind, '', { status: 503 }), false), 'refused')
  })

test('attempt end: an error status is the upstream’s from 400 on', () => {
  assert.equal(endOfFailed(fail('timeout', '', { status: 400 }), false), 'refused')
  assert.equal(endOfFailed(fail('timeout', '', { status: 399 }), false), 'given_up')
})

test('attempt end: the recorded outcome and code', () => {
  assert.equal(outcomeOfFailed(fail('client_gone', ''), true), 'client_gone')
  assert.equal(outcomeOfFailed(fail('reset', ''), true), 'interrupted')
  assert.equal(outcomeOfFailed(fail('reset', ''), false), 'failed')
  assert.equal(recordedCode(fail('rate_limited', '')), rowOf(fail('rate_limited', '')).code)
  assert.equal(recordedCode(undefined), null)
})
