import assert from 'node:assert/strict'
import { test } from 'node:test'
import { masking } from './mask.ts'

const TOKEN = 'ya29.a0AfH6SMBx-token'
const OTHER = 'ya29.a0AfH6SMBx-other-token'

const cases: readonly (readonly [string, readonly string[], string, string])[] = [
  ['nothing to mask', [TOKEN], '{"error":"no"}', '{"error":"no"}'],
  ['in the middle', [TOKEN], `{"error":"bad ${TOKEN}"}`, '{"error":"bad [key]"}'],
  ['the whole text', [TOKEN], TOKEN, '[key]'],
  ['twice in a row', [TOKEN], `${TOKEN}${TOKEN}`, '[key][key]'],
  ['an incomplete secret', [TOKEN], TOKEN.slice(0, -1), TOKEN.slice(0, -1)],
  ['repeated first characters', [TOKEN], `ya29.ya29.${TOKEN}ya29.`, 'ya29.ya29.[key]ya29.'],
  ['two secrets', [TOKEN, OTHER], `${OTHER} ${TOKEN} ${OTHER}`, '[key] [key] [key]'],
  ['next to non-ASCII text', [TOKEN], `é${TOKEN}日本`, 'é[key]日本'],
  ['a secret that is too short', ['abc'], 'abc', 'abc'],
]

const run = (secrets: readonly string[], slices: readonly Uint8Array[]): string => {
  const stage = masking(secrets)
  return Buffer.concat([...slices.flatMap((slice) => stage.push(slice)), ...stage.end()]).toString('utf8')
}

for (const [name, secrets, given, expected] of cases)
  test(`mask: ${name}`, () => {
    const bytes = Buffer.from(given)
    assert.equal(run(secrets, [bytes]), expected)
    for (let cut = 0; cut <= bytes.length; cut++)
      assert.equal(run(secrets, [bytes.subarray(0, cut), bytes.subarray(cut)]), expected, `cut at ${cut}`)
    assert.equal(
      run(
        secrets,
        [...bytes].map((byte) => Uint8Array.of(byte)),
      ),
      expected,
    )
  })
