import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bytesOrText, type EncodedText } from './encoded-text.ts'
import { isObject, type JsonObject, parseJson } from './json.ts'
import { excess, rewrite, survey } from './json-text.ts'

const parse = (source: string): JsonObject => {
  const value = parseJson(source)
  assert.ok(isObject(value))
  return value
}

const change = (source: string, edit: (body: JsonObject) => JsonObject): string => {
  const walk = survey(source, 64)
  assert.ok(walk.ok)
  const before = parse(source)
  return rewrite({ text: source }, walk.members, before, edit(before)).text
}

const model = (body: JsonObject): JsonObject => ({ ...body, model: 'new' })

const rewrites = [
  ['replaces one member', '{"model":"old","a":1}', model, '{"model":"new","a":1}'],
  [
    'keeps digits beyond the precision of a double',
    '{"seed": 9007199254740993,"model":"x"}',
    model,
    '{"seed": 9007199254740993,"model":"new"}',
  ],
  [
    'keeps the notation of numbers and escapes',
    '{"a":1.0,"b":1e2,"c":"\\u00e9","model":"x"}',
    model,
    '{"a":1.0,"b":1e2,"c":"\\u00e9","model":"new"}',
  ],
  [
    'keeps white space inside members',
    '{ "model" : "x" , "t" : [ 1 , 2 ] }',
    model,
    '{"model" : "new","t" : [ 1 , 2 ]}',
  ],
  ['an escaped key is the same key', '{"mod\\u0065l":"x"}', model, '{"mod\\u0065l":"new"}'],
  ['adds at the end', '{"a":1}', model, '{"a":1,"model":"new"}'],
  ['adds to an empty object', '{}', model, '{"model":"new"}'],
  ['removes', '{"a":1,"b":2,"c":3}', ({ b: _, ...rest }: JsonObject) => rest, '{"a":1,"c":3}'],
  ['braces and quotes in strings', '{"a":"}\\"{,","model":"x"}', model, '{"a":"}\\"{,","model":"new"}'],
  ['backslashes before a quote', '{"a":"\\\\","model":"x"}', model, '{"a":"\\\\","model":"new"}'],
  ['returns the source if nothing changes', '{ "model":"x" }', (body: JsonObject) => body, '{ "model":"x" }'],
] as const

for (const [name, source, edit, wanted] of rewrites)
  test(`rewrite: ${name}`, () => {
    assert.equal(change(source, edit), wanted)
    assert.doesNotThrow(() => JSON.parse(wanted))
  })

const deep = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`

const problems = [
  ['64 levels', deep(64), null],
  ['65 levels', deep(65), 'too-deep'],
  ['brackets in a string do not count as levels', `{"a":"${'['.repeat(500)}"}`, null],
  ['two models', '{"model":"a","model":"b"}', 'duplicate'],
  ['two models, one escaped', '{"model":"a","mod\\u0065l":"b"}', 'duplicate'],
  ['a nested duplicate is allowed', '{"model":"a","x":{"model":"b","model":"c"}}', null],
  ['a duplicate of another member is allowed', '{"a":1,"a":2}', null],
  ['a number beyond a double', '{"max_tokens":1e400}', 'not-finite'],
  ['a negative one, nested', '{"a":[{"b":-1E999}]}', 'not-finite'],
  ['the largest double', '{"a":1.7976931348623157e308}', null],
  ['a number beyond a double in a string', '{"a":"1e400"}', null],
] as const

for (const [name, source, problem] of problems)
  test(`survey: ${name}`, () => {
    const walk = survey(source, 64)
    assert.equal(walk.ok ? null : walk.problem, problem)
  })

test('survey: finds the members of any object', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.constantFrom(0, 1, 2), (object, indent) => {
      const source = JSON.stringify(object, null, indent)
      const walk = survey(source, 10_000)
      if (!walk.ok) return walk.problem !== 'too-deep'
      const read = walk.members.map(({ key, value, end }) => [key, JSON.parse(source.slice(value, end))])
      assert.deepEqual(read, Object.entries(JSON.parse(source)))
      return true
    }),
  )
})

test('rewrite: the result parses to the changed object', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.string(), fc.jsonValue(), (object, key, value) => {
      const source = JSON.stringify(object)
      if (key === '__proto__' || Object.hasOwn(object, '__proto__')) return
      const walk = survey(source, 10_000)
      if (!walk.ok) return
      const before = parse(source)
      const after = { ...before, [key]: JSON.parse(JSON.stringify(value)) }
      assert.deepEqual(
        JSON.parse(rewrite({ text: source }, walk.members, before, after).text),
        JSON.parse(JSON.stringify(after)),
      )
    }),
  )
})

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const sent = (body: EncodedText): Uint8Array => {
  const whole = bytesOrText(body)
  return typeof whole === 'string' ? bytesOf(whole) : whole
}

const sources = [
  ['the model first', '{"model":"é","messages":["—€😀"],"n":1}'],
  ['the model last', '{ "messages" : ["—€😀"] , "é":"ü" , "model" : "x" }'],
  ['the model alone', '{"model":"€"}'],
  ['an empty object', '{}'],
] as const
const edits = [
  ['changed', model],
  ['and another added', (body: JsonObject) => ({ ...body, model: 'ñ', more: { é: '€' } })],
  ['removed', ({ model: _, ...rest }: JsonObject) => rest],
  ['replaced by new members', () => ({ model: '€', other: 1 })],
  ['all removed', () => ({})],
] as const

for (const [name, text] of sources)
  for (const [how, edit] of edits)
    test(`rewrite, of a text with bytes: ${name}, ${how}`, () => {
      const walk = survey(text, 64)
      assert.ok(walk.ok)
      const before = parse(text)
      const after = edit(before)
      const made = rewrite({ text, bytes: bytesOf(text) }, walk.members, before, after)
      assert.equal(made.text, rewrite({ text }, walk.members, before, after).text)
      assert.deepEqual(sent(made), bytesOf(made.text))
    })

test('rewrite, of a text with bytes: the bytes match the text for any object', () => {
  const names = fc.string({ unit: 'binary' })
  fc.assert(
    fc.property(fc.dictionary(names, fc.jsonValue({ stringUnit: 'binary' })), names, names, (object, gone, key) => {
      const text = JSON.stringify(object)
      const walk = survey(text, 10_000)
      if (!walk.ok || Object.hasOwn(object, '__proto__') || key === '__proto__') return
      const before = parse(text)
      const { [gone]: _, ...rest } = before
      const after = { ...rest, [key]: key }
      const made = rewrite({ text, bytes: bytesOf(text) }, walk.members, before, after)
      assert.equal(made.text, rewrite({ text }, walk.members, before, after).text)
      assert.deepEqual(sent(made), bytesOf(made.text))
    }),
  )
})

test('parseJson: keeps integers that a double cannot represent; other numbers are doubles', () => {
  const source =
    '{"a":9007199254740993,"b":12345678901234567890,"c":1.5,"d":[9223372036854775807],"e":9007199254740991}'
  assert.equal(JSON.stringify(parseJson(source)), source)
  const value = parse(source)
  assert.equal(value.c, 1.5)
  assert.equal(value.e, 9007199254740991)
})

const excesses: readonly (readonly [name: string, text: string, found: ReturnType<typeof excess>])[] = [
  ['empty', '', null],
  ['as deep as allowed', '[[[1]]]', null],
  ['nested deeper', '[[[[1]]]]', 'too-deep'],
  ['brackets in texts', '["[[[[[[","\\"[[[["]', null],
  ['as many members as allowed', '{"a":1,"b":2}', null],
  ['more members of one object', '{"a":1,"b":2,"c":3}', 'too-many'],
  ['several small objects', '[{"a":1,"b":2},{"a":1}]', null],
  ['more members in all', '[{"a":1,"b":2},{"a":1,"b":2}]', 'too-many-in-all'],
  ['as many values as allowed', '[1,2,3,4,5]', null],
  ['more values', '[1,2,3,4,5,6]', 'too-scattered'],
  ['commas in texts', '["1,2,3,4,5,6,7"]', null],
]
for (const [name, text, found] of excesses)
  test(`excess: ${name}`, () =>
    assert.equal(excess(text, { levels: 3, members: 2, membersInAll: 3, values: 4 }), found))
