import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { retryNeutral } from './retry-neutral-text.ts'

const ALARMING =
  /429|500|502|503|504|524|rate.?limit|too many requests|overloaded|service.?unavailable|internal.?error|server.?error|provider.?returned.?error|fetch failed|network.?error|terminated/i

const cases = [
  ['an index that reads like a status', { error: { param: 'messages[502].content' } }],
  ['an upstream’s words', { error: { message: 'Rate limit reached; the server error was terminated' } }],
  ['escapes before and inside', { error: { message: 'a \\ "429" \n overloaded é' } }],
  ['in a key', { 'rate-limit': 'x' }],
  ['nothing alarming', { error: { message: 'fine' } }],
] as const

for (const [name, body] of cases)
  test(`retry-neutral: ${name}`, () => {
    const written = retryNeutral(JSON.stringify(body), false)
    assert.doesNotMatch(written, ALARMING)
    assert.deepEqual(JSON.parse(written), body)
  })

test('retry-neutral: any text parses to the same value and matches no retry word', () => {
  const words = fc.constantFrom(
    '429',
    '5',
    '0',
    '02',
    'rate',
    ' ',
    'limit',
    'over',
    'loaded',
    '\\',
    '"',
    'x',
    'terminated',
    'Server-Error',
    '\u0005',
    '\n',
    'n',
  )
  fc.assert(
    fc.property(
      fc.array(words).map((parts) => parts.join('')),
      (message) => {
        const written = retryNeutral(JSON.stringify({ error: { message } }), false)
        assert.doesNotMatch(written, ALARMING)
        assert.equal(JSON.parse(written).error.message, message)
      },
    ),
  )
})

test('retry-neutral: retryable errors are unchanged', () => {
  const body = '{"error":{"message":"429 rate limit"}}'
  assert.equal(retryNeutral(body, true), body)
})
