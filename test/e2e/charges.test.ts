/**
 * Every way for an attempt to end leads to its row in the ledger: outcome, tokens, cost and reservation. A request costs
 * what its attempts cost, and the same amount is in its header and in `headgate usage`.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import {
  type Act,
  refusingUrl,
  startUpstream,
  type Upstream,
  type UpstreamRequest,
  until,
} from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { fileOf, rawClient, rawRequest } from './support/stage.ts'
import {
  checkStoredUsage,
  type StoredAttempt,
  type StoredRequest,
  untilComplete,
  untilStored,
} from './support/stored-usage.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'admin-0123456789abcdef'
/** Nano-dollars per token: $10 and $40 per million. */
const [INPUT, OUTPUT] = [10_000, 40_000]
const MAX_TOKENS = 100
const USED = { input: 70, output: 20 }
const EXACT = USED.input * INPUT + USED.output * OUTPUT
const TEXT = 'one two three four five six seven eight'

const failure = (request: UpstreamRequest, status: number) =>
  failWith(request, status, { type: 'x', message: 'failed' })
const withoutUsage = (request: UpstreamRequest): Act =>
  request.stream
    ? {
        do: 'stream',
        pieces: piecesOf(request, { text: TEXT }).map((piece) => piece.replace(/,?"usage":\{[^}]*\}/, '')),
      }
    : {
        do: 'answer',
        body: {
          id: 'a',
          object: 'chat.completion',
          created: 1,
          model: 'm',
          choices: [{ index: 0, message: { role: 'assistant', content: TEXT }, finish_reason: 'stop' }],
        },
      }
const broken = (request: UpstreamRequest, ending: 'reset' | 'stall'): Act => ({
  do: 'stream',
  pieces: piecesOf(request, { text: TEXT }).slice(0, 4),
  gap: 5,
  ending,
})

/** By the name of the provider, which is part of its path. */
const SCRIPT: Readonly<Record<string, (request: UpstreamRequest) => Act>> = {
  good: (request) => answerWith(request, { text: TEXT, ...USED }),
  uncounted: withoutUsage,
  slow: (request) => ({ do: 'stream', pieces: piecesOf(request, { text: TEXT, ...USED }), gap: 200 }),
  torn: (request) => broken(request, 'reset'),
  stalled: (request) => broken(request, 'stall'),
  bad: (request) => failure(request, 400),
  limited: (request) => failure(request, 429),
  failing: (request) => failure(request, 500),
  silent: () => ({ do: 'hang' }),
}

/** What the row of an attempt must have. `output`: whether output is charged, by the text that was received. */
type Row = {
  readonly outcome: string
  readonly source: 'exact' | 'estimated'
  readonly charged: 'counted' | 'nothing' | 'input and output' | 'reservation'
  readonly provider: string
  readonly kind?: string
  readonly status?: number
}

const checkRow = (attempt: StoredAttempt | undefined, row: Row, bytes: number) => {
  assert.ok(attempt, 'there is an attempt')
  const { outcome, usage_source: source, provider, cost, input, output, reserved } = attempt
  assert.deepEqual({ outcome, source, provider }, { outcome: row.outcome, source: row.source, provider: row.provider })
  if (row.kind !== undefined) assert.equal(attempt.kind, row.kind)
  if (row.status !== undefined) assert.equal(attempt.status, row.status)
  const estimate = (reserved - MAX_TOKENS * OUTPUT) / INPUT
  // Earlier answers of the model correct the estimate.
  const ratio = estimate / Math.ceil(bytes / 3)
  assert.ok(Number.isInteger(estimate) && ratio >= 0.5 && ratio <= 2, `reserved ${reserved}`)
  switch (row.charged) {
    case 'counted':
      assert.deepEqual([input, output, cost], [USED.input, USED.output, EXACT])
      return
    case 'nothing':
      assert.deepEqual([input, output, cost], [0, 0, 0])
      return
    case 'input and output':
      assert.equal(input, estimate)
      assert.ok(output !== null && output > 0 && output <= TEXT.length, `output ${output}`)
      assert.equal(cost, estimate * INPUT + output * OUTPUT)
      return
    case 'reservation':
      assert.equal(cost, reserved)
      return
    default:
      throw new Error(`unknown charge ${JSON.stringify(row.charged satisfies never)}`)
  }
}

const NAME_OF_CALL = 'x-request-id'
const answered: Row = { outcome: 'ok', source: 'exact', charged: 'counted', provider: 'good' }

/** Calls whose client reads to the end. */
const READ: readonly {
  readonly name: string
  readonly model: string
  readonly streams: readonly boolean[]
  readonly rows: readonly Row[]
  readonly outcome: string
}[] = [
  { name: 'answered and counted', model: 'good/good', streams: [false, true], rows: [answered], outcome: 'answered' },
  {
    name: 'answered and not counted',
    model: 'uncounted/uncounted',
    streams: [false, true],
    rows: [{ outcome: 'ok', source: 'estimated', charged: 'input and output', provider: 'uncounted' }],
    outcome: 'answered',
  },
  {
    name: 'broken off after content',
    model: 'torn/torn',
    streams: [true],
    rows: [{ outcome: 'interrupted', source: 'estimated', charged: 'input and output', provider: 'torn' }],
    outcome: 'interrupted',
  },
  {
    name: 'refused connection',
    model: 'refusing/refusing',
    streams: [false, true],
    rows: [{ outcome: 'failed', source: 'exact', charged: 'nothing', provider: 'refusing', kind: 'refused' }],
    outcome: 'refused',
  },
  ...(
    [
      ['bad', 400],
      ['limited', 429],
      ['failing', 500],
    ] as const
  ).map(([provider, status]) => ({
    name: `status ${status}`,
    model: `${provider}/${provider}`,
    streams: [false],
    rows: [{ outcome: 'failed', source: 'exact', charged: 'nothing', provider, status } as const],
    outcome: 'refused',
  })),
  {
    name: 'no content in time',
    model: 'silent/silent',
    streams: [false, true],
    rows: [{ outcome: 'failed', source: 'estimated', charged: 'reservation', provider: 'silent' }],
    outcome: 'refused',
  },
  {
    name: 'hedge lost',
    model: 'hedged',
    streams: [false, true],
    rows: [{ outcome: 'abandoned', source: 'estimated', charged: 'reservation', provider: 'silent' }, answered],
    outcome: 'answered',
  },
  {
    name: 'fallback',
    model: 'fallen',
    streams: [false, true],
    rows: [{ outcome: 'failed', source: 'exact', charged: 'nothing', provider: 'failing' }, answered],
    outcome: 'answered',
  },
]

describe('charges of a real process', { concurrency: false }, () => {
  const data = mkdtempSync(join(tmpdir(), 'headgate-charges-'))
  let upstream: Upstream
  let gateway: Started
  let options: Parameters<typeof start>[0]
  before(async () => {
    upstream = await startUpstream((request) => {
      const [, name = ''] = request.path.split('/')
      return request.method === 'GET' ? { do: 'answer', status: 404 } : (SCRIPT[name]?.(request) ?? { do: 'hang' })
    })
    const named = Object.keys(SCRIPT).map((name) => [name, { baseUrl: `${upstream.url}/${name}/v1`, models: [name] }])
    const file = fileOf({
      fallback: 'same-model',
      circuit: { minRequests: 1_000_000, consecutiveFailures: 0, timeout: 1_500 },
      retry: { maxAttempts: 2 },
      timeout: { firstContent: 1_500 },
      providers: {
        ...Object.fromEntries(named),
        refusing: { baseUrl: `${await refusingUrl()}/v1`, models: ['refusing'] },
      },
      hedge: { percent: 100, delay: 50 },
      routes: {
        hedged: { targets: ['silent/silent', 'good/good'] },
        fallen: { targets: ['failing/failing', 'good/good'] },
        cached: { targets: ['good/good'], cache: { ttl: 300 } },
      },
      prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
      budgets: { all: { amount: '100', period: 'total' } },
      auth: { admin: ADMIN },
    })
    options = { env: { DATA_DIR: data }, files: { 'headgate.yaml': file } }
    gateway = await start(options)
  })
  after(async () => {
    await gateway?.stop()
    await upstream?.close()
    rmSync(data, { recursive: true, force: true })
  })

  let calls = 0
  const bodyOf = (model: string, stream: boolean, more: object = {}) =>
    JSON.stringify({ model, stream, max_tokens: MAX_TOKENS, messages: [{ role: 'user', content: 'hello' }], ...more })
  const nextId = () => `call-${String.fromCharCode(97 + calls++)}`
  const rowsOf = async (id: string) => {
    const isNamed = (one: StoredRequest) => one.client_request_id === id
    const { attempts, requests } = await untilStored(data, id, (usage) => usage.requests.some(isNamed))
    const request = requests.find(isNamed)
    assert.ok(request)
    return { request, attempts: attempts.filter((one) => one.request === request.id).toSorted((a, b) => a.n - b.n) }
  }
  const checkCost = (request: StoredRequest, attempts: readonly StoredAttempt[], header: string | null) => {
    const cost = attempts.reduce((sum, attempt) => sum + (attempt.cost ?? 0), 0)
    assert.equal(request.cost ?? 0, cost)
    assert.equal(request.attempts, attempts.length)
    if (header !== null) assert.equal(Math.round(Number(header) * 1e9), cost)
  }

  for (const { name, model, streams, rows, outcome } of READ)
    for (const stream of streams)
      test(`${name}${stream ? ', streamed' : ''}`, async () => {
        const id = nextId()
        const body = bodyOf(model, stream)
        const answer = await post(`${gateway.base}/chat/completions`, body, { [NAME_OF_CALL]: id })
        const { request, attempts } = await rowsOf(id)
        assert.equal(request.outcome, outcome, answer.text)
        // A failure may be retried once, and ends in the same way.
        assert.ok(attempts.length >= rows.length && attempts.length <= 2, `${attempts.length} attempts`)
        for (const [at, attempt] of attempts.entries()) {
          const row = rows[at] ?? rows.at(-1)
          assert.ok(row)
          checkRow(attempt, row, body.length)
        }
        const header = answer.headers.get('x-headgate-cost')
        if (!stream && outcome === 'answered') assert.ok(header !== null)
        checkCost(request, attempts, header)
      })

  for (const [name, model] of [
    ['before content', 'silent/silent'],
    ['in mid-stream', 'stalled/stalled'],
  ] as const)
    test(`the client left ${name}`, async () => {
      const id = nextId()
      const body = bodyOf(model, true)
      const before = upstream.requests.length
      const headers = { 'content-type': 'application/json', [NAME_OF_CALL]: id }
      const client = await rawClient(gateway.url, rawRequest('/v1/chat/completions', body, headers))
      await until('the call has arrived', () => upstream.requests.length > before)
      if (model === 'stalled/stalled') await until('content', () => client.text().includes('one'))
      client.socket.destroy()
      const { request, attempts } = await rowsOf(id)
      assert.equal(request.outcome, 'client_gone')
      const [provider = ''] = model.split('/')
      checkRow(
        attempts[0],
        { outcome: 'client_gone', source: 'estimated', charged: 'reservation', provider },
        body.length,
      )
      checkCost(request, attempts, null)
    })

  for (const [name, model, headers, cache] of [
    ['an answer from the cache', 'cached', {}, 'hit'],
    ['an idempotent answer', 'good/good', { 'idempotency-key': 'once' }, 'shared'],
  ] as const)
    test(`${name} costs nothing, and states what it would have cost`, async () => {
      const body = bodyOf(model, false, { temperature: 0 })
      const ids = [nextId(), nextId()] as const
      for (const id of ids) {
        const { status, text } = await post(`${gateway.base}/chat/completions`, body, {
          ...headers,
          [NAME_OF_CALL]: id,
        })
        assert.equal(status, 200, text)
      }
      const [first, second] = [await rowsOf(ids[0]), await rowsOf(ids[1])]
      assert.deepEqual([first.request.cost, first.attempts.length], [EXACT, 1])
      assert.deepEqual([second.attempts, second.request.cost ?? 0], [[], 0])
      assert.deepEqual([second.request.cache, second.request.saved], [cache, EXACT])
    })

  test('the client left in mid-stream, with `usage.drainOnAbort`: the count of the whole answer is charged', async () => {
    await gateway.stop()
    gateway = await start({ ...options, env: { ...options?.env, USAGE_DRAIN_ON_ABORT: 'true' } })
    const id = nextId()
    const body = bodyOf('slow/slow', true)
    const headers = { 'content-type': 'application/json', [NAME_OF_CALL]: id }
    const client = await rawClient(gateway.url, rawRequest('/v1/chat/completions', body, headers))
    await until('content', () => client.text().includes('one'))
    client.socket.destroy()
    const { request, attempts } = await rowsOf(id)
    // A machine that is too busy to see the end of the connection before that of the answer has answered.
    assert.match(request.outcome, /^(?:client_gone|answered)$/)
    checkRow(attempts[0], { ...answered, provider: 'slow' }, body.length)
    checkCost(request, attempts, null)
    await gateway.stop()
    gateway = await start(options)
  })

  test('headgate usage reports the same cost', async () => {
    const usage = await untilComplete(data)
    const { stdout, json } = await verb(['usage', '--by', 'provider', '--since', '1d', '--json'], {
      cwd: gateway.folder,
      env: { AUTH_ADMIN: ADMIN, DATA_DIR: data, PORT: new URL(gateway.url).port },
    })
    const cost = checkStoredUsage(data, { budgets: true })
    assert.equal(Math.round(Number(json().total.cost) * 1e9), cost, stdout)
    assert.equal(json().total.requests, usage.requests.length)
  })

  test('the process was killed: its reservation is charged, once', async () => {
    const id = nextId()
    const body = bodyOf('silent/silent', false)
    const before = upstream.requests.length
    const call = post(`${gateway.base}/chat/completions`, body, { [NAME_OF_CALL]: id }).catch(() => null)
    await until('the call has arrived', () => upstream.requests.length > before)
    const exited = new Promise((resolve) => gateway.child.once('exit', resolve))
    gateway.child.kill('SIGKILL')
    await exited
    await call
    gateway = await start(options)
    for (let run = 0; run < 2; run++) {
      const { request, attempts } = await rowsOf(id)
      assert.equal(request.outcome, 'unknown')
      assert.equal(attempts.length, 1)
      checkRow(
        attempts[0],
        { outcome: 'unknown', source: 'estimated', charged: 'reservation', provider: 'silent' },
        body.length,
      )
      await gateway.stop()
      checkStoredUsage(data, { budgets: true })
      gateway = await start(options)
      await sleep(300)
    }
  })
})
