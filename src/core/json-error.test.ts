import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { describeJsonError } from './json-error.ts'

const describe = (source: string): string | null => {
  try {
    JSON.parse(source)
    return null
  } catch (error) {
    return describeJsonError(error, source)
  }
}

const cases: readonly (readonly [source: string, expected: string])[] = [
  ['{"model": good}', 'unexpected "g" at line 1, column 11'],
  ['{\n"model": "m",, "input": 1}', 'line 2, column 14'],
  ['{"model": ', 'it ends before it is complete, at line 1, column 11'],
  ['{"model": "m"', 'line 1, column 14'],
  ['{"a":tru}', 'unexpected "}" at line 1, column 9'],
  ['{"a":\n  [1,\n  2,]}', 'unexpected "]" at line 3, column 5'],
  ['{"a":}', 'unexpected "}" at line 1, column 6'],
  ['[,]', 'unexpected "," at line 1, column 2'],
  ['[[], {}, .5]', 'unexpected "." at line 1, column 10'],
  ["{'model': 1}", 'line 1, column 2'],
  ['{"a":"b\nc"}', 'line 1, column 8'],
  ['{"a": "with \\" and ] and }", "b": ?}', 'unexpected "?" at line 1, column 35'],
  ['{"a": "\u{1F600}", "b": \u{1F600}}', 'unexpected "\u{1F600}" at line 1, column 18'],
]
for (const [source, expected] of cases)
  test(`json error: ${source}`, () => assert.ok(describe(source)?.includes(expected), describe(source) ?? 'valid'))

test('json error: the reported position is that of the token V8 names', () => {
  let compared = 0
  fc.assert(
    fc.property(
      fc.json(),
      fc.nat(),
      fc.constantFrom(',', ':', ']', '}', '[', '{', 'x', "'", '\n', 't', '-', '"', 'nul', '1.'),
      (json, place, inserted) => {
        const at = place % (json.length + 1)
        const source = json.slice(0, at) + inserted + json.slice(at)
        const found = /^unexpected (".+") at line (\d+), column (\d+)$/.exec(describe(source) ?? '')
        if (!found) return
        compared++
        const line = source.split('\n')[Number(found[2]) - 1] ?? ''
        const rest = line.slice(Number(found[3]) - 1) || '\n'
        assert.ok(rest.startsWith(JSON.parse(found[1] ?? '')), source)
      },
    ),
    { numRuns: 20_000, seed: 33 },
  )
  assert.ok(compared > 2_000, `${compared} compared`)
})

test('json error: quotes at most one character of the body', () => {
  const secret = 'sk-secret-0123456789'
  for (const source of [`{"key": ${secret}}`, `{"key": "${secret}" x}`, `{"key": "${secret}`, `["${secret}"}`])
    assert.doesNotMatch(describe(source) ?? '', /secret/)
})
