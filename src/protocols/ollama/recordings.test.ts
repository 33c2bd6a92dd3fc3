/** Requests to Ollama: own exchanges, and recordings where they are present. Its answers: test/conformance. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evidenceOf } from '../../../test/support/exchanges.ts'
import { requireRecordings } from '../../../test/support/recordings.ts'
import { problemsOf } from '../../../test/support/schemas.ts'
import { isObject } from '../../core/json.ts'

const recordings = evidenceOf('ollama')

requireRecordings()

/** Its client libraries say nothing with these. */
const SAYS_NOTHING: ReadonlySet<string> = new Set(['""', 'null', '{}', '[]'])

test('the schema of a request accepts real requests', () => {
  let seen = 0
  for (const { id, request } of recordings) {
    if (!isObject(request)) continue
    const said = Object.entries(request).filter(([, value]) => !SAYS_NOTHING.has(JSON.stringify(value)))
    // A stream is what is given unless told otherwise; the gateway always says which.
    assert.equal(problemsOf('ollama', 'ChatRequest', { stream: true, ...Object.fromEntries(said) }), undefined, id)
    seen++
  }
  assert.ok(seen >= 9, String(seen))
})
