import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  applyFault,
  FAULTS,
  type Fault,
  FaultCounter,
  type FaultyResponse,
  parseFaults,
  splitEvents,
} from './faults.ts'

const parsed = (text: string) => {
  const result = parseFaults(text)
  return result.ok ? result.faults : result.problem
}

const valid: readonly (readonly [string, readonly Fault[]])[] = [
  ['cut@40', [{ kind: 'cut', at: 40 }]],
  ['status=429;retry-after=2', [{ kind: 'status', status: 429, retryAfter: 2 }]],
  ['status=503#1', [{ kind: 'status', status: 503, attempt: 1 }]],
  ['reset', [{ kind: 'reset' }]],
  ['silence#2', [{ kind: 'silence', attempt: 2 }]],
  ['slow=1500', [{ kind: 'slow', ms: 1500 }]],
  ['cut-in-tool', [{ kind: 'cut-in-tool' }]],
  ['stall@20=3000', [{ kind: 'stall', at: 20, ms: 3000 }]],
  ['malformed@0', [{ kind: 'malformed', at: 0 }]],
  ['error@3#9', [{ kind: 'error', at: 3, attempt: 9 }]],
  [' no-done ', [{ kind: 'no-done' }]],
  [
    'status=500#1, cut@3',
    [
      { kind: 'status', status: 500, attempt: 1 },
      { kind: 'cut', at: 3 },
    ],
  ],
]
for (const [text, faults] of valid) test(`fault: ${text}`, () => assert.deepEqual(parsed(text), faults))

test('fault: the form of each kind is read as this kind', () => {
  for (const [kind, { form }] of Object.entries(FAULTS)) {
    const written = form
      .replace(/\[.*\]/, '')
      .replace('status=N', 'status=500')
      .replace('@N', '@1')
      .replace('MS', '5')
    const faults = parsed(written)
    assert.equal(typeof faults === 'string' ? faults : faults[0]?.kind, kind)
  }
})

const invalid: readonly (readonly [string, RegExp])[] = [
  ['ctu@40', /^Unknown fault "ctu@40"\. Did you mean cut\?/],
  ['cut-in-tol', /Did you mean cut-in-tool\?/],
  ['zzzzzzzzzz', /^Unknown fault "zzzzzzzzzz"\. The faults are status=N/],
  ['', /^Unknown fault ""\. The faults are/],
  ['cut', /^Invalid fault "cut": write cut@N, or cut@N#N/],
  ['cut@', /write cut@N/],
  ['cut@4=5', /write cut@N/],
  ['cut@4;retry-after=2', /write cut@N/],
  ['reset@1', /write reset/],
  ['stall@1', /write stall@N=MS/],
  ['status=200', /the value 200 is not from 400 to 599/],
  ['status=429;retry-after=999999', /the retry-after 999999 is not/],
  ['slow=600001', /the value 600001 is not from 0 to 600000/],
  ['reset#0', /the attempt 0 is not from 1/],
  ['cut@9999999', /the number of events 9999999 is not/],
  ['reset,', /Unknown fault ""/],
  ['x'.repeat(501), /too long \(limit 500 characters\)/],
]
for (const [text, problem] of invalid)
  test(`fault: ${JSON.stringify(text.slice(0, 30))} is refused`, () => assert.match(String(parsed(text)), problem))

test('fault: one for the attempt comes before one for all', () => {
  const faults = parseFaults('cut@3, reset#2')
  assert.ok(faults.ok)
  const counter = new FaultCounter()
  assert.deepEqual(
    [1, 2, 3].map(() => counter.next('a', faults.faults)?.kind),
    ['cut', 'reset', 'cut'],
  )
})

test('fault: attempts are counted by request, until one has no fault', () => {
  const counter = new FaultCounter()
  const next = (key: string) => counter.next(key, [{ kind: 'reset', attempt: 1 }])?.kind
  assert.deepEqual(
    [next('a'), next('b'), next('a'), next('b'), next('a')],
    ['reset', 'reset', undefined, undefined, 'reset'],
  )
  for (let other = 0; other < 1_000; other++) next(`other ${other}`)
  assert.equal(next('a'), 'reset', 'the oldest of 1,000 is no longer counted')
})

const STREAM = [
  'data: {"object":"chat.completion.chunk","choices":[{"delta":{"role":"assistant"}}]}\n\n',
  'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\\"a\\""}}]}}]}\n\n',
  'data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":": 1}"}}]}}]}\n\n',
  'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n',
  'data: [DONE]\n\n',
] as const
const streamOf = (events: readonly string[]): FaultyResponse => ({
  head: { after: 10, status: 200, headers: { 'content-type': 'text/event-stream' } },
  pieces: events.map((data) => ({ after: 1, data })),
  end: 'complete',
})
const applied = (text: string, response: FaultyResponse = streamOf(STREAM)) => {
  const faults = parseFaults(text)
  assert.ok(faults.ok && faults.faults[0])
  return applyFault(faults.faults[0], response)
}
const textsOf = ({ pieces }: FaultyResponse) => pieces.map(({ data }) => String(data))

test('fault: events are split at blank lines and joined again without a loss', () => {
  assert.deepEqual(splitEvents(STREAM.join('')), STREAM)
  for (const text of ['data: a\r\n\r\ndata: b\r\n\r\n', '{"whole":1}', '', 'data: cut'])
    assert.equal(splitEvents(text).join(''), text)
  assert.deepEqual(splitEvents('data: a\r\n\r\ndata: b\r\n\r\n'), ['data: a\r\n\r\n', 'data: b\r\n\r\n'])
})

test('fault: before the response', () => {
  const status = applied('status=429;retry-after=2')
  assert.deepEqual(status.head, {
    after: 10,
    status: 429,
    headers: { 'content-type': 'application/json', 'retry-after': '2' },
  })
  assert.equal(JSON.parse(textsOf(status).join('')).error.type, 'rate_limit_error')
  assert.deepEqual(applied('reset'), { head: null, pieces: [], end: 'reset' })
  assert.deepEqual(applied('silence'), { head: null, pieces: [], end: 'open' })
  assert.equal(applied('slow=500').head?.after, 510)
})

test('fault: in a stream', () => {
  assert.deepEqual(textsOf(applied('cut@2')), STREAM.slice(0, 2))
  assert.equal(applied('cut@2').end, 'closed')
  assert.deepEqual(textsOf(applied('cut@99')), STREAM.slice(0, 4), 'also in a shorter stream')
  assert.deepEqual(
    applied('stall@2=300').pieces.map(({ after }) => after),
    [1, 1, 301, 1, 1],
  )
  assert.equal(textsOf(applied('malformed@1'))[1], 'data: {"malformed": \n\n')
  assert.equal(textsOf(applied('malformed@1')).length, STREAM.length + 1)
  assert.deepEqual(textsOf(applied('no-done')), STREAM.slice(0, 4))
  const cut = textsOf(applied('cut-in-tool'))
  assert.equal(cut.length, 3)
  assert.ok(STREAM[2].startsWith(cut[2] ?? '-') && cut[2] !== STREAM[2])
})

test('fault: the error event has the style of the stream', () => {
  const last = (first: string) =>
    textsOf(applied('error@1', streamOf([first, 'data: {}\n\n', 'data: {}\n\n']))).at(-1) ?? ''
  assert.match(last(STREAM[0]), /^data: \{"error":/)
  assert.match(
    last('event: message_start\ndata: {"type":"message_start"}\n\n'),
    /^event: error\ndata: \{"type":"error"/,
  )
  assert.match(last('event: response.created\ndata: {}\n\n'), /^event: error\ndata: \{"type":"error","code"/)
})

test('fault: a whole answer is cut within, and an error replaces it', () => {
  const whole: FaultyResponse = { ...streamOf([]), pieces: [{ after: 0, data: '{"answer":"whole"}' }] }
  assert.deepEqual(textsOf(applied('cut@40', whole)), ['{"answer"'])
  assert.deepEqual(textsOf(applied('stall@40=9', whole)).join(''), '{"answer":"whole"}')
  assert.throws(() => JSON.parse(textsOf(applied('malformed@1', whole)).join('')))
  assert.ok(JSON.parse(textsOf(applied('error@3', whole)).join('')).error)
  assert.deepEqual(applied('no-done', whole), whole)
})

test('fault: a binary stream is cut between its pieces', () => {
  const binary: FaultyResponse = {
    ...streamOf([]),
    pieces: [1, 2, 3].map((byte) => ({ after: 0, data: Uint8Array.of(byte) })),
  }
  assert.deepEqual(applied('cut@2', binary).pieces, binary.pieces.slice(0, 2))
})

test('fault: the suite imports nothing of the gateway, and its vocabulary imports nothing', () => {
  assert.doesNotMatch(readFileSync(join(import.meta.dirname, 'faults.ts'), 'utf8'), /\bimport\b.*from|import\(/)
})
