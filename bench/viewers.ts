/**
 * Measures what viewers of the dashboard cost the gateway: CPU time per request at a steady rate, without viewers, with their
 * live streams alone, and with what an open list of requests reads besides (its figures and the requests in progress, every 10 s):
 * `node bench/viewers.ts [--viewers 10] [--rate 300] [--rounds 5] [--seconds 10] [--filled 0]`. `filled`: requests of the last
 * 15 minutes in the ledger before. The cases take turns, each for `seconds` a round; the median of the rounds counts. Linux only.
 */
import { Agent, type ClientRequest, get, request } from 'node:http'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { start } from '../test/e2e/support/process.ts'
import { answerWith } from '../test/support/answers.ts'
import { startUpstream } from '../test/support/upstream.ts'
import { fillLedger } from '../test/support/usage-ledger.ts'
import { threadsTimeOf } from './proc.ts'

const { values } = parseArgs({
  options: {
    viewers: { type: 'string', default: '10' },
    rate: { type: 'string', default: '300' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '10' },
    filled: { type: 'string', default: '0' },
  },
})
const {
  viewers: VIEWERS,
  rate: RATE,
  rounds: ROUNDS,
  seconds: SECONDS,
  filled: FILLED,
} = {
  viewers: Number(values.viewers),
  rate: Number(values.rate),
  rounds: Number(values.rounds),
  seconds: Number(values.seconds),
  filled: Number(values.filled),
}
/** ms between two batches of requests. */
const TICK = 20
/** ms after the last answer in which the ledger stores the requests. */
const STORED = 1_000
const CASES = ['none', 'streams', 'pages'] as const
type ViewerCase = (typeof CASES)[number]

const upstream = await startUpstream((asked) => answerWith(asked, { text: 'x', input: 10, output: 10 }))
const gateway = await start({
  env: { OPENAI_API_KEY: 'sk-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1`, OPENAI_MODELS: 'm' },
})
const { pid = 0 } = gateway.child
const admin = `${gateway.url}/admin/api/v1`
const agent = new Agent({ keepAlive: true, maxSockets: 64 })
const body = JSON.stringify({ model: 'openai/m', messages: [{ role: 'user', content: 'hello' }] })

const ask = (): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json' }
    const sent = request(`${gateway.base}/chat/completions`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume()
      if (answer.statusCode === 200) answer.on('end', resolve)
      else reject(new Error(`status ${answer.statusCode}`))
    })
    // The gateway may have closed a connection that was idle.
    sent.on('error', (error) => (sent.reusedSocket ? resolve(ask()) : reject(error)))
    sent.end(body)
  })

/** Reads a stream of events; resolves when it is open. Closing it ends the viewer. */
const follow = (): Promise<ClientRequest> =>
  new Promise((resolve, reject) => {
    const sent = get(`${admin}/live?topics=budgets,circuits,keys,requests&sample=true`, (answer) => {
      answer.resume()
      answer.on('error', () => {})
      if (answer.statusCode === 200) resolve(sent)
      else reject(new Error(`status ${answer.statusCode}`))
    })
    sent.on('error', reject)
  })

/** What an open list of requests reads every 10 s: the count and the histogram, and the number of requests in progress. */
const readFigures = async (): Promise<void> => {
  const from = new Date(Date.now() - 15 * 60_000).toISOString()
  await readPath('/requests/running?shared=true')
  await readPath(`/requests?from=${from}&limit=1&count=true&histogram=60&shared=true`)
}

const readPath = async (path: string): Promise<void> => {
  const answer = await fetch(admin + path)
  await answer.arrayBuffer()
  if (!answer.ok) throw new Error(`status ${answer.status}`)
}

/** µs of CPU time per request. */
const measure = async (one: ViewerCase): Promise<number> => {
  const viewers = await Promise.all(Array.from({ length: one === 'none' ? 0 : VIEWERS }, follow))
  const before = threadsTimeOf(pid)
  const begun = performance.now()
  const pending: Promise<unknown>[] = []
  let sent = 0
  let reads = 0
  while (performance.now() - begun < SECONDS * 1_000) {
    const elapsed = performance.now() - begun
    for (; sent < (elapsed / 1000) * RATE; sent++) pending.push(ask())
    if (one === 'pages') for (; reads < (elapsed / 10_000) * VIEWERS; reads++) pending.push(readFigures())
    await new Promise((resolve) => setTimeout(resolve, TICK))
  }
  await Promise.all(pending)
  await new Promise((resolve) => setTimeout(resolve, STORED))
  const spent = ((threadsTimeOf(pid) - before) * 1000) / sent
  for (const viewer of viewers) viewer.destroy()
  return spent
}

const median = (all: readonly number[]): number => all.toSorted((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0

const started = Date.now() - 1_000
try {
  await measure('pages')
  if (FILLED > 0) fillLedger(join(gateway.folder, '.headgate'), { count: FILLED, end: started, days: 1 / 96 })
  const found: { readonly [one in ViewerCase]: number[] } = { none: [], streams: [], pages: [] }
  for (let round = 0; round < ROUNDS; round++)
    for (const one of round % 2 === 0 ? CASES : CASES.toReversed()) found[one].push(await measure(one))
  for (const one of CASES) {
    const ratios = found[one].map((value, at) => value / (found.none[at] ?? value))
    const range = `${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)}`
    process.stdout.write(`${one}: ${median(found[one]).toFixed(0)} µs, ${median(ratios).toFixed(2)} × (${range})\n`)
  }
} finally {
  agent.destroy()
  await gateway.stop()
  await upstream.close()
}
