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
  ['behind strings with quotes and commas', `{"a":"\\",]}","b":${BIG}}`],
  ['under a key with an escape', `{"\\u0061\\"":${BIG},"b":[${BIG}]}`, `{"a\\"":${BIG},"b":[${BIG}]}`],
  ['under the name of the prototype', `{"__proto__":${BIG},"constructor":{"x":${BIG}}}`],
  ['under an empty key', `{"":${BIG}}`],
  ['two that are the same double', `[${BIG},12345678901234567891]`],
  ['given twice, both large', `{"a":${BIG},"a":12345678901234567891}`, '{"a":12345678901234567891}'],
  ['given twice, the last small', `{"a":${BIG},"a":1}`, '{"a":1}'],
  ['given twice, the last an object', `{"a":${BIG},"a":{"b":2}}`, '{"a":{"b":2}}'],
  ['within what is given twice', `{"a":{"b":${BIG}},"a":[7]}`, '{"a":[7]}'],
  ['exact all the same', '[9007199254740991,1234567890123456]'],
  ['with a point or an exponent: a double', '[12345678901234567890.5,1e30]', '[12345678901234567000,1e+30]'],
  ['with blanks', ` [ ${BIG} , 1 ] `, `[${BIG},1]`],
]
for (const [name, source, written = source] of cases)
  test(`digits: ${name}`, () => assert.equal(JSON.stringify(parseJson(source)), written))

test('digits: the same as asking about each value, whatever is given', () => {
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
