/**
 * Memory of a gateway in a container's limit: at its start, while it serves, and afterwards, with and without keys, counters
 * and shared stores. Linux with cgroup v1 and the right to create groups; Redis and Postgres for the rows with stores.
 *
 *   node bench/memory.ts --limit 512 --only files,stores
 *
 * Counted is what counts against a container's limit and cannot be dropped: usage without the inactive part of the page cache,
 * as `docker stats` and Kubernetes do. `peak`: the most at looks 100 ms apart.
 */

import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { MAIN } from '../test/e2e/support/process.ts'
import { freePorts } from '../test/support/ports.ts'
import { startPostgres } from '../test/support/postgres.ts'
import { startRedis } from '../test/support/redis.ts'
import { family, memoryOf } from './proc.ts'

const MIB = 1_048_576
const SIZES = { keys: 5_000, teams: 200, endUsers: 10_000 }
/** Requests of the load, and those in progress at a time. */
const LOAD = { requests: 10_000, clients: 32, streams: 300 }
const ROWS = ['plain', 'files', 'stores', 'workers'] as const
const { values } = parseArgs({
  options: { limit: { type: 'string', default: '512' }, only: { type: 'string', default: ROWS.join() } },
})
const asked = new Set(values.only.split(','))
const limit = Number(values.limit)

const GROUP = `/sys/fs/cgroup/memory/headgate-bench-${process.pid}`
const groupFile = (name: string) => readFileSync(join(GROUP, name), 'utf8')
const usedMegabytes = (pid: number): number => {
  const used = Number(groupFile('memory.usage_in_bytes'))
  const inactive = Number(/^total_inactive_file (\d+)$/m.exec(groupFile('memory.stat'))?.[1] ?? 0)
  // Pages of Node itself are counted in the group that read them first, here another one.
  const ofFiles = memoryOf(pid).resident * 1_024 - anonymousOf(pid)
  return (used - inactive + ofFiles) / MIB
}

/** Anonymous pages of a process and its descendants, in bytes. */
const anonymousOf = (pid: number): number =>
  family(pid).reduce((sum, each) => {
    const text = readFileSync(`/proc/${each}/smaps_rollup`, 'utf8')
    return sum + Number(/^Anonymous:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1_024
  }, 0)

/** Answers each chat with 1 KB at once, or with a stream of 20 chunks. */
const upstream = createServer((request, response) => {
  let body = ''
  request.setEncoding('utf8').on('data', (text: string) => {
    body += text
  })
  request.on('end', () => {
    if (body.includes('"stream":true')) stream(response)
    else response.setHeader('content-type', 'application/json').end(ANSWER)
  })
})

const stream = (response: ServerResponse): void => {
  response.setHeader('content-type', 'text/event-stream')
  let sent = 0
  const timer = setInterval(() => {
    if (++sent <= 20) response.write(`data: ${JSON.stringify(chunkOf('word '))}\n\n`)
    else {
      clearInterval(timer)
      response.end(`data: ${JSON.stringify({ ...chunkOf(''), usage: USAGE })}\n\ndata: [DONE]\n\n`)
    }
  }, 100)
  response.on('close', () => clearInterval(timer))
}

const USAGE = { prompt_tokens: 200, completion_tokens: 100, total_tokens: 300 }
const chunkOf = (content: string) => ({
  ...{ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' },
  choices: [{ index: 0, delta: { content }, finish_reason: content === '' ? 'stop' : null }],
})
const ANSWER = JSON.stringify({
  ...{ id: 'c', object: 'chat.completion', created: 1, model: 'm', usage: USAGE },
  choices: [{ index: 0, message: { role: 'assistant', content: 'x'.repeat(1_000) }, finish_reason: 'stop' }],
})

const secretOf = (key: number) => `secret-of-service-${String(key).padStart(8, '0')}`

const fileOf = (port: number, isKeyed: boolean): string => {
  const provider = {
    kind: 'openai-compatible',
    baseUrl: `http://127.0.0.1:${port}/v1`,
    models: ['m'],
    keys: ['sk-0000000000'],
  }
  if (!isKeyed) return JSON.stringify({ providers: { fake: provider } })
  const names = (count: number, prefix: string) => Array.from({ length: count }, (_, at) => `${prefix}-${at}`)
  return JSON.stringify({
    providers: { fake: provider },
    prices: [{ provider: 'fake', model: '*', perMillion: { input: 1, output: 4 } }],
    teams: Object.fromEntries(names(SIZES.teams, 'team').map((name) => [name, {}])),
    keys: Object.fromEntries(
      names(SIZES.keys, 'service').map((name, at) => [
        name,
        { secret: secretOf(at), team: `team-${at % SIZES.teams}` },
      ]),
    ),
    budgets: {
      'each-key': { amount: '100', period: 'day', per: 'key' },
      'each-team': { amount: '1000', period: 'month', per: 'team' },
      'each-user': { amount: '10', period: 'month', per: 'end_user' },
    },
    usage: { endUser: true },
  })
}

type LimitedGateway = { readonly url: string; readonly pid: number; readonly stop: () => Promise<void> }

const startGateway = async (folder: string, env: Readonly<Record<string, string>>): Promise<LimitedGateway> => {
  const [port = 0] = await freePorts(1)
  const child = spawn('sh', ['-c', `echo $$ > ${GROUP}/cgroup.procs && exec "$0" "$1"`, process.execPath, MAIN], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      PORT: String(port),
      LOG_LEVEL: 'warn',
      NODE_ENV: 'production',
      HOST: '127.0.0.1',
      DRAIN_DELAY: '0',
      ...env,
    },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const exited = new Promise((resolve) => child.once('exit', resolve))
  const url = `http://127.0.0.1:${port}`
  for (let waited = 0; ; waited += 100) {
    const isReady = await fetch(`${url}/health/ready`).then(
      ({ ok }) => ok,
      () => false,
    )
    if (isReady) break
    if (waited > 120_000 || child.exitCode !== null) throw new Error('the gateway does not start')
    await sleep(100)
  }
  return {
    url,
    pid: child.pid ?? 0,
    async stop() {
      child.kill()
      await exited
    },
  }
}

let sent = 0
const ask = async ({ url }: LimitedGateway, stream: boolean): Promise<void> => {
  const at = sent++
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${secretOf(at % SIZES.keys)}` },
    body: JSON.stringify({
      ...{ model: 'm', stream, user: `user-${at % SIZES.endUsers}` },
      messages: [{ role: 'user', content: 'y'.repeat(1_000) }],
    }),
  })
  await answer.text()
  if (answer.status !== 200) throw new Error(`status ${answer.status}`)
}

const load = async (gateway: LimitedGateway, requests: number): Promise<void> => {
  let left = requests
  const client = async () => {
    while (left-- > 0) await ask(gateway, false)
  }
  const streams = async () => {
    while (left > 0) await Promise.all(Array.from({ length: LOAD.streams }, () => ask(gateway, true)))
  }
  await Promise.all([...Array.from({ length: LOAD.clients }, client), streams()])
}

const peakOf = async (pid: number, work: Promise<void>): Promise<number> => {
  let peak = 0
  const timer = setInterval(() => {
    peak = Math.max(peak, usedMegabytes(pid))
  }, 100)
  await work.finally(() => clearInterval(timer))
  return peak
}

const measure = async (name: string, isKeyed: boolean, env: Readonly<Record<string, string>>): Promise<void> => {
  mkdirSync(GROUP)
  writeFileSync(join(GROUP, 'memory.limit_in_bytes'), String(limit * MIB))
  const folder = mkdtempSync(join(tmpdir(), 'headgate-memory-'))
  const { port } = upstream.address() as { port: number }
  writeFileSync(join(folder, 'headgate.yaml'), fileOf(port, isKeyed))
  try {
    // The counters of all keys and users are in the ledger when it starts again.
    const first = await startGateway(folder, env)
    if (isKeyed) await load(first, SIZES.endUsers)
    await sleep(2_000)
    await first.stop()
    const gateway = await startGateway(folder, env)
    await sleep(10_000)
    const idle = usedMegabytes(gateway.pid)
    const peak = await peakOf(gateway.pid, load(gateway, LOAD.requests))
    await sleep(10_000)
    const after = usedMegabytes(gateway.pid)
    const failures = Number(groupFile('memory.failcnt'))
    await gateway.stop()
    const figures = { idle, peak, after }
    const rounded = Object.fromEntries(Object.entries(figures).map(([what, value]) => [what, Math.round(value)]))
    process.stdout.write(`${JSON.stringify({ name, limit, ...rounded, failures })}\n`)
  } catch (error) {
    process.stdout.write(
      `${JSON.stringify({ name, limit, error: String(error), oom: groupFile('memory.oom_control').trim() })}\n`,
    )
  } finally {
    for (const pid of groupFile('cgroup.procs').split('\n').filter(Boolean)) process.kill(Number(pid), 'SIGKILL')
    rmSync(folder, { recursive: true, force: true })
    for (let tries = 0; tries < 50; tries++) {
      try {
        rmdirSync(GROUP)
        break
      } catch {
        await sleep(100)
      }
    }
  }
}

await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))

if (asked.has('stores') || asked.has('workers')) {
  const [redis, postgres] = await Promise.all([startRedis(), startPostgres()])
  const env = { REDIS_URL: redis.url, DATABASE_URL: postgres.url }
  if (asked.has('stores')) await measure('stores', true, env)
  if (asked.has('workers')) await measure('workers', true, { ...env, WORKERS: '2' })
  await redis.stop()
  await postgres.remove()
}
if (asked.has('files')) await measure('files', true, {})
if (asked.has('plain')) await measure('plain', false, {})
upstream.closeAllConnections()
upstream.close()
process.exit(0)
