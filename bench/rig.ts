/** Starts the processes of a row on separate cores, runs the load, and stops every process that it started. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, copyFileSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { isObject, object, parseJson } from '../src/core/json.ts'
import { selfSigned } from '../test/support/certificate.ts'
import type { Sample } from './figures.ts'
import type { Machine, Versions } from './page.ts'
import { threadTimes } from './proc.ts'

export const ROOT = join(import.meta.dirname, '..')
const CACHE = join(ROOT, '.cache', 'bench')
/** Files of a run in progress. */
export const FOLDER = join(CACHE, 'run')

export const PORTS = {
  upstream: 19100,
  tls: 19143,
  nginx: 19301,
  nginxTls: 19302,
  gateway: 19400,
  second: 19401,
  left: 19402,
  right: 19403,
} as const
export const at = (port: number): string => `http://127.0.0.1:${port}`

/** Cores of the measured process, and of load and provider. */
const GATEWAY = '0'
const LOAD = '1'
export const BOTH = '0,1'

/** A requirement of the benchmark that this machine does not meet. */
export class MissingRequirement extends Error {}

// ── Programs ─────────────────────────────────────────────────────────────────────────────────────────────────────

export type Program = { readonly name: string; readonly pid: number; stop(): Promise<void> }

type Start = {
  readonly cores: string
  readonly cwd?: string
  /** The complete environment: the caller's variables are not inherited. */
  readonly env?: Readonly<Record<string, string>>
  readonly port: number
  /** Path that returns 200 when the process is ready; undefined: a connection is sufficient. */
  readonly path?: string
  /** Maximum ms until it is ready. */
  readonly startTimeout?: number
}

type Running = { readonly name: string; readonly child: ChildProcess; readonly log: string }
const running = new Set<Running>()

export const has = (program: string): boolean => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A command prefix that ends children with this process, even if it is killed with SIGKILL. */
let prefix: readonly string[] | undefined
const endWithParent = (): readonly string[] => {
  prefix ??= has('setpriv') ? ['setpriv', '--pdeathsig', 'TERM'] : []
  return prefix
}

const signal = ({ child }: Running, name: NodeJS.Signals): void => {
  try {
    // The process group, so that its workers end too.
    if (child.pid !== undefined) process.kill(-child.pid, name)
  } catch {
    // It has exited.
  }
}
const hasExited = ({ child }: Running): boolean => child.exitCode !== null || child.signalCode !== null

const end = async (one: Running): Promise<void> => {
  signal(one, 'SIGTERM')
  for (let waited = 0; !hasExited(one) && waited < 10_000; waited += 20) await sleep(20)
  signal(one, 'SIGKILL')
  running.delete(one)
}

export const stopAll = async (): Promise<void> => {
  await Promise.all([...running].map(end))
}
process.on('exit', () => {
  for (const one of running) signal(one, 'SIGKILL')
})

const open = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const finish = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => finish(true)).once('error', () => finish(false))
  })

const answers = async ({ port, path }: Start): Promise<boolean> => {
  if (path === undefined) return open(port)
  try {
    const answer = await fetch(`${at(port)}${path}`, { signal: AbortSignal.timeout(2_000) })
    await answer.arrayBuffer()
    return answer.ok
  } catch {
    // Not ready yet.
    return false
  }
}

/** Starts a program and waits until it is ready. Throws with the end of its log otherwise. */
export const start = async (name: string, command: readonly string[], options: Start): Promise<Program> => {
  if (await open(options.port))
    throw new MissingRequirement(`port ${options.port} for ${name} is in use, possibly by another run`)
  const log = join(FOLDER, `${name}.log`)
  const file = openSync(log, 'w')
  const [program = '', ...args] = [...endWithParent(), 'taskset', '-c', options.cores, ...command]
  const child = spawn(program, args, {
    cwd: options.cwd ?? FOLDER,
    env: { PATH: process.env.PATH ?? '', ...options.env },
    stdio: ['ignore', file, file],
    detached: true,
  })
  closeSync(file)
  const one: Running = { name, child, log }
  running.add(one)
  const failed = (why: string) => new Error(`${name} ${why}; the end of its log:\n${tail(log)}`)
  child.once('error', () => running.delete(one))
  for (const until = performance.now() + (options.startTimeout ?? 30_000); performance.now() < until; await sleep(20)) {
    if (hasExited(one) || child.pid === undefined) throw failed('exited at once')
    if (await answers(options)) return { name, pid: child.pid, stop: () => end(one) }
  }
  await end(one)
  throw failed('was not ready in time')
}

const tail = (file: string): string =>
  existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n').slice(-8).join('\n') : ''

/** Runs a command to its end, or stops it after `limit` ms. `problem`: its stderr, or how it ended. */
export const collect = async (
  name: string,
  command: readonly string[],
  limit: number,
): Promise<{ readonly output: string; readonly problem: string }> => {
  const [program = '', ...args] = [...endWithParent(), ...command]
  const child = spawn(program, args, { cwd: FOLDER, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const one: Running = { name, child, log: '' }
  running.add(one)
  let [output, problem] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    problem += text
  })
  const timer = setTimeout(() => void end(one), limit)
  await new Promise<void>((resolve) => child.once('close', () => resolve()).once('error', () => resolve()))
  clearTimeout(timer)
  running.delete(one)
  return { output, problem: problem || `it exited with ${child.signalCode ?? child.exitCode}` }
}

// ── Processes ────────────────────────────────────────────────────────────────────────────────────────────────────

export const startUpstream = (cores: string = LOAD): Promise<Program> =>
  start('upstream', [join(CACHE, 'upstream'), '--listen', `127.0.0.1:${PORTS.upstream}`], {
    cores,
    port: PORTS.upstream,
    path: '/v1/models',
  })

const startNginxAs = (name: string, file: string, cores: string, port: number): Promise<Program> => {
  copyFileSync(join(ROOT, 'bench', file), join(FOLDER, file))
  return start(name, ['nginx', '-p', `${FOLDER}/`, '-e', `${FOLDER}/${name}.log`, '-c', join(FOLDER, file)], {
    cores,
    port,
  })
}
export const startNginx = (): Promise<Program> => startNginxAs('nginx', 'nginx.conf', GATEWAY, PORTS.nginx)
export const startTls = (): Promise<Program> => startNginxAs('tls', 'tls.conf', LOAD, PORTS.tls)
/** TLS connections to the provider so far, and how many of them resumed a session. */
export const tlsConnections = (): { readonly made: number; readonly resumed: number } => {
  const lines = readFileSync(join(FOLDER, 'tls-connections.log'), 'utf8').split('\n').filter(Boolean)
  return { made: lines.length, resumed: lines.filter((line) => line.endsWith(' r')).length }
}

export type GatewayOptions = {
  readonly file: object
  readonly env?: Readonly<Record<string, string>>
  readonly cores?: string
  readonly port?: number
  /** Flags of Node. */
  readonly flags?: readonly string[]
}

let main = join(ROOT, 'bin', 'headgate.mjs')
/** Selects the program of another checkout. */
export const useProgram = (path: string): void => {
  main = path
}

/** Starts the gateway from source with this configuration, in an empty folder, with one log line per request. */
export const startGateway = (name: string, options: GatewayOptions): Promise<Program> => {
  const { file, env = {}, cores = GATEWAY, port = PORTS.gateway, flags = [] } = options
  const cwd = join(FOLDER, name)
  rmSync(cwd, { recursive: true, force: true })
  mkdirSync(cwd, { recursive: true })
  // JSON is YAML.
  writeFileSync(join(cwd, 'headgate.yaml'), JSON.stringify(file))
  return start(`headgate-${name}`, [process.execPath, ...flags, main], {
    cores,
    cwd,
    env: {
      PORT: String(port),
      HOST: '127.0.0.1',
      LOG_FORMAT: 'json',
      NODE_EXTRA_CA_CERTS: join(FOLDER, 'provider.pem'),
      ...env,
    },
    port,
    path: '/health/live',
  })
}

// ── Load ─────────────────────────────────────────────────────────────────────────────────────────────────────────

const PATHS = { chat: '/v1/chat/completions', responses: '/v1/responses' } as const
export type Api = keyof typeof PATHS

export type Contestant = {
  readonly name: string
  readonly base: string
  readonly model?: string
  /** The process whose CPU time and memory are measured. */
  readonly pid?: number
}

export type Load = {
  readonly api: Api
  readonly args: string
  readonly cores?: string
  /** Processes of the benchmark, which do not count as noise. */
  readonly known: readonly number[]
  /** ms after which the load is stopped. */
  readonly limit?: number
}

const number = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined)

/** Five significant digits keep the stored results small. */
const short = (value: number): number => (Number.isInteger(value) ? value : Number(value.toPrecision(5)))

const sampleOf = (report: Record<string, unknown>): Sample => {
  const part = (name: string) => object(report[name]) ?? {}
  const [gateway, latency, first] = [part('gateway'), part('latency_us'), part('ttft_us')]
  const found = {
    rate: number(report.rps),
    right: number(report.ok),
    cpu: number(gateway.cpu_us_per_request),
    cpuChunk: number(gateway.cpu_us_per_chunk),
    p50: number(latency.p50),
    p99: number(latency.p99),
    first50: number(first.p50),
    first99: number(first.p99),
    noise: number(report.noise_cores),
  }
  const numbers = Object.fromEntries(
    Object.entries(found).flatMap(([name, value]) => (value === undefined ? [] : [[name, short(value)]])),
  )
  const errors = Object.fromEntries(Object.entries(part('errors')).map(([kind, count]) => [kind, Number(count)]))
  return { numbers, errors }
}

/** Divides the cost of a request or chunk by the main thread's share of the CPU time, which includes the warm-up. */
const withThreads = ({ numbers, errors }: Sample, share: number): Sample => {
  const cost = numbers.cpuChunk ?? numbers.cpu
  if (cost === undefined || Number.isNaN(share)) return { numbers, errors }
  return { numbers: { ...numbers, mainThread: short(cost * share), otherThreads: short(cost * (1 - share)) }, errors }
}

/** Measures one window. */
export const load = async (
  { name, base, model, pid }: Contestant,
  { api, args, cores = LOAD, known, limit = 90_000 }: Load,
): Promise<Sample> => {
  const command = [
    ...['taskset', '-c', cores, join(CACHE, 'load'), '--json', '--url', `${base}${PATHS[api]}`],
    ...['--known-pid', known.join(',')],
    ...(model === undefined ? [] : ['--model', model]),
    ...(pid === undefined ? [] : ['--pid', String(pid)]),
    ...args.split(' '),
  ]
  const before = pid === undefined ? null : threadTimes(pid)
  const { output, problem } = await collect('load', command, limit)
  const after = pid === undefined ? null : threadTimes(pid)
  const report = output === '' ? undefined : parseJson(output)
  if (!isObject(report)) throw new Error(`load on ${name} gave no report: ${problem}`)
  const sample = sampleOf(report)
  return before && after ? withThreads(sample, (after.main - before.main) / (after.all - before.all)) : sample
}

// ── Environment ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Builds the load rig, the folder and the certificate. Throws `MissingRequirement` if something is missing. */
export const prepare = (): void => {
  if (process.platform !== 'linux') throw new MissingRequirement('the benchmark reads /proc and needs Linux')
  if (cpus().length < 2)
    throw new MissingRequirement('the benchmark needs two cores, one for the gateway, one for the load')
  for (const program of ['nginx', 'taskset'])
    if (!has(program)) throw new MissingRequirement(`${program} is not installed`)
  const go = ['go', '/usr/local/go/bin/go'].find(has)
  if (go === undefined) throw new MissingRequirement('go is not installed; it builds the load rig')
  mkdirSync(CACHE, { recursive: true })
  const built = spawnSync(go, ['build', '-o', `${CACHE}/`, './cmd/upstream', './cmd/load'], {
    cwd: join(ROOT, 'bench', 'rig'),
    encoding: 'utf8',
    timeout: 300_000,
  })
  if (built.status !== 0) throw new MissingRequirement(`the load rig does not build:\n${built.stderr}`)
  rmSync(FOLDER, { recursive: true, force: true })
  mkdirSync(FOLDER, { recursive: true })
  const { key, cert } = selfSigned()
  writeFileSync(join(FOLDER, 'provider.key'), key, { mode: 0o600 })
  writeFileSync(join(FOLDER, 'provider.pem'), cert)
}

/** Maximum number of descriptors of a process. Node raises its soft limit to the hard limit. */
export const descriptors = (): number => {
  const line = readFileSync('/proc/self/limits', 'utf8').match(/^Max open files\s+\S+\s+(\S+)/m)
  return line?.[1] === 'unlimited' ? Number.POSITIVE_INFINITY : Number(line?.[1] ?? 1024)
}

export const machine = (): Machine => ({
  cpu: (cpus()[0]?.model ?? 'unknown').replace(/\s+/g, ' ').trim(),
  cores: cpus().length,
  // Without the suffix of the machine's provider.
  kernel: release().split('-')[0] ?? release(),
  memoryGb: Math.round(totalmem() / 1e9),
  descriptors: descriptors(),
})

const outputOf = (command: string, ...args: string[]): string => {
  const { stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8' })
  return `${stdout ?? ''}${stderr ?? ''}`.trim()
}

export const versions = (): Versions => ({
  node: process.versions.node,
  v8: process.versions.v8,
  nginx: outputOf('nginx', '-v').match(/nginx\/(\S+)/)?.[1] ?? 'unknown',
  go: outputOf(has('go') ? 'go' : '/usr/local/go/bin/go', 'version').match(/go(\d\S*)/)?.[1] ?? 'unknown',
})

/** The commit of the sources, with `+` if they have changes. */
export const commit = (): string => {
  const head = outputOf('git', 'rev-parse', '--short', 'HEAD')
  return head === '' ? 'unknown' : head + (outputOf('git', 'status', '--porcelain', '--', 'src') === '' ? '' : '+')
}

/** Whether `perf` can count instructions here. */
export const countsInstructions = (): boolean =>
  has('perf') && /^\s*[\d,.]+\s+instructions/m.test(outputOf('perf', 'stat', '-e', 'instructions', 'true'))
