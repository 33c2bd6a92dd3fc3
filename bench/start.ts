/**
 * How long a start takes: from exec to the first whole answer of a chat completion, over a socket, on one core. Beside the
 * sources and the package, each with and without what Node has kept of an earlier start, a server of nothing but `node:http`
 * is started: less than that it cannot be.
 *
 *   node bench/start.ts --rounds 20
 *
 * Needs Linux and taskset. The gateway has the first core to itself, what asks it the second.
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
const ASKER = '1'
/** ms a start may take on a machine that is busy with something else. */
const MOST = 30_000

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
const QUESTION = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })

/** What is started. `kept`: the folder of what Node keeps; null: nothing is kept. */
type Contestant = { readonly name: string; readonly file: string; readonly kept: string | null }

/** ms from exec to the first answer, and ms of processor time of all threads until then. */
type StartTime = { readonly wall: number; readonly cpu: number }

type Starts = { readonly name: string; readonly times: readonly StartTime[] }

/** The middle one, or the higher of the two in the middle. */
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? Number.NaN

/** The first connection that is taken. Asks once a ms; that costs the other core. */
const connected = (port: number, until: number): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const attempt = () => {
      const socket = connect(port, '127.0.0.1')
      socket.once('connect', () => {
        socket.off('error', again)
        resolve(socket)
      })
      socket.once('error', again)
    }
    const again = (error: Error) => {
      if (performance.now() > until) reject(error)
      else setTimeout(attempt, 1)
    }
    attempt()
  })

const ask = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(QUESTION) }
    const asked = request({
      createConnection: () => socket,
      method: 'POST',
      path: '/v1/chat/completions',
      headers,
      timeout: MOST,
    })
    asked.once('response', (response) => {
      if (response.statusCode !== 200) reject(new Error(`the first answer was ${response.statusCode}`))
      response.resume().once('end', () => resolve())
    })
    asked.once('timeout', () => asked.destroy(new Error('the first answer did not come')))
    asked.once('error', reject)
    asked.end(QUESTION)
  })

/** One start, from exec on. Ended by SIGTERM, so that what it has compiled is kept. */
const startOnce = async ({ file, kept }: Contestant, folder: string, upstream: number): Promise<StartTime> => {
  const [port = 0] = await freePorts(1)
  const env = {
    PATH: process.env.PATH ?? '',
    PORT: String(port),
    LOG_FORMAT: 'json',
    OPENAI_API_KEY: 'sk-bench',
    OPENAI_BASE_URL: `http://127.0.0.1:${upstream}/v1`,
    OPENAI_MODELS: 'm',
    ...(kept === null ? { NODE_DISABLE_COMPILE_CACHE: '1' } : { NODE_COMPILE_CACHE: kept }),
  }
  const from = performance.now()
  const child = spawn('taskset', ['-c', GATEWAY, process.execPath, file], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = once(child, 'exit')
  const killer = setTimeout(() => child.kill('SIGKILL'), MOST + 10_000)
  try {
    const socket = await connected(port, from + MOST)
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

/** The package as it is unpacked, and what it depends on. */
const unpacked = async (folder: string): Promise<string> => {
  await build(join(folder, 'dist'))
  for (const part of ['bin', 'data', 'package.json']) cpSync(join(ROOT, part), join(folder, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  return join(folder, 'bin', 'headgate.mjs')
}

/** Starts each in turn, so many times, after one that does not count; gives their times in the order of the rounds. */
export const measureStarts = async (rounds: number, say: (line: string) => void): Promise<readonly Starts[]> => {
  if (spawnSync('taskset', ['-cp', ASKER, String(process.pid)]).status !== 0) throw new Error('taskset is not here')
  const folder = mkdtempSync(join(tmpdir(), 'headgate-starts-'))
  const upstream = createServer((asked, reply) => {
    asked.resume().once('end', () => reply.setHeader('content-type', 'application/json').end(ANSWER))
  }).listen(0, '127.0.0.1')
  try {
    await once(upstream, 'listening')
    const { port } = upstream.address() as AddressInfo // it listens on a port
    mkdirSync(join(folder, 'package'))
    writeFileSync(join(folder, 'bare.cjs'), BARE)
    const source = join(ROOT, 'src', 'main.ts')
    const packaged = await unpacked(join(folder, 'package'))
    const kept = join(folder, 'kept')
    const contestants: readonly Contestant[] = [
      { name: 'node:http alone', file: join(folder, 'bare.cjs'), kept: null },
      { name: 'package, first start', file: packaged, kept: null },
      { name: 'package', file: packaged, kept },
      { name: 'source, first start', file: source, kept: null },
      { name: 'source', file: source, kept },
    ]
    const all = contestants.map(({ name }) => ({ name, times: [] as StartTime[] }))
    for (const contestant of contestants) await startOnce(contestant, folder, port)
    for (let round = 0; round < rounds; round++) {
      for (const [index, contestant] of contestants.entries())
        all[index]?.times.push(await startOnce(contestant, folder, port))
      say(`starts: round ${round + 1} of ${rounds}`)
    }
    return all
  } finally {
    upstream.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** A table of medians and least values: a busy machine adds to a time, and never takes from it. */
const startsTable = (all: readonly Starts[]): string => {
  const ms = (values: readonly number[]): string => `${Math.round(median(values))} (${Math.round(Math.min(...values))})`
  const rows = all.map(({ name, times }) => [name, ms(times.map(({ wall }) => wall)), ms(times.map(({ cpu }) => cpu))])
  const head = ['start', 'exec to first answer, ms: median (least)', 'processor time, ms: median (least)']
  return markdown(head, rows)
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { rounds: { type: 'string', default: '20' } } })
  const all = await measureStarts(Number(values.rounds), (line) => process.stderr.write(`${line}\n`))
  process.stdout.write(`${startsTable(all)}\n`)
}
