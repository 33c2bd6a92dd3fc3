/**
 * Measures the figures of docs/reliability.md: results of requests while providers fail, over real sockets with the real
 * process. Prints a table, or JSON with `--json`.
 *
 *   npm run figures                          all figures, several minutes
 *   npm run figures -- --only truncation     one figure
 *   npm run figures -- --share 0.1           a tenth of the requests
 */
import { parseArgs } from 'node:util'
import { type Started, start } from '../../test/e2e/support/process.ts'
import { type FileInput, fileOf, rawClient, rawRequest } from '../../test/e2e/support/stage.ts'
import { answerWith, failWith, piecesOf } from '../../test/support/answers.ts'
import {
  type Act,
  type Ending,
  refusingUrl,
  startUpstream,
  type Upstream,
  type UpstreamRequest,
  until,
} from '../../test/support/upstream.ts'

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    share: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
  },
})
const share = Number(values.share)
const scaled = (count: number): number => Math.max(20, Math.round(count * share))

/** One figure: what was measured, the number of requests, and the results. */
type Figure = {
  readonly what: string
  readonly over: string
  readonly found: Readonly<Record<string, number | string>>
}

/** Seeded random numbers in [0, 1) (mulberry32). */
const seeded = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
}
const random = seeded(Number(values.seed))

const round = (value: number, digits = 1): number => Number(value.toFixed(digits))
const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
const sortedOf = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b)
const percent = (part: number, all: number): string => `${((100 * part) / all).toFixed(part === all ? 0 : 2)} %`
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// ── Requests ─────────────────────────────────────────────────────────────────────────────────────────────────────

const STYLES = ['chat', 'responses', 'messages'] as const
type Style = (typeof STYLES)[number]
const PATHS: Readonly<Record<Style, string>> = {
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
}
const TEXT = 'one two three four five six seven eight nine ten, 你好 and 👋🏽'
const TOOL = { id: 'call_1', name: 'weather', arguments: '{"city":"Bern","days":3}' }
const SCHEMA = { type: 'object', properties: { city: { type: 'string' }, days: { type: 'integer' } } }

type CallOptions = {
  readonly style: Style
  readonly model: string
  readonly stream?: boolean
  readonly tools?: boolean
}

const bodyFor = ({ style, model, stream = false, tools = false }: CallOptions): string => {
  const { name } = TOOL
  const offered = {
    chat: { type: 'function', function: { name, parameters: SCHEMA } },
    responses: { type: 'function', name, parameters: SCHEMA },
    messages: { name, input_schema: SCHEMA },
  }[style]
  return JSON.stringify({
    model,
    stream,
    ...(style === 'responses' ? { input: 'hello', store: false } : { messages: [{ role: 'user', content: 'hello' }] }),
    ...(style === 'messages' && { max_tokens: 500 }),
    ...(tools && { tools: [offered] }),
  })
}

type Reply = {
  readonly status: number
  readonly text: string
  readonly ms: number
  readonly attempts: number
  readonly trail: string
}

const call = async (gateway: Started, options: CallOptions): Promise<Reply> => {
  const started = performance.now()
  const response = await fetch(gateway.url + PATHS[options.style], {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: bodyFor(options),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  return {
    status: response.status,
    text,
    ms: performance.now() - started,
    attempts: Number(response.headers.get('x-headgate-attempts')),
    trail: response.headers.get('x-headgate-trail') ?? '',
  }
}

/** Runs a function `count` times, `atOnce` of them concurrently. */
const repeat = async (count: number, atOnce: number, one: (at: number) => Promise<void>): Promise<void> => {
  let next = 0
  const worker = async () => {
    while (next < count) await one(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

/** A stream as its client reads it: text, arguments of tool calls, whether it has a terminator or an error. */
type StreamView = { text: string; calls: Map<string, string>; ended: boolean; error: boolean }

// biome-ignore lint/suspicious/noExplicitAny: events of three formats, whose types are not declared here
type Event = any

const addArguments = ({ calls }: StreamView, key: string, piece: string): void =>
  void calls.set(key, (calls.get(key) ?? '') + piece)

const READ: { readonly [style in Style]: (view: StreamView, event: Event) => void } = {
  chat(view, event) {
    const deltas = (event.choices ?? []).map(({ delta }: Event) => delta)
    for (const delta of deltas) view.text += delta?.content ?? ''
    for (const { index, function: part } of deltas.flatMap((delta: Event) => delta?.tool_calls ?? [])) {
      if (part?.name) addArguments(view, `${index} ${part.name}`, '')
      const key = [...view.calls.keys()].find((name) => name.startsWith(`${index} `)) ?? `${index} ?`
      addArguments(view, key, part?.arguments ?? '')
    }
  },
  responses(view, event) {
    const { type } = event
    if (type === 'response.output_text.delta') view.text += event.delta
    if (type === 'response.output_item.added' && event.item.type === 'function_call')
      addArguments(view, event.item.id, '')
    if (type === 'response.function_call_arguments.delta') addArguments(view, event.item_id, event.delta)
    if (type === 'response.completed') view.ended = true
  },
  messages(view, event) {
    const { type, index, delta } = event
    if (type === 'content_block_start' && event.content_block.type === 'tool_use') addArguments(view, String(index), '')
    if (type === 'content_block_delta') {
      view.text += delta.text ?? ''
      if (delta.partial_json !== undefined) addArguments(view, String(index), delta.partial_json)
    }
    if (type === 'message_stop') view.ended = true
  },
}

const readStream = (style: Style, text: string): StreamView => {
  const view: StreamView = { text: '', calls: new Map(), ended: false, error: false }
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: ')) continue
    if (line === 'data: [DONE]') {
      if (style === 'chat') view.ended = true
      continue
    }
    const event: Event = JSON.parse(line.slice(6))
    if (event.error || event.type === 'error' || event.type === 'response.failed') view.error = true
    READ[style](view, event)
  }
  return view
}

const isComplete = ({ ended, text }: StreamView): boolean => ended && text === TEXT

// ── Set-up ───────────────────────────────────────────────────────────────────────────────────────────────────────

const withGateway = async <T>(file: FileInput, run: (gateway: Started) => Promise<T>): Promise<T> => {
  const gateway = await start({ files: { 'headgate.yaml': fileOf(file) } })
  try {
    return await run(gateway)
  } finally {
    await gateway.stop()
  }
}
const withUpstream = async <T>(
  script: (request: UpstreamRequest) => Act | Promise<Act>,
  run: (upstream: Upstream) => Promise<T>,
): Promise<T> => {
  const upstream = await startUpstream((request) =>
    request.method === 'GET' ? { do: 'answer', status: 404 } : script(request),
  )
  try {
    return await run(upstream)
  } finally {
    await upstream.close()
  }
}
const good = (request: UpstreamRequest): Act => answerWith(request, { text: TEXT })
const broken = (request: UpstreamRequest): Act => failWith(request, 500, { type: 'server_error', message: 'it broke' })
const route = { routes: { both: { targets: ['a/m', 'b/m'] } } }

// ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** A step of the trail in which A was attempted. The trail also contains skipped targets. */
const ATTEMPTED_A = /^a#\w+:(?!circuit|warming|budget)/

/** One failing and one healthy provider, with default settings. `act`: null if A refuses connections. */
const withFailingProvider = async (what: string, act: ((request: UpstreamRequest) => Act) | null): Promise<Figure> => {
  const count = scaled(2_000)
  let received = 0
  const script = (request: UpstreamRequest): Act => {
    if (request.path.startsWith('/b/')) return good(request)
    received++
    return act?.(request) ?? { do: 'hang' }
  }
  return withUpstream(script, async (upstream) => {
    const a = act ? upstream.url : await refusingUrl()
    const providers = { a: { baseUrl: `${a}/a/v1` }, b: { baseUrl: `${upstream.url}/b/v1` } }
    return withGateway({ providers, ...route }, async (gateway) => {
      const attempts: number[] = []
      let answered = 0
      let atA = 0
      await repeat(count, 20, async (at) => {
        const style = at % 2 === 0 ? 'chat' : 'responses'
        const stream = at % 4 < 2
        const answer = await call(gateway, { style, model: 'both', stream })
        attempts.push(answer.attempts)
        atA += answer.trail.split(', ').filter((step) => ATTEMPTED_A.test(step)).length
        const whole = answer.status === 200 && (!stream || isComplete(readStream(style, answer.text)))
        if (whole) answered++
      })
      const sorted = sortedOf(attempts)
      return {
        what: `answered with A ${what}, B healthy`,
        over: `${count} requests`,
        found: {
          answered: percent(answered, count),
          'attempts p50': quantile(sorted, 0.5),
          'attempts p99': quantile(sorted, 0.99),
          'attempts max': sorted.at(-1) ?? 0,
          'attempts at A per request': round((act ? received : atA) / count, 3),
        },
      }
    })
  })
}

/** The latency that a failover and an open circuit add to the same request. */
const addedLatency = (): Promise<Figure> => {
  const count = scaled(400)
  const script = (request: UpstreamRequest) => (request.path.startsWith('/b/') ? good(request) : broken(request))
  return withUpstream(script, (upstream) => {
    const at = (name: string) => ({ baseUrl: `${upstream.url}/${name}/v1` })
    const open = { circuit: { minRequests: 5, consecutiveFailures: 5 } }
    const never = { circuit: { minRequests: 1_000_000, consecutiveFailures: 0 } }
    const targets = { plain: { targets: ['b/m'] }, ...route.routes }
    const providers = { a: at('a'), b: at('b') }
    return withGateway({ providers, routes: targets, ...never }, (failing) =>
      withGateway({ providers, routes: targets, ...open }, async (opened) => {
        for (let at = 0; at < 300; at++) {
          await call(failing, { style: 'chat', model: at % 2 ? 'both' : 'plain' })
          await call(opened, { style: 'chat', model: at % 2 ? 'both' : 'plain' })
        }
        const waits: Record<'failing' | 'failing plain' | 'open' | 'open plain', number[]> = {
          failing: [],
          'failing plain': [],
          open: [],
          'open plain': [],
        }
        for (let at = 0; at < count; at++) {
          waits['failing plain'].push((await call(failing, { style: 'chat', model: 'plain' })).ms)
          const failover = await call(failing, { style: 'chat', model: 'both' })
          if (failover.attempts !== 2) throw new Error(`no failover: ${failover.trail}`)
          waits.failing.push(failover.ms)
          waits['open plain'].push((await call(opened, { style: 'chat', model: 'plain' })).ms)
          const passed = await call(opened, { style: 'chat', model: 'both' })
          if (passed.attempts !== 1) throw new Error(`the circuit is not open: ${passed.trail}`)
          waits.open.push(passed.ms)
        }
        const median = (name: keyof typeof waits) => quantile(sortedOf(waits[name]), 0.5)
        return {
          what: 'added latency: medians compared with the same request without it, in sequence',
          over: `${count} of each`,
          found: {
            'without (ms)': round(median('failing plain'), 2),
            'one failover (ms)': round(median('failing') - median('failing plain'), 2),
            'an open circuit (ms)': round(median('open') - median('open plain'), 2),
          },
        }
      }),
    )
  })
}

type Outage = { readonly leave: number; readonly met: number; readonly back: number; readonly failed: number }

/** One failure and return of provider A under 10 clients, with B healthy. Times in ms. */
const outageRound = async (gateway: Started, a: Upstream, resetTimeout: number): Promise<Outage> => {
  const times = { diedAt: 0, openedAt: 0, backAt: 0, lastMet: 0, firstBack: 0 }
  let met = 0
  let failed = 0
  let isRunning = true
  const record = ({ status, trail }: Reply, now: number): void => {
    const { diedAt, openedAt, backAt, firstBack } = times
    if (status !== 200) failed++
    const isDead = ATTEMPTED_A.test(trail) && !/^a#\w+:200/.test(trail)
    if (diedAt && !backAt && isDead && (!openedAt || now < openedAt + resetTimeout / 2)) {
      times.lastMet = now
      met++
    }
    if (backAt && !firstBack && /^a#\w+:200$/.test(trail)) times.firstBack = now
  }
  const worker = async () => {
    while (isRunning) {
      const reply = await call(gateway, { style: 'chat', model: 'both' })
      record(reply, performance.now())
      await sleep(5)
    }
  }
  const workers = Array.from({ length: 10 }, worker)
  await sleep(300)
  times.diedAt = performance.now()
  await a.close()
  await gateway.line(({ event, to }) => event === 'circuit' && to === 'open')
  times.openedAt = performance.now()
  await sleep(resetTimeout * 0.7)
  const returned = await startUpstream(good, { port: a.port })
  try {
    times.backAt = performance.now()
    await until('the provider is used again', () => times.firstBack > 0, 10_000)
  } finally {
    isRunning = false
    await Promise.all(workers)
    await returned.close()
  }
  return { leave: times.lastMet - times.diedAt, met, back: times.firstBack - times.backAt, failed }
}

/** Time from the failure of a provider to the last attempt at it, and from its return to its first answer. */
const outage = (): Promise<Figure> =>
  withUpstream(good, async (b) => {
    const resetTimeout = 1_000
    const rounds: Outage[] = []
    const count = share < 1 ? 3 : 10
    for (let round = 0; round < count; round++) {
      const a = await startUpstream(good)
      const providers = { a: { baseUrl: `${a.url}/a/v1` }, b: { baseUrl: `${b.url}/b/v1` } }
      const file = { providers, ...route, circuit: { resetTimeout } }
      rounds.push(await withGateway(file, (gateway) => outageRound(gateway, a, resetTimeout)))
    }
    const median = (values: number[]) => round(quantile(sortedOf(values), 0.5))
    return {
      what: `a provider fails under 10 clients and returns (circuit.resetTimeout ${resetTimeout} ms, otherwise default settings)`,
      over: `${count} times`,
      found: {
        'last attempt after its failure (ms, median)': median(rounds.map(({ leave }) => leave)),
        'last attempt after its failure (ms, maximum)': round(Math.max(...rounds.map(({ leave }) => leave))),
        'requests that tried it first, each answered by B (median)': median(rounds.map(({ met }) => met)),
        'first answer after its return (ms, median)': median(rounds.map(({ back }) => back)),
        'failed requests': rounds.reduce((sum, { failed }) => sum + failed, 0),
      },
    }
  })

/** Streams cut at random bytes: an incomplete answer must not look complete, and no text is repeated. */
const truncation = async (): Promise<Figure> => {
  const count = scaled(6_000)
  const script = (request: UpstreamRequest): Act => {
    const bytes = Buffer.from(
      piecesOf(request, /"tools":/.test(request.body) ? { tools: [TOOL] } : { text: TEXT }).join(''),
    )
    const cut = Math.floor(random() * bytes.length)
    const ending = (['end', 'close', 'reset'] as const satisfies readonly Ending[])[Math.floor(random() * 3)] ?? 'end'
    return {
      do: 'stream',
      pieces: [bytes.subarray(0, cut)],
      ending,
      untilClose: random() < 0.3,
      ...(random() < 0.2 && { slice: 200 }),
    }
  }
  const found = { silent: 0, wrong: 0, complete: 0, 'ended with an error': 0, 'refused before content': 0 }
  await withUpstream(script, (upstream) =>
    withGateway(
      {
        fallback: 'none',
        retry: { maxAttempts: 1 },
        circuit: { minRequests: 1_000_000, consecutiveFailures: 0 },
        providers: Object.fromEntries(
          STYLES.map((style) => [style, { baseUrl: `${upstream.url}/${style}/v1`, styles: [style] }]),
        ),
      },
      (gateway) =>
        repeat(count, 20, async (at) => {
          const style = STYLES[at % 3] ?? 'chat'
          const through = STYLES[Math.floor(at / 3) % 3] ?? 'chat'
          const tools = at % 2 === 1
          const reply = await call(gateway, { style, model: `${through}/m`, stream: true, tools })
          if (reply.status !== 200) {
            if (reply.status === 502) found['refused before content']++
            else found.wrong++
            return
          }
          const { text, calls, ended, error } = readStream(style, reply.text)
          const [args = ''] = calls.values()
          const isPrefix = tools ? TOOL.arguments.startsWith(args) && calls.size <= 1 : TEXT.startsWith(text)
          const isWhole = tools ? args === TOOL.arguments && calls.size === 1 : text === TEXT
          if (!isPrefix) found.wrong++
          // In a chat stream an error replaces the terminator. No style may have a terminator and missing text.
          if (ended && !error && isWhole) found.complete++
          else if (error && !(style === 'chat' && ended)) found['ended with an error']++
          else found.silent++
        }),
    ),
  )
  const { silent, wrong, ...rest } = found
  return {
    what: 'streams cut at a random byte (FIN, RST, clean end, without a length), between chat, responses and messages',
    over: `${count} streams`,
    found: { 'silent truncations': silent, 'not a prefix of the upstream text': wrong, ...rest },
  }
}

/** The same with a second provider: a tool call must arrive once, or the stream must end with an error. */
const toolCalls = async (): Promise<Figure> => {
  const count = scaled(3_000)
  const script = (request: UpstreamRequest): Act => {
    const answer = { tools: [TOOL] }
    if (request.path.startsWith('/b/')) return answerWith(request, answer)
    const bytes = Buffer.from(piecesOf(request, answer).join(''))
    return {
      do: 'stream',
      pieces: [bytes.subarray(0, Math.floor(random() * bytes.length))],
      ending: random() < 0.5 ? 'close' : 'reset',
    }
  }
  const found = { twice: 0, altered: 0, 'from A': 0, 'from B': 0, 'ended with an error': 0, other: 0 }
  await withUpstream(script, (upstream) =>
    withGateway(
      {
        circuit: { minRequests: 1_000_000, consecutiveFailures: 0 },
        providers: {
          a: { baseUrl: `${upstream.url}/a/v1`, styles: STYLES },
          b: { baseUrl: `${upstream.url}/b/v1`, styles: STYLES },
        },
        ...route,
      },
      (gateway) =>
        repeat(count, 20, async (at) => {
          const style = STYLES[at % 3] ?? 'chat'
          const reply = await call(gateway, { style, model: 'both', stream: true, tools: true })
          const { calls, ended, error } = readStream(style, reply.text)
          const [args = ''] = calls.values()
          if (calls.size > 1) found.twice++
          if (!TOOL.arguments.startsWith(args)) found.altered++
          if (error) found['ended with an error']++
          else if (reply.status !== 200 || !ended || args !== TOOL.arguments) found.other++
          else found[reply.attempts === 1 ? 'from A' : 'from B']++
        }),
    ),
  )
  const { twice, altered, ...rest } = found
  return {
    what: 'tool calls while streams of A are cut at a random byte and B is healthy',
    over: `${count} streams`,
    found: { 'calls twice': twice, 'arguments altered': altered, ...rest },
  }
}

/** Time from a client's disconnect to the end of its upstream call. */
const aborts = async (): Promise<Figure> => {
  const count = scaled(1_000)
  const waits: number[] = []
  const script = (request: UpstreamRequest): Act => ({
    do: 'stream',
    pieces: piecesOf(request, { text: TEXT }).slice(0, 6),
    ending: 'stall',
  })
  await withUpstream(script, (upstream) =>
    withGateway({ providers: { a: { baseUrl: `${upstream.url}/a/v1` } } }, async (gateway) => {
      for (let at = 0; at < count; at++) {
        const style = at % 2 ? 'chat' : 'responses'
        const client = await rawClient(
          gateway.url,
          rawRequest(PATHS[style], bodyFor({ style, model: 'a/m', stream: true })),
        )
        await until('content', () => client.text().includes('one'))
        const seen = upstream.requests.at(-1)
        const left = performance.now()
        if (at % 4 < 2) client.socket.destroy()
        else client.socket.resetAndDestroy()
        await until('the upstream call ended', () => seen?.ended === 'aborted')
        waits.push((seen?.endedAt ?? Number.NaN) - left)
      }
    }),
  )
  const sorted = sortedOf(waits)
  return {
    what: 'upstream call ended after its client disconnected (FIN and RST)',
    over: `${count} streams`,
    found: {
      'p50 (ms)': round(quantile(sorted, 0.5), 2),
      'p99 (ms)': round(quantile(sorted, 0.99), 2),
      'max (ms)': round(sorted.at(-1) ?? 0, 2),
    },
  }
}

type Sent = { readonly at: number; readonly ok: boolean }

const goodput = (sent: readonly Sent[], from: number, to: number): number => {
  const within = sent.filter(({ at }) => at >= from && at < to)
  return within.filter(({ ok }) => ok).length / within.length
}

/** An upstream with a capacity in requests per second, in a bucket of 200 ms; it answers 503 above it. */
const limitedUpstream = () => {
  const state = { capacity: 0, received: 0 }
  let tokens = 0
  let filledAt = performance.now()
  const script = (request: UpstreamRequest): Act => {
    state.received++
    const now = performance.now()
    tokens = Math.min(state.capacity / 5, tokens + ((now - filledAt) / 1000) * state.capacity)
    filledAt = now
    if (tokens < 1) return failWith(request, 503, { type: 'server_error', message: 'too much' })
    tokens--
    return answerWith(request, { text: TEXT })
  }
  return { state, script }
}

/** Sends requests at a fixed rate (per second) until `end` (ms), and returns their results. */
const sendAtRate = async (gateway: Started, rate: number, end: number, before: (at: number) => void) => {
  const started = performance.now()
  const pending: Promise<Sent>[] = []
  for (let at = 0; at < end; at += 1_000 / rate) {
    const wait = started + at - performance.now()
    if (wait > 0) await sleep(wait)
    before(at)
    const style = pending.length % 2 ? 'chat' : 'responses'
    pending.push(call(gateway, { style, model: 'a/m' }).then(({ status }) => ({ at, ok: status === 200 })))
  }
  return Promise.all(pending)
}

/** The only provider has 30 % of its capacity under twice that load, then its full capacity; in periods of 5 to 8 s. */
const metastability = async (): Promise<Figure> => {
  const [full, low, offered] = [100, 30, 60]
  const resetTimeout = 2_000
  const worst = { before: 1, during: 1, recovered: 0 }
  let requests = 0
  let attempts = 0
  for (const overload of [5, 6, 7, 8]) {
    const [from, to, end] = [2_000, 2_000 + overload * 1_000, 7_000 + overload * 1_000]
    const { state, script } = limitedUpstream()
    state.capacity = full
    const sent = await withUpstream(script, (upstream) => {
      const providers = { a: { baseUrl: `${upstream.url}/a/v1` } }
      return withGateway({ providers, circuit: { resetTimeout } }, (gateway) =>
        sendAtRate(gateway, offered, end, (at) => {
          state.capacity = at >= from && at < to ? low : full
        }),
      )
    })
    requests += sent.length
    attempts += state.received
    let recovered = to
    while (recovered < end - 1_000 && goodput(sent, recovered, recovered + 500) < 0.95) recovered += 100
    worst.before = Math.min(worst.before, goodput(sent, 0, from))
    worst.during = Math.min(worst.during, goodput(sent, from, to))
    worst.recovered = Math.max(worst.recovered, recovered - to)
  }
  return {
    what: `the only provider at 30 % of its capacity (503 above it) under twice that load for 5, 6, 7 and 8 s, then at full capacity (circuit.resetTimeout ${resetTimeout} ms)`,
    over: `${requests} requests, ${offered} per second, without client retries`,
    found: {
      'answered before': percent(Math.round(worst.before * 1000), 1000),
      'answered during it, at least': percent(Math.round(worst.during * 1000), 1000),
      '95 % answered again, at the latest after (ms)': worst.recovered,
      'attempts per request': round(attempts / requests, 3),
    },
  }
}

const FIGURES: Readonly<Record<string, () => Promise<Figure>>> = {
  down: () => withFailingProvider('down (refused)', null),
  flapping: () =>
    withFailingProvider('failing every other request (500)', (request) =>
      random() < 0.5 ? broken(request) : good(request),
    ),
  limited: () =>
    withFailingProvider('at its limit for 30 % (429)', (request) =>
      random() < 0.3 ? failWith(request, 429, { type: 'rate_limit_error', message: 'slow down' }) : good(request),
    ),
  added: addedLatency,
  leaving: outage,
  truncation,
  toolCalls,
  aborts,
  metastability,
}

const names = Object.keys(FIGURES)
if (values.only !== undefined && !names.includes(values.only)) {
  process.stderr.write(`figures: --only must be one of ${names.join(', ')}\n`)
  process.exit(1)
}
const figures: Figure[] = []
for (const [name, make] of Object.entries(FIGURES)) {
  if (values.only !== undefined && values.only !== name) continue
  const started = performance.now()
  figures.push(await make())
  process.stderr.write(`figures: ${name} (${((performance.now() - started) / 1000).toFixed(0)} s)\n`)
}
if (values.json) process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
else {
  const line = ({ what, over, found }: Figure) =>
    `| ${what} | ${over} | ${Object.entries(found)
      .map(([name, value]) => `${name}: **${value}**`)
      .join(', ')} |`
  process.stdout.write(`| What | Over | Found |\n| --- | --- | --- |\n${figures.map(line).join('\n')}\n`)
}
