/**
 * Budgets and limits of keys under concurrency, in one process and in three workers: what is billed stays below the
 * budget, no request is refused while there is room, and every way for a request to end returns what it held.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { number } from '../../src/core/json.ts'
import { answerWith, failWith, piecesOf } from '../support/answers.ts'
import { openControl } from '../support/control.ts'
import { type Act, refusingUrl, startUpstream, type UpstreamRequest, until } from '../support/upstream.ts'
import { gauge, skipWithoutProc } from './support/gauges.ts'
import { post, type Started, start } from './support/process.ts'
import { fileOf, rawClient, rawRequest } from './support/stage.ts'
import { checkStoredUsage, type StoredUsage, storedUsage } from './support/stored-usage.ts'

const ADMIN = 'admin-0123456789abcdef'
const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-limits-'))
  folders.push(folder)
  return folder
}

/** `spent`, `reserved` and `remaining` of the only budget, in dollars. */
const budgetNow = async ({ url }: Started) => {
  const response = await fetch(`${url}/admin/api/v1/budgets`, { headers: { authorization: `Bearer ${ADMIN}` } })
  // biome-ignore lint/suspicious/noExplicitAny: the test reads three texts of the answer
  const { data }: any = await response.json()
  const { spent, reserved, remaining } = data[0].now
  return { spent: Number(spent), reserved: Number(reserved), remaining: Number(remaining) }
}

// ── A budget under 1,000 concurrent requests ─────────────────────────────────────────────────────────────────────

/** $100 per million tokens of output; input costs nothing, so a reservation is that of `max_tokens`. */
const PRICE = 100_000
const AMOUNT = 20_000_000_000
const REQUESTS = 1_000
/** Every fifth answer costs up to this much more than its reservation. */
const EXCESS = 0.2

/** What was charged, or reserved or about to be, at a time. In the same millisecond it may be either. */
const committedAt = ({ attempts }: StoredUsage, at: number): number =>
  attempts
    .filter(({ started }) => started <= at)
    .reduce((sum, { ended, cost, reserved }) => {
      const charged = cost ?? reserved
      return sum + (ended === null || ended > at ? reserved : ended < at ? charged : Math.max(charged, reserved))
    }, 0)

/** The most that was committed while a request was in progress. */
const committedDuring = (usage: StoredUsage, from: number, to: number): number => {
  const times = usage.attempts.map(({ started }) => started).filter((at) => at >= from && at <= to)
  return Math.max(...[from, to, ...times].map((at) => committedAt(usage, at)))
}

describe('a hard budget and 1,000 concurrent requests', () => {
  for (const workers of [0, 3])
    test(`${workers === 0 ? 'one process' : `${workers} workers`}: the bill stays within the bound, and nothing is refused below 95 %`, {
      skip: workers > 0 && skipWithoutProc,
      timeout: 180_000,
    }, async (t) => {
      const data = newFolder()
      let billed = 0
      await using upstream = await closing(
        await startUpstream(async (request) => {
          if (request.method === 'GET') return { do: 'answer', status: 404 }
          const wanted = number(request.json.max_tokens) ?? 0
          const output = request.number % 5 === 0 ? Math.floor(wanted * (1 + EXCESS * Math.random())) : wanted
          await sleep(20 + Math.random() * 400)
          billed += output * PRICE
          return answerWith(request, { text: 'x', input: 10, output })
        }),
      )
      await using gateway = await start({
        env: {
          ...(workers > 0 && { WORKERS: String(workers) }),
          OPENAI_API_KEY: 'sk-0123456789',
          OPENAI_BASE_URL: `${upstream.it.url}/v1`,
          OPENAI_MODELS: 'm',
          DATA_DIR: data,
          AUTH_ADMIN: ADMIN,
        },
        files: {
          'headgate.yaml': `prices: [ { provider: openai, model: "*", perMillion: { input: 0, output: 100 } } ]
budgets: { all: { amount: "20.00", period: total } }
# A busy machine may need longer for 1,000 requests at once than the defaults.
timeout: { connect: 120000 }
circuit: { timeout: 120000 }
`,
        },
      })
      const answers = await Promise.all(
        Array.from({ length: REQUESTS }, (_, at) =>
          post(
            `${gateway.base}/chat/completions`,
            { model: 'm', max_tokens: 200 + ((at * 37) % 301), messages: [{ role: 'user', content: `call ${at}` }] },
            { connection: 'close' },
          ),
        ),
      )
      const statuses = Object.groupBy(answers, ({ status }) => status)
      const [served, refused] = [statuses[200]?.length ?? 0, statuses[402]?.length ?? 0]
      assert.equal(served + refused, REQUESTS, Object.keys(statuses).join())
      const { spent, reserved } = await budgetNow(gateway)
      assert.equal(await gateway.stop(), 0)

      const usage = storedUsage(data)
      assert.equal(checkStoredUsage(data, { budgets: true }), billed, 'the ledger has what was billed')
      assert.equal(reserved, 0)
      assert.equal(Math.round(spent * 1e9), billed)
      // Those in progress when the last attempt was admitted may cost more than reserved.
      const last = Math.max(...usage.attempts.map(({ started }) => started))
      const excess = usage.attempts
        .filter(({ ended }) => (ended ?? last) >= last)
        .reduce((sum, { cost, reserved: held }) => sum + Math.max(0, (cost ?? 0) - held), 0)
      const refusals = usage.requests.filter(({ outcome }) => outcome === 'refused')
      // The supervisor counts a reservation before the worker starts the attempt, on a busy machine long before.
      const delay =
        workers === 0 ? 0 : Math.max(...refusals.map(({ received, ended }) => (ended ?? received) - received))
      const lowest = Math.min(
        ...refusals.map(({ received, ended }) => committedDuring(usage, received, (ended ?? received) + delay)),
      )
      t.diagnostic(
        `${served} served, ${refused} refused; billed ${billed / 1e9} of ${AMOUNT / 1e9} dollars, bound ${(AMOUNT + excess) / 1e9}; ` +
          `lowest commitment at a refusal ${((100 * lowest) / AMOUNT).toFixed(2)} %`,
      )
      assert.equal(usage.attempts.length, served)
      assert.equal(refusals.length, refused)
      assert.ok(refused > 100, `only ${refused} were refused`)
      // A worker does not know at once what the requests of others cost beyond their reservations.
      const bound = AMOUNT + (workers === 0 ? excess : AMOUNT / 20)
      assert.ok(billed <= bound, `billed ${billed}, bound ${bound}`)
      assert.ok(excess <= AMOUNT * EXCESS)
      assert.ok(lowest >= 0.95 * AMOUNT, `refused although only ${lowest} of ${AMOUNT} was committed`)
    })
})

/** Closes an upstream at the end of the scope. */
const closing = async <T extends { close(): Promise<void> }>(it: T) => ({ it, [Symbol.asyncDispose]: () => it.close() })

// ── Tokens per minute ────────────────────────────────────────────────────────────────────────────────────────────

describe('tokens per minute', () => {
  const USED = { text: 'x', input: 75, output: 100 }
  const limited = async (tokensPerMinute: number) => {
    const data = newFolder()
    using control = await openControl(data)
    const { secret } = await control.createKey('a', { limits: { tokensPerMinute } })
    const upstream = await startUpstream((request) =>
      request.method === 'GET' ? { do: 'answer', status: 404 } : answerWith(request, USED),
    )
    const gateway = await start({
      env: { DATA_DIR: data },
      files: { 'headgate.yaml': fileOf({ providers: { a: { baseUrl: `${upstream.url}/v1` } }, fallback: 'none' }) },
    })
    const ask = (max: number, stream: boolean) =>
      post(
        `${gateway.base}/chat/completions`,
        { model: 'a/m', max_tokens: max, stream, messages: [{ role: 'user', content: 'hello' }] },
        { authorization: `Bearer ${secret}` },
      )
    const dispose = async () => {
      await gateway.stop()
      await upstream.close()
    }
    return {
      ask,
      calls: () => upstream.requests.filter(({ method }) => method === 'POST').length,
      [Symbol.asyncDispose]: dispose,
    }
  }

  for (const stream of [false, true])
    for (const [estimate, max] of [
      ['estimated as 175', 145],
      ['estimated as less than they use', 40],
    ] as const)
      test(`of five ${stream ? 'streams' : 'answers'} at once with 175 tokens each, ${estimate}, at most one passes a limit of 100`, async () => {
        await using it = await limited(100)
        const answers = await Promise.all(Array.from({ length: 5 }, () => it.ask(max, stream)))
        const passed = answers.filter(({ status }) => status === 200)
        assert.ok(passed.length <= 1, `${passed.length} passed`)
        assert.equal(it.calls(), passed.length)
        assert.deepEqual(
          [...new Set(answers.filter(({ status }) => status !== 200).map(({ status }) => status))],
          [429],
        )
        const next = await it.ask(40, stream)
        // 175 of 100 are used: until 75 are refilled there is nothing, which takes 45 s.
        if (passed.length === 1) {
          assert.equal(next.status, 429)
          assert.match(next.headers.get('x-headgate-limit') ?? '', /^tokens; id=key_/)
          const wait = Number(next.headers.get('retry-after'))
          assert.ok(wait > 30 && wait <= 120, `retry-after ${wait}`)
        }
      })

  for (const stream of [false, true])
    test(`${stream ? 'streams' : 'answers'} count with the tokens that they used`, async () => {
      await using it = await limited(1_000)
      let passed = 0
      while (passed < 20 && (await it.ask(40, stream)).status === 200) passed++
      // 5 × 175 leaves 125, enough for the estimate of a sixth; refilled are 17 a second.
      assert.ok(passed >= 5 && passed <= 8, `${passed} passed`)
    })
})

// ── Every ending returns what it held ────────────────────────────────────────────────────────────────────────────

const TEXT = 'one two three four five six'
const broken = (request: UpstreamRequest, ending: 'reset' | 'close' | 'stall'): Act => ({
  do: 'stream',
  pieces: piecesOf(request, { text: TEXT }).slice(0, 4),
  gap: 2,
  ending,
})
const failure = (request: UpstreamRequest, status: number) =>
  failWith(request, status, { type: 'x', message: 'failed' })

/** Upstreams by how they end a call; the path of the provider contains the name. */
const ENDINGS: Readonly<Record<string, (request: UpstreamRequest) => Act | Promise<Act>>> = {
  answered: (request) => answerWith(request, { text: TEXT, input: 10, output: 10 }),
  uncounted: (request) => ({
    do: 'stream',
    pieces: piecesOf(request, { text: TEXT }).filter((one) => !one.includes('"usage"')),
  }),
  reset: () => ({ do: 'reset' }),
  closed: () => ({ do: 'close' }),
  silent: () => ({ do: 'hang' }),
  truncated: (request) =>
    request.stream ? broken(request, 'close') : { do: 'raw', bytes: 'HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n{' },
  torn: (request) => (request.stream ? broken(request, 'reset') : { do: 'raw', bytes: 'no HTTP' }),
  stalled: (request) => broken(request, 'stall'),
  malformed: () => ({ do: 'answer', body: '<html>' }),
  bad: (request) => failure(request, 400),
  forbidden: (request) => failure(request, 403),
  limited: (request) => failure(request, 429),
  failing: (request) => failure(request, 500),
}

/** Each ends in 19 ways, streamed and not. */
const ROUNDS = 27
const ENDED = ROUNDS * 38

describe('slots and reservations', () => {
  for (const workers of [0, 2])
    test(`${workers === 0 ? 'one process' : `${workers} workers`}: ${ENDED} requests ended by every kind of failure leave nothing held`, {
      skip: workers > 0 && skipWithoutProc,
      timeout: 240_000,
    }, async () => {
      const SLOTS = 64
      const data = newFolder()
      let secret = ''
      {
        using control = await openControl(data)
        secret = (await control.createKey('a', { limits: { concurrent: SLOTS } })).secret
      }
      let isReleased = false
      /** Content until it is released, so that no timeout ends it. */
      function* held(request: UpstreamRequest) {
        const pieces = piecesOf(request, { text: TEXT, input: 10, output: 10 })
        const first = pieces.findIndex((piece) => piece.includes('one'))
        yield* pieces.slice(0, first)
        while (!isReleased) yield pieces[first] ?? ''
        yield* pieces.slice(first)
      }
      await using upstream = await closing(
        await startUpstream(async (request) => {
          if (request.method === 'GET') return { do: 'answer', status: 404 }
          const [, name = ''] = request.path.split('/')
          if (name === 'held') return { do: 'stream', pieces: held(request), gap: 50 }
          return ENDINGS[name]?.(request) ?? { do: 'hang' }
        }),
      )
      const names = [...Object.keys(ENDINGS), 'held']
      const providers = Object.fromEntries(
        names.map((name) => [name, { baseUrl: `${upstream.it.url}/${name}/v1`, models: [name] }]),
      )
      const file = fileOf({
        fallback: 'same-model',
        circuit: { minRequests: 1_000_000, consecutiveFailures: 0, timeout: 1_000 },
        retry: { maxAttempts: 2 },
        timeout: { firstContent: 1_000, idle: 1_000 },
        hedge: { percent: 100, delay: 50 },
        providers: { ...providers, refused: { baseUrl: `${await refusingUrl()}/v1`, models: ['refused'] } },
        routes: {
          hedged: { targets: ['silent/silent', 'answered/answered'] },
          fallen: { targets: ['failing/failing', 'answered/answered'] },
        },
        prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
        budgets: { all: { amount: '1000', period: 'total' } },
        auth: { admin: ADMIN },
      })
      await using gateway = await start({
        env: { DATA_DIR: data, ...(workers > 0 && { WORKERS: String(workers) }) },
        files: { 'headgate.yaml': file },
      })
      const headers = { authorization: `Bearer ${secret}`, connection: 'close' }
      const body = (model: string, stream: boolean) => ({
        model,
        stream,
        max_tokens: 100,
        messages: [{ role: 'user', content: 'hello' }],
      })
      const ask = (model: string, stream: boolean) =>
        post(`${gateway.base}/chat/completions`, body(model, stream), headers)
      /** A client that leaves: before content, or in mid-stream. */
      const leave = async (model: string, stream: boolean) => {
        const bytes = rawRequest('/v1/chat/completions', JSON.stringify(body(model, stream)), {
          'content-type': 'application/json',
          authorization: `Bearer ${secret}`,
        })
        const client = await rawClient(gateway.url, bytes)
        const wanted = model === 'stalled/stalled' ? () => client.text().includes('one') : () => false
        for (const end = performance.now() + 150 + Math.random() * 100; performance.now() < end && !wanted(); )
          await sleep(5)
        client.socket.resetAndDestroy()
        return { status: 0 }
      }
      const models = [
        ...names.filter((name) => name !== 'held').map((name) => `${name}/${name}`),
        'refused/refused',
        'hedged',
        'fallen',
      ]
      const jobs = Array.from({ length: ROUNDS }, () => [true, false]).flatMap((streams) =>
        streams.flatMap((stream) => [
          ...models.map((model) => () => ask(model, stream)),
          () => leave('silent/silent', stream),
          () => leave('stalled/stalled', stream),
          () => leave('hedged', stream),
        ]),
      )
      /** Refusals of requests that should hold a slot. */
      const unheld = new Set<number>()
      /** Holds a slot until the release. A busy machine may exceed a time limit; then the request is repeated. */
      const hold = async (): Promise<number> => {
        for (;;) {
          const { status } = await ask('held/held', true)
          if (status === 429 || status === 402) unheld.add(status)
          if (isReleased || unheld.size > 0) return status
        }
      }
      const holding = () =>
        upstream.it.requests.filter(({ path, ended }) => path.startsWith('/held') && ended === 'open').length
      const statuses = new Set<number>()
      const total = jobs.length
      const work = async () => {
        for (let job = jobs.pop(); job; job = jobs.pop()) statuses.add((await job()).status)
      }
      await Promise.all(Array.from({ length: SLOTS - 16 }, work))
      assert.equal(total, ENDED)
      assert.ok(!statuses.has(402), [...statuses].join())

      await until('no call is in progress', () => upstream.it.requests.every(({ ended }) => ended !== 'open'), 30_000)
      for (let waited = 0; (await gauge(gateway, 'headgate_in_flight')) > 0; waited += 100) {
        assert.ok(waited < 20_000, 'calls are still in progress')
        await sleep(100)
      }
      // The workers state it within half a second.
      for (let waited = 0; (await budgetNow(gateway)).reserved > 0; waited += 100) {
        assert.ok(waited < 20_000, 'nothing is reserved')
        await sleep(100)
      }

      // All slots can be used again, and not one more.
      const full = Array.from({ length: SLOTS }, hold)
      await until('every slot is used again', () => holding() === SLOTS || unheld.size > 0, 30_000)
      assert.deepEqual([...unheld], [])
      const refused = await ask('held/held', true)
      assert.equal(refused.status, 429)
      assert.match(refused.headers.get('x-headgate-limit') ?? '', /^concurrent; id=key_/)
      assert.ok((await budgetNow(gateway)).reserved > 0)
      isReleased = true
      assert.deepEqual([...new Set(await Promise.all(full))], [200])
      assert.equal(await gateway.stop(), 0)
      assert.ok(storedUsage(data).attempts.every(({ outcome }) => outcome !== 'open' && outcome !== 'unknown'))
      checkStoredUsage(data, { budgets: true })
    })
})
