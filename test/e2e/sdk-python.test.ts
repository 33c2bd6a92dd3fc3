/** The official OpenAI SDK for Python. */
import { test } from 'node:test'
import { skipPython, testPython } from './support/python.ts'
import { CALLS, CITY, KINDS, startThreeKinds, TEXT } from './support/three-kinds.ts'

test('sdk-python: every case', { skip: skipPython() }, async (t) => {
  const kinds = await startThreeKinds()
  t.after(() => kinds.stop())
  const given = { base: kinds.gateway.base, kinds: Object.values(KINDS), text: TEXT, calls: CALLS, city: CITY }
  await testPython(t, { script: 'sdk.py', given, cases: 1 + 16 * Object.keys(KINDS).length })
})
