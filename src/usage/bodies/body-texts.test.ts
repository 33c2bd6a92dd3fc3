import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contains, searchable } from './body-texts.ts'
import type { StoredBodies, StoredBody } from './recorded-calls.ts'

const body = (text: string | null): StoredBody => ({ text, bytes: 0, truncated: false, redacted: 0, media: 0 })
const calls = (request: string | null, answer: string): StoredBodies => {
  const attempt = { url: '', sent: {}, received: {}, request: body(null), status: 200, complete: true }
  return {
    path: '/',
    headers: {},
    request: body(request),
    response: null,
    attempts: [{ ...attempt, answer: body(answer) }],
  }
}
const events = (...data: readonly object[]): string =>
  data.map((one) => `data: ${JSON.stringify(one)}\r\n\r\n`).join('')

const CASES: readonly (readonly [name: string, answer: string, text: string, isFound: boolean])[] = [
  ['escapes of JSON', String.raw`{"a":"gr\u00fc\u00dfe\n\"you\""}`.replaceAll('\\\\', '\\'), 'GRÜßE "you"', true],
  [
    'pieces of chat completions',
    events({ choices: [{ delta: { content: 'within 14 da' } }] }, { choices: [{ delta: { content: 'ys' } }] }),
    'within 14 days',
    true,
  ],
  [
    'pieces of messages',
    events({ type: 'content_block_delta', delta: { type: 'text_delta', text: 'ref' } }, { delta: { text: 'und' } }),
    'refund',
    true,
  ],
  ['pieces of responses', events({ type: 'x.delta', delta: 're' }, { type: 'x.delta', delta: 'fund' }), 'refund', true],
  ['lines of JSON', '{"message":{"content":"re"}}\n{"message":{"content":"fund"}}', 'refund', true],
  ['names of events', events({ type: 'refund', delta: 'x' }), 'refund', false],
  ['a cut text', '{"messages":[{"content":"my re\\u0066und', 'my refund', true],
  ['no JSON', 'my\n refund', 'my refund', true],
  ['another text', '{"a":"refunds"}', 'refund!', false],
]

for (const [name, answer, text, isFound] of CASES)
  test(`kept bodies: a text in ${name} is ${isFound ? 'found' : 'not found'}`, () => {
    assert.equal(contains(calls(null, answer), searchable(text)), isFound)
    assert.equal(contains(calls(answer, ''), searchable(text)), isFound)
  })

test('kept bodies: nesting has no limit', () => {
  const deep = `${'['.repeat(100_000)}"refund"${']'.repeat(100_000)}`
  assert.equal(contains(calls(deep, ''), 'refund'), true)
})
