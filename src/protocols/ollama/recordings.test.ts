/** Requests to Ollama: the project's exchanges, and recordings if present. Answers: test/conformance. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { requireRecordings } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { isObject } from '../../core/json.ts'

const recordings = evidenceOf('ollama')

requireRecordings()

/** Values that client libraries send for absent settings. */
const EMPTY_VALUES: ReadonlySet<string> = new Set(['""', 'null', '{}', '[]'])

test('the schema of a request accepts real requests', () => {
  let seen = 0
  for (const { id, request } of recordings) {
    if (!isObject(request)) continue
    const members = Object.entries(request).filter(([, value]) => !EMPTY_VALUES.has(JSON.stringify(value)))
    // Ollama streams by default; the gateway always sends `stream`.
    assert.equal(problemsOf('ollama', 'ChatRequest', { stream: true, ...Object.fromEntries(members) }), undefined, id)
    seen++
  }
  assert.ok(seen >= 9, String(seen))
})
