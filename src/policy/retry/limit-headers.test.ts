import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMIT_HEADERS } from './limit-headers.ts'

const SECOND = 1_000
const DAY = 86_400 * SECOND

/** The suffix after `x-ratelimit-remaining`, and the window that it names, if any. */
const OPENAI: readonly (readonly [end: string, window?: number])[] = [
  ...['', '-requests', '-tokens', '-project-tokens', '-input-images', '-tokens_usage_based'].map(
    (end) => [end] as const,
  ),
  ...['-input-tokens', '-output-tokens', '-tokens-prompt', '-tokens-generated'].map((end) => [end] as const),
  ['-tokens-cache-adjusted-prompt'],
  ...['requests', 'req', 'tokens'].flatMap((kind) =>
    (
      [
        ['10-second', 10 * SECOND],
        ['minute', 60 * SECOND],
        ['hour', 3_600 * SECOND],
        ['day', DAY],
        ['month', 30 * DAY],
      ] as const
    ).map(([name, window]) => [`-${kind}-${name}`, window] as const),
  ),
]

for (const [end, window] of OPENAI)
  test(`limit headers: x-ratelimit-…${end}`, () => {
    const row = LIMIT_HEADERS.find(({ left }) => left === `x-ratelimit-remaining${end}`)
    assert.deepEqual(row, {
      left: `x-ratelimit-remaining${end}`,
      whole: `x-ratelimit-limit${end}`,
      reset: `x-ratelimit-reset${end}`,
      period: `x-ratelimit-renewalperiod${end}`,
      ...(window !== undefined && { window }),
    })
  })

for (const kind of ['requests', 'tokens', 'input-tokens', 'output-tokens'])
  test(`limit headers: anthropic-ratelimit-${kind}-…`, () => {
    const name = `anthropic-ratelimit-${kind}`
    const row = LIMIT_HEADERS.find(({ left }) => left === `${name}-remaining`)
    assert.deepEqual(row, { left: `${name}-remaining`, whole: `${name}-limit`, reset: `${name}-reset`, period: '' })
  })

test('limit headers: the IETF draft, and no other names', () => {
  const draft = { left: 'ratelimit-remaining', whole: 'ratelimit-limit', reset: 'ratelimit-reset', period: '' }
  assert.deepEqual(LIMIT_HEADERS.at(-1), draft)
  assert.equal(LIMIT_HEADERS.length, OPENAI.length + 4 + 1)
})
