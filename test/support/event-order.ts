/** Invariants of the events of every decoded answer. */
import assert from 'node:assert/strict'
import type { ChatEvent } from '../../src/core/chat.ts'
import { KINDS } from '../../src/core/failure.ts'

const isCount = (value: number | undefined): boolean =>
  value === undefined || (Number.isSafeInteger(value) && value >= 0)

/** Asserts one end, nothing after a failure, no nested or open block, and valid counts. */
export const assertEventOrder = (events: readonly ChatEvent[], loose: boolean): void => {
  let open = false
  const finishes = events.filter(({ type }) => type === 'finish').length
  const failures = events.filter((event) => event.type === 'failure')
  assert.ok(finishes <= 1, 'two ends')
  assert.ok(finishes + failures.length > 0, 'no end')
  if (!loose && failures.length > 0) {
    assert.equal(failures.length, 1, 'two failures')
    assert.equal(events.at(-1)?.type, 'failure', 'an event after a failure')
  }
  for (const event of events) {
    const { type } = event
    if (type === 'open') assert.equal(open, false, 'a nested block')
    if (type === 'delta' || type === 'signature' || type === 'citation' || type === 'close')
      assert.equal(open, true, type)
    if (type === 'finish') assert.equal(open, false, 'an open block at the end')
    if (type === 'open' || type === 'close') open = type === 'open'
    if (type === 'delta') assert.equal(typeof event.text, 'string')
    if (type === 'failure') {
      assert.ok(Object.hasOwn(KINDS, event.failure.kind))
      assert.notEqual(event.failure.message, '')
    }
    if (type !== 'usage') continue
    const { input, output, cacheRead, cacheWrite, reasoning } = event.usage
    for (const count of [input, output, cacheRead, cacheWrite, reasoning])
      assert.ok(isCount(count), `an invalid count: ${count}`)
  }
}
