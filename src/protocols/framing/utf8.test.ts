import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run } from '../../core/stage.ts'
import { utf8 } from './utf8.ts'

const cases: readonly (readonly [name: string, bytes: Uint8Array, text: string])[] = [
  ['characters of one to four bytes', new TextEncoder().encode('aé€😀 e\u0301'), 'aé€😀 e\u0301'],
  ['a byte order mark', Uint8Array.of(0xef, 0xbb, 0xbf, 0x61), 'a'],
  [
    'a byte order mark in the middle is kept',
    new TextEncoder().encode('é\ufeffab\ufeffc\ufeffé'),
    'é\ufeffab\ufeffc\ufeffé',
  ],
  ['two byte order marks, of which the second is kept', new TextEncoder().encode('\ufeff\ufeffa'), '\ufeffa'],
  ['an invalid byte', Uint8Array.of(0x61, 0xff, 0x62), 'a\ufffdb'],
  ['a truncated character', Uint8Array.of(0x61, 0xe2, 0x82), 'a\ufffd'],
  ['empty input', new Uint8Array(), ''],
]
for (const [name, bytes, text] of cases)
  test(`utf8: ${name}`, () => {
    assert.equal(run(utf8(), [bytes]).join(''), text)
    assert.equal(
      run(
        utf8(),
        [...bytes].map((byte) => Uint8Array.of(byte)),
      ).join(''),
      text,
      'byte by byte',
    )
    for (let cut = 0; cut <= bytes.length; cut++)
      assert.equal(run(utf8(), [bytes.subarray(0, cut), bytes.subarray(cut)]).join(''), text, `cut at ${cut}`)
  })
