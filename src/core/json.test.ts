import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseJson } from './json.ts'

const same = [
  '12345678901234567890',
  '[-12345678901234567890,1]',
  '{"a":{"b":98765432109876543210}}',
  '{"id":"12345678901234567890","seed":9007199254740993}',
  '[0.5,12345678901234567]',
]
for (const source of same)
  test(`json: ${source} is parsed and serialized without change`, () =>
    assert.equal(JSON.stringify(parseJson(source)), source))

test('json: numbers with many decimals are doubles', () => {
  const source = '[0.1234567890123456789,-1.00000000000000000001,1e-20]'
  assert.deepEqual(parseJson(source), JSON.parse(source))
})
