/**
 * Measures how the cost of a request grows with a size: `npm run growth -- [--only targets,keys] [--rounds 3]`. CPU time of
 * a gateway alone on the first core; load and fake provider run on the second. The gateways of a curve run side by side and
 * are measured in turn, up and then down, so that other load affects all alike. Needs the load rig's `upstream` (see
 * run.ts) and taskset. Writes figures and plots to bench/growth, and the page bench/GROWTH.md.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { closedLoop, request, streams } from './growth/client.ts'
import { type Plot, type Point, svgOf } from './growth/plot.ts'
import { type Gateway, moveToCore, startGateway, startUpstream } from './growth/process.ts'
import { descriptors, has, sleep } from './rig.ts'

const root = join(import.meta.dirname, '..')
const out = join(import.meta.dirname, 'growth')
const { values: options } = parseArgs({
  options: {
    only: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    port: { type: 'string', default: '19600' },
    /** Folder of the results; another one for a comparison with older code (HEADGATE_SOURCE). */
    out: { type: 'string', default: out },
    page: { type: 'boolean', default: false },
  },
})
const rounds = Number(options.rounds)
const port = Number(options.port)

/** `about`: further explanation for the page. */
type Curve = Plot & { readonly id: string; readonly about: string; readonly section: string }

const UPSTREAM = `http://127.0.0.1:${port}`
/** A port without a listener. */
const UNUSED = 'http://127.0.0.1:9'
const CHAT = '/v1/chat/completions'
const KEY = 'client-key-of-some-length-000000'

const SENTENCE = 'Tell me of the gates, one by one, and of those who keep them. '
const TEXT = SENTENCE.repeat(13)

const chat = (model: string, size = 800, more: object = {}): string => {
  const turns = Math.max(1, Math.round(size / 1000))
  const content = SENTENCE.repeat(Math.ceil(size / turns / SENTENCE.length)).slice(0, Math.floor(size / turns))
  const messages = Array.from({ length: turns }, (_, at) => ({ role: at % 2 === 0 ? 'user' : 'assistant', content }))
  return JSON.stringify({ model, messages, temperature: 0.7, ...more })
}

const provider = (name: string, base = `${UPSTREAM}/${name}`, keys: readonly string[] = ['sk-bench'], style = 'chat') =>
  `  ${name}: { kind: openai-compatible, baseUrl: "${base}/v1", models: [ m ], styles: [ ${style} ], keys: [ ${keys.join(', ')} ] }\n`
const upTo = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join('')
const padded = (at: number): string => String(at).padStart(6, '0')

/** The requests of one point. `n`: its place on the x axis. */
type Case = {
  readonly series: string
  readonly n: number
  readonly gateway: string
  readonly requestAt: (at: number) => Buffer
}
type Requests = {
  readonly title: string
  readonly x: string
  readonly section: string
  readonly about: string
  /** Configuration files by the names of their gateways. */
  readonly gateways: Readonly<Record<string, string>>
  readonly cases: readonly Case[]
  /** Concurrent connections. */
  readonly connections?: number
}

const sameRequest = (model: string, more?: { size?: number; key?: string }) => {
  const bytes = request(CHAT, chat(model, more?.size), more?.key ?? KEY)
  return () => bytes
}

const TARGETS = [1, 5, 20, 50, 200]
const MANY = [1, 10, 100, 1_000, 10_000]
const KEYS = [1, 10, 100, 1_000]
const SIZES = [1, 4, 16, 64, 256, 1_024]

const targetsFile = (n: number, base: (at: number) => string | undefined): string => {
  const names = Array.from({ length: n }, (_, at) => `p${at}`)
  const list = names.map((name) => `${name}/m`).join(', ')
  const routes = ['priority', 'weighted', 'latency', 'cost'].map(
    (strategy) => `  ${strategy}: { strategy: ${strategy}, targets: [ ${list} ] }\n`,
  )
  return `providers:\n${names.map((name, at) => provider(name, base(at))).join('')}routes:\n${routes.join('')}retry: { maxAttempts: 100 }\ncircuit: { consecutiveFailures: 1 }\n`
}

const requestCurves: Readonly<Record<string, () => Requests>> = {
  targets: () => ({
    title: 'Targets of a model, all healthy',
    x: 'targets of the route',
    section: 'Targets',
    about: 'A route with this many providers, by strategy; requests of 800 bytes, answers of 600 characters.',
    gateways: Object.fromEntries(TARGETS.map((n) => [String(n), targetsFile(n, () => undefined)])),
    cases: ['priority', 'weighted', 'latency', 'cost'].flatMap((series) =>
      TARGETS.map((n) => ({ series, n, gateway: String(n), requestAt: sameRequest(series) })),
    ),
  }),
  dead: () => ({
    title: 'Targets of a model, all but the last dead',
    x: 'targets of the route',
    section: 'Targets',
    about: 'Every provider but the last refuses connections and has an open circuit, so each request skips it.',
    gateways: Object.fromEntries(
      TARGETS.map((n) => [String(n), targetsFile(n, (at) => (at === n - 1 ? undefined : `${UNUSED}/p${at}`))]),
    ),
    cases: [
      ...TARGETS.map((n) => ({ series: 'priority, 1 KB', n, gateway: String(n), requestAt: sameRequest('priority') })),
      ...TARGETS.map((n) => ({
        series: 'priority, 30 KB',
        n,
        gateway: String(n),
        requestAt: sameRequest('priority', { size: 30_000 }),
      })),
    ],
  }),
  routes: () => ({
    title: 'Routes',
    x: 'routes',
    section: 'Routes and keys',
    about: 'This many routes of one target each: requests for the last one, or for all in turn.',
    gateways: Object.fromEntries(
      MANY.map((n) => [
        String(n),
        `providers:\n${provider('p0')}${provider('p1')}routes:\n${upTo(n, (at) => `  r${padded(at)}: { targets: [ p${at % 2}/m ] }\n`)}`,
      ]),
    ),
    cases: [
      ...MANY.map((n) => ({
        series: 'last route',
        n,
        gateway: String(n),
        requestAt: sameRequest(`r${padded(n - 1)}`),
      })),
      ...MANY.map((n) => ({
        series: 'all in turn',
        n,
        gateway: String(n),
        requestAt: (at: number) => request(CHAT, chat(`r${padded(at % n)}`), KEY),
      })),
    ],
  }),
  keys: () => ({
    title: 'Client keys',
    x: 'client keys (auth.keys)',
    section: 'Routes and keys',
    about: 'This many client keys: requests with the last one, or with all in turn.',
    gateways: Object.fromEntries(
      MANY.map((n) => [
        String(n),
        `providers:\n${provider('p0')}auth: { keys: [ ${Array.from({ length: n }, (_, at) => `client-key-of-some-length-${padded(at)}`).join(', ')} ] }\n`,
      ]),
    ),
    cases: [
      ...MANY.map((n) => ({
        series: 'last key',
        n,
        gateway: String(n),
        requestAt: sameRequest('m', { key: `client-key-of-some-length-${padded(n - 1)}` }),
      })),
      ...MANY.map((n) => ({
        series: 'all in turn',
        n,
        gateway: String(n),
        requestAt: (at: number) => request(CHAT, chat('m'), `client-key-of-some-length-${padded(at % n)}`),
      })),
    ],
  }),
  'provider-keys': () => ({
    title: 'Keys of a provider',
    x: 'keys of the provider',
    section: 'Routes and keys',
    about: 'One provider with this many keys, by `keyStrategy`.',
    gateways: Object.fromEntries(
      ['spread', 'sticky', 'round-robin'].flatMap((strategy) =>
        KEYS.map((n) => [
          `${strategy} ${n}`,
          `providers:\n${provider(
            'p0',
            undefined,
            Array.from({ length: n }, (_, at) => `sk-provider-${padded(at)}`),
          )}keyStrategy: ${strategy}\n`,
        ]),
      ),
    ),
    cases: ['spread', 'sticky', 'round-robin'].flatMap((series) =>
      KEYS.map((n) => ({
        series,
        n,
        gateway: `${series} ${n}`,
        // Each request is a new conversation, because sticky keys depend on its beginning.
        requestAt: (at: number) =>
          request(CHAT, chat('m', 800, { messages: [{ role: 'user', content: `${at} ${TEXT}` }] }), KEY),
      })),
    ),
  }),
  body: () => ({
    title: 'Bodies',
    x: 'body of the request (KB)',
    section: 'Bodies',
    about: 'A history of messages of 1,000 characters; the upstream uses the client’s format or another one.',
    gateways: {
      same: `providers:\n${provider('p0')}`,
      other: `providers:\n${provider('p0', undefined, undefined, 'responses')}`,
    },
    cases: ['same', 'other'].flatMap((gateway) =>
      SIZES.map((n) => ({
        series: gateway === 'same' ? 'chat, pass-through' : 'chat → responses',
        n,
        gateway,
        requestAt: sameRequest('m', { size: n * 1_000 }),
      })),
    ),
    connections: 16,
  }),
}

const WARM_MS = 1_500
const WINDOW_MS = 250
const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN
const upThenDown = <T>(items: readonly T[], round: number): readonly T[] =>
  round % 2 === 0 ? items : [...items].reverse()

/** CPU time per request of a saturated gateway (µs). */
const costOf = async (gateway: Gateway, { requestAt }: Case, connections: number, ms: number): Promise<number> => {
  const load = await closedLoop(gateway.port, connections, requestAt)
  await sleep(ms / 5)
  const before = { cpu: gateway.cpu(), answered: load.answered() }
  // Large bodies need longer windows.
  for (let tries = 0; tries === 0 || (load.answered() - before.answered < 20 && tries < 20); tries++) await sleep(ms)
  const [cpu, answered] = [gateway.cpu() - before.cpu, load.answered() - before.answered]
  load.stop()
  const [wrong] = load.wrong()
  if (wrong !== undefined) throw new Error(`wrong answer: ${wrong}`)
  if (answered === 0) throw new Error('no answer')
  return (cpu * 1000) / answered
}

/** Warms up the compiler. Requests may fail until the circuits of dead targets are open. */
const warm = async (gateway: Gateway, { requestAt }: Case, connections: number, ms: number): Promise<void> => {
  const load = await closedLoop(gateway.port, connections, requestAt)
  for (let tries = 0; tries === 0 || (load.answered() === 0 && tries < 10); tries++) await sleep(ms)
  load.stop()
  if (load.answered() === 0) throw new Error(`no answer: ${load.wrong()[0]}`)
}

const measureRequests = async (id: string, requests: Requests): Promise<readonly Curve[]> => {
  const { cases, connections = 32, gateways: files, title, x, section, about } = requests
  const gateways = new Map<string, Gateway>()
  try {
    for (const [at, [name, file]] of Object.entries(files).entries())
      gateways.set(name, await startGateway(port + 1 + at, file))
    const ofCase = ({ gateway }: Case): Gateway => {
      const found = gateways.get(gateway)
      if (!found) throw new Error(`no gateway ${gateway}`)
      return found
    }
    const share = cases.length / gateways.size
    for (const one of cases) await warm(ofCase(one), one, connections, Math.max(350, WARM_MS / share))
    const found = new Map(cases.map((one) => [one, [] as number[]]))
    for (let round = 0; round < rounds; round++)
      for (const one of upThenDown(cases, round))
        found.get(one)?.push(await costOf(ofCase(one), one, connections, WINDOW_MS))
    const names = [...new Set(cases.map(({ series }) => series))]
    const series = names.map((name) => ({
      name,
      points: cases.flatMap((one): Point[] =>
        one.series === name ? [{ n: one.n, value: rounded(median(found.get(one) ?? [])) }] : [],
      ),
    }))
    return [{ id, title, x, y: 'CPU per request (µs)', section, about, series }]
  } finally {
    for (const gateway of gateways.values()) await gateway.stop()
  }
}

/** Events per second of all streams together. */
const RATE = 4_000
const OPENING = 3_000

const measureStreams = async (): Promise<readonly Curve[]> => {
  // A stream needs two descriptors.
  const most = Math.min(10_000, Math.floor((descriptors() - 200) / 2))
  const counts = [10, 100, 1_000, most]
  const env = { LIMIT_CONNECTIONS: '20000', LIMIT_CONCURRENT: '20000' }
  const found = counts.map(() => [] as number[])
  const held: number[] = []
  const gateways: Gateway[] = []
  try {
    const file = `providers:\n${provider('p0')}`
    for (const at of counts.keys()) gateways.push(await startGateway(port + 1 + at, file, env))
    for (let round = -1; round < rounds; round++)
      for (const at of upThenDown([...counts.keys()], round)) {
        const [n, gateway] = [counts[at] ?? 0, gateways[at]]
        // At the beginning everything is compiled: more of it, at few streams.
        const wide = round === -1 ? Math.min(n, 200) : n
        const every = Math.round((wide / RATE) * 1e6)
        const content = `[[bench nonce=0000010000000002,chunks=${Math.ceil(40e6 / every)},delay=${every}us]]`
        const body = JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content }] })
        if (!gateway) continue
        const before = gateway.memory()
        const open = await streams(gateway.port, wide, OPENING, request(CHAT, body, KEY))
        for (let tries = 0; tries < 80 && open.alive() < wide; tries++) await sleep(250)
        await sleep(500)
        const start = { cpu: gateway.cpu(), events: open.events() }
        await sleep(round === -1 ? 2_500 : 1_500)
        const used = gateway.cpu() - start.cpu
        const events = open.events() - start.events
        if (open.alive() !== wide) throw new Error(`${wide - open.alive()} of ${wide} streams were lost`)
        if (round === 0) held[at] = gateway.memory() - before
        open.stop()
        if (round >= 0) found[at]?.push((used * 1000) / events)
        await sleep(300 + n / 8)
      }
  } finally {
    for (const gateway of gateways) await gateway.stop()
  }
  const line = (read: (n: number, at: number) => number) => ({
    name: 'chat, pass-through',
    points: counts.map((n, at) => ({ n, value: rounded(read(n, at)) })),
  })
  const memory = line((n, at) => ((held[at] ?? 0) * 1024) / n)
  const x = 'concurrent streams'
  return [
    {
      id: 'streams',
      title: 'Concurrent streams',
      x,
      y: 'CPU per event (µs)',
      section: 'Streams',
      about: `All streams together send ${RATE.toLocaleString('en')} events per second, each of about 250 bytes. The maximum is 10,000 or the limit of descriptors (two per stream; 20,000 allowed 9,900).`,
      series: [line((_, at) => median(found[at] ?? []))],
    },
    {
      id: 'streams-memory',
      title: 'Memory of a stream',
      x,
      y: 'memory per stream (KB)',
      section: 'Streams',
      about:
        'Growth of the process while the streams run, divided by their number; with few streams it is growth of the heap.',
      series: [{ ...memory, points: memory.points.slice(1) }],
    },
  ]
}

/** Sends health requests until `stop`, which returns the longest wait (ms). */
const watchHealth = (port: number): { readonly stop: () => Promise<number> } => {
  let longest = 0
  let isOver = false
  const watch = async () => {
    while (!isOver) {
      const started = performance.now()
      await (await fetch(`http://127.0.0.1:${port}/health/live`)).text()
      longest = Math.max(longest, performance.now() - started)
      await sleep(5)
    }
  }
  const ended = watch()
  return {
    async stop() {
      isOver = true
      await ended
      return longest
    },
  }
}

/** One start and one reload. CPU times and the longest wait in ms, memory in MB. */
const measureReload = async (before: string, after: string) => {
  const gateway = await startGateway(port + 1, before)
  try {
    const memory = gateway.memory()
    const cpu = gateway.cpu()
    const health = watchHealth(gateway.port)
    const started = performance.now()
    await gateway.reload(after)
    const took = performance.now() - started
    await sleep(20)
    const reload = gateway.cpu() - cpu
    const stall = await health.stop()
    if (took > 20_000) throw new Error('the reload took too long')
    return { start: gateway.started, memory, reload, stall }
  } finally {
    await gateway.stop()
  }
}

const measureConfig = async (): Promise<readonly Curve[]> => {
  const file = (n: number, mark: string) =>
    `providers:\n${provider('p0')}routes:\n${upTo(n, (at) => `  r${padded(at)}: { targets: [ p0/m ] }\n`)}auth: { keys: [ ${Array.from({ length: n }, (_, at) => `client-key-of-some-length-${padded(at)}`).join(', ')} ] }\nhosts: [ ${mark}.example ]\n`
  const start: Point[] = []
  const reload: Point[] = []
  const stall: Point[] = []
  const memory: Point[] = []
  for (const n of MANY) {
    const found = { start: [] as number[], reload: [] as number[], stall: [] as number[], memory: [] as number[] }
    for (let round = 0; round < rounds; round++) {
      const once = await measureReload(file(n, 'before'), file(n, 'after'))
      found.start.push(once.start)
      found.memory.push(once.memory)
      found.reload.push(once.reload)
      found.stall.push(once.stall)
    }
    start.push({ n, value: rounded(median(found.start)) })
    reload.push({ n, value: rounded(median(found.reload)) })
    stall.push({ n, value: rounded(median(found.stall)) })
    memory.push({ n, value: rounded(median(found.memory)) })
  }
  const x = 'routes and client keys'
  const section = 'Start and reload'
  return [
    {
      id: 'config',
      title: 'Start and reload',
      x,
      y: 'time (ms)',
      section,
      about:
        'From source, on one core. CPU time until the first answer; CPU time of a reload, including two reads of the file; and the longest wait of a health request during it.',
      series: [
        { name: 'start, CPU', points: start },
        { name: 'reload, CPU', points: reload },
        { name: 'reload, longest wait', points: stall },
      ],
    },
    {
      id: 'config-memory',
      title: 'Memory after the start',
      x,
      y: 'memory (MB)',
      section,
      about: 'Of the process, before any request.',
      series: [{ name: 'after the start', points: memory }],
    },
  ]
}

/** Unknown model names from clients: memory, size of the metrics page, and the cost of a request. */
const measureNames = async (): Promise<readonly Curve[]> => {
  const steps = [1, 10, 100, 1_000, 3_000, 10_000, 30_000, 100_000]
  const cost: Point[] = []
  const memory: Point[] = []
  const page: Point[] = []
  const scrape: Point[] = []
  const gateway = await startGateway(port + 1, `providers:\n${provider('p0')}retry: { maxAttempts: 1 }\n`)
  try {
    const one = { series: '', n: 1, gateway: '', requestAt: sameRequest('p0/m') }
    await warm(gateway, one, 32, 4_000)
    let named = 0
    for (const n of steps) {
      const load = await closedLoop(gateway.port, 32, () => request(CHAT, chat(`p0/name-${named++}`), KEY))
      while (load.answered() < n - (cost.at(-1)?.n ?? 0)) await sleep(1)
      load.stop()
      if (load.wrong().length > 0) throw new Error(load.wrong()[0])
      await sleep(200)
      memory.push({ n, value: rounded(gateway.memory()) })
      const values: number[] = []
      for (let round = 0; round < rounds; round++)
        values.push(
          await costOf(
            gateway,
            { ...one, requestAt: () => request(CHAT, chat(`p0/name-${named++ % n}`), KEY) },
            32,
            500,
          ),
        )
      cost.push({ n, value: rounded(median(values)) })
      const before = gateway.cpu()
      const text = await (await fetch(`http://127.0.0.1:${gateway.port}/metrics`)).text()
      scrape.push({ n, value: rounded(gateway.cpu() - before) })
      page.push({ n, value: rounded(text.length / 1024) })
    }
  } finally {
    await gateway.stop()
  }
  const x = 'unknown model names from clients'
  const section = 'Names'
  return [
    {
      id: 'names',
      title: 'Unknown model names: a request',
      x,
      y: 'CPU per request (µs)',
      section,
      about: 'Each request has another of this many model names with the provider’s prefix, so that it is sent there.',
      series: [{ name: 'all in turn', points: cost }],
    },
    {
      id: 'names-memory',
      title: 'Unknown model names: memory',
      x,
      y: 'memory (MB)',
      section,
      about: 'Of the process. The state per name is bounded; the heap grows until garbage collection.',
      series: [{ name: 'process', points: memory }],
    },
    {
      id: 'metrics',
      title: 'Unknown model names: the metrics page',
      x,
      y: 'KB, or ms of CPU',
      section,
      about: 'After a thousand values of a label all others are counted as `other`.',
      series: [
        { name: 'size (KB)', points: page },
        { name: 'one scrape (ms)', points: scrape },
      ],
    },
  ]
}

const curves: Readonly<Record<string, () => Promise<readonly Curve[]>>> = {
  streams: measureStreams,
  ...Object.fromEntries(Object.entries(requestCurves).map(([id, made]) => [id, () => measureRequests(id, made())])),
  config: measureConfig,
  names: measureNames,
}

const rounded = (value: number): number => Number(value.toPrecision(3))

/** The exponent k of a fit to n^k. */
const slope = (points: readonly Point[]): number => {
  const logs = points.filter(({ value }) => value > 0).map(({ n, value }) => ({ x: Math.log(n), y: Math.log(value) }))
  const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length
  const [x, y] = [mean(logs.map((one) => one.x)), mean(logs.map((one) => one.y))]
  const spread = logs.reduce((sum, one) => sum + (one.x - x) ** 2, 0)
  return spread === 0 ? 0 : logs.reduce((sum, one) => sum + (one.x - x) * (one.y - y), 0) / spread
}

const wordFor = (exponent: number): string =>
  exponent < 0.08
    ? 'flat'
    : exponent < 0.5
      ? 'nearly flat'
      : exponent < 0.95
        ? 'less than linear'
        : exponent < 1.15
          ? 'linear'
          : 'more than linear'

const shapeOf = ({ series }: Curve): string =>
  series
    .map(({ name, points }) => {
      const last = slope(points.slice(-2))
      return `${name}: ${wordFor(last)} at the end (n^${last.toFixed(2)}; overall n^${slope(points).toFixed(2)})`
    })
    .join('; ')

const partOf = (curve: Curve): readonly string[] => {
  const ns = [...new Set(curve.series.flatMap(({ points }) => points.map(({ n }) => n)))].sort((a, b) => a - b)
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const valueAt = (points: readonly Point[], n: number) => points.find((point) => point.n === n)?.value
  const table = [
    row([`${curve.x} · ${curve.y}`, ...ns.map((n) => n.toLocaleString('en'))]),
    row(['---', ...ns.map(() => '--:')]),
    ...curve.series.map(({ name, points }) =>
      row([name, ...ns.map((n) => valueAt(points, n)?.toLocaleString('en') ?? '')]),
    ),
  ]
  return [
    `### ${curve.title}\n`,
    `${curve.about}\n`,
    `![${curve.title}](growth/${curve.id}.svg)\n`,
    `${table.join('\n')}\n`,
    `${shapeOf(curve)}.\n`,
  ]
}

const pageOf = (found: readonly Curve[]): string => {
  const parts = [
    '# How cost grows\n',
    'Written by `npm run growth`; the figures are in `growth/*.json`. CPU time (user and system) of the gateway alone on one core of a shared machine with two, load and fake provider on the other, all features on (routing, circuits, metrics, one JSON log line per request). The sizes of a curve were measured in turn, up and down; medians of three. Compare values along a line, not between pages of different days. The exponent k is that of a fit to n^k: 0 is flat, 1 linear.\n',
    `Node ${process.versions.node}, ${cpus()[0]?.model ?? 'unknown processor'}.\n`,
  ]
  for (const section of new Set(found.map((curve) => curve.section))) {
    parts.push(`## ${section}\n`)
    parts.push(...found.filter((curve) => curve.section === section).flatMap(partOf))
  }
  // Written by hand.
  parts.push(readFileSync(join(out, 'improvements.md'), 'utf8'))
  return parts.join('\n')
}

const fail = (line: string): never => {
  process.stderr.write(`growth: ${line}\n`)
  process.exit(1)
}

/** Writes a curve's figures and plot, and prints its points. */
const store = (curve: Curve): void => {
  writeFileSync(join(options.out, `${curve.id}.json`), `${JSON.stringify(curve, null, 2)}\n`)
  writeFileSync(join(options.out, `${curve.id}.svg`), svgOf(curve))
  process.stdout.write(`${curve.title} (${curve.y})\n`)
  for (const { name, points } of curve.series)
    process.stdout.write(`  ${name}: ${points.map(({ n, value }) => `${n} → ${value}`).join(', ')}\n`)
}

const only = options.only?.split(',') ?? Object.keys(curves)
for (const name of only) if (!curves[name]) fail(`unknown curve ${name}; curves: ${Object.keys(curves).join(', ')}`)
if (!options.page) {
  const command = join(root, '.cache', 'bench', 'upstream')
  if (!existsSync(command)) fail('the load rig is not built: run `npm run bench` once')
  if (!has('taskset')) fail('taskset is not installed')
  mkdirSync(options.out, { recursive: true })
  moveToCore(1)
  const upstream = await startUpstream(command, port)
  try {
    for (const name of only) for (const curve of (await curves[name]?.()) ?? []) store(curve)
  } finally {
    await upstream.stop()
  }
}
if (options.out === out) {
  const ORDER = [
    'streams',
    'streams-memory',
    'body',
    'targets',
    'dead',
    'routes',
    'keys',
    'provider-keys',
    'config',
    'config-memory',
    'names',
    'names-memory',
    'metrics',
  ]
  const there = new Set(readdirSync(out))
  // Written by this program.
  const read = (id: string) => JSON.parse(readFileSync(join(out, `${id}.json`), 'utf8')) as Curve
  writeFileSync(join(root, 'bench', 'GROWTH.md'), pageOf(ORDER.filter((id) => there.has(`${id}.json`)).map(read)))
}
