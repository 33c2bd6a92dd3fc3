/**
 * The figures of docs/reliability.md: what becomes of requests while providers fail, measured over real sockets at the
 * real process. Prints a table; with `--json`, the figures.
 *
 *   npm run figures                          all of them, some minutes
 *   npm run figures -- --only truncation     one
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
const of = (count: number): number => Math.max(20, Math.round(count * share))

/** One figure: what was measured, over how many, and what came out. */
type Figure = {
  readonly what: string
  readonly over: string
  readonly found: Readonly<Record<string, number | string>>
}

/** Chance that can be repeated (mulberry32). */
const chance = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
}
const random = chance(Number(values.seed))

const round = (value: number, digits = 1): number => Number(value.toFixed(digits))
const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
const sortedOf = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b)
const percent = (part: number, all: number): string => `${((100 * part) / all).toFixed(part === all ? 0 : 2)} %`
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// ── Asking ───────────────────────────────────────────────────────────────────────────────────────────────────────

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

const bodyFor = (style: Style, model: string, stream: boolean, tools: boolean): string => {
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

type Told = {
  readonly status: number
  readonly text: string
  readonly ms: number
  readonly attempts: number
  readonly trail: string
}

const call = async (gateway: Started, style: Style, model: string, stream: boolean, tools = false): Promise<Told> => {
  const begun = performance.now()
  const response = await fetch(gateway.url + PATHS[style], {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: bodyFor(style, model, stream, tools),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  return {
    status: response.status,
    text,
    ms: performance.now() - begun,
    attempts: Number(response.headers.get('x-headgate-attempts')),
    trail: response.headers.get('x-headgate-trail') ?? '',
  }
}

/** Runs so many, so many at once. */
const many = async (count: number, atOnce: number, one: (at: number) => Promise<void>): Promise<void> => {
  let next = 0
  const worker = async () => {
    while (next < count) await one(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

/** What a client of the style understands of a stream: words, calls, whether it ended well or was told that it did not. */
type Understood = { words: string; calls: Map<string, string>; ended: boolean; error: boolean }
const understand = (style: Style, text: string): Understood => {
  const understood: Understood = { words: '', calls: new Map(), ended: false, error: false }
  const add = (key: string, piece: string) => void understood.calls.set(key, (understood.calls.get(key) ?? '') + piece)
  for (const line of text.split('\n')) {
    if (!line.startsWith('data: ')) continue
    if (line === 'data: [DONE]') {
      if (style === 'chat') understood.ended = true
      continue
    }
    // biome-ignore lint/suspicious/noExplicitAny: events of three formats, looked into as their clients do
    const event: any = JSON.parse(line.slice(6))
    if (event.error || event.type === 'error' || event.type === 'response.failed') understood.error = true
    if (style === 'chat')
      for (const { delta } of event.choices ?? []) {
        understood.words += delta?.content ?? ''
        for (const { index, function: it } of delta?.tool_calls ?? []) {
          if (it?.name) add(`${index} ${it.name}`, '')
          const key = [...understood.calls.keys()].find((name) => name.startsWith(`${index} `)) ?? `${index} ?`
          add(key, it?.arguments ?? '')
        }
      }
    else if (style === 'responses') {
      if (event.type === 'response.output_text.delta') understood.words += event.delta
      if (event.type === 'response.output_item.added' && event.item.type === 'function_call') add(event.item.id, '')
      if (event.type === 'response.function_call_arguments.delta') add(event.item_id, event.delta)
      if (event.type === 'response.completed') understood.ended = true
    } else {
      if (event.type === 'content_block_start' && event.content_block.type === 'tool_use') add(String(event.index), '')
      if (event.type === 'content_block_delta') {
        understood.words += event.delta.text ?? ''
        if (event.delta.partial_json !== undefined) add(String(event.index), event.delta.partial_json)
      }
      if (event.type === 'message_stop') understood.ended = true
    }
  }
  return understood
}

// ── The stage ────────────────────────────────────────────────────────────────────────────────────────────────────

const withGateway = async <T>(file: FileInput, run: (gateway: Started) => Promise<T>): Promise<T> => {
  const gateway = await start({ files: { 'headgate.yaml': fileOf(file) } })
  try {
    return await run(gateway)
  } finally {
    await gateway.stop()
  }
}
const withUpstream = async <T>(
  script: (asked: UpstreamRequest) => Act | Promise<Act>,
  run: (upstream: Upstream) => Promise<T>,
): Promise<T> => {
  const upstream = await startUpstream((asked) =>
    asked.method === 'GET' ? { do: 'answer', status: 404 } : script(asked),
  )
  try {
    return await run(upstream)
  } finally {
    await upstream.close()
  }
}
const good = (asked: UpstreamRequest): Act => answerWith(asked, { text: TEXT })
const broken = (asked: UpstreamRequest): Act => failWith(asked, 500, { type: 'server_error', message: 'it broke' })
const route = { routes: { both: { targets: ['a/m', 'b/m'] } } }

// ── Figures ──────────────────────────────────────────────────────────────────────────────────────────────────────

/** A step of the trail in which A was attempted: the trail also names targets that were skipped. */
const ATTEMPTED_A = /^a#\w+:(?!circuit|warming|budget)/

/** A provider that fails in one way, beside a healthy one, with the settings as they are shipped. */
const beside = async (what: string, act: ((asked: UpstreamRequest) => Act) | null): Promise<Figure> => {
  const count = of(2_000)
  let asked = 0
  const script = (one: UpstreamRequest): Act => {
    if (one.path.startsWith('/b/')) return good(one)
    asked++
    return act?.(one) ?? { do: 'hang' }
  }
  return withUpstream(script, async (upstream) => {
    const a = act ? upstream.url : await refusingUrl()
    const providers = { a: { baseUrl: `${a}/a/v1` }, b: { baseUrl: `${upstream.url}/b/v1` } }
    return withGateway({ providers, ...route }, async (gateway) => {
      const attempts: number[] = []
      let answered = 0
      let atA = 0
      await many(count, 20, async (at) => {
        const style = at % 2 === 0 ? 'chat' : 'responses'
        const stream = at % 4 < 2
        const answer = await call(gateway, style, 'both', stream)
        attempts.push(answer.attempts)
        atA += answer.trail.split(', ').filter((step) => ATTEMPTED_A.test(step)).length
        const whole =
          answer.status === 200 &&
          (!stream || (understand(style, answer.text).ended && understand(style, answer.text).words === TEXT))
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
          'attempts at A a request': round((act ? asked : atA) / count, 3),
        },
      }
    })
  })
}

/** What one failover and one open circuit cost, each beside the same request without. */
const added = (): Promise<Figure> => {
  const count = of(400)
  const script = (asked: UpstreamRequest) => (asked.path.startsWith('/b/') ? good(asked) : broken(asked))
  return withUpstream(script, (upstream) => {
    const at = (name: string) => ({ baseUrl: `${upstream.url}/${name}/v1` })
    const open = { circuit: { minRequests: 5, consecutiveFailures: 5 } }
    const never = { circuit: { minRequests: 1_000_000, consecutiveFailures: 0 } }
    const targets = { plain: { targets: ['b/m'] }, ...route.routes }
    const providers = { a: at('a'), b: at('b') }
    return withGateway({ providers, routes: targets, ...never }, (failing) =>
      withGateway({ providers, routes: targets, ...open }, async (opened) => {
        for (let at = 0; at < 300; at++) {
          await call(failing, 'chat', at % 2 ? 'both' : 'plain', false)
          await call(opened, 'chat', at % 2 ? 'both' : 'plain', false)
        }
        const waits: Record<'failing' | 'failing plain' | 'open' | 'open plain', number[]> = {
          failing: [],
          'failing plain': [],
          open: [],
          'open plain': [],
        }
        for (let at = 0; at < count; at++) {
          waits['failing plain'].push((await call(failing, 'chat', 'plain', false)).ms)
          const failover = await call(failing, 'chat', 'both', false)
          if (failover.attempts !== 2) throw new Error(`no failover: ${failover.trail}`)
          waits.failing.push(failover.ms)
          waits['open plain'].push((await call(opened, 'chat', 'plain', false)).ms)
          const passed = await call(opened, 'chat', 'both', false)
          if (passed.attempts !== 1) throw new Error(`the circuit is not open: ${passed.trail}`)
          waits.open.push(passed.ms)
        }
        const median = (name: keyof typeof waits) => quantile(sortedOf(waits[name]), 0.5)
        return {
          what: 'added latency, medians against the same request without, one after the other',
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

/** From the moment a provider dies to the last request that met it; from its return to the first it answers. */
const leaving = (): Promise<Figure> =>
  withUpstream(good, async (b) => {
    const leave: number[] = []
    const meets: number[] = []
    const back: number[] = []
    const resetTimeout = 1_000
    let failed = 0
    const rounds = share < 1 ? 3 : 10
    for (let round = 0; round < rounds; round++) {
      let a = await startUpstream(good)
      const { port } = a
      const providers = { a: { baseUrl: `${a.url}/a/v1` }, b: { baseUrl: `${b.url}/b/v1` } }
      await withGateway({ providers, ...route, circuit: { resetTimeout } }, async (gateway) => {
        let diedAt = 0
        let openedAt = 0
        let backAt = 0
        let lastMet = 0
        let met = 0
        let firstBack = 0
        let going = true
        const worker = async () => {
          while (going) {
            const answer = await call(gateway, 'chat', 'both', false)
            const now = performance.now()
            if (answer.status !== 200) failed++
            const dead = ATTEMPTED_A.test(answer.trail) && !/^a#\w+:200/.test(answer.trail)
            if (diedAt && !backAt && dead && (!openedAt || now < openedAt + resetTimeout / 2)) {
              lastMet = now
              met++
            }
            if (backAt && !firstBack && /^a#\w+:200$/.test(answer.trail)) firstBack = now
            await sleep(5)
          }
        }
        const workers = Array.from({ length: 10 }, worker)
        await sleep(300)
        diedAt = performance.now()
        await a.close()
        await gateway.line(({ event, to }) => event === 'circuit' && to === 'open')
        openedAt = performance.now()
        await sleep(resetTimeout * 0.7)
        a = await startUpstream(good, { port })
        backAt = performance.now()
        await until('it is used again', () => firstBack > 0, 10_000)
        going = false
        await Promise.all(workers)
        leave.push(lastMet - diedAt)
        meets.push(met)
        back.push(firstBack - backAt)
      })
      await a.close()
    }
    const median = (values: number[]) => round(quantile(sortedOf(values), 0.5))
    return {
      what: `a provider dies under 10 clients and comes back (circuit.resetTimeout ${resetTimeout} ms, otherwise as shipped)`,
      over: `${rounds} times`,
      found: {
        'to leave it (ms, median)': median(leave),
        'at most (ms)': round(Math.max(...leave)),
        'requests that met it, each answered by B (median)': median(meets),
        'to come back after its return (ms, median)': median(back),
        'failed requests': failed,
      },
    }
  })

/** Streams cut anywhere: an answer that is not whole must not look so, and a word never comes twice. */
const truncation = async (): Promise<Figure> => {
  const count = of(6_000)
  const script = (asked: UpstreamRequest): Act => {
    const bytes = Buffer.from(
      piecesOf(asked, /"tools":/.test(asked.body) ? { tools: [TOOL] } : { text: TEXT }).join(''),
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
  const found = { silent: 0, wrong: 0, 'ended whole': 0, 'broke off and said so': 0, 'refused before content': 0 }
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
        many(count, 20, async (at) => {
          const style = STYLES[at % 3] ?? 'chat'
          const through = STYLES[Math.floor(at / 3) % 3] ?? 'chat'
          const tools = at % 2 === 1
          const told = await call(gateway, style, `${through}/m`, true, tools)
          if (told.status !== 200) {
            if (told.status === 502) found['refused before content']++
            else found.wrong++
            return
          }
          const { words, calls, ended, error } = understand(style, told.text)
          const [args = ''] = calls.values()
          const isPrefix = tools ? TOOL.arguments.startsWith(args) && calls.size <= 1 : TEXT.startsWith(words)
          const isWhole = tools ? args === TOOL.arguments && calls.size === 1 : words === TEXT
          if (!isPrefix) found.wrong++
          // A chat stream's error stands where its terminator would; no style may have both an end and a piece missing.
          if (ended && !error && isWhole) found['ended whole']++
          else if (error && !(style === 'chat' && ended)) found['broke off and said so']++
          else found.silent++
        }),
    ),
  )
  const { silent, wrong, ...rest } = found
  return {
    what: 'streams cut at a random byte (FIN, RST, clean end, without a length), chat, responses and messages from each other',
    over: `${count} streams`,
    found: { 'silent truncations': silent, 'not a prefix of what was said': wrong, ...rest },
  }
}

/** The same with somebody to turn to: a call must come once or be told as broken. */
const toolCalls = async (): Promise<Figure> => {
  const count = of(3_000)
  const script = (asked: UpstreamRequest): Act => {
    const said = { tools: [TOOL] }
    if (asked.path.startsWith('/b/')) return answerWith(asked, said)
    const bytes = Buffer.from(piecesOf(asked, said).join(''))
    return {
      do: 'stream',
      pieces: [bytes.subarray(0, Math.floor(random() * bytes.length))],
      ending: random() < 0.5 ? 'close' : 'reset',
    }
  }
  const found = { twice: 0, altered: 0, 'from A': 0, 'from B': 0, 'broke off and said so': 0, other: 0 }
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
        many(count, 20, async (at) => {
          const style = STYLES[at % 3] ?? 'chat'
          const told = await call(gateway, style, 'both', true, true)
          const { calls, ended, error } = understand(style, told.text)
          const [args = ''] = calls.values()
          if (calls.size > 1) found.twice++
          if (!TOOL.arguments.startsWith(args)) found.altered++
          if (error) found['broke off and said so']++
          else if (told.status !== 200 || !ended || args !== TOOL.arguments) found.other++
          else found[told.attempts === 1 ? 'from A' : 'from B']++
        }),
    ),
  )
  const { twice, altered, ...rest } = found
  return {
    what: 'tool calls while A is cut at a random byte and B is whole',
    over: `${count} streams`,
    found: { 'calls twice': twice, 'arguments altered': altered, ...rest },
  }
}

/** From a client's leaving to the end of its upstream call. */
const aborts = async (): Promise<Figure> => {
  const count = of(1_000)
  const waits: number[] = []
  const script = (asked: UpstreamRequest): Act => ({
    do: 'stream',
    pieces: piecesOf(asked, { text: TEXT }).slice(0, 6),
    ending: 'stall',
  })
  await withUpstream(script, (upstream) =>
    withGateway({ providers: { a: { baseUrl: `${upstream.url}/a/v1` } } }, async (gateway) => {
      for (let at = 0; at < count; at++) {
        const style = at % 2 ? 'chat' : 'responses'
        const client = await rawClient(gateway.url, rawRequest(PATHS[style], bodyFor(style, 'a/m', true, false)))
        await until('content', () => client.text().includes('one'))
        const seen = upstream.requests.at(-1)
        const left = performance.now()
        if (at % 4 < 2) client.socket.destroy()
        else client.socket.resetAndDestroy()
        await until('let go', () => seen?.ended === 'aborted')
        waits.push((seen?.endedAt ?? Number.NaN) - left)
      }
    }),
  )
  const sorted = sortedOf(waits)
  return {
    what: 'upstream call ended after its client left (FIN and RST)',
    over: `${count} streams`,
    found: {
      'p50 (ms)': round(quantile(sorted, 0.5), 2),
      'p99 (ms)': round(quantile(sorted, 0.99), 2),
      'max (ms)': round(sorted.at(-1) ?? 0, 2),
    },
  }
}

/** The only provider at 30 % of its capacity under twice what it can then do, and whole again; each time for longer. */
const metastability = async (): Promise<Figure> => {
  const [full, low, offered] = [100, 30, 60]
  const resetTimeout = 2_000
  const worst = { before: 1, meanwhile: 1, recovered: 0 }
  let asked = 0
  let atProvider = 0
  for (const overload of [5, 6, 7, 8]) {
    const [from, to, end] = [2_000, 2_000 + overload * 1_000, 7_000 + overload * 1_000]
    let capacity = full
    let tokens = 0
    let filledAt = performance.now()
    const script = (one: UpstreamRequest): Act => {
      atProvider++
      const now = performance.now()
      tokens = Math.min(capacity / 5, tokens + ((now - filledAt) / 1000) * capacity)
      filledAt = now
      if (tokens < 1) return failWith(one, 503, { type: 'server_error', message: 'too much' })
      tokens--
      return answerWith(one, { text: TEXT })
    }
    const answers: { at: number; ok: boolean }[] = []
    await withUpstream(script, (upstream) =>
      withGateway(
        { providers: { a: { baseUrl: `${upstream.url}/a/v1` } }, circuit: { resetTimeout } },
        async (gateway) => {
          const begun = performance.now()
          const pending: Promise<void>[] = []
          for (let at = 0; at < end; at += 1_000 / offered) {
            const wait = begun + at - performance.now()
            if (wait > 0) await sleep(wait)
            capacity = at >= from && at < to ? low : full
            const style = asked++ % 2 ? 'chat' : 'responses'
            const answered = call(gateway, style, 'a/m', false)
            pending.push(answered.then(({ status }) => void answers.push({ at, ok: status === 200 })))
          }
          await Promise.all(pending)
        },
      ),
    )
    const goodput = (from: number, to: number) => {
      const within = answers.filter(({ at }) => at >= from && at < to)
      return within.filter(({ ok }) => ok).length / within.length
    }
    let recovered = to
    while (recovered < end - 1_000 && goodput(recovered, recovered + 500) < 0.95) recovered += 100
    worst.before = Math.min(worst.before, goodput(0, from))
    worst.meanwhile = Math.min(worst.meanwhile, goodput(from, to))
    worst.recovered = Math.max(worst.recovered, recovered - to)
  }
  return {
    what: `the only provider at 30 % of its capacity (503 beyond it) under twice that for 5, 6, 7 and 8 s, then whole (circuit.resetTimeout ${resetTimeout} ms)`,
    over: `${asked} requests, ${offered} a second, clients that do not repeat`,
    found: {
      'answered before': percent(Math.round(worst.before * 1000), 1000),
      'answered meanwhile, at least': percent(Math.round(worst.meanwhile * 1000), 1000),
      '95 % again at the latest after (ms)': worst.recovered,
      'attempts at it a request': round(atProvider / asked, 3),
    },
  }
}

const FIGURES: Readonly<Record<string, () => Promise<Figure>>> = {
  down: () => beside('down (refused)', null),
  flapping: () =>
    beside('failing every other request (500)', (asked) => (random() < 0.5 ? broken(asked) : good(asked))),
  limited: () =>
    beside('at its limit for 30 % (429)', (asked) =>
      random() < 0.3 ? failWith(asked, 429, { type: 'rate_limit_error', message: 'slow down' }) : good(asked),
    ),
  added,
  leaving,
  truncation,
  toolCalls,
  aborts,
  metastability,
}

const names = Object.keys(FIGURES)
if (values.only !== undefined && !names.includes(values.only)) {
  process.stderr.write(`figures: --only is one of ${names.join(', ')}\n`)
  process.exit(1)
}
const figures: Figure[] = []
for (const [name, make] of Object.entries(FIGURES)) {
  if (values.only !== undefined && values.only !== name) continue
  const begun = performance.now()
  figures.push(await make())
  process.stderr.write(`figures: ${name} (${((performance.now() - begun) / 1000).toFixed(0)} s)\n`)
}
if (values.json) process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`)
else {
  const line = ({ what, over, found }: Figure) =>
    `| ${what} | ${over} | ${Object.entries(found)
      .map(([name, value]) => `${name}: **${value}**`)
      .join(', ')} |`
  process.stdout.write(`| What | Over | Found |\n| --- | --- | --- |\n${figures.map(line).join('\n')}\n`)
}
