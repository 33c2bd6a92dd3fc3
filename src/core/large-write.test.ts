import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { EncodedText } from './encoded-text.ts'
import { type Json, type JsonObject, object, parseJson } from './json.ts'
import { rewrite, survey } from './json-text.ts'
import { rewriteLarge, writeLarge } from './large-write.ts'
import { atOnce } from './steps.ts'

const same = ({ text, bytes }: EncodedText, right: string): void => {
  assert.equal(text, right)
  assert.equal(Buffer.from(bytes ?? '').toString(), right)
}

const VALUES: readonly Json[] = [
  {},
  [],
  'a text with "quotes", \n lines and \\ slashes, longer than a piece',
  '😀😀😀😀😀😀😀😀😀😀😀😀😀😀😀 \ud83d alone, and \ude00 alone',
  [[], {}, [[]], ['a long text in a list, longer than a piece'], 1, 2, 3, null, true, ['x']],
  { 'a "name"': { b: { c: ['a long text in a list, longer than a piece', 1, 2] } }, d: {}, e: [] },
  Array.from({ length: 50 }, (_, at) => at),
  Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`name ${at}`, { at }])),
]

test('large JSON: writes the same text as JSON.stringify in pieces of any length', () => {
  for (const value of VALUES)
    for (let piece = 2; piece < 80; piece++) same(atOnce(writeLarge(value, piece)), JSON.stringify(value))
})

test('large JSON: writes undefined members and long numbers like JSON.stringify', () => {
  const value = { gone: undefined, long: parseJson('[12345678901234567890]'), list: ['x'.repeat(40), 1] } as JsonObject
  for (let piece = 2; piece < 40; piece++) same(atOnce(writeLarge(value, piece)), JSON.stringify(value))
  same(atOnce(writeLarge({ gone: undefined, x: 'y'.repeat(40) }, 8)), JSON.stringify({ x: 'y'.repeat(40) }))
})

test('large JSON: writes any value like JSON.stringify', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'binary' }), fc.integer({ min: 2, max: 60 }), (value, piece) =>
      // `fc.jsonValue` generates JSON only.
      same(atOnce(writeLarge(value as Json, piece)), JSON.stringify(value)),
    ),
  )
})

test('large JSON: changes a body in pieces like `rewrite`', () => {
  const names = fc.constantFrom('a', 'b', 'model', '__proto__', 'é')
  fc.assert(
    fc.property(
      fc.dictionary(names, fc.jsonValue()),
      names,
      fc.jsonValue(),
      fc.constantFrom(0, 1),
      (made, key, value, by) => {
        const source = JSON.stringify(made, null, by)
        const before = object(JSON.parse(source)) ?? {}
        const found = survey(source, 10_000)
        assert.ok(found.ok)
        const { a: _, ...without } = before
        for (const after of [before, without, { ...before, [key]: value as Json }, {}])
          if (after !== before)
            same(
              atOnce(rewriteLarge({ text: source, members: found.members }, before, after, 16)),
              rewrite({ text: source }, found.members, before, after).text,
            )
      },
    ),
  )
})

test('large JSON: no step writes more than its piece', (context) => {
  const piece = 1_024
  const values: readonly Json[] = [
    { model: 'm', messages: [{ role: 'user', content: 'a "b"\n'.repeat(20_000) }] },
    { messages: Array.from({ length: 2_000 }, (_, at) => ({ role: 'user', content: `message ${at}` })) },
    { all: Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`name ${at}`, at])) },
    Array.from({ length: 20_000 }, (_, at) => at),
  ]
  let written = 0
  const { stringify } = JSON
  context.mock.method(JSON, 'stringify', (value: unknown) => {
    const text = stringify(value)
    written += text.length
    return text
  })
  for (const value of values) {
    const steps = writeLarge(value, piece)
    let count = 0
    for (let step: { done?: boolean } = { done: false }; !step.done; count++) {
      written = 0
      step = steps.next()
      // Quotes and line feeds take two characters each.
      assert.ok(written <= 3 * piece, `${written} characters in one step`)
    }
    assert.ok(count >= stringify(value).length / piece, `${count} steps`)
  }
})
