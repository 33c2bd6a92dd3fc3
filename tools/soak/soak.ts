/**
 * Soak run: streams through the real gateway process for hours. Providers fail in a dozen ways, each with a share of the
 * answers; clients disconnect or pause. Every response is verified byte by byte, and the process's memory and resources
 * are sampled and checked for growth.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readlink, rm, writeFile } from 'node:fs/promises'
import { Agent } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type SoakRequest, STYLES, type Style, sendRequest } from './client.ts'
import { type Ending, judge } from './oracle.ts'
import type { ProcessSample } from './probe.ts'
import { type Bound, isFlat, type Trend, trendOf } from './slope.ts'
import { startProviders } from './upstream-process.ts'

export type SoakOptions = {
  readonly minutes: number
  /** Concurrent requests. */
  readonly streams: number
  /** Percent of each fault, and of clients that disconnect. */
  readonly percent: number
  /** ms between two events of a stream. */
  readonly gap: number
  /** s between two samples. */
  readonly every: number
  /** Receives a line for each sample. */
  readonly print?: (line: string) => void
}

export type Figure = Trend & { readonly unit: string; readonly perTenMinutes: number; readonly flat: boolean }

export type Summary = {
  readonly minutes: number
  readonly streams: number
  readonly percent: number
  readonly requests: number
  readonly endings: Readonly<Partial<Record<Ending, number>>>
  /** Errors that clients received, by code. */
  readonly errors: Readonly<Record<string, number>>
  /** The first responses with a forbidden ending. */
  readonly bad: readonly object[]
  readonly figures: Readonly<Record<string, Figure>>
  /** State after the last client. */
  readonly rest: {
    readonly inFlight: number
    readonly keysInFlight: number
    readonly clientSockets: number
    readonly before: ProcessSample
    readonly after: ProcessSample
    readonly descriptors: readonly [number, number]
  }
  /** Internal errors that the gateway logged (`event: error`), including unhandled rejections. */
  readonly bugs: number
  readonly exitCode: number | null
  readonly node: string
  /** Reasons why the run failed; empty if it passed. */
  readonly problems: readonly string[]
}

const ROOT = join(import.meta.dirname, '..', '..')
const PROVIDERS = ['one', 'two', 'three'] as const
const MEGABYTE = 1_048_576

/**
 * Permitted growth of each value. The heap's rate is the one in docs/reliability.md. The noise is the usual growth of such
 * a process in its first minutes: compiled code and filled caches.
 */
const bounds = (minutes: number): { readonly [name in SampledValue]: Bound & { readonly unit: string } } => {
  const short = minutes < 30
  return {
    heap: { unit: 'bytes', rate: MEGABYTE / 600, noise: (short ? 24 : 2) * MEGABYTE },
    external: { unit: 'bytes', rate: MEGABYTE / 600, noise: (short ? 24 : 4) * MEGABYTE },
    // The allocator retains pages, so it rises in steps and falls late.
    rss: { unit: 'bytes', rate: (4 * MEGABYTE) / 600, noise: (short ? 96 : 32) * MEGABYTE },
    sockets: { unit: 'sockets', rate: 1 / 60, noise: 64 },
    descriptors: { unit: 'descriptors', rate: 1 / 60, noise: 64 },
    timers: { unit: 'timers', rate: 1 / 60, noise: 256 },
  }
}

const SAMPLED = ['heap', 'external', 'rss', 'sockets', 'descriptors', 'timers'] as const
type SampledValue = (typeof SAMPLED)[number]
type SoakSample = ProcessSample & { readonly at: number; readonly sockets: number; readonly descriptors: number }

export const soak = async (options: SoakOptions): Promise<Summary> => {
  const { minutes, streams, percent, gap, every, print = () => {} } = options
  const providers = await startProviders({ percent, gap })
  const gateway = await startGateway(soakFile(providers.url)).catch(async (error: unknown) => {
    await providers.stop()
    throw error
  })
  try {
    const endings: Partial<Record<Ending, number>> = {}
    const errors: Record<string, number> = {}
    const bad: object[] = []
    const samples: SoakSample[] = []
    let requests = 0
    let isOver = false
    const agent = new Agent({ keepAlive: true, maxSockets: 2 * streams })
    const before = await gateway.sample()
    const descriptorsBefore = await descriptorsOf(gateway.pid)

    const client = async (): Promise<void> => {
      // Clients start at different times.
      await sleep(Math.random() * 20 * gap)
      while (!isOver) {
        const request = requestFor(`r${requests++}`, percent, gap)
        const view = await sendRequest(gateway.url, agent, request)
        const ending = judge(view, PROVIDERS, percent)
        endings[ending] = (endings[ending] ?? 0) + 1
        if (view.error !== null) errors[view.error] = (errors[view.error] ?? 0) + 1
        if (FORBIDDEN.includes(ending) && bad.length < 20) bad.push({ ending, request, view })
        // Clients wait before they retry.
        if (ending === 'refused' || ending === 'broken') await sleep(250 + Math.random() * 500)
      }
    }

    const started = performance.now()
    const seconds = () => (performance.now() - started) / 1000
    const clients = Array.from({ length: streams }, client)
    while (seconds() < minutes * 60) {
      await sleep(Math.min(every, Math.max(0.1, minutes * 60 - seconds())) * 1000)
      const state = await gateway.sample()
      const sample = { ...state, at: seconds(), ...(await descriptorsOf(gateway.pid)) }
      samples.push(sample)
      print(lineOf(sample, requests, endings))
    }
    isOver = true
    await Promise.all(clients)
    agent.destroy()

    const after = await settled(gateway)
    const { inFlight, keysInFlight } = await gauges(gateway.url)
    const { sockets, descriptors } = await descriptorsOf(gateway.pid)
    const rest = {
      inFlight,
      keysInFlight,
      // The other sockets are idle connections to the providers, and those open before the run.
      clientSockets: Math.max(0, sockets - (await providers.open()) - descriptorsBefore.sockets),
      before,
      after,
      descriptors: [descriptorsBefore.descriptors, descriptors] as const,
    }
    const exitCode = await gateway.stop()
    const figures = figuresOf(samples, minutes)
    const found = { endings, bad, rest, figures, bugs: gateway.bugs(), exitCode, requests }
    return { minutes, streams, percent, errors, ...found, node: process.version, problems: problemsOf(found) }
  } finally {
    await gateway.stop()
    await providers.stop()
  }
}

const FORBIDDEN: readonly Ending[] = ['silent', 'wrong', 'broken']

const problemsOf = (found: Pick<Summary, 'endings' | 'rest' | 'figures' | 'bugs' | 'exitCode'>): string[] => {
  const { endings, rest, figures, bugs, exitCode } = found
  return [
    ...FORBIDDEN.flatMap((ending) => (endings[ending] ? [`${endings[ending]} answers were ${ending}`] : [])),
    ...((endings.complete ?? 0) === 0 ? ['no answer was complete'] : []),
    ...Object.entries(figures).flatMap(([name, { flat, perTenMinutes, unit }]) =>
      flat ? [] : [`${name} grows by ${round(perTenMinutes)} ${unit} in ten minutes`],
    ),
    ...(rest.inFlight > 0 ? [`${rest.inFlight} calls are in flight without a client`] : []),
    ...(rest.keysInFlight > 0 ? [`${rest.keysInFlight} keys have load without a client`] : []),
    ...(rest.clientSockets > 0 ? [`${rest.clientSockets} sockets are open without a client`] : []),
    ...(bugs > 0 ? [`${bugs} internal errors are in the log`] : []),
    ...(exitCode === 0 ? [] : [`the gateway exited with ${exitCode}`]),
  ]
}

const round = (value: number): number => Math.round(value * 100) / 100

/** Share of the run that counts as warm-up. */
const WARM = 0.2

const figuresOf = (samples: readonly SoakSample[], minutes: number): Record<string, Figure> => {
  const warm = samples.filter(({ at }) => at >= minutes * 60 * WARM)
  const span = (warm.at(-1)?.at ?? 0) - (warm[0]?.at ?? 0)
  const allowed = bounds(minutes)
  return Object.fromEntries(
    SAMPLED.map((name) => {
      const { unit, ...bound } = allowed[name]
      const trend = trendOf(warm.map((one) => ({ at: one.at, value: one[name] })))
      return [name, { ...trend, unit, perTenMinutes: trend.slope * 600, flat: isFlat(trend, span, bound) }]
    }),
  )
}

const lineOf = (sample: SoakSample, requests: number, endings: Partial<Record<Ending, number>>): string =>
  [
    `${Math.round(sample.at)} s`,
    `rss ${Math.round(sample.rss / MEGABYTE)} MB`,
    `heap ${round(sample.heap / MEGABYTE)} MB`,
    `${sample.sockets} sockets`,
    `${sample.descriptors} descriptors`,
    `${sample.timers} timers`,
    `${requests} requests`,
    Object.entries(endings)
      .map(([ending, count]) => `${ending} ${count}`)
      .join(', '),
  ].join(' · ')

const STYLE_NAMES = Object.keys(STYLES) as readonly Style[]

const requestFor = (id: string, percent: number, gap: number): SoakRequest => {
  const [style = 'chat'] = STYLE_NAMES.slice(Math.floor(Math.random() * STYLE_NAMES.length))
  const request = { id, style, stream: Math.random() < 0.9, model: 'soak' }
  const chance = Math.random() * 100
  // At any moment: before the headers or inside the body.
  if (chance < percent) return { ...request, disconnectAfter: Math.random() * 60 * gap }
  if (chance < percent + 2) return { ...request, pause: 20 * gap }
  return request
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// ── The gateway ──────────────────────────────────────────────────────────────────────────────────────────────────

type RunningGateway = {
  readonly url: string
  readonly pid: number
  sample(): Promise<ProcessSample>
  bugs(): number
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>
}

const soakFile = (url: string): string => {
  const provider = (name: string, styles: readonly string[]) => ({
    kind: 'openai-compatible',
    baseUrl: `${url}/${name}/v1`,
    keys: [`sk-${name}-first-0123456789`, `sk-${name}-second-0123456789`],
    models: ['m'],
    styles,
  })
  // JSON is YAML.
  return JSON.stringify({
    providers: {
      one: provider('one', ['chat', 'responses']),
      two: provider('two', ['messages']),
      three: provider('three', ['chat']),
    },
    routes: { soak: { strategy: 'weighted', targets: PROVIDERS.map((name) => `${name}/m`) } },
    fallback: 'same-model',
    // Short, so that every timeout and circuit is used many times in a run.
    circuit: { timeout: 4_000, resetTimeout: 5_000, whenAllOpen: 'try' },
    timeout: { idle: 3_000, contentIdle: 10_000, firstContent: 8_000, request: 120_000, clientWrite: 20_000 },
    keepAlive: { interval: 1_000 },
    responses: { maxMegabytes: 32 },
    drain: { timeout: 5_000 },
  })
}

/** Starts the gateway with this configuration file (JSON is YAML) and the probe. */
export const startGateway = async (file: string): Promise<RunningGateway> => {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-soak-'))
  await writeFile(join(folder, 'headgate.yaml'), file)
  const child = spawn(
    process.execPath,
    ['--expose-gc', '--import', join(import.meta.dirname, 'probe.ts'), join(ROOT, 'bin', 'headgate.mjs')],
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
  const exited = once(child, 'close').then(async ([code]) => {
    listening.reject(new Error('the gateway exited before it listened'))
    await rm(folder, { recursive: true, force: true })
    return typeof code === 'number' ? code : null
  })
  const url = await listening.promise
  return {
    url,
    pid: child.pid ?? 0,
    bugs: () => bugs,
    async sample() {
      const answer = once(child, 'message')
      child.send('sample')
      const failure = exited.then((code) => Promise.reject(new Error(`the gateway exited with ${code}`)))
      const [value] = await Promise.race([answer, failure])
      // Sent by the probe.
      return value as ProcessSample
    },
    async stop() {
      if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), 20_000)
      const code = await exited
      clearTimeout(killer)
      return code
    },
  }
}

/** Waits until all calls have ended, at most 20 s, and takes a sample. */
const settled = async (gateway: RunningGateway): Promise<ProcessSample> => {
  for (const end = performance.now() + 20_000; performance.now() < end; await sleep(250)) {
    const { inFlight, keysInFlight } = await gauges(gateway.url)
    if (inFlight + keysInFlight === 0) break
  }
  await sleep(3_000)
  return gateway.sample()
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

/** Counted in /proc; 0 on systems without it. */
const descriptorsOf = async (pid: number): Promise<{ descriptors: number; sockets: number }> => {
  const names = await readdir(`/proc/${pid}/fd`).catch(() => [])
  const links = await Promise.all(names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => '')))
  return { descriptors: names.length, sockets: links.filter((link) => link.startsWith('socket:')).length }
}
