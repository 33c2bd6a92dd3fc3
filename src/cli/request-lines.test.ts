import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noPaint } from '../observe/colour.ts'
import { requestLine, type ShownRequest, waterfall } from './request-lines.ts'
import { durationText, moneyText, table } from './table.ts'

const USAGE = { input: 9, output: 58, cache_read: 0, cache_write: 0, reasoning: 0, source: 'exact' }

const attempt = (n: number, more: Partial<ShownRequest['attempts'][number]>): ShownRequest['attempts'][number] => ({
  n,
  provider: 'groq',
  model: 'llama',
  credential: '09be',
  hedge: false,
  outcome: 'ok',
  kind: null,
  status: 200,
  message: null,
  started_ms: 3001,
  first_content_ms: 96,
  ended_ms: 3321,
  reserved: '0.000100000',
  cost: '0.000041000',
  usage: { ...USAGE, cache_write_1h: 0, audio_input: 0, audio_output: 0, unit: null, units: null },
  price: { source: 'catalogue', version: null },
  ...more,
})
const NO_USAGE = { ...attempt(0, {}).usage, input: null, output: null, source: 'estimated' }
const FIRST = attempt(0, {
  provider: 'anthropic',
  credential: '77c0',
  outcome: 'failed',
  kind: 'timeout',
  status: null,
  started_ms: 1,
  ended_ms: 3001,
  cost: '0.000210000',
  usage: NO_USAGE,
})
const REQUEST: ShownRequest = {
  object: 'request',
  id: 'req_kdvbwqhzmrtc',
  client_request_id: null,
  received_at: '2026-11-23T10:41:07.000Z',
  ended_at: '2026-11-23T10:41:10.421Z',
  style: 'messages',
  stream: true,
  asked: 'claude-sonnet',
  route: null,
  provider: 'groq',
  model: 'llama',
  key: { id: 'key_x', name: 'search-prod' },
  team: null,
  end_user: null,
  client: null,
  tags: {},
  outcome: 'answered',
  status: 200,
  code: null,
  message: null,
  cache: 'off',
  first_content_ms: 3097,
  total_ms: 3421,
  overhead_us: 610,
  usage: USAGE,
  cost: '0.000251000',
  saved: '0.000000000',
  require: null,
  session: null,
  agent: null,
  guards: [],
  more_guards: 0,
  trace: null,
  decision: null,
  attempts: [FIRST, attempt(1, {})],
  trail: 'anthropic#77c0:timeout, openai#1a2b:budget, groq#09be:200',
}

test('a request is explained by its attempts', () => {
  assert.deepEqual(waterfall(REQUEST, noPaint), [
    '200 after 1 fallback · claude-sonnet → groq/llama · 3421 ms (first content 3097) · $0.00025, partly estimated · key search-prod',
    '  0 ms  gateway                 0.6',
    '  1     anthropic/llama  #77c0  timeout after 3000                       $0.00021 estimated',
    '  3001  groq/llama       #09be  200, first content 96, 58 tokens in 320  $0.000041',
    '  trail: anthropic#77c0:timeout, openai#1a2b:budget, groq#09be:200',
  ])
})

test('a request is explained by its plan, what was skipped and why it failed', () => {
  const refused: ShownRequest = {
    ...REQUEST,
    outcome: 'refused',
    status: 402,
    provider: null,
    trail: null,
    message: 'The budget of this key for the month is used up.',
    attempts: [{ ...FIRST, message: 'No answer within 3000 ms.' }],
    decision: {
      by: 'route',
      plan: ['anthropic/claude', 'groq/llama'],
      more: 3,
      limit: 'budget; id=bud_a',
      skipped: [
        { target: 'groq/llama', key: '09be', why: 'budget' },
        { target: 'openai/o1', key: null, why: 'unfit' },
      ],
      dropped: ['top_k'],
    },
  }
  assert.deepEqual(waterfall(refused, noPaint).slice(3), [
    '  attempt 1: No answer within 3000 ms.',
    '  failed because: The budget of this key for the month is used up.',
    '  limit: budget; id=bud_a',
    '  resolved by: the name of a route',
    '  plan: anthropic/claude, groq/llama and 3 more',
    '  skipped: groq/llama#09be (budget), openai/o1 (unfit)',
    '  not sent: top_k',
  ])
})

test('a request of the log is one line, with control characters escaped', () => {
  assert.equal(
    requestLine({ ...REQUEST, asked: 'a\u001b[31m' }, noPaint),
    '10:41:07 200  search-prod  a\\u001b[31m → groq/llama  3421 ms (first 3097)  9→58  $0.00025  req_kdvbwqhzmrtc',
  )
  const unknown = { ...REQUEST, cost: null, total_ms: null, usage: { ...USAGE, input: null } }
  assert.match(requestLine(unknown, noPaint), / {2}– ms \(first 3097\) {2}–→58 {2}– {2}req_/)
  const refused = { ...REQUEST, asked: '', provider: null, message: 'POST /v1/x: There is no such path.' }
  assert.match(requestLine(refused, noPaint), / {2}POST \/v1\/x: There is no such path\. {2}/)
  assert.match(
    requestLine({ ...REQUEST, team: { id: 'team_s', name: 'search' } }, noPaint),
    / {2}search\/search-prod {2}claude/,
  )
})

test('an answer from the cache has its target and what it saved', () => {
  const hit = { ...REQUEST, cache: 'hit', attempts: [], trail: null, cost: '0', saved: '0.000041000' }
  assert.match(
    requestLine({ ...hit, first_content_ms: null, total_ms: 1 }, noPaint),
    /claude-sonnet → groq\/llama \(cached\) {2}1 ms .+ {2}\$0\.00 {2}saved \$0\.000041 {2}req_/,
  )
  assert.match(
    waterfall(hit, noPaint)[0] ?? '',
    /^200 · claude-sonnet → groq\/llama \(cached\) · .+ · saved \$0\.000041 ·/,
  )
  assert.match(requestLine({ ...hit, provider: null, model: null }, noPaint), /→ the cache {2}/)
  assert.match(requestLine({ ...hit, cache: 'shared', provider: null }, noPaint), /→ the answer of another request {2}/)
  assert.match(requestLine({ ...REQUEST, cache: 'miss' }, noPaint), /→ groq\/llama {2}/)
})

for (const [value, text] of [
  ['812.400000000', '$812.40'],
  ['2500.00', '$2,500.00'],
  ['1234567.891', '$1,234,567.89'],
  ['0.000041000', '$0.000041'],
  ['-25.00', '-$25.00'],
  ['0', '$0.00'],
  // Nothing that matters is lost: four decimals below a dollar, rounded half up.
  ['0.015000000', '$0.015'],
  ['0.010000000', '$0.01'],
  ['0.400000000', '$0.40'],
  ['0.123450000', '$0.1235'],
  ['0.999960000', '$1.00'],
  ['-0.015000000', '-$0.015'],
  ['0.009960000', '$0.01'],
  ['0.001230000', '$0.0012'],
  ['0.000045500', '$0.000046'],
  ['0.000000001', '$0.000000001'],
  ['1.005000000', '$1.01'],
  ['1.004999999', '$1.00'],
  [0.015, '$0.015'],
  [null, '–'],
] as const)
  test(`the amount ${value} is shown as ${text}`, () => assert.equal(moneyText(value), text))

test('durations have two units', () => {
  assert.deepEqual([999, 12_000, 11_520_000, 90_061_000].map(durationText), ['999 ms', '12 s', '3 h 12 min', '1 d 1 h'])
})

test('columns are as wide as their widest cell', () => {
  assert.deepEqual(
    table(
      ['A', 'LONG'],
      [
        ['xyz', '1'],
        ['', '2'],
      ],
      { paint: noPaint, width: null },
    ),
    ['A    LONG', 'xyz  1', '     2'],
  )
})
