import assert from 'node:assert/strict'
import { test } from 'node:test'
import { traceParent } from './trace-parent.ts'

const VALID = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

test('trace parent: only the form of the standard is recorded', () => {
  assert.equal(traceParent(VALID), VALID)
  for (const value of [undefined, '', 'sk-proj-0123456789abcdef', `${VALID} sk-proj-0123456789abcdef`, `${VALID}\n`])
    assert.equal(traceParent(value), null)
})
