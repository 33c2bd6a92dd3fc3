/**
 * SEC-22 to 27, 36, 37: bodies that are small to send and expensive to process. Each gets a response, other clients do
 * not wait long, and the process keeps its memory.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { Started } from '../e2e/support/process.ts'
import { callsOf, sleep, stage } from '../e2e/support/stage.ts'
import { answerWith } from '../support/answers.ts'
import type { Upstream } from '../support/upstream.ts'

const MB = 1024 * 1024
const times = (text: string, count: number): string => text.repeat(count)
const nested = (open: string, close: string, depth: number): string => `${times(open, depth)}1${times(close, depth)}`
const members = (count: number, value: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => `"k${at}":${value(at)}`).join(',')

/** Members added to an otherwise valid request, as text. */
const BOMBS: readonly (readonly [name: string, text: () => string])[] = [
  ['lists 5 000 deep', () => `"x":${nested('[', ']', 5_000)}`],
  ['lists 200 000 deep', () => `"x":${nested('[', ']', 200_000)}`],
  ['objects 200 000 deep', () => `"x":${nested('{"a":', '}', 200_000)}`],
  ['lists 9 000 000 deep', () => `"x":${times('[', 9_000_000)}`],
  ['a million members', () => members(1_000_000, String)],
  ['a million members and a number of twenty digits', () => `"y":12345678901234567890,${members(1_000_000, String)}`],
  ['a million members in an object', () => `"metadata":{${members(1_000_000, () => '"x"')}}`],
  ['one member a million times', () => `${times('"k":1,', 1_000_000)}"k":1`],
  ['the model a hundred thousand times', () => `${times('"model":"good/m",', 100_000)}"z":1`],
  ['a million escaped names', () => `${times('"\\u006b\\u006b":1,', 500_000)}"z":1`],
  ['a text of 10 MB', () => `"user":"${times('x', 10 * MB)}"`],
  ['a text of 10 MB of escapes', () => `"user":"${times('\\u0041', 1_700_000)}"`],
  ['a text of 10 MB of backslashes', () => `"user":"${times('\\\\', 5 * MB)}"`],
  ['a number of 10 MB', () => `"seed":${times('9', 10 * MB)}`],
  ['a fraction of 10 MB', () => `"temperature":0.${times('9', 10 * MB)}`],
  ['an exponent of 10 MB', () => `"seed":1e${times('9', 10 * MB)}`],
  ['100 000 large numbers', () => `"x":[${times('12345678901234567890,', 100_000)}1]`],
  ['a million small lists', () => `"x":[${times('[],', 1_000_000)}1]`],
  ['two and a half million numbers', () => `"x":[${times('1,', 2_500_000)}1]`],
  ['600 000 messages', () => `"messages":[${times('{"role":"user","content":"x"},', 600_000).slice(0, -1)}]`],
  ['white space of 10 MB', () => `"x":${times(' \n\t\r', (10 * MB) / 4)}1`],
  [
    '10 000 tools',
    () =>
      `"tools":[${times('{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},', 10_000).slice(0, -1)}]`,
  ],
  [
    '500 images',
    () =>
      `"messages":[{"role":"user","content":[${times('{"type":"image_url","image_url":{"url":"https://x.test/a.png"}},', 500).slice(0, -1)}]}]`,
  ],
  ['100 000 messages', () => `"messages":[${times('{"role":"user","content":"x"},', 100_000).slice(0, -1)}]`],
  ['n of 128', () => '"n":128'],
  [
    'a recursive schema',
    () =>
      '"tools":[{"type":"function","function":{"name":"f","parameters":{"$ref":"#","$defs":{"a":{"$ref":"#/$defs/a"}}}}}]',
  ],
]

const MODELS = ['good/m', 'other/m', 'third/m'] as const

/** The endpoints that receive each body. */
const PATHS = [
  ['/v1/chat/completions', '"messages":[{"role":"user","content":"x"}]'],
  ['/v1/responses', '"input":"x","store":false'],
  ['/v1/messages', '"max_tokens":9,"messages":[{"role":"user","content":"x"}]'],
  ['/v1/embeddings', '"input":"x"'],
  ['/v1/messages/count_tokens', '"messages":[{"role":"user","content":"x"}]'],
  ['/v1/route', '"messages":[{"role":"user","content":"x"}]'],
] as const

/** ms; the test machine may be ten times slower than a server. */
const LONGEST_WAIT = 5_000
const MOST_MEMORY = 1_500 * MB

const on = stage()
let gateway: Started
let upstream: Upstream
before(async () => {
  upstream = await on.upstream((request) => answerWith(request, { text: 'fine' }))
  gateway = await on.gateway({
    unknownModel: 'reject',
    fallback: 'none',
    circuit: { whenAllOpen: 'try' },
    providers: {
      good: { baseUrl: `${upstream.url}/v1`, styles: ['chat'] },
      other: { kind: 'anthropic', baseUrl: upstream.url },
      third: { kind: 'gemini', baseUrl: `${upstream.url}/v1beta` },
    },
  })
})
const post = async (path: string, body: string | Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) => {
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
    signal: AbortSignal.timeout(60_000),
  })
  return { status: response.status, text: await response.text() }
}
const honest = () => post('/v1/chat/completions', '{"model":"good/m","messages":[{"role":"user","content":"honest"}]}')
/** Runs something while other clients send requests; returns the longest wait of any of them (ms). */
const besides = async (run: () => Promise<unknown>): Promise<number> => {
  let over = false
  let longest = 0
  const others = async () => {
    while (!over) {
      const begun = performance.now()
      const { status, text } = await honest()
      assert.ok(status === 200, `${status} ${text}`)
      longest = Math.max(longest, performance.now() - begun)
      await sleep(5)
    }
  }
  const asking = Promise.all([others(), others()])
  try {
    await run()
  } finally {
    over = true
    await asking
  }
  return longest
}
const memory = (): number => {
  const [, kib = '0'] = /VmHWM:\s*(\d+) kB/.exec(readFileSync(`/proc/${gateway.child.pid}/status`, 'utf8')) ?? []
  return Number(kib) * 1024
}
// ── Compressed ─────────────────────────────────────────────────────────────────────────────────────────────────

const zeros = Buffer.alloc(100 * MB, ' ')
// ── Prototypes ─────────────────────────────────────────────────────────────────────────────────────────────────

const NAMES = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'valueOf',
  'prototype',
  '__defineGetter__',
  'watch',
]

for (const [at, [name, text]] of BOMBS.entries())
  test(`bombs: ${name}`, async (t) => {
    const bomb = text()
    const longest = await besides(async () => {
      // Every body goes to three endpoints; over all bodies every endpoint gets some in every format.
      for (let turn = 0; turn < 3; turn++) {
        const [path, rest] = PATHS[turn === 0 ? 0 : (at * 2 + turn) % PATHS.length] ?? PATHS[0]
        const model = MODELS[(at + turn) % MODELS.length] ?? 'good/m'
        const { status, text } = await post(
          path,
          `{"model":"${model}",${bomb.includes('"messages"') ? '' : `${rest},`}${bomb}}`,
        )
        assert.ok(
          [200, 400, 404, 413, 422, 502, 503].includes(status),
          `${path} ${model}: ${status} ${text.slice(0, 500)}`,
        )
        if (status !== 200) assert.ok(text.length < 10_000, 'the error repeats no part of it')
      }
    })
    t.diagnostic(`others waited ${Math.round(longest)} ms at most`)
    if (process.env.SHOW) process.stderr.write(`${name} ${Math.round(longest)}\n`)
    assert.ok(longest < LONGEST_WAIT, `others waited ${Math.round(longest)} ms`)
    assert.equal(gateway.child.exitCode, null)
  })

for (const [encoding, squeeze] of [
  ['br', brotliCompressSync],
  ['gzip', gzipSync],
  ['deflate', deflateSync],
  ['zstd', zstdCompressSync],
] as const)
  test(`bombs: 100 MB in ${encoding}`, async () => {
    const body = new Uint8Array(squeeze(zeros))
    for (const [path] of PATHS) {
      for (const named of [`identity, ${encoding}`, `${encoding}, ${encoding}`])
        assert.equal((await post(path, body, { 'content-encoding': named })).status, 415)
      for (const named of [encoding, encoding.toUpperCase()]) {
        const { status, text } = await post(path, body, { 'content-encoding': named })
        assert.ok(status === 400 || status === 413, `${path} ${named}: ${status} ${text}`)
      }
    }
    assert.equal((await honest()).status, 200)
  })

// ── Numbers ────────────────────────────────────────────────────────────────────────────────────────────────────

for (const [number, status, upstreams] of [
  ['1e400', 400, undefined],
  ['-1e400', 400, undefined],
  ['NaN', 400, undefined],
  ['Infinity', 400, undefined],
  ['0x10', 400, undefined],
  ['01', 400, undefined],
  ['1e308', 200, '1e308'],
  ['9007199254740993', 200, '9007199254740993'],
  ['12345678901234567890', 200, '12345678901234567890'],
  ['100', 200, '100'],
  ['null', 200, 'null'],
] as const)
  test(`bombs: max_tokens ${number}`, async () => {
    const from = callsOf(upstream).length
    const body = `{"model":"good/m","max_tokens":${number},"messages":[{"role":"user","content":"number"}]}`
    const answer = await post('/v1/chat/completions', body)
    assert.equal(answer.status, status, answer.text)
    const sent = callsOf(upstream).slice(from)
    if (upstreams === undefined) assert.equal(sent.length, 0)
    else assert.ok(sent[0]?.body.includes(`"max_tokens":${upstreams},`), sent[0]?.body)
  })

for (const number of ['-1', '1.5', '"100"', 'true', '[]', '{}'])
  for (const model of ['good/m', 'other/m', 'third/m'])
    test(`bombs: max_tokens ${number} for ${model} is rejected here or passed on unchanged`, async () => {
      const from = callsOf(upstream).length
      const body = `{"model":"${model}","max_tokens":${number},"messages":[{"role":"user","content":"number"}]}`
      const { status, text } = await post('/v1/chat/completions', body)
      assert.ok(status === 400 || status === 200, text)
      const [sent] = callsOf(upstream).slice(from)
      if (status === 400) assert.equal(sent, undefined)
      else
        assert.match(
          sent?.body ?? '',
          new RegExp(`(?:max_tokens|maxOutputTokens)":${number.replace(/[[\]{}.]/g, '\\$&')}[,}]`),
        )
    })

// ── Duplicate names ────────────────────────────────────────────────────────────────────────────────────────────

for (const second of ['"model"', '"mod\\u0065l"', '"\\u006dodel"', '"\\u006D\\u006F\\u0064\\u0065\\u006C"'])
  for (const [path, rest] of PATHS)
    test(`bombs: a second model, as ${second}: ${path}`, async () => {
      const from = callsOf(upstream).length
      const { status, text } = await post(path, `{"model":"good/m",${rest},${second}:"other/m"}`)
      assert.equal(status, 400, text)
      assert.equal(
        callsOf(upstream)
          .slice(from)
          .filter(({ body }) => !body.includes('honest')).length,
        0,
      )
    })

test('bombs: prototype member names are ordinary names', async () => {
  const bad = NAMES.map((name) => `"${name}":{"polluted":"yes","status":200,"model":"good/m"}`).join(',')
  for (const [path, rest] of PATHS) {
    for (const name of NAMES) {
      const { status, text } = await post(path, `{"model":"${name}",${rest}}`)
      assert.ok(status === 404 || (path === '/v1/route' && status < 500), `${path} ${name}: ${status} ${text}`)
    }
    for (const body of [
      `{${bad},"model":"good/m",${rest}}`,
      `{"model":"good/m",${rest},"metadata":{${bad}},"tools":[{${bad}}],"stream_options":{${bad}}}`,
      `{"model":"good/m",${bad}}`,
      `{${bad}}`,
    ]) {
      const { status } = await post(path, body)
      assert.ok(status < 500 || status === 502, `${path}: ${status}`)
    }
  }
  for (const name of NAMES) {
    const answer = await fetch(`${gateway.url}/v1/models/${name}`, {
      headers: { [name.replaceAll('_', 'x')]: 'yes' },
    })
    assert.equal(answer.status, 404)
    await answer.text()
    assert.equal((await fetch(`${gateway.url}/${name}?${name}=1`)).status, 404)
  }
  for (const page of ['/health', '/providers/status', '/v1/models', '/metrics'])
    assert.doesNotMatch(await (await fetch(gateway.url + page)).text(), /polluted/)
})

// ── Unusual characters ─────────────────────────────────────────────────────────────────────────────────────────

test('bombs: lone surrogates, NUL and line separators are harmless everywhere', async () => {
  for (const odd of [
    '\\ud83d',
    '\\udc00\\ud800',
    '\\u0000',
    '\\u2028',
    '\\ufeff',
    '\\uffff',
    '\\u202e',
    '\u2028',
    '\u{1f98a}',
  ])
    for (const model of ['good/m', 'other/m', 'third/m', `good/${odd}`, `third/${odd}`, odd])
      for (const text of [
        `{"model":"${model}","messages":[{"role":"user","content":"a${odd}b"}]}`,
        `{"model":"${model}","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"${odd}","parameters":{"${odd}":1}}}],"${odd}":1}`,
        `{"model":"${model}","messages":[{"role":"${odd}","content":"a","name":"${odd}"}],"user":"${odd}"}`,
      ]) {
        const answer = await post('/v1/chat/completions', text, { 'x-request-id': 'x' })
        assert.ok(answer.status < 500 || answer.status === 502, `${answer.status} ${text}: ${answer.text}`)
      }
})

test('bombs: the gateway is healthy afterwards', async () => {
  assert.equal((await honest()).status, 200)
  assert.equal(gateway.child.exitCode, null)
  assert.deepEqual(
    (await gateway.logged()).filter(({ event, level }) => event === 'error' || level === 'error'),
    [],
  )
  if (process.platform === 'linux') assert.ok(memory() < MOST_MEMORY, `${Math.round(memory() / MB)} MB at most`)
  for (const { body } of callsOf(upstream)) assert.doesNotMatch(body.slice(0, 1_000), /"max_tokens":(?:NaN|Infinity)/)
})
