/**
 * Measures what shared limits cost with WORKERS=2: a key with limits and a budget against one without, in CPU time per request
 * of the workers and of the supervisor, and in time per request: `node bench/workers-accounts.ts [--rounds 20]
 * [--requests 1000] [--clients 16]`. The keys take turns; the median of the differences of each round counts. Linux only.
 */
import { Agent, request } from 'node:http'
import { parseArgs } from 'node:util'
import { start } from '../test/e2e/support/process.ts'
import { answerWith } from '../test/support/answers.ts'
import { startUpstream } from '../test/support/upstream.ts'
import { family, threadsTimeOf } from './proc.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '20' },
    requests: { type: 'string', default: '1000' },
    clients: { type: 'string', default: '16' },
  },
})
const [ROUNDS, REQUESTS, CLIENTS] = [Number(values.rounds), Number(values.requests), Number(values.clients)]
/** Rounds before the first that counts. */
const WARM_UP = 3
const KEYS = { free: 'a-key-without-limits-1234', limited: 'a-key-with-limits-of-its-own' } as const

const upstream = await startUpstream((asked) => answerWith(asked, { text: 'x', input: 10, output: 10 }))
const gateway = await start({
  env: { WORKERS: '2', OPENAI_API_KEY: 'sk-0123456789', OPENAI_BASE_URL: `${upstream.url}/v1`, OPENAI_MODELS: 'm' },
  files: {
    'headgate.yaml': JSON.stringify({
      usage: { ledger: false },
      prices: [{ provider: 'openai', model: '*', perMillion: { input: 10, output: 40 } }],
      keys: {
        free: { secret: KEYS.free },
        limited: {
          secret: KEYS.limited,
          limits: { requestsPerMinute: 1e6, tokensPerMinute: 1e9, concurrent: 1e6 },
        },
      },
      budgets: { all: { amount: '1000000', period: 'month', appliesTo: { keys: ['limited'] } } },
    }),
  },
})

const body = JSON.stringify({ model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'hello' }] })
const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS })
const ask = (secret: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }
    const sent = request(`${gateway.base}/chat/completions`, { method: 'POST', agent, headers }, (answer) => {
      answer.resume()
      if (answer.statusCode === 200) answer.on('end', resolve)
      else reject(new Error(`status ${answer.statusCode}`))
    })
    sent.on('error', reject)
    sent.end(body)
  })

type CpuSample = { readonly workers: number; readonly supervisor: number; readonly wait: number }

/** µs of CPU time per request, and ms that a client waited for a request. */
const measure = async (secret: string): Promise<CpuSample> => {
  const times: number[] = []
  const before = spent()
  let left = REQUESTS
  const client = async () => {
    while (left-- > 0) {
      const began = performance.now()
      await ask(secret)
      times.push(performance.now() - began)
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  const after = spent()
  const each = (name: 'workers' | 'supervisor') => ((after[name] - before[name]) * 1000) / REQUESTS
  return { workers: each('workers'), supervisor: each('supervisor'), wait: median(times) }
}

const { pid = 0 } = gateway.child
const children = family(pid).slice(1)
/** ms of CPU time. */
const spent = () => ({
  supervisor: threadsTimeOf(pid),
  workers: children.reduce((sum, child) => sum + threadsTimeOf(child), 0),
})

const median = (figures: readonly number[]): number => {
  const sorted = figures.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

const rounds: { readonly free: CpuSample; readonly limited: CpuSample }[] = []
for (let round = 0; round < WARM_UP + ROUNDS; round++) {
  const isEven = round % 2 === 0
  const first = await measure(isEven ? KEYS.free : KEYS.limited)
  const second = await measure(isEven ? KEYS.limited : KEYS.free)
  if (round >= WARM_UP) rounds.push(isEven ? { free: first, limited: second } : { free: second, limited: first })
}
for (const [name, unit] of [
  ['workers', 'µs CPU'],
  ['supervisor', 'µs CPU'],
  ['wait', 'ms'],
] as const) {
  const free = median(rounds.map((one) => one.free[name]))
  const limited = median(rounds.map((one) => one.limited[name]))
  const added = median(rounds.map((one) => one.limited[name] - one.free[name]))
  process.stdout.write(
    `${name.padEnd(10)} ${free.toFixed(2)} without limits, ${limited.toFixed(2)} with: +${added.toFixed(2)} ${unit} per request\n`,
  )
}
agent.destroy()
await gateway.stop()
await upstream.close()
