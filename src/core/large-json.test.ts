import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseJson, sourceOf } from './json.ts'
import { describeJsonError } from './json-error.ts'
import { survey } from './json-text.ts'
import { type LargeJson, readLarge } from './large-json.ts'
import { atOnce } from './steps.ts'

/** The result of the functions for small texts. */
const expected = (source: string, deepest: number): LargeJson => {
  try {
    const value = parseJson(source)
    const found = survey(source, deepest)
    return { ok: true, value, survey: found.ok ? { ...found, long: false, entries: Number.POSITIVE_INFINITY } : found }
  } catch (error) {
    return { ok: false, error: describeJsonError(error, source) }
  }
}

/** Makes visible what `deepEqual` ignores: the digits of long numbers, and the order of members. */
const shown = (value: unknown): unknown => {
  if (sourceOf(value) !== undefined) return `raw ${sourceOf(value)}`
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? 'minus zero' : value
  return Object.entries(value).map(([key, member]) => [key, shown(member)])
}

const same = (source: string, piece: number, deepest = 64): void => {
  const found = atOnce(readLarge(source, deepest, piece))
  const right = expected(source, deepest)
  const about = JSON.stringify([source, piece])
  if (!found.ok || !right.ok) return assert.deepEqual(found, right, about)
  assert.deepEqual(shown(found.value), shown(right.value), about)
  // The members are used for objects only.
  if (source.trimStart().startsWith('{')) assert.deepEqual(found.survey, right.survey, about)
}

const TEXTS = [
  '{}',
  '[]',
  ' \n\t\r {"a" : [ 1 , 2.50 , -3e-2 ] , "b" : { } , "c" : [ ] } \n',
  '{"model":"m","messages":[{"role":"user","content":"Hello there, how are you?"},{"role":"user","content":[]}]}',
  String.raw`{"a":"\"\\\"\\\\\" \n\u00e9\ud83d\ude00 \u005c\"","\"b\\":["\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\","\\"]}`,
  '{"emoji":"😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀","é":"漢字漢字漢字漢字漢字漢字漢字漢字漢字"}',
  '{"__proto__":{"polluted":true},"constructor":1,"toString":[1],"a":{"__proto__":[1,2,3,4,5,6,7,8,9,10,11]}}',
  '{"a":1,"b":2,"a":{"x":[1,2,3,4,5,6,7,8,9,10]},"b":3,"2":1,"1":2,"a":4}',
  '{"model":"a","x":[1,2,3,4,5,6,7,8,9],"model":"b","stream":true,"stream":false}',
  '{"n":12345678901234567890,"m":[1,-9007199254740993,0.1234567890123456789,1e21],"s":"12345678901234567890"}',
  '{"n":[1e400,2],"m":-1e999}',
  '[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]',
  '{"a":{"b":{"c":{"d":{"e":{"f":{"g":{"h":["deep enough for sixteen letters"]}}}}}}}}}',
  '"a text alone, longer than one piece is"',
  '1234567890123456789012345678901234567890',
  'true',
  '{"a":true,"b":false,"c":null,"d":[true,false,null,true,false,null]}',
  '   ',
  '',
  '{"a":1}}',
  '{"a":1} x',
  '{"a":1,}',
  '{"a":[1,2,],"b":1}',
  '{"a":[,1]}',
  '{,"a":1}',
  '{"a":[1,,2]}',
  '{"a":[1 2]}',
  '{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14}',
  '{"a":{"b":1,"c":2,"d":3,"e":4,"f":5]}',
  '{"a" 1}',
  '{"a":"unterminated, and it goes on for a while \\"',
  '{"a":"bad escape, after a longer while \\x of text"}',
  '{"a":"bad escape, after a longer while \\u12\\u1234 of text"}',
  '{"a":"a control character after a longer while \n of text"}',
  "{'a':1}",
  '{"a":tru}',
  '{"a":truefalse, "b":nul}',
  '{"a":01}',
  '{"a":1.}',
  '{"a":-}',
  '{"a":NaN}',
  '{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20',
  '{a:1}',
  '{"a":"b":"c"}',
  '{"a":1 /* comment */}',
  '\ufeff{}',
  '{"a":"\u2028"}\u00a0',
]

test('large JSON: parses every text in pieces of every length like `parseJson`', () => {
  for (const text of TEXTS) for (let piece = 16; piece <= Math.max(20, text.length + 1); piece++) same(text, piece)
})

test('large JSON: a truncated text gives the same error', () => {
  for (const text of TEXTS) for (let end = 0; end < text.length; end++) same(text.slice(0, end), 16 + (end % 5))
})

test('large JSON: long strings are never split inside an escape', () => {
  const escapes = ['\\\\', '\\"', '\\n', '\\u0041', '\\ud83d\\ude00', '😀', 'é', 'a']
  for (const one of escapes)
    for (const other of escapes)
      for (let blanks = 0; blanks < 8; blanks++)
        same(`{"a":"${' '.repeat(blanks)}${(one + other + one).repeat(9)}"}`, 16 + blanks)
})

test('large JSON: nesting is counted across pieces', () => {
  for (const deep of [5, 6, 7])
    for (const piece of [16, 17, 30, 200]) {
      same(`{"model":"m","a":${'['.repeat(deep)}"some text inside"${']'.repeat(deep)},"b":1e999}`, piece, 6)
      same(`{"a":[${'[1],'.repeat(20)}${'['.repeat(deep)}${']'.repeat(deep)}]}`, piece, 6)
    }
})

test('large JSON: parses any output of JSON.stringify', () => {
  fc.assert(
    fc.property(
      fc.jsonValue(),
      fc.integer({ min: 16, max: 80 }),
      fc.constantFrom(undefined, 1, '\t'),
      (value, piece, by) => same(JSON.stringify({ value, again: [value] }, null, by), piece),
    ),
  )
})

test('large JSON: accepts or rejects mutated texts like `parseJson`', () => {
  const letters = fc.constantFrom(...'{}[]",:\\u0019-+.eE tn\n\u0001é'.split(''))
  const changes = fc.array(fc.tuple(fc.nat(), fc.nat(2), letters), { minLength: 1, maxLength: 3 })
  fc.assert(
    fc.property(fc.constantFrom(...TEXTS), changes, fc.integer({ min: 16, max: 60 }), (text, made, piece) => {
      let now = text
      for (const [at, gone, letter] of made) {
        const place = at % (now.length + 1)
        now = now.slice(0, place) + letter + now.slice(place + gone)
      }
      same(now, piece)
    }),
    { numRuns: 3_000 },
  )
})

test('large JSON: no step parses more than its piece', (context) => {
  const piece = 1_024
  const texts = [
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'a "b"\n'.repeat(20_000) }] }),
    JSON.stringify({
      messages: Array.from({ length: 2_000 }, (_, at) => ({ role: 'user', content: `message ${at}` })),
    }),
    JSON.stringify({ all: Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`name ${at}`, at])) }),
    JSON.stringify({ list: Array.from({ length: 20_000 }, (_, at) => at) }),
    `{"a":${' '.repeat(100_000)}1}`,
  ]
  let parsed = 0
  const { parse } = JSON
  context.mock.method(JSON, 'parse', (text: string) => {
    parsed += text.length
    return parse(text)
  })
  for (const text of texts) {
    const steps = readLarge(text, 64, piece)
    let count = 0
    for (let step: { done?: boolean } = { done: false }; !step.done; count++) {
      parsed = 0
      step = steps.next()
      // The last piece of a string is parsed twice, because its end is searched only then.
      assert.ok(parsed <= 4 * piece, `${parsed} characters in one step`)
    }
    assert.ok(count >= text.length / piece / 4, `${count} steps for ${text.length} characters`)
  }
})
