import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parseJson } from './json.ts'

const BIG = '12345678901234567890'
const cases: readonly [name: string, source: string, written?: string][] = [
  ['alone', BIG],
  ['negative', `-${BIG}`],
  ['in a list', `[1,${BIG},"${BIG}",2]`],
  ['in an object', `{"a":1,"b":${BIG},"c":"x"}`],
  ['deep', `{"a":[{"b":[[],{},[${BIG}]]}]}`],
  ['after strings with quotes and commas', `{"a":"\\",]}","b":${BIG}}`],
  ['under a key with an escape', `{"\\u0061\\"":${BIG},"b":[${BIG}]}`, `{"a\\"":${BIG},"b":[${BIG}]}`],
  ['under the name of the prototype', `{"__proto__":${BIG},"constructor":{"x":${BIG}}}`],
  ['under an empty key', `{"":${BIG}}`],
  ['two integers with the same double', `[${BIG},12345678901234567891]`],
  ['duplicate member, both large', `{"a":${BIG},"a":12345678901234567891}`, '{"a":12345678901234567891}'],
  ['duplicate member, the last small', `{"a":${BIG},"a":1}`, '{"a":1}'],
  ['duplicate member, the last an object', `{"a":${BIG},"a":{"b":2}}`, '{"a":{"b":2}}'],
  ['inside a duplicate member', `{"a":{"b":${BIG}},"a":[7]}`, '{"a":[7]}'],
  ['16 digits that a double holds exactly', '[9007199254740991,1234567890123456]'],
  ['numbers with a point or an exponent are doubles', '[12345678901234567890.5,1e30]', '[12345678901234567000,1e+30]'],
  ['with blanks', ` [ ${BIG} , 1 ] `, `[${BIG},1]`],
]
for (const [name, source, written = source] of cases)
  test(`digits: ${name}`, () => assert.equal(JSON.stringify(parseJson(source)), written))

test('digits: any JSON is parsed as with a reviver', () => {
  type SourceJson = {
    parse(text: string, reviver: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
    rawJSON(text: string): object
  }
  const json = JSON as unknown as SourceJson
  const slowly = (source: string) =>
    json.parse(source, (_key, value, { source: text }) =>
      typeof value === 'number' && text !== undefined && /^-?[0-9]+$/.test(text) && !Number.isSafeInteger(value)
        ? json.rawJSON(text)
        : value,
    )
  const digits = fc.stringMatching(/^-?[1-9][0-9]{0,24}$/)
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      digits,
      fc.string().map((text) => JSON.stringify(text)),
      fc.constantFrom('null', 'true', '0.1234567890123456789', '1e-20'),
      fc.array(tie('value') as fc.Arbitrary<string>, { maxLength: 5 }).map((items) => `[${items.join(', ')}]`),
      fc
        .uniqueArray(fc.tuple(fc.string(), tie('value') as fc.Arbitrary<string>), {
          maxLength: 5,
          selector: ([key]) => key,
        })
        .map((members) => `{${members.map(([key, item]) => `${JSON.stringify(key)}:${item}`).join(',')}}`),
    ),
  }))
  fc.assert(
    fc.property(value as fc.Arbitrary<string>, (source) => {
      assert.equal(JSON.stringify(parseJson(source)), JSON.stringify(slowly(source)))
    }),
    { numRuns: 2_000 },
  )
})
