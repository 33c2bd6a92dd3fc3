/**
 * Requests that Postgres stores a second: `node bench/postgres-ledger.ts [--url postgres://…] [--writers 4] [--gateways 100] [--delay 2]`.
 * Without a URL a server of its own is started. First several gateways store journals at a time, each in a process of its own. Then many
 * gateways in one process store some requests a second over a proxy that delays each direction by half of `delay` ms.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { budgetCharge } from '../src/core/journal.ts'
import { Bookkeeper } from '../src/usage/bookkeeper/bookkeeper.ts'
import { RecordEncoder } from '../src/usage/journal/journal-record.ts'
import { processName, segmentFile } from '../src/usage/journal/segment-files.ts'
import { journalLines } from '../test/support/ledger-records.ts'
import { startPostgres } from '../test/support/postgres.ts'
import { recordsOf } from './journal-records.ts'

const { values } = parseArgs({
  options: {
    url: { type: 'string' },
    writers: { type: 'string', default: '4' },
    requests: { type: 'string', default: '40000' },
    gateways: { type: 'string', default: '100' },
    rate: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '20' },
    delay: { type: 'string', default: '2' },
    writer: { type: 'string' },
  },
})
const numberOf = (name: 'writers' | 'requests' | 'gateways' | 'rate' | 'seconds' | 'delay') => Number(values[name])

const print = (...texts: readonly unknown[]) => process.stdout.write(`${texts.join(' ')}\n`)

/** A gateway's folder, whose journal is written here, and its bookkeeper. */
const gateway = (url: string, node: string) => {
  const root = mkdtempSync(join(tmpdir(), 'headgate-bench-'))
  const journal = join(root, 'journal')
  mkdirSync(journal)
  const process_ = { start: Date.now(), pid: process.pid, worker: 0 }
  const segment = join(journal, segmentFile(processName(process_), 1))
  const encoder = new RecordEncoder()
  let call = 0
  const write = (count: number) => {
    const texts: string[] = []
    for (const end = call + count; call < end; call++) texts.push(...journalLines(recordsOfCall(node, call), encoder))
    writeFileSync(segment, texts.join(''), { flag: 'a' })
  }
  const bookkeeper = new Bookkeeper(
    {
      folder: root,
      journal,
      database: { url, migrate: 'auto' },
      node,
      timezone: 'UTC',
      syncs: false,
      process: process_,
    },
    (event) => event.event === 'degraded' && process.stderr.write(`${node}: ${event.reason}\n`),
  )
  const close = async () => {
    await bookkeeper.close()
    rmSync(root, { recursive: true, force: true })
  }
  return { bookkeeper, write, close }
}

/** 50 keys, and a budget of the day. */
const recordsOfCall = (node: string, call: number) => {
  const at = Date.now()
  const day = Math.floor(at / 86_400_000) * 86_400_000
  return recordsOf({
    call,
    request: `req_${node}${call.toString(36).padStart(14, 'k')}`,
    at,
    keys: 50,
    charges: (key) => [budgetCharge(`bud_aaaaaaaaaaaa:${key}`, day)],
  })
}

/** A child process: writes its journal, waits for the others, and stores it. */
const runWriter = async (url: string, node: string) => {
  const { bookkeeper, write, close } = gateway(url, node)
  await bookkeeper.step()
  write(numberOf('requests'))
  process.send?.('ready')
  await once(process, 'message')
  const before = process.cpuUsage()
  while (await bookkeeper.step());
  const { user, system } = process.cpuUsage(before)
  process.send?.(bookkeeper.problem ?? (user + system) / numberOf('requests'))
  await close()
  process.disconnect()
}

const throughput = async (url: string) => {
  const count = numberOf('writers')
  const children = Array.from({ length: count }, (_, n) =>
    fork(import.meta.filename, ['--url', url, '--requests', values.requests, '--writer', `w${n}`]),
  )
  await Promise.all(children.map((child) => once(child, 'message')))
  const since = performance.now()
  for (const child of children) child.send('go')
  const answers = await Promise.all(children.map((child) => once(child, 'message')))
  const seconds = (performance.now() - since) / 1000
  const found = answers.map(([answer]) => answer)
  const stored = count * numberOf('requests')
  const cpu = found.reduce((sum, one) => sum + Number(one), 0) / count
  print(
    `${count} writers: ${stored} requests in ${seconds.toFixed(2)} s, ${Math.round(stored / seconds)} a second, ${cpu.toFixed(1)} µs of a writer's processor each`,
    ...found.filter((one) => typeof one === 'string'),
  )
}

/** Delays what passes in both directions. */
const delayingProxy = async (url: string, delay: number) => {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from.setNoDelay(true))
      from.on('data', (data) => setTimeout(() => to.write(data), delay / 2))
      from.on('error', () => {}).on('close', () => to.destroy())
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const own = typeof address === 'object' && address ? address.port : 0
  const close = () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { url: url.replace(`:${port}`, `:${own}`), close }
}

/** Each gateway writes `rate` requests a second and looks each second, as it does by default. */
const manyGateways = async (direct: string) => {
  const { url, close } = await delayingProxy(direct, numberOf('delay'))
  // Gateways of one process would share a connection.
  const all = Array.from({ length: numberOf('gateways') }, (_, n) => gateway(`${url}?gateway=${n}`, `g${n}`))
  let isEnding = false
  const lags: number[] = []
  const run = async ({ bookkeeper, write }: (typeof all)[number]) => {
    await sleep(Math.random() * 1_000)
    while (!isEnding) {
      const since = performance.now()
      write(numberOf('rate'))
      while (await bookkeeper.step());
      lags.push(performance.now() - since)
      await sleep(Math.max(0, 1_000 - (performance.now() - since)))
    }
  }
  for (const { bookkeeper } of all) await bookkeeper.step()
  const running = all.map(run)
  await sleep(numberOf('seconds') * 1_000)
  isEnding = true
  await Promise.all(running)
  lags.sort((one, other) => one - other)
  const at = (part: number) => `${Math.round(lags[Math.min(lags.length - 1, Math.floor(part * lags.length))] ?? 0)} ms`
  print(
    `${all.length} gateways, ${values.delay} ms to Postgres, ${values.rate} requests a second each: stored within ${at(0.5)} (median), ${at(0.99)} (p99), ${at(1)} (most)`,
  )
  await Promise.all(all.map((one) => one.close()))
  close()
}

if (values.writer !== undefined) await runWriter(values.url ?? '', values.writer)
else {
  const server = values.url === undefined ? await startPostgres() : null
  const url = values.url ?? server?.url ?? ''
  try {
    await throughput(url)
    await manyGateways(url)
  } finally {
    await server?.remove()
  }
}
