/**
 * Measures other gateways beside this one, all in turn against the same provider, and writes bench/peers/*.json. They are
 * installed by hand, as their documentation says for production; `--page` writes docs/compare.md from the results.
 *
 *   python3 -m venv V && V/bin/pip install 'litellm[proxy]'
 *   npm install --prefix P @portkey-ai/gateway
 *   npm install --prefix H ./headgate-0.1.0.tgz                     (npm run package)
 *   node bench/peers.ts --litellm V --portkey P --headgate H [--rounds 5] [--only chat-1k]
 *   node bench/peers.ts --page
 *
 * Times are CPU times of the process and its children. Other programs of the machine raise them: its load is recorded.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { object, text } from '../src/core/json.ts'
import { inTurn } from './conduct.ts'
import { comparePage, type PeerName, type PeerRow, type PeerRun, readRuns } from './peers-page.ts'
import { family, memoryOf, timeOf } from './proc.ts'
import {
  at,
  commit,
  FOLDER,
  load,
  machine,
  PORTS,
  type Program,
  prepare,
  start,
  startGateway,
  startNginx,
  startUpstream,
  stopAll,
  versions,
} from './rig.ts'

const { values } = parseArgs({
  options: {
    litellm: { type: 'string', default: '' },
    portkey: { type: 'string', default: '' },
    headgate: { type: 'string', default: '' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string' },
    page: { type: 'boolean', default: false },
  },
})
const FILES = join(import.meta.dirname, 'peers')
const PAGE = join(import.meta.dirname, '..', 'docs', 'compare.md')
const UPSTREAM = `${at(PORTS.upstream)}/v1`
const KEY = 'sk-bench-0123456789'

const print = (line: string): void => void process.stdout.write(`${line}\n`)

type Peer = {
  readonly name: PeerName
  readonly start: () => Promise<Program>
  readonly base: string
  /** Arguments of the load. */
  readonly args: string
  /** Where it is installed; empty: part of the system. */
  readonly folder: string
  readonly version: () => string
}

const versionIn = (file: string): string => text(object(JSON.parse(readFileSync(file, 'utf8')))?.version) ?? 'unknown'

const PORTKEY = join(values.portkey, 'node_modules', '@portkey-ai', 'gateway')
const LITELLM = join(values.litellm, 'bin')

/** As docs.litellm.ai/docs/proxy/prod says, without the database, and with one worker for the one core. */
const startLitellm = (): Promise<Program> => {
  const file = join(FOLDER, 'litellm.yaml')
  const config = {
    model_list: [{ model_name: 'bench', litellm_params: { model: 'openai/bench', api_key: KEY, api_base: UPSTREAM } }],
    general_settings: { master_key: KEY },
    litellm_settings: { request_timeout: 600, set_verbose: false, json_logs: true },
  }
  writeFileSync(file, JSON.stringify(config))
  return start('litellm', [join(LITELLM, 'litellm'), '--config', file, '--port', '19412', '--num_workers', '1'], {
    cores: '0',
    port: 19412,
    path: '/health/liveliness',
    startTimeout: 240_000,
    env: {
      LITELLM_LOG: 'ERROR',
      LITELLM_MODE: 'PRODUCTION',
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      HOME: FOLDER,
      PATH: `${LITELLM}:${process.env.PATH ?? ''}`,
    },
  })
}

const PEERS: readonly Peer[] = [
  {
    name: 'nginx',
    start: startNginx,
    base: at(PORTS.nginx),
    args: '',
    folder: '',
    version: () => versions().nginx ?? 'unknown',
  },
  {
    name: 'Headgate',
    start: () =>
      startGateway('peers', {
        file: { providers: { openai: { keys: [KEY], baseUrl: UPSTREAM, models: ['bench'] } } },
        env: { NODE_ENV: 'production' },
      }),
    base: at(PORTS.gateway),
    args: '',
    folder: values.headgate,
    version: commit,
  },
  {
    name: 'Portkey',
    start: () =>
      start('portkey', [process.execPath, join(PORTKEY, 'build', 'start-server.js'), '--headless', '--port=19411'], {
        cores: '0',
        port: 19411,
        path: '/',
        env: { NODE_ENV: 'production' },
      }),
    base: at(19411),
    args: `--header x-portkey-provider:openai --header x-portkey-custom-host:${UPSTREAM}`,
    folder: values.portkey,
    version: () => versionIn(join(PORTKEY, 'package.json')),
  },
  {
    name: 'LiteLLM',
    start: startLitellm,
    base: at(19412),
    args: `--key ${KEY}`,
    folder: values.litellm,
    version: () =>
      spawnSync(join(LITELLM, 'python'), ['-c', 'import importlib.metadata as m; print(m.version("litellm"))'], {
        encoding: 'utf8',
      }).stdout.trim(),
  },
]

const round4 = (value: number): number => Number(value.toPrecision(4))

/** CPU time in ms of a process and its children. */
const spent = (pid: number): number => family(pid).reduce((sum, one) => sum + timeOf(one), 0) / 1_000

const ask = async ({ base, args }: Peer): Promise<void> => {
  const headers = [...args.matchAll(/--header ([^: ]+):(\S+)/g)].map(([, name = '', value = '']): [string, string] => [
    name,
    value,
  ])
  const answer = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: [['content-type', 'application/json'], ['authorization', `Bearer ${KEY}`], ...headers],
    body: JSON.stringify({ model: 'bench', messages: [{ role: 'user', content: 'hello [[bench size=20]]' }] }),
  })
  if (!answer.ok) throw new Error(`status ${answer.status}: ${(await answer.text()).slice(0, 300)}`)
  await answer.arrayBuffer()
}

type Numbers = Partial<Record<PeerName, number[]>>

/** Requests of a window: a second of CPU time or two, also for the slowest. Streams last two seconds each. */
const LOADS = {
  'chat-1k': {
    counts: { nginx: 20_000, Headgate: 15_000, Portkey: 3_000, LiteLLM: 200 },
    args: '-c 16 --answer size=600',
  },
  'stream-20ms': {
    counts: { nginx: 100, Headgate: 100, Portkey: 50, LiteLLM: 10 },
    args: '--stream -c 10 --answer chunks=100,delay=20ms',
  },
} as const

/** CPU time per request or chunk in µs, in turn; afterwards the memory in MB. */
const loaded = async (row: keyof typeof LOADS, rounds: number): Promise<{ cost: Numbers; memory: Numbers }> => {
  const [cost, memory]: [Numbers, Numbers] = [{}, {}]
  const upstream = await startUpstream()
  const started = new Map<Peer, Program>()
  for (const peer of PEERS) started.set(peer, await peer.start())
  const known = [upstream.pid, ...[...started.values()].map(({ pid }) => pid)]
  const { args, counts } = LOADS[row]
  /** Warm-ups are counted, not timed: on a busy machine a time would be too short for the compiler. */
  const measure = (peer: Peer, times = 1) => {
    const { name, base } = peer
    const contestant = { name, base, model: 'bench', pid: started.get(peer)?.pid ?? 0 }
    const all = `${peer.args} ${args} -n ${counts[name] * times}`.trim()
    return load(contestant, { api: 'chat', known, args: all, limit: 240_000 })
  }
  const serving: Peer[] = []
  for (const peer of PEERS) {
    const { errors } = await measure(peer, 2)
    if (Object.keys(errors).length === 0) serving.push(peer)
    else print(`${row}: ${peer.name} is left out: ${JSON.stringify(errors)}`)
  }
  for (let round = 0; round < rounds; round++)
    for (const peer of inTurn(serving, round)) {
      const { numbers, errors } = await measure(peer)
      if (Object.keys(errors).length > 0) throw new Error(`${peer.name}: ${JSON.stringify(errors)}`)
      const value = round4(numbers.cpuChunk ?? numbers.cpu ?? Number.NaN)
      cost[peer.name] = [...(cost[peer.name] ?? []), value]
      print(`${row} ${round + 1}: ${peer.name} ${value} µs`)
    }
  for (const [{ name }, { pid }] of started) memory[name] = [Math.round(memoryOf(pid).own / 1024)]
  await stopAll()
  return { cost, memory }
}

/** CPU time in ms from the start of the process to the first answer. */
const firstAnswers = async (rounds: number): Promise<Numbers> => {
  const found: Numbers = {}
  await startUpstream()
  for (let round = 0; round < rounds; round++)
    for (const peer of inTurn(PEERS, round)) {
      const program = await peer.start()
      await ask(peer)
      const value = Math.round(spent(program.pid))
      found[peer.name] = [...(found[peer.name] ?? []), value]
      print(`first-answer ${round + 1}: ${peer.name} ${value} ms`)
      await program.stop()
    }
  await stopAll()
  return found
}

const sizes = (): Numbers =>
  Object.fromEntries(
    PEERS.filter(({ folder }) => folder !== '').map(({ name, folder }) => {
      const { stdout } = spawnSync('du', ['-sm', folder], { encoding: 'utf8' })
      return [name, [Number(stdout.split('\t')[0])]]
    }),
  )

const installed = () => Object.fromEntries(PEERS.map(({ name, version }) => [name, version()]))

/** `programs`: the versions when the row began; the sources may change meanwhile. */
const write = (row: PeerRow, programs: PeerRun['versions'], numbers: Numbers): void => {
  const run: PeerRun = {
    row,
    at: new Date().toISOString().slice(0, 10),
    command: `node bench/peers.ts --only ${row}`,
    machine: machine(),
    load: round4(loadavg()[0] ?? 0),
    versions: programs,
    numbers,
  }
  writeFileSync(join(FILES, `${row}.json`), `${JSON.stringify(run, null, 1)}\n`)
}

const isWanted = (row: PeerRow): boolean => values.only === undefined || values.only.split(',').includes(row)

const measureAll = async (rounds: number): Promise<void> => {
  prepare()
  mkdirSync(FILES, { recursive: true })
  for (const row of ['chat-1k', 'stream-20ms'] as const) {
    if (!isWanted(row)) continue
    const programs = installed()
    const { cost, memory } = await loaded(row, rounds)
    write(row, programs, cost)
    if (row === 'chat-1k') write('memory', programs, memory)
  }
  const programs = installed()
  if (isWanted('first-answer')) write('first-answer', programs, await firstAnswers(Math.min(3, rounds)))
  if (isWanted('size')) write('size', programs, sizes())
}

try {
  if (!values.page) await measureAll(Number(values.rounds))
  writeFileSync(PAGE, comparePage(readRuns(FILES)))
} finally {
  await stopAll()
}
