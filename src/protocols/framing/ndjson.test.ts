import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { assertLinear } from '../../../test/support/growth.ts'
import { run } from '../../core/stage.ts'
import { ndjson, ndjsonFrames } from './ndjson.ts'

const LIMIT = 40

const cases: readonly (readonly [string, string, readonly string[]])[] = [
  ['empty input', '', []],
  ['a line', '{"a":1}\n', ['{"a":1}']],
  ['lines', '{"a":1}\n{"a":2}\n', ['{"a":1}', '{"a":2}']],
  ['crlf', '{"a":1}\r\n{"a":2}\r\n', ['{"a":1}', '{"a":2}']],
  ['empty lines are ignored', '\n\r\n{"a":1}\n\n', ['{"a":1}']],
  ['a last line without a line feed', '{"a":1}\n{"a":2}', ['{"a":1}', '{"a":2}']],
  ['a truncated last line', '{"a":1}\n{"a":', ['{"a":1}']],
  ['characters of several bytes', '{"a":"Zürich 😀"}\n', ['{"a":"Zürich 😀"}']],
  ['a byte order mark', '\ufeff{"a":1}\n', ['{"a":1}']],
  ['invalid JSON is passed to the decoder', 'x\n', ['x']],
]

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const linesOf = (pieces: readonly Uint8Array[], limit = LIMIT) => run(ndjson.frames(limit), pieces)

for (const [name, wire, lines] of cases)
  test(`ndjson: ${name}`, () => {
    const whole = bytes(wire)
    const expected = lines.map((data) => ({ data }))
    assert.deepEqual(linesOf([whole]), expected)
    for (let cut = 0; cut <= whole.length; cut++)
      assert.deepEqual(linesOf([whole.subarray(0, cut), whole.subarray(cut)]), expected, `cut at ${cut}`)
    assert.deepEqual(linesOf([...whole].map((byte) => Uint8Array.of(byte))), expected)
  })

const tooLong: readonly (readonly [string, string, readonly string[]])[] = [
  ['in one line', `{"a":"${'x'.repeat(LIMIT)}"}\n{"a":1}\n`, []],
  ['after another line', `{"a":1}\n${'x'.repeat(LIMIT + 1)}`, ['{"a":1}']],
]
for (const [name, wire, before] of tooLong)
  test(`ndjson: too long, ${name}: reported once, later input is ignored`, () => {
    const expected = [...before.map((data) => ({ data })), { data: '', oversized: true }]
    const whole = bytes(wire)
    for (let cut = 0; cut <= whole.length; cut++)
      assert.deepEqual(linesOf([whole.subarray(0, cut), whole.subarray(cut)]), expected, `cut at ${cut}`)
  })

test('ndjson: any lines, cut at any positions', () => {
  const line = fc.json().map((text) => text.replaceAll('\n', ' '))
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat(), { maxLength: 6 }), (lines, cuts) => {
      const whole = bytes(lines.map((one) => `${one}\n`).join(''))
      const places = [0, ...cuts.map((cut) => cut % (whole.length + 1)).sort((a, b) => a - b), whole.length]
      const pieces = places.slice(1).map((end, at) => whole.subarray(places[at], end))
      assert.deepEqual(
        linesOf(pieces, 100_000).map(({ data }) => data),
        lines.map((one) => one.trim()),
      )
    }),
  )
})

test('ndjson: a long line in small slices is joined once', () => {
  assertLinear('joining', 2_000_000, (size) => {
    const stage = ndjsonFrames(2 * size)
    for (let at = 0; at < size; at += 8) stage.push('xxxxxxxx')
    assert.equal(stage.push('\n')[0]?.data.length, size)
  })
})
