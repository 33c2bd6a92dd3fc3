/** Measures each row: processes, cores and load, round by round. */
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Round, type RowName, type RowOutcome, type Sample, together } from './figures.ts'
import { family, memoryOf, timeOf } from './proc.ts'
import {
  type Api,
  at,
  BOTH,
  type Contestant,
  descriptors,
  FOLDER,
  type Load,
  load,
  PORTS,
  type Program,
  sleep,
  startGateway,
  startNginx,
  startTls,
  startUpstream,
  tlsConnections,
} from './rig.ts'
import { startTimes } from './start-row.ts'

export type Bench = {
  readonly rounds: number
  /** Short warm-up and no repeated windows. */
  readonly quick: boolean
  readonly print: (line: string) => void
}

// ── Rows with the same load on several contestants ───────────────────────────────────────────────────────────────

type Workload = {
  readonly api: Api
  /** Arguments of the load generator. */
  readonly args: string
  /** Arguments during the warm-up; its duration is appended. */
  readonly warmUp: string
  readonly file: object
  /** The requested models by name of contestant. */
  readonly models?: Readonly<Record<string, string>>
  readonly nginx?: 'plain' | 'tls'
  /** The provider is also measured directly. */
  readonly direct?: boolean
  readonly overTls?: boolean
  /** Verifies the precondition of the row at the end and returns a note; throws if it did not hold. */
  readonly check?: () => Promise<string>
}

const BASE = `${at(PORTS.upstream)}/v1`
const provider = (baseUrl: string, more: object = {}) => ({
  keys: ['sk-bench-0123456789abcdef'],
  baseUrl,
  models: ['bench'],
  ...more,
})
const OPENAI = { providers: { openai: provider(BASE) } }

const PACE = '--stream -c 200 -n 200 --ramp 1s --answer chunks=200,delay=20ms,stamp=1'
const WARM_STREAM = '--stream -c 50 -n 50 --answer chunks=200,delay=5ms,stamp=1'
const CHAT = '-c 64 --duration 4s --answer size=600'
const WARM_CHAT = '-c 64 --duration 500ms --answer size=600'

const plain: Pick<Workload, 'api' | 'warmUp' | 'file' | 'nginx'> = {
  api: 'chat',
  warmUp: WARM_CHAT,
  file: OPENAI,
  nginx: 'plain',
}
const translated = (api: Api, file: object): Workload => ({
  ...plain,
  api,
  args: PACE,
  warmUp: WARM_STREAM,
  file,
})

/** A port without a listener. */
const DEAD = 'http://127.0.0.1:9/v1'
const circuitOfDead = async (): Promise<string> => {
  const answer = await fetch(`${at(PORTS.gateway)}/metrics`, { signal: AbortSignal.timeout(5_000) })
  const line = (await answer.text()).split('\n').find((each) => /circuit_state\{.*"dead".*\}/.test(each))
  if (!line?.endsWith(' 2')) throw new Error(`the circuit of the dead target is not open: ${line ?? answer.status}`)
  return 'the circuit of the dead target was open at the end'
}

const WORKLOADS = {
  'chat-1k': { ...plain, args: CHAT },
  'chat-30k': { ...plain, args: `${CHAT} --body-size 30000`, warmUp: `${WARM_CHAT} --body-size 30000` },
  'stream-20ms': { ...plain, args: PACE, warmUp: WARM_STREAM, direct: true },
  burst: {
    ...plain,
    args: '--stream -c 64 -n 4000 --answer chunks=200,delay=0s',
    warmUp: '--stream -c 64 -n 500 --answer chunks=200,delay=0s',
  },
  'chat-of-responses': translated('chat', { providers: { openai: provider(BASE, { styles: ['responses'] }) } }),
  'responses-of-chat': translated('responses', { providers: { openai: provider(BASE, { styles: ['chat'] }) } }),
  'chat-of-anthropic': translated('chat', { providers: { anthropic: provider(BASE) } }),
  'open-1000': {
    ...plain,
    args: '-c 128 --rate 1000 --duration 5s --answer size=600',
    warmUp: '-c 64 --rate 1000 --duration 500ms --answer size=600',
    direct: true,
  },
  failover: {
    api: 'chat',
    args: CHAT,
    warmUp: WARM_CHAT,
    file: {
      providers: {
        dead: provider(DEAD, { kind: 'openai-compatible' }),
        live: provider(BASE, { kind: 'openai-compatible' }),
      },
      routes: { single: { targets: ['live/bench'] }, second: { targets: ['dead/bench', 'live/bench'] } },
    },
    models: { 'single target': 'single', 'second target': 'second' },
    check: circuitOfDead,
  },
  tls: {
    ...plain,
    args: CHAT,
    file: { providers: { openai: provider(`https://127.0.0.1:${PORTS.tls}/v1`) } },
    nginx: 'tls',
    overTls: true,
  },
} as const satisfies Readonly<Partial<Record<RowName, Workload>>>
export type WorkloadName = keyof typeof WORKLOADS
export const WORKLOAD_NAMES = Object.keys(WORKLOADS) as readonly WorkloadName[] // the keys of a constant
/** The load and configuration of a row. */
export const workloadOf = (name: WorkloadName): Workload => WORKLOADS[name]

/** Noise in cores above which a window is repeated; the quieter window counts. */
const NOISE = 0.2
/** Maximum repetitions per row. */
const MAX_REPEATS = 3

/** Rotates the order from round to round. */
export const inTurn = <T>(all: readonly T[], round: number): readonly T[] => {
  const shift = round % all.length
  return [...all.slice(shift), ...all.slice(0, shift)]
}

const withNumbers = ({ numbers, errors }: Sample, more: Sample['numbers']): Sample => ({
  numbers: { ...numbers, ...more },
  errors,
})

const report = (bench: Bench, window: string, who: string, { numbers, errors }: Sample): void => {
  const wrong = Object.entries(errors).map(([kind, count]) => `, ${kind} ×${count}`)
  const { cpu, cpuChunk, rate, noise, mainThread } = numbers
  const cost = cpuChunk === undefined ? `${cpu ?? '–'} µs per request` : `${cpuChunk} µs per chunk`
  const own = mainThread === undefined ? '' : ` (main thread ${mainThread})`
  bench.print(`${window}: ${who}, ${cost}${own}, ${rate} per second, noise ${noise ?? '–'}${wrong.join('')}`)
}

type Set = { readonly contestants: readonly Contestant[]; readonly load: Omit<Load, 'args'> }

const startSet = async (row: WorkloadName, flags: readonly string[] = []): Promise<Set & { gateway: Program }> => {
  const { file, models = { headgate: 'bench' }, nginx, direct, overTls, api } = workloadOf(row)
  const upstream = await startUpstream()
  const tls = overTls ? await startTls() : undefined
  const proxy = nginx ? await startNginx() : undefined
  const gateway = await startGateway(row, { file, flags })
  const contestants: Contestant[] = [
    ...(direct ? [{ name: 'direct', base: at(PORTS.upstream) }] : []),
    ...(proxy ? [{ name: 'nginx', base: at(nginx === 'tls' ? PORTS.nginxTls : PORTS.nginx), pid: proxy.pid }] : []),
    ...Object.entries(models).map(([name, model]) => ({ name, model, base: at(PORTS.gateway), pid: gateway.pid })),
  ]
  return { contestants, load: { api, known: [upstream.pid, ...(tls ? [tls.pid] : [])] }, gateway }
}

/** Warms up: before the compiler has optimised the gateway, a request costs several times as much. */
const warm = async (bench: Bench, contestant: Contestant, set: Set, args: string): Promise<void> => {
  const ours = contestant.model !== undefined
  const seconds = ours ? (bench.quick ? 4 : 8) : 1
  const { errors } = await load(contestant, { ...set.load, args: `${args} --warmup ${seconds}s` })
  const [wrong] = Object.keys(errors)
  if (wrong !== undefined) throw new Error(`${contestant.name} gave a wrong answer during the warm-up: ${wrong}`)
}

type Measurement<Who> = (who: Who) => Promise<Sample>

/** Repeats a measurement with too much noise, up to the maximum. */
const withRepeats = <Who>(bench: Bench, measure: Measurement<Who>): Measurement<Who> => {
  let again = bench.quick ? 0 : MAX_REPEATS
  return async (who) => {
    const first = await measure(who)
    if ((first.numbers.noise ?? 0) <= NOISE || again-- <= 0) return first
    const second = await measure(who)
    return (second.numbers.noise ?? 0) < (first.numbers.noise ?? 0) ? second : first
  }
}

const measureWorkload = async (bench: Bench, row: WorkloadName): Promise<RowOutcome> => {
  const { args, warmUp, overTls, check } = workloadOf(row)
  const set = await startSet(row)
  for (const contestant of set.contestants) await warm(bench, contestant, set, warmUp)
  // A short warm-up after the idle time.
  const once = (contestant: Contestant) => load(contestant, { ...set.load, args: `${args} --warmup 300ms` })
  const measureOnce = withRepeats(bench, once)
  const rounds: Round[] = []
  for (let round = 0; round < bench.rounds; round++) {
    const samples: Record<string, Sample> = {}
    for (const contestant of inTurn(set.contestants, round)) {
      const before = overTls ? tlsConnections() : undefined
      const sample = await measureOnce(contestant)
      const after = overTls ? tlsConnections() : undefined
      samples[contestant.name] =
        before && after
          ? withNumbers(sample, { connections: after.made - before.made, resumed: after.resumed - before.resumed })
          : sample
      report(bench, `${row} ${round + 1}`, contestant.name, sample)
    }
    rounds.push(samples)
  }
  const note = await check?.()
  return { rounds, ...(note !== undefined && { notes: [note] }) }
}

// ── Idle streams ─────────────────────────────────────────────────────────────────────────────────────────────────

const IDLE = 10_000
/** Descriptors for everything other than streams. */
const SPARE = 60

/** Opens all streams in twelve seconds, keeps them idle, and closes them. In a new process, because memory grows only once. */
const idleStreams = async (name: string, streams: number): Promise<Sample> => {
  const upstream = await startUpstream()
  const ours = name === 'headgate'
  const program = ours ? await startGateway('idle', { file: OPENAI }) : await startNginx()
  const contestant: Contestant = {
    name,
    base: at(ours ? PORTS.gateway : PORTS.nginx),
    pid: program.pid,
    ...(ours && { model: 'bench' }),
  }
  const to: Omit<Load, 'args'> = { api: 'chat', known: [upstream.pid] }
  // The first requests load code and tables, which do not count as streams.
  await load(contestant, { ...to, args: '--stream -c 16 -n 300 --answer chunks=3' })
  await sleep(500)
  const before = memoryOf(program.pid)
  const most = { ...before }
  const timer = setInterval(() => {
    const now = memoryOf(program.pid)
    most.resident = Math.max(most.resident, now.resident)
    most.own = Math.max(most.own, now.own)
  }, 500)
  const args = `--stream -c ${streams} -n ${streams} --ramp 12s --timeout 60s --answer chunks=3,delay=9s`
  const sample = await load(contestant, { ...to, args }).finally(() => clearInterval(timer))
  await program.stop()
  await upstream.stop()
  const each = (kb: number): number => Number((kb / streams).toPrecision(4))
  return withNumbers(sample, {
    resident: each(most.resident - before.resident),
    own: each(most.own - before.own),
    lost: streams - (sample.numbers.right ?? 0),
  })
}

const measureIdle = async (bench: Bench): Promise<RowOutcome> => {
  const streams = Math.min(IDLE, Math.floor((descriptors() - SPARE) / 2))
  const rounds: Round[] = []
  for (let round = 0; round < Math.min(bench.rounds, 3); round++) {
    const samples: Record<string, Sample> = {}
    for (const name of inTurn(['nginx', 'headgate'], round)) {
      const sample = await idleStreams(name, streams)
      samples[name] = sample
      const { resident, own, lost, noise } = sample.numbers
      bench.print(
        `idle-10k ${round + 1}: ${name}, ${resident} KB per stream (${own} its own), ${lost} lost, noise ${noise}`,
      )
    }
    rounds.push(samples)
  }
  const words = (count: number): string => count.toLocaleString('en-US')
  const fewer = `${words(streams)} streams instead of 10,000: each needs two descriptors, and the limit per process is ${words(descriptors())}`
  return {
    rounds,
    notes: [
      ...(streams < IDLE ? [fewer] : []),
      'memory is the maximum growth of a new process after 300 streams, while all streams are open; the kernel’s socket buffers are not included',
    ],
  }
}

// ── Workers ──────────────────────────────────────────────────────────────────────────────────────────────────────

const CROWD = 256
/** One gateway, or two that share nothing with half of the load each. */
type Party = { readonly name: string; readonly members: readonly Contestant[]; readonly workers: number }

/** All processes run on both cores, because a second worker has no core of its own. */
const measureWorkers = async (bench: Bench): Promise<RowOutcome> => {
  const upstream = await startUpstream(BOTH)
  const start = async (name: string, port: number, workers: number): Promise<Contestant> => {
    const { pid } = await startGateway(name, { file: OPENAI, cores: BOTH, port, env: { WORKERS: String(workers) } })
    return { name, base: at(port), pid, model: 'bench' }
  }
  const one = await start('one', PORTS.gateway, 1)
  const two = await start('two', PORTS.second, 2)
  if (family(two.pid ?? 0).length < 2)
    return { rounds: [], skipped: 'the gateway knows no `WORKERS`: it started one process instead of two' }
  const apart = [await start('left', PORTS.left, 1), await start('right', PORTS.right, 1)]
  const parties: readonly Party[] = [
    { name: 'one', members: [one], workers: 1 },
    { name: 'two', members: [two], workers: 2 },
    { name: 'apart', members: apart, workers: 2 },
  ]
  const contestants = parties.flatMap(({ members }) => members)
  const set: Set = { contestants, load: { api: 'chat', known: [upstream.pid], cores: BOTH } }
  const argsFor = ({ members }: Party, ms: number) =>
    `-c ${CROWD / members.length} --duration ${ms}ms --answer size=600`
  // Each of two processes receives half of the requests.
  for (const party of parties)
    for (let turn = party.members.length; turn <= party.workers; turn++)
      await Promise.all(party.members.map((member) => warm(bench, member, set, argsFor(party, 500))))
  const measure = async (party: Party): Promise<Sample> => {
    const processes = party.members.flatMap(({ pid }) => family(pid ?? 0))
    const before = processes.map(timeOf)
    const windowOf = (member: Contestant) => load(member, { ...set.load, args: argsFor(party, 4000) })
    const sample = together(await Promise.all(party.members.map(windowOf)))
    const times = processes.map((pid, index) => timeOf(pid) - (before[index] ?? 0))
    const [most, all] = [Math.max(...times), times.reduce((sum, time) => sum + time, 0)]
    if (most <= 0) return sample
    const perSecondOf = (time: number) => Math.round(((sample.numbers.right ?? 0) * 1e6) / time)
    return withNumbers(sample, { capacity: perSecondOf(all / party.workers), fullest: perSecondOf(most) })
  }
  const repeated = withRepeats(bench, measure)
  const rounds: Round[] = []
  for (let round = 0; round < bench.rounds; round++) {
    const samples: Record<string, Sample> = {}
    for (const party of inTurn(parties, round)) {
      const sample = await repeated(party)
      samples[party.name] = sample
      report(bench, `workers ${round + 1}`, party.name, sample)
    }
    rounds.push(samples)
  }
  return {
    rounds,
    notes: [
      'on both cores together with load and provider; derived: answers per CPU time of all processes, which is the rate of as many cores without another bottleneck: two, divided by the ratio of the CPU per request',
      '“by the busier alone” is the same by the CPU of the busier process: the scheduler decides which process receives more of a core that it shares with the load',
      '“apart” are two gateways on separate ports with half of the connections each, which share nothing; their windows are not repeated because of noise, since each load is noise for the other',
    ],
  }
}

// ── All of them ──────────────────────────────────────────────────────────────────────────────────────────────────

const SPECIAL = {
  'idle-10k': measureIdle,
  workers: measureWorkers,
  // They are short and vary most.
  start: ({ rounds, print }) => startTimes(rounds * 2, print),
} as const satisfies Readonly<Partial<Record<RowName, (bench: Bench) => Promise<RowOutcome>>>>

const isWorkload = (row: RowName): row is WorkloadName => row in WORKLOADS

export const measure = (bench: Bench, row: RowName): Promise<RowOutcome> =>
  isWorkload(row) ? measureWorkload(bench, row) : SPECIAL[row](bench)

/** Sampling interval of the profiler in µs. */
const INTERVAL_US = 500

/** Runs a row under V8's profiler: the profile, and the window of the load in µs of the monotonic clock. */
export const profile = async (
  bench: Bench,
  row: WorkloadName,
): Promise<{ readonly text: string; readonly from: number; readonly to: number }> => {
  const file = join(FOLDER, `${row}.cpuprofile`)
  rmSync(file, { force: true })
  const set = await startSet(row, [
    '--cpu-prof',
    `--cpu-prof-interval=${INTERVAL_US}`,
    `--cpu-prof-dir=${FOLDER}`,
    `--cpu-prof-name=${row}.cpuprofile`,
  ])
  const contestant = set.contestants.at(-1)
  if (!contestant) throw new Error(`no process to profile in ${row}`)
  const { args, warmUp } = workloadOf(row)
  await warm(bench, contestant, set, warmUp)
  const now = () => Number(process.hrtime.bigint() / 1000n)
  const from = now()
  const sample = await load(contestant, { ...set.load, args })
  const to = now()
  report(bench, `${row} profiled`, contestant.name, sample)
  await set.gateway.stop()
  if (!existsSync(file)) throw new Error(`the gateway wrote no profile of ${row}`)
  return { text: readFileSync(file, 'utf8'), from, to }
}
