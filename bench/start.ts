/**
 * Measures the time of a start: from exec to the first complete chat completion over a socket, on one core. Source and
 * package are started with and without Node's compile cache. A server of `node:http` alone is the lower bound.
 *
 *   node bench/start.ts --rounds 20
 *
 * Needs Linux and taskset. The gateway runs on the first core, the client on the second.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { build } from '../scripts/build.ts'
import { freePorts } from '../test/support/ports.ts'
import { markdown } from './page.ts'
import { threadsTimeOf } from './proc.ts'

const ROOT = join(import.meta.dirname, '..')
const GATEWAY = '0'
const CLIENT = '1'
/** Maximum ms of a start, on a busy machine. */
const TIMEOUT = 30_000

const BARE = `require('node:http').createServer((request, response) => {
  request.resume().on('end', () => response.end('{}'))
}).listen(Number(process.env.PORT), '127.0.0.1')`

const ANSWER = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
})
const REQUEST = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })

/** A program to start. `cache`: folder of Node's compile cache; null: disabled. */
type Starter = { readonly name: string; readonly file: string; readonly cache: string | null }

/** ms from exec to the first answer, and CPU time of all threads in ms until then. */
type StartTime = { readonly wall: number; readonly cpu: number }

type Starts = { readonly name: string; readonly times: readonly StartTime[] }

/** The median; of an even number the higher middle value. */
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN

/** Connects as soon as the port accepts a connection. Retries every ms, on the other core. */
const connected = (port: number, until: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const attempt = () => {
      const socket = connect(port, '127.0.0.1')
      socket.once('connect', () => {
        socket.off('error', retry)
        resolve(socket)
      })
      socket.once('error', retry)
    }
    const retry = (error: Error) => {
      if (performance.now() > until) reject(error)
      else setTimeout(attempt, 1)
    }
    attempt()
  })

const ask = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(REQUEST) }
    const clientRequest = request({
      createConnection: () => socket,
      method: 'POST',
      path: '/v1/chat/completions',
      headers,
      timeout: TIMEOUT,
    })
    clientRequest.once('response', (response) => {
      if (response.statusCode !== 200) reject(new Error(`the first answer was ${response.statusCode}`))
      response.resume().once('end', () => resolve())
    })
    clientRequest.once('timeout', () => clientRequest.destroy(new Error('the first answer did not come')))
    clientRequest.once('error', reject)
    clientRequest.end(REQUEST)
  })

/** Measures one start. The process ends by SIGTERM, so that Node writes its compile cache. */
const startOnce = async ({ file, cache }: Starter, folder: string, upstream: number): Promise<StartTime> => {
  const [port = 0] = await freePorts(1)
  const env = {
    PATH: process.env.PATH ?? '',
    PORT: String(port),
    LOG_FORMAT: 'json',
    OPENAI_API_KEY: 'sk-bench',
    OPENAI_BASE_URL: `http://127.0.0.1:${upstream}/v1`,
    OPENAI_MODELS: 'm',
    ...(cache === null ? { NODE_DISABLE_COMPILE_CACHE: '1' } : { NODE_COMPILE_CACHE: cache }),
  }
  const from = performance.now()
  const child = spawn('taskset', ['-c', GATEWAY, process.execPath, file], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = once(child, 'exit')
  const killer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT + 10_000)
  try {
    const socket = await connected(port, from + TIMEOUT)
    await ask(socket)
    const wall = performance.now() - from
    const cpu = threadsTimeOf(child.pid ?? 0)
    socket.destroy()
    return { wall, cpu }
  } finally {
    child.kill('SIGTERM')
    await exited
    clearTimeout(killer)
  }
}

/** Builds the package with its dependencies and returns its program. */
const unpacked = async (folder: string): Promise<string> => {
  await build(join(folder, 'dist'))
  for (const part of ['bin', 'data', 'package.json']) cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return join(folder, 'bin', 'headgate.mjs')
}

/** Starts each contestant in turn, `rounds` times after a first start that does not count. */
export const measureStarts = async (rounds: number, print: (line: string) => void): Promise<readonly Starts[]> => {
  if (spawnSync('taskset', ['-cp', CLIENT, String(process.pid)]).status !== 0)
    throw new Error('taskset is not installed')
  const folder = mkdtempSync(join(tmpdir(), 'headgate-starts-'))
  const upstream = createServer((message, reply) => {
    message.resume().once('end', () => reply.setHeader('content-type', 'application/json').end(ANSWER))
  }).listen(0, '127.0.0.1')
  try {
    await once(upstream, 'listening')
    const { port } = upstream.address() as AddressInfo // it listens on a port
    mkdirSync(join(folder, 'package'))
    writeFileSync(join(folder, 'bare.cjs'), BARE)
    const source = join(ROOT, 'bin', 'headgate.mjs')
    const packaged = await unpacked(join(folder, 'package'))
    const cache = join(folder, 'cache')
    const contestants: readonly Starter[] = [
      { name: 'node:http alone', file: join(folder, 'bare.cjs'), cache: null },
      { name: 'package, first start', file: packaged, cache: null },
      { name: 'package', file: packaged, cache },
      { name: 'source, first start', file: source, cache: null },
      { name: 'source', file: source, cache },
    ]
    const all = contestants.map(({ name }) => ({ name, times: [] as StartTime[] }))
    for (const contestant of contestants) await startOnce(contestant, folder, port)
    for (let round = 0; round < rounds; round++) {
      for (const [index, contestant] of contestants.entries())
        all[index]?.times.push(await startOnce(contestant, folder, port))
      print(`starts: round ${round + 1} of ${rounds}`)
    }
    return all
  } finally {
    upstream.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A table of medians and minima: other load makes a time longer, never shorter. */
const startsTable = (all: readonly Starts[]): string => {
  const ms = (values: readonly number[]): string => `${Math.round(median(values))} (${Math.round(Math.min(...values))})`
  const rows = all.map(({ name, times }) => [name, ms(times.map(({ wall }) => wall)), ms(times.map(({ cpu }) => cpu))])
  const head = ['start', 'exec to first answer, ms: median (minimum)', 'CPU time, ms: median (minimum)']
  return markdown(head, rows)
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { rounds: { type: 'string', default: '20' } } })
  const all = await measureStarts(Number(values.rounds), (line) => process.stderr.write(`${line}\n`))
  process.stdout.write(`${startsTable(all)}\n`)
}
