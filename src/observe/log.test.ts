import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { EventEmitter } from 'node:events'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { fail } from '../core/failure.ts'
import type { GatewayEvent, Trace } from '../core/trace.ts'
import { colours, wantsColour } from './colour.ts'
import { type Fields, jsonLine, type Level, truncate } from './line.ts'
import { type LogOptions, openLog } from './log.ts'

/** A stream that keeps what is written and accepts it at a given pace. */
const fakeOut = () => {
  const events = new EventEmitter()
  const writes: string[] = []
  return {
    writes,
    events,
    writableLength: 0,
    write(text: string) {
      writes.push(text)
      return true
    },
    on: (event: 'error', run: (error: Error) => void) => events.on(event, run),
    off: (event: 'error', run: (error: Error) => void) => events.off(event, run),
  }
}

const NOW = Date.UTC(2026, 10, 21, 10, 41, 7)
const logOn = (options: Partial<LogOptions> = {}) => {
  const out = fakeOut()
  const log = openLog({ out, level: 'debug', format: 'json', date: () => NOW, ...options })
  const lines = () => {
    log.flush()
    return out.writes.join('').split('\n').slice(0, -1)
  }
  return { out, log, lines }
}

const exchange: Trace = [
  { type: 'received', at: 0, date: 0, family: '', id: 'req_abc', style: 'chat', model: 'fast', stream: true },
  { type: 'attempt', at: 1, provider: 'openai', model: 'gpt-x', key: 'a1f3' },
  { type: 'failed', at: 50, attempt: 0, failure: fail('timeout', 'no answer in 49 ms') },
  { type: 'attempt', at: 51, provider: 'groq', model: 'llama', key: '09be' },
  { type: 'committed', at: 96.4, attempt: 1, status: 200 },
  { type: 'dropped', paths: ['logprobs'] },
  { type: 'usage', usage: { input: 9, output: 58, cacheRead: 4, reasoning: 3 } },
  { type: 'ended', at: 412.2, how: 'answered', status: 200, cost: 17_400 },
]
const event: GatewayEvent = { event: 'request', trace: exchange }

test('log: the line of a request', () => {
  const { log, lines } = logOn()
  log.record(event)
  assert.deepEqual(
    lines().map((line) => JSON.parse(line)),
    [
      {
        time: '2026-11-21T10:41:07.000Z',
        level: 'info',
        event: 'request',
        id: 'req_abc',
        style: 'chat',
        stream: true,
        model: 'fast',
        provider: 'groq',
        upstream_model: 'llama',
        key: '09be',
        status: 200,
        outcome: 'answered',
        attempts: 2,
        first_content_ms: 96,
        total_ms: 412,
        input_tokens: 9,
        output_tokens: 58,
        cached_tokens: 4,
        reasoning_tokens: 3,
        cost: 0.0000174,
        dropped: ['logprobs'],
        trail: 'openai#a1f3:timeout, groq#09be:200',
      },
    ],
  )
})

const entries: readonly (readonly [GatewayEvent, Level, Fields])[] = [
  [
    { event: 'fallback', id: 'req_a', from: 'openai/x', to: 'groq/y', kind: 'timeout', detail: 'no answer' },
    'warn',
    { id: 'req_a', from: 'openai/x', to: 'groq/y', kind: 'timeout', detail: 'no answer' },
  ],
  [
    {
      event: 'circuit',
      what: 'deployment',
      name: 'openai a1f3 x',
      from: 'closed',
      to: 'open',
      why: '5 failures in a row',
    },
    'warn',
    { what: 'deployment', name: 'openai a1f3 x', from: 'closed', to: 'open', why: '5 failures in a row' },
  ],
  [
    { event: 'circuit', what: 'model', name: 'x', from: 'half_open', to: 'closed', why: 'a probe was answered' },
    'info',
    { what: 'model', name: 'x', from: 'half_open', to: 'closed', why: 'a probe was answered' },
  ],
  [
    { event: 'key', provider: 'openai', key: 'a1f3', from: 'active', to: 'rate_limited', until: null },
    'warn',
    { provider: 'openai', key: 'a1f3', from: 'active', to: 'rate_limited', until: null },
  ],
]
for (const [piece, level, fields] of entries)
  test(`log: ${piece.event} as JSON`, () => {
    const { log, lines } = logOn()
    log.record(piece)
    assert.deepEqual(
      lines().map((line) => JSON.parse(line)),
      [{ time: '2026-11-21T10:41:07.000Z', level, event: piece.event, ...fields }],
    )
  })

test('log: an error has its name, message and stack, in one line', () => {
  const { log, lines } = logOn()
  log.record({ event: 'error', id: 'req_a', error: new TypeError('x is not\na function', { cause: new Error('why') }) })
  log.record({ event: 'error', error: 'only a text' })
  log.record({ event: 'error', error: { secret: 'canary' } })
  const [error, text, thrown, ...more] = lines().map((line) => JSON.parse(line))
  assert.deepEqual(more, [])
  assert.deepEqual(
    [error.name, error.message, error.cause, error.id],
    ['TypeError', 'x is not\na function', 'Error: why', 'req_a'],
  )
  assert.match(error.stack, /log\.test\.ts/)
  assert.equal(text.message, 'only a text')
  assert.equal(thrown.message, 'thrown: object')
})

const levels = [
  ['answered', 200, undefined, 'info'],
  ['refused', 400, fail('invalid_request', 'no'), 'info'],
  ['refused', 502, fail('status', 'no'), 'warn'],
  ['refused', 500, fail('internal', 'no'), 'error'],
  ['interrupted', 200, fail('truncated', 'truncate'), 'warn'],
  ['client_gone', 499, fail('client_gone', 'left'), 'info'],
] as const
for (const [how, status, failure, level] of levels)
  test(`log: ${how} ${status} has level ${level}`, () => {
    const { log, lines } = logOn()
    log.record({ event: 'request', trace: [{ type: 'ended', at: 1, how, status, ...(failure && { failure }) }] })
    assert.equal(JSON.parse(lines()[0] ?? '').level, level)
  })

test('log: only lines of the configured level or above are written', () => {
  const all = ['debug', 'info', 'warn', 'error'] as const
  for (const [index, level] of all.entries()) {
    const { log, lines } = logOn({ level })
    for (const one of all) log[one](one)
    assert.deepEqual(
      lines().map((line) => JSON.parse(line).level),
      all.slice(index),
    )
  }
})

// Client texts that try to break out of their field.
const hostile = [
  'a\nb',
  'a\r\n{"level":"error"}',
  '\u001b[2J\u001b]0;title\u0007',
  '\u009b31m',
  'x\u2028y',
  '\u202eabc',
  '\u0000',
  '\ud800',
  '"},{"',
  '\u007f',
]
test('log: no field value breaks a line or controls a terminal', () => {
  for (const format of ['json', 'pretty'] as const)
    for (const text of hostile) {
      const { log, lines } = logOn({ format })
      log.info('something', { text, list: [text, text], message: text })
      log.record({
        event: 'request',
        trace: [
          { type: 'received', at: 0, date: 0, family: '', id: text, style: text, model: text, stream: false },
          { type: 'attempt', at: 0, provider: 'p', model: text, key: 'k' },
          { type: 'ended', at: 1, how: 'refused', status: 502, failure: fail('status', text) },
        ],
      })
      log.record({ event: 'fallback', id: text, from: text, to: text, kind: text, detail: text })
      const written = lines()
      assert.equal(written.length, 3, JSON.stringify(text))
      for (const line of written) {
        // biome-ignore lint/suspicious/noControlCharactersInRegex: the test is that there are none
        assert.doesNotMatch(line, /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202e]/, JSON.stringify(text))
        if (format === 'json') assert.equal(typeof JSON.parse(line), 'object')
      }
    }
})

test('log: fields are truncated to 2 KiB and cannot replace reserved fields', () => {
  const { log, lines } = logOn()
  for (const unit of ['x', 'é', '漢', '😀'])
    log.info('long', {
      text: unit.repeat(5000),
      list: Array.from({ length: 500 }, () => unit.repeat(100)),
      time: 'mine',
      event: 'mine',
      level: 'mine',
      nothing: undefined,
      bad: Number.NaN,
    })
  for (const line of lines()) {
    const { text, list, event, level, bad, ...others } = JSON.parse(line)
    assert.ok(Buffer.byteLength(text) <= 2048 && text.endsWith('…') && text.isWellFormed())
    assert.ok(Buffer.byteLength(JSON.stringify(list)) <= 2100)
    assert.deepEqual([event, level, bad, Object.keys(others)], ['long', 'info', null, ['time']])
  }
  assert.equal(truncate('short'), 'short')
  assert.equal(truncate('x'.repeat(2048)), 'x'.repeat(2048))
  assert.equal(
    jsonLine({ level: 'info', event: '__proto__', at: 0, fields: { ['__proto__']: 'x' } }).includes('"__proto__"'),
    true,
  )
})

const started = [
  { ...exchange[0], model: 'groq/llama' },
  { type: 'attempt', at: 1, provider: 'groq', model: 'llama', key: '09be' },
] as Trace // spreading a fact of a union loses which one it is
const pretty: readonly (readonly [string, GatewayEvent, RegExp])[] = [
  [
    'a fallback that was answered',
    event,
    /^\d\d:41:07 200 groq\/llama for fast 412 ms \(first 96\) 9→58 tok \$0\.0000174 {2}openai#a1f3 timeout → groq#09be 200 {2}req_abc$/,
  ],
  [
    'a model requested with its provider, without a fallback',
    {
      event: 'request',
      trace: [
        ...started,
        { type: 'committed', at: 9, attempt: 0, status: 200 },
        { type: 'ended', at: 10, how: 'answered', status: 200 },
      ],
    },
    /^\d\d:41:07 200 groq\/llama 10 ms \(first 9\) {2}req_abc$/,
  ],
  [
    'an interrupted stream',
    {
      event: 'request',
      trace: [
        ...started,
        { type: 'committed', at: 9, attempt: 0, status: 200 },
        { type: 'ended', at: 10, how: 'interrupted', status: 200, failure: fail('truncated', 'truncate') },
      ],
    },
    /200 groq\/llama 10 ms \(first 9\) interrupted: truncated {2}req_abc$/,
  ],
  [
    'refused before any attempt',
    {
      event: 'request',
      trace: [
        { type: 'received', at: 0, date: 0, family: '', id: 'req_b', style: 'chat', model: 'm', stream: false },
        {
          type: 'ended',
          at: 1,
          how: 'refused',
          status: 400,
          failure: fail('invalid_value', 'temperature is too high'),
        },
      ],
    },
    /400 m 1 ms {2}invalid_value: temperature is too high {2}req_b$/,
  ],
  [
    'a circuit',
    { event: 'circuit', what: 'endpoint', name: 'http://x', from: 'closed', to: 'open', why: 'refused' },
    /warn circuit of endpoint http:\/\/x: closed → open \(refused\)$/,
  ],
  [
    'a key',
    { event: 'key', provider: 'openai', key: 'a1f3', from: 'active', to: 'suspended', until: '2026-01-01T00:00:00Z' },
    /warn key openai#a1f3: active → suspended until 2026-01-01T00:00:00Z$/,
  ],
]
for (const [name, piece, expected] of pretty)
  test(`log: pretty, ${name}`, () => {
    const { log, lines } = logOn({ format: 'pretty' })
    log.record(piece)
    assert.match(lines().join('\n'), expected)
    const coloured = logOn({ format: 'pretty', paint: colours })
    coloured.log.record(piece)
    assert.equal(stripVTControlCharacters(coloured.lines().join('\n')), lines().join('\n'))
  })

test('log: pretty, a message with fields', () => {
  const { log, lines } = logOn({ format: 'pretty' })
  log.info('config', { message: 'applied', changes: ['a', 'b'], nothing: null })
  log.error('bad', { message: 'x', stack: 'Error: x\n    at one\n    at two' })
  assert.match(lines().join('\n'), /config: applied {2}changes=a, b\n.*error bad: x\n {2}at one\n {2}at two$/)
})

test('log: the lines of one turn are written together', async () => {
  const { out, log } = logOn()
  for (let count = 0; count < 50; count++) log.info('x')
  assert.equal(out.writes.length, 0)
  await turn()
  assert.equal(out.writes.length, 1)
  assert.equal(out.writes[0]?.split('\n').length, 51)
})

test('log: lines are dropped and counted if the reader is too slow', async () => {
  const { out, log } = logOn({ most: 10_000, pace: 0 })
  for (let count = 0; count < 1000; count++) log.info('x', { count })
  await turn()
  const first = out.writes.join('')
  assert.ok(first.length < 10_500)
  const kept = first.split('\n').filter((line) => line.includes('"event":"x"')).length
  assert.equal(JSON.parse(first.trimEnd().split('\n').at(-1) ?? '').lines, 1000 - kept)
  out.writableLength = 10_001
  for (let count = 0; count < 7; count++) log.info('y')
  await turn()
  out.writableLength = 0
  log.info('z')
  await turn()
  const later = out.writes.slice(1).join('')
  assert.doesNotMatch(later, /"event":"y"/)
  assert.match(later, /"event":"z"/)
  assert.match(later, /"event":"log_dropped","lines":7/)
})

test('log: the first line is written at once, further lines are batched, a full batch is written at once', async () => {
  const { out, log } = logOn({ pace: 200 })
  log.info('first')
  await turn()
  assert.equal(out.writes.length, 1)
  for (let count = 0; count < 5; count++) {
    log.info('more')
    await turn()
  }
  assert.equal(out.writes.length, 1)
  await new Promise((resolve) => setTimeout(resolve, 300))
  assert.equal(out.writes.length, 2)
  assert.equal(out.writes[1]?.split('\n').length, 6)
  log.info('large', { text: 'x'.repeat(2_000), more: 'x'.repeat(2_000) })
  for (let count = 0; count < 5; count++) log.info('large', { text: 'x'.repeat(2_000), more: 'x'.repeat(2_000) })
  await turn()
  assert.equal(out.writes.length, 3)
})

test('log: a closed reader does not end the process', async () => {
  const { out, log } = logOn()
  out.events.emit('error', new Error('EPIPE'))
  log.info('x')
  await turn()
  assert.deepEqual(out.writes, [])
  log.close()
  assert.equal(out.events.listenerCount('error'), 0)
})

test('log: buffered lines are written when the process ends, even to a slow pipe', async () => {
  const script = `
    import { openLog } from ${JSON.stringify(new URL('./log.ts', import.meta.url).href)}
    const log = openLog({ out: process.stdout, level: 'info', format: 'json' })
    for (let count = 0; count < 3000; count++) log.info('x', { count, text: 'y'.repeat(100) })
    log.close()
    process.exit(0)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8')
  for await (const chunk of child.stdout) {
    text += chunk
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  const counts = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).count)
  assert.deepEqual(
    counts,
    Array.from({ length: 3000 }, (_, index) => index),
  )
})

const colourings = [
  [{}, true, true],
  [{}, false, false],
  [{ NO_COLOR: '1' }, true, false],
  [{ NO_COLOR: '' }, true, true],
  [{ FORCE_COLOR: '1' }, false, true],
  [{ FORCE_COLOR: '0' }, true, false],
  [{ NO_COLOR: '1', FORCE_COLOR: '1' }, true, false],
  [{ TERM: 'dumb' }, true, false],
] as const
for (const [env, terminal, expected] of colourings)
  test(`colour: ${JSON.stringify(env)} ${terminal ? 'on a terminal' : 'into a file'}`, () =>
    assert.equal(wantsColour(env, terminal), expected))
