import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defaultSettings } from '../../../test/support/settings.ts'
import { NEVER } from '../../core/shared-timer.ts'
import {
  AttemptState,
  type AttemptTimeout,
  BODY_END_GRACE,
  checkTimeouts,
  type TimeoutRules,
  timeoutFailure,
} from './attempt-timeouts.ts'

const rules: TimeoutRules = {
  settings: {
    circuit: { ...defaultSettings.circuit, timeout: 10 },
    timeout: { ...defaultSettings.timeout, firstContent: 20, idle: 30, contentIdle: 40 },
  },
  stream: true,
  holdbackMs: 5,
}

const started = new AttemptState(1_000)
const responded: AttemptState = { ...started, hasHeaders: true, hasResponded: true, lastByteAt: 1_001 }
const streaming: AttemptState = {
  ...responded,
  firstContentAt: 1_002,
  lastByteAt: 1_050,
  lastContentAt: 1_002,
  isSettled: true,
}
const finished: AttemptState = { ...streaming, finishedAt: 1_060 }
const whole = { stream: false }
const unlimited = {
  settings: {
    circuit: { ...rules.settings.circuit, timeout: 0 },
    timeout: { ...rules.settings.timeout, firstContent: 0, idle: 0, contentIdle: 0 },
  },
}

const cases: readonly (readonly [
  name: string,
  state: AttemptState,
  timeout: AttemptTimeout | null,
  deadline: number,
  differences?: Partial<TimeoutRules>,
])[] = [
  ['before the response', started, 'response', 1_010],
  ['headers of a stream are no response yet', { ...started, hasHeaders: true, lastByteAt: 1_001 }, 'response', 1_010],
  ['before the first content', responded, 'firstContent', 1_020],
  ['an answer without streaming has no limit for its first content', responded, 'idle', 1_031, whole],
  ['content is held back', { ...streaming, isSettled: false }, 'holdback', 1_007],
  ['content held back until the end', { ...streaming, isSettled: false }, 'contentIdle', 1_042, { holdbackMs: NEVER }],
  ['content is missing between keep-alives', streaming, 'contentIdle', 1_042],
  ['no byte arrives', { ...streaming, lastByteAt: 1_003, lastContentAt: 1_050 }, 'idle', 1_033],
  ['a paused attempt does not time out', { ...streaming, isPaused: true }, null, NEVER],
  ['a connection that does not read does not time out', { ...streaming, isReadingStopped: true }, null, NEVER],
  ['the first content is due even while paused', { ...responded, isPaused: true }, 'firstContent', 1_020],
  ['a limit of 0 is disabled', started, null, NEVER, unlimited],
  ['a finished answer waits for the end of its body', finished, 'bodyEnd', 1_060 + BODY_END_GRACE],
  ['a finished answer that is paused waits', { ...finished, isPaused: true }, null, NEVER],
  ['a finished answer whose body has ended', { ...finished, isBodyEnded: true }, null, NEVER],
  ['an attempt that is over', { ...finished, isOver: true }, null, NEVER],
  ['a failed attempt', { ...started, isOver: true }, null, NEVER],
  ['a delivered answer lingers', { ...finished, isOver: true, isLingering: true }, 'bodyEnd', 1_060 + BODY_END_GRACE],
]

for (const [name, state, timeout, deadline, differences] of cases)
  test(`attempt timeouts: ${name}`, () => {
    const limits = { ...rules, ...differences }
    assert.deepEqual(checkTimeouts(state, limits, Math.min(deadline - 1, 1e9)), { expired: null, deadline })
    if (timeout) assert.deepEqual(checkTimeouts(state, limits, deadline), { expired: timeout, deadline })
  })

test('attempt timeouts: of several expired timeouts the first in order is returned, with the earliest deadline', () => {
  const late = { ...rules, settings: { ...rules.settings, circuit: { ...rules.settings.circuit, timeout: 25 } } }
  assert.deepEqual(checkTimeouts(started, late, 2_000), { expired: 'response', deadline: 1_020 })
})

test('attempt timeouts: the end of the holdback and of the grace period are no failures', () => {
  const kinds = (['response', 'firstContent', 'holdback', 'bodyEnd', 'idle', 'contentIdle'] as const).map(
    (timeout) => timeoutFailure(timeout, rules)?.kind,
  )
  assert.deepEqual(kinds, ['timeout', 'no_first_content', undefined, undefined, 'stalled', 'stalled'])
})
