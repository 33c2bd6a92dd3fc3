/**
 * Three gateways behind haproxy, restarted in turn under load without a failed request. If the drain time is shorter
 * than a stream, cut streams end with an error. HEADGATE_RESTARTS=5 restarts each five times.
 */
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { STYLES, type Style, sendRequest } from '../../tools/soak/client.ts'
import { type ClientView, type Ending, judge } from '../../tools/soak/oracle.ts'
import { startProviders } from '../../tools/soak/upstream-process.ts'
import { freePorts } from '../support/ports.ts'
import { skipBalancer, startBalancer } from './support/balancer.ts'
import { type Started, start } from './support/process.ts'
import { fileOf } from './support/stage.ts'

const rounds = Number(process.env.HEADGATE_RESTARTS ?? 1)
const long = rounds > 1

/** ms between two events of a stream, which has 30 to 100 of them. */
const GAP = long ? 250 : 60
const STREAMS = 50
/** Whole requests per second. */
const RATE = 100

type Fleet = {
  readonly url: string
  /** For each in turn: SIGTERM, its exit, a new process in its place, and readiness as the balancer sees it. */
  restartAll(): Promise<readonly (number | null)[]>
  stop(): Promise<void>
}

const fleet = async (drain: { readonly delay: number; readonly timeout: number }): Promise<Fleet> => {
  const closers: (() => Promise<unknown>)[] = []
  const stop = async () => {
    for (const close of closers.splice(0).reverse()) await close()
  }
  try {
    const providers = await startProviders({ percent: 0, gap: GAP })
    closers.push(() => providers.stop())
    const ports = await freePorts(3)
    const file = fileOf({
      providers: { one: { baseUrl: `${providers.url}/one/v1`, styles: ['chat', 'responses'] } },
      responses: { keepDays: 0 },
      drain,
    })
    /** A busy machine may need longer to start one than `start` waits. */
    const launch = async (port: number, tries = 3): Promise<Started> => {
      const made = start({ env: { PORT: String(port), HOST: '127.0.0.1' }, files: { 'headgate.yaml': file } })
      return tries === 1 ? made : made.catch(() => launch(port, tries - 1))
    }
    const gateways: Started[] = []
    closers.push(() => Promise.all(gateways.map((gateway) => gateway.stop())))
    for (const port of ports) gateways.push(await launch(port))
    const balancer = await startBalancer(ports)
    closers.push(() => balancer.stop())
    const restartAll = async () => {
      const codes: (number | null)[] = []
      for (const [at, port] of ports.entries()) {
        const exited = new Promise<number | null>((resolve) => gateways[at]?.child.once('exit', resolve))
        gateways[at]?.child.kill('SIGTERM')
        codes.push(await exited)
        gateways[at] = await launch(port)
        await balancer.isUp(at)
      }
      return codes
    }
    return { url: balancer.url, restartAll, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

type Outcome = { readonly ending: Ending; readonly received: ClientView; readonly style: Style }

/**
 * Keeps this many streams open and sends this many whole requests per second until stopped; then waits for the last.
 */
const load = (url: string) => {
  const agent = new Agent({ keepAlive: true })
  const outcomes: { readonly streams: Outcome[]; readonly whole: Outcome[] } = { streams: [], whole: [] }
  const names = Object.keys(STYLES) as Style[]
  let number = 0
  let over = false
  const ask = async (stream: boolean): Promise<void> => {
    const id = `r${number++}`
    const style = names[number % names.length] ?? 'chat'
    const received = await sendRequest(url, agent, { id, style, stream, model: 'm' })
    outcomes[stream ? 'streams' : 'whole'].push({ ending: judge(received, ['one'], 0), received, style })
  }
  const running = Array.from({ length: STREAMS }, async () => {
    await sleep(Math.random() * 20 * GAP)
    while (!over) await ask(true)
  })
  const pending: Promise<void>[] = []
  const timer = setInterval(() => pending.push(ask(false)), 1000 / RATE)
  const stop = async () => {
    clearInterval(timer)
    over = true
    await Promise.all([...running, ...pending])
    agent.destroy()
  }
  return { outcomes, stop, [Symbol.asyncDispose]: stop }
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const countsOf = (all: readonly Outcome[]): Partial<Record<Ending, number>> => {
  const counts: Partial<Record<Ending, number>> = {}
  for (const { ending } of all) counts[ending] = (counts[ending] ?? 0) + 1
  return counts
}

const options = { skip: skipBalancer, timeout: 600_000 }

test('rolling restart: no request fails and no stream breaks', options, async (t) => {
  const three = await fleet({ delay: 3_000, timeout: 60_000 })
  try {
    await using asking = load(three.url)
    const { outcomes } = asking
    await sleep(2_000)
    const codes: (number | null)[] = []
    for (let round = 0; round < rounds; round++) codes.push(...(await three.restartAll()))
    await sleep(2_000)
    await asking.stop()
    const { streams, whole } = outcomes
    t.diagnostic(
      `${codes.length} restarts, whole ${JSON.stringify(countsOf(whole))}, streams ${JSON.stringify(countsOf(streams))}`,
    )
    const bad = [...streams, ...whole].filter(({ ending }) => ending !== 'complete')
    assert.deepEqual(bad.slice(0, 3), [])
    assert.ok(streams.length > STREAMS && whole.length > RATE, 'there was load')
    assert.deepEqual([...new Set(codes)], [0])
  } finally {
    await three.stop()
  }
})

test('rolling restart: streams that cannot finish end with an error, each of them', options, async (t) => {
  const three = await fleet({ delay: 1_500, timeout: 300 })
  try {
    await using asking = load(three.url)
    const { outcomes } = asking
    await sleep(1_000)
    const codes: (number | null)[] = []
    for (let round = 0; round < rounds; round++) codes.push(...(await three.restartAll()))
    await asking.stop()
    const { streams, whole } = outcomes
    t.diagnostic(
      `${codes.length} restarts, whole ${JSON.stringify(countsOf(whole))}, streams ${JSON.stringify(countsOf(streams))}`,
    )
    const cut = streams.filter(({ ending }) => ending === 'interrupted')
    assert.ok(cut.length > 0, 'some were cut off')
    for (const { received, style } of cut)
      if (style !== 'messages') assert.equal(received.error, 'server_shutdown', received.text)
    assert.deepEqual(
      streams
        .filter(
          ({ ending, received }) =>
            ending !== 'complete' && ending !== 'interrupted' && received.error !== 'server_shutdown',
        )
        .slice(0, 3),
      [],
    )
    // A whole answer that could not finish has an error status.
    assert.deepEqual(whole.filter(({ ending }) => ending !== 'complete' && ending !== 'refused').slice(0, 3), [])
    assert.deepEqual([...new Set(codes)], [0])
  } finally {
    await three.stop()
  }
})
