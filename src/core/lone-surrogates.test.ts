import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject } from './json.ts'
import { hasSurrogateEscapes, withoutLoneSurrogates } from './lone-surrogates.ts'

/** Bodies as clients send them. `after`: what remains; the paths of the strings that changed. */
const cases: readonly (readonly [name: string, sent: string, after: string, paths: readonly string[]])[] = [
  ['a first half', String.raw`{"a":"cut \ud83d here"}`, '{"a":"cut \ufffd here"}', ['a']],
  ['a second half', String.raw`{"a":"\uDE00 here"}`, '{"a":"\ufffd here"}', ['a']],
  ['a first half before a pair', String.raw`{"a":"\ud83d\ud83d\ude00"}`, '{"a":"\ufffd😀"}', ['a']],
  ['halves in the wrong order', String.raw`{"a":"\ude00\ud83d"}`, '{"a":"\ufffd\ufffd"}', ['a']],
  ['a pair', String.raw`{"a":"\ud83d\ude00"}`, '{"a":"😀"}', []],
  ['the escape as text', String.raw`{"a":"write \\ud83d in JSON"}`, String.raw`{"a":"write \\ud83d in JSON"}`, []],
  ['in lists', String.raw`{"a":[1,{"b":["x","\ud83d"]}]}`, '{"a":[1,{"b":["x","\ufffd"]}]}', ['a[1].b[1]']],
  ['a name', String.raw`{"a":{"k\ud83d":1,"z":2}}`, '{"a":{"k\ufffd":1,"z":2}}', ['a.k\ufffd']],
  ['an outermost name', String.raw`{"\ud83d":1}`, '{"\ufffd":1}', ['\ufffd']],
  ['a name that is a prototype', String.raw`{"__proto__":"\ud83d"}`, '{"__proto__":"\ufffd"}', ['__proto__']],
  [
    'arguments',
    String.raw`{"f":{"arguments":"{\"t\":\"\\ud83d\",\"u\":\"\\uD83D\\uDE00\"}"}}`,
    String.raw`{"f":{"arguments":"{\"t\":\"\\ufffd\",\"u\":\"\\uD83D\\uDE00\"}"}}`,
    ['f.arguments'],
  ],
  [
    'arguments with the escape as text',
    String.raw`{"arguments":"{\"t\":\"\\\\ud83d\"}"}`,
    String.raw`{"arguments":"{\"t\":\"\\\\ud83d\"}"}`,
    [],
  ],
  [
    'arguments that end in an escape',
    String.raw`{"arguments":"{\"t\":\"\\ud8"}`,
    String.raw`{"arguments":"{\"t\":\"\\ud8"}`,
    [],
  ],
]

for (const [name, sent, after, paths] of cases)
  test(`lone surrogates: ${name}`, () => {
    const body: JsonObject = JSON.parse(sent)
    const mended = withoutLoneSurrogates(body)
    assert.deepEqual(mended, { value: JSON.parse(after), paths })
    assert.equal(hasSurrogateEscapes(sent), true)
    if (paths.length === 0) assert.equal(mended.value, body)
  })

test('lone surrogates: other escapes are not searched further', () => {
  for (const text of [String.raw`{"a":"\u00e9\n\u001b[0m"}`, '{"a":"😀"}', String.raw`{"a":"\\d83d C:\\users"}`])
    assert.equal(hasSurrogateEscapes(text), false)
})

test('lone surrogates: found after any number of other escapes, near or far', () => {
  for (const before of ['', 'x'.repeat(40), String.raw`\n`, String.raw`\u00e9`, `${'x'.repeat(40)}\\n`])
    for (const count of [0, 1, 7, 8, 9, 50])
      for (const half of [String.raw`\ud83d`, String.raw`\uDC00`])
        assert.equal(hasSurrogateEscapes(`{"a":"${before.repeat(count)}${half}"}`), true, `${count} × ${before}`)
})
