/**
 * Hours of streams through the real gateway process, before providers of which every twentieth answer breaks in each of a
 * dozen ways, with clients that leave, sleep and come back. Every answer is judged byte by byte; what the process holds
 * is sampled, and a line fitted through it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listen, STYLES, type Style, type Wish } from './client.ts'
import { type Ending, judge } from './oracle.ts'
import type { Held } from './probe.ts'
import { type Bound, isFlat, type Trend, trendOf } from './slope.ts'
import { startProviders } from './upstream-process.ts'

export type SoakOptions = {
  readonly minutes: number
  /** Requests under way at once. */
  readonly streams: number
  /** Percent of each fault, and of clients that leave. */
  readonly percent: number
  /** ms between two events of a stream. */
  readonly gap: number
  /** s between two samples. */
  readonly every: number
  /** Each sample, as it is taken. */
  readonly say?: (line: string) => void
}

export type Figure = Trend & { readonly unit: string; readonly perTenMinutes: number; readonly flat: boolean }

export type Summary = {
  readonly minutes: number
  readonly streams: number
  readonly percent: number
  readonly requests: number
  readonly endings: Readonly<Partial<Record<Ending, number>>>
  /** Errors that were told, by code. */
  readonly errors: Readonly<Record<string, number>>
  /** The first of those that must not be. */
  readonly bad: readonly object[]
  readonly figures: Readonly<Record<string, Figure>>
  /** What was left when the last client had gone. */
  readonly rest: {
    readonly inFlight: number
    readonly keysInFlight: number
    readonly clientSockets: number
    readonly before: Held
    readonly after: Held
    readonly descriptors: readonly [number, number]
  }
  /** Errors the gateway wrote down as its own (`event: error`), unhandled rejections among them. */
  readonly bugs: number
  readonly exitCode: number | null
  readonly node: string
  /** Why it is not good; empty: it is. */
  readonly complaints: readonly string[]
}

const ROOT = join(import.meta.dirname, '..', '..')
const PROVIDERS = ['one', 'two', 'three'] as const
const MEGABYTE = 1_048_576

/**
 * What may grow and by how much. The heap's rate is the one docs/reliability.md promises; the noise is what a process of
 * this size does in a minute or two anyway: code that is compiled, caches that fill.
 */
const bounds = (minutes: number): { readonly [name in Watching]: Bound & { readonly unit: string } } => {
  const short = minutes < 30
  return {
    heap: { unit: 'bytes', rate: MEGABYTE / 600, noise: (short ? 24 : 2) * MEGABYTE },
    external: { unit: 'bytes', rate: MEGABYTE / 600, noise: (short ? 24 : 4) * MEGABYTE },
    // Pages the allocator keeps for later: it rises in steps and falls late.
    rss: { unit: 'bytes', rate: (4 * MEGABYTE) / 600, noise: (short ? 96 : 32) * MEGABYTE },
    sockets: { unit: 'sockets', rate: 1 / 60, noise: 64 },
    descriptors: { unit: 'descriptors', rate: 1 / 60, noise: 64 },
    timers: { unit: 'timers', rate: 1 / 60, noise: 256 },
  }
}

const WATCHED = ['heap', 'external', 'rss', 'sockets', 'descriptors', 'timers'] as const
type Watching = (typeof WATCHED)[number]
type Taken = Held & { readonly at: number; readonly sockets: number; readonly descriptors: number }

export const soak = async (options: SoakOptions): Promise<Summary> => {
  const { minutes, streams, percent, gap, every, say = () => {} } = options
  const providers = await startProviders({ percent, gap })
  const gateway = await startGateway(soakFile(providers.url)).catch(async (error: unknown) => {
    await providers.stop()
    throw error
  })
  try {
    const endings: Partial<Record<Ending, number>> = {}
    const errors: Record<string, number> = {}
    const bad: object[] = []
    const samples: Taken[] = []
    let requests = 0
    let over = false
    const agent = new Agent({ keepAlive: true, maxSockets: 2 * streams })
    const before = await gateway.held()
    const descriptorsBefore = await descriptorsOf(gateway.pid)

    const client = async (): Promise<void> => {
      // Each begins at a time of its own: 200 at once is another test.
      await sleep(Math.random() * 20 * gap)
      while (!over) {
        const wish = wishFor(`r${requests++}`, percent, gap)
        const heard = await listen(gateway.url, agent, wish)
        const ending = judge(heard, PROVIDERS, percent)
        endings[ending] = (endings[ending] ?? 0) + 1
        if (heard.error !== null) errors[heard.error] = (errors[heard.error] ?? 0) + 1
        if (MUST_NOT_BE.includes(ending) && bad.length < 20) bad.push({ ending, wish, heard })
        // As clients do: whoever was refused waits a moment.
        if (ending === 'refused' || ending === 'broken') await sleep(250 + Math.random() * 500)
      }
    }

    const begun = performance.now()
    const seconds = () => (performance.now() - begun) / 1000
    const clients = Array.from({ length: streams }, client)
    while (seconds() < minutes * 60) {
      await sleep(Math.min(every, Math.max(0.1, minutes * 60 - seconds())) * 1000)
      const held = await gateway.held()
      const taken = { ...held, at: seconds(), ...(await descriptorsOf(gateway.pid)) }
      samples.push(taken)
      say(lineOf(taken, requests, endings))
    }
    over = true
    await Promise.all(clients)
    agent.destroy()

    const after = await settled(gateway)
    const { inFlight, keysInFlight } = await gauges(gateway.url)
    const { sockets, descriptors } = await descriptorsOf(gateway.pid)
    const rest = {
      inFlight,
      keysInFlight,
      // What is still connected now is connections to the providers kept for later, and what was there before.
      clientSockets: Math.max(0, sockets - (await providers.open()) - descriptorsBefore.sockets),
      before,
      after,
      descriptors: [descriptorsBefore.descriptors, descriptors] as const,
    }
    const exitCode = await gateway.stop()
    const figures = figuresOf(samples, minutes)
    const found = { endings, bad, rest, figures, bugs: gateway.bugs(), exitCode, requests }
    return { minutes, streams, percent, errors, ...found, node: process.version, complaints: complaintsOf(found) }
  } finally {
    await gateway.stop()
    await providers.stop()
  }
}

const MUST_NOT_BE: readonly Ending[] = ['silent', 'wrong', 'broken']

const complaintsOf = (found: Pick<Summary, 'endings' | 'rest' | 'figures' | 'bugs' | 'exitCode'>): string[] => {
  const { endings, rest, figures, bugs, exitCode } = found
  return [
    ...MUST_NOT_BE.flatMap((ending) => (endings[ending] ? [`${endings[ending]} answers were ${ending}`] : [])),
    ...((endings.complete ?? 0) === 0 ? ['no answer was complete'] : []),
    ...Object.entries(figures).flatMap(([name, { flat, perTenMinutes, unit }]) =>
      flat ? [] : [`${name} grows by ${round(perTenMinutes)} ${unit} in ten minutes`],
    ),
    ...(rest.inFlight > 0 ? [`${rest.inFlight} calls are under way with nobody there`] : []),
    ...(rest.keysInFlight > 0 ? [`${rest.keysInFlight} keys are in use with nobody there`] : []),
    ...(rest.clientSockets > 0 ? [`${rest.clientSockets} sockets are open with nobody there`] : []),
    ...(bugs > 0 ? [`${bugs} errors of its own are in the log`] : []),
    ...(exitCode === 0 ? [] : [`it ended with ${exitCode}`]),
  ]
}

const round = (value: number): number => Math.round(value * 100) / 100

/** The first part is warming up: code is compiled, connections are opened, memory is asked for. */
const WARM = 0.2

const figuresOf = (samples: readonly Taken[], minutes: number): Record<string, Figure> => {
  const warm = samples.filter(({ at }) => at >= minutes * 60 * WARM)
  const span = (warm.at(-1)?.at ?? 0) - (warm[0]?.at ?? 0)
  const allowed = bounds(minutes)
  return Object.fromEntries(
    WATCHED.map((name) => {
      const { unit, ...bound } = allowed[name]
      const trend = trendOf(warm.map((one) => ({ at: one.at, value: one[name] })))
      return [name, { ...trend, unit, perTenMinutes: trend.slope * 600, flat: isFlat(trend, span, bound) }]
    }),
  )
}

const lineOf = (taken: Taken, requests: number, endings: Partial<Record<Ending, number>>): string =>
  [
    `${Math.round(taken.at)} s`,
    `rss ${Math.round(taken.rss / MEGABYTE)} MB`,
    `heap ${round(taken.heap / MEGABYTE)} MB`,
    `${taken.sockets} sockets`,
    `${taken.descriptors} descriptors`,
    `${taken.timers} timers`,
    `${requests} requests`,
    Object.entries(endings)
      .map(([ending, count]) => `${ending} ${count}`)
      .join(', '),
  ].join(' · ')

const STYLE_NAMES = Object.keys(STYLES) as readonly Style[]

const wishFor = (id: string, percent: number, gap: number): Wish => {
  const [style = 'chat'] = STYLE_NAMES.slice(Math.floor(Math.random() * STYLE_NAMES.length))
  const wish = { id, style, stream: Math.random() < 0.9, model: 'soak' }
  const chance = Math.random() * 100
  // At any moment of an answer: while it waits for its head, or in the middle.
  if (chance < percent) return { ...wish, leaves: Math.random() * 60 * gap }
  if (chance < percent + 2) return { ...wish, sleeps: 20 * gap }
  return wish
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// ── The gateway ──────────────────────────────────────────────────────────────────────────────────────────────────

type Watched = {
  readonly url: string
  readonly pid: number
  held(): Promise<Held>
  bugs(): number
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>
}

const soakFile = (url: string): string => {
  const place = (name: string, styles: readonly string[]) => ({
    kind: 'openai-compatible',
    baseUrl: `${url}/${name}/v1`,
    keys: [`sk-${name}-first-0123456789`, `sk-${name}-second-0123456789`],
    models: ['m'],
    styles,
  })
  // JSON is YAML.
  return JSON.stringify({
    providers: {
      one: place('one', ['chat', 'responses']),
      two: place('two', ['messages']),
      three: place('three', ['chat']),
    },
    routes: { soak: { strategy: 'weighted', targets: PROVIDERS.map((name) => `${name}/m`) } },
    fallback: 'same-model',
    // Short, so that every clock and every circuit goes round many times in a run.
    circuit: { timeout: 4_000, resetTimeout: 5_000, whenAllOpen: 'try' },
    timeout: { idle: 3_000, contentIdle: 10_000, firstContent: 8_000, request: 120_000, clientWrite: 20_000 },
    keepAlive: { interval: 1_000 },
    responses: { maxMegabytes: 32 },
    drain: { timeout: 5_000 },
  })
}

/** With this file (JSON is YAML), and the probe in it. */
export const startGateway = async (file: string): Promise<Watched> => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-soak-'))
  await writeFile(join(folder, 'headgate.yaml'), file)
  const child = spawn(
    process.execPath,
    ['--expose-gc', '--import', join(import.meta.dirname, 'probe.ts'), join(ROOT, 'src', 'main.ts')],
    {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', PORT: '0', HOST: '127.0.0.1', LOG_FORMAT: 'json' },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    },
  )
  let bugs = 0
  let rest = ''
  const listening = Promise.withResolvers<string>()
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (line.includes('"event":"ready"')) listening.resolve(JSON.parse(line).url)
      if (!line.includes('"event":"error"')) continue
      bugs++
      if (bugs <= 5) process.stderr.write(`${line}\n`)
    }
  })
  const gone = once(child, 'close').then(async ([code]) => {
    listening.reject(new Error('the gateway ended before it listened'))
    await rm(folder, { recursive: true, force: true })
    return typeof code === 'number' ? code : null
  })
  const url = await listening.promise
  return {
    url,
    pid: child.pid ?? 0,
    bugs: () => bugs,
    async held() {
      const answer = once(child, 'message')
      child.send('held')
      const gaveUp = gone.then((code) => Promise.reject(new Error(`the gateway ended with ${code}`)))
      const [value] = await Promise.race([answer, gaveUp])
      // It is our own probe that answers.
      return value as Held
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), 20_000)
      const code = await gone
      clearTimeout(killer)
      return code
    },
  }
}

/** Waits until calls have ended and what they held is given back, at most 20 s. */
const settled = async (gateway: Watched): Promise<Held> => {
  for (const end = performance.now() + 20_000; performance.now() < end; await sleep(250)) {
    const { inFlight, keysInFlight } = await gauges(gateway.url)
    if (inFlight + keysInFlight === 0) break
  }
  await sleep(3_000)
  return gateway.held()
}

const gauges = async (url: string): Promise<{ inFlight: number; keysInFlight: number }> => {
  const response = await fetch(`${url}/metrics`, { headers: { connection: 'close' } })
  const page = await response.text()
  const sum = (name: string) =>
    page
      .split('\n')
      .filter((line) => line.startsWith(`headgate_${name} `) || line.startsWith(`headgate_${name}{`))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0)
  return { inFlight: sum('in_flight'), keysInFlight: sum('key_in_flight') }
}

/** From /proc, which is what the kernel says; 0 where there is none. */
const descriptorsOf = async (pid: number): Promise<{ descriptors: number; sockets: number }> => {
  const names = await readdir(`/proc/${pid}/fd`).catch(() => [])
  const links = await Promise.all(names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => '')))
  return { descriptors: names.length, sockets: links.filter((link) => link.startsWith('socket:')).length }
}
