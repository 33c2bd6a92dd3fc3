/**
 * The fleet of the scenario: gateways behind haproxy in turn on a Postgres with a standby, and on a Redis. All reach Postgres
 * through one proxy that leads to the primary, as an address that moves with it; a gateway that can be cut off reaches both stores
 * through proxies of its own, which can hang.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { list, object, parseObject } from '../../src/core/json.ts'
import { type Balancer, shippedRoundRobin, startBalancer } from '../e2e/support/balancer.ts'
import { type Started, start } from '../e2e/support/process.ts'
import { fileOf } from '../e2e/support/stage.ts'
import { freePorts } from '../support/ports.ts'
import { type PostgresServer, startPostgres } from '../support/postgres.ts'
import { startRedis, startRedisCluster, type TestRedis } from '../support/redis.ts'
import { type ToxicProxy, toxicProxy } from '../support/toxics.ts'
import { MIGRATED, nextVersion } from './next-version.ts'
import { BILLED, type Provider, startProvider } from './provider.ts'

export const ADMIN = 'admin-0123456789abcdef0123456789'

/** The limits of the keys that have some. A budget lasts for this many answers. */
export const LIMITS = { rate: 120, slots: 6, answers: 20 } as const

/** Keys by name: without limits, with limits, and with budgets. Each `hard…` is spent in another part of the scenario. */
export const KEYS = ['open', 'rate', 'slots', 'strict', ...Array.from({ length: 12 }, (_, at) => `hard${at}`)] as const
export const secretOf = (key: string): string => `scenario-${key}-0123456789abcdef0123456789`

/** ms for what takes seconds on an idle machine. */
const PATIENCE = 120_000

export type Gateway = {
  readonly name: string
  readonly url: string
  started: Started
}

export type Fleet = {
  readonly url: string
  readonly gateways: readonly Gateway[]
  readonly provider: Provider
  readonly redis: Counters
  readonly primary: PostgresServer
  readonly standby: PostgresServer
  /** The address of Postgres leads to the standby from now on. Connections to the primary end. */
  moveToStandby(): void
  /** The proxies of the gateway that can be cut off from the stores. */
  readonly partition: readonly ToxicProxy[]
  /** Starts a gateway with an empty folder, which the balancer does not know. */
  addPod(): Promise<Gateway>
  /** SIGTERM, and a new process of a version in the same place; resolves when the balancer sends requests to it. */
  restart(gateway: Gateway, version: Version): Promise<number | null>
  /** SIGKILL; resolves after the process has ended. */
  kill(gateway: Gateway): Promise<void>
  /** Starts a killed one again; resolves when the balancer sends requests to it. */
  revive(gateway: Gateway): Promise<void>
  /** What the balancer has written about gateways that it takes out. */
  takenOut(): string
  /** The versions of the schemas in Postgres, by name. */
  schemas(): Promise<Readonly<Record<string, number>>>
  /** Resolves when no gateway reports a problem. */
  settled(): Promise<void>
  stop(): Promise<void>
}

const configuration = (provider: string, storeTimeout: number | undefined): string =>
  fileOf({
    auth: { admin: ADMIN },
    providers: { one: { baseUrl: `${provider}/v1`, styles: ['chat'] } },
    prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
    keys: Object.fromEntries(
      KEYS.map((key) => [
        key,
        {
          secret: secretOf(key),
          ...(key === 'rate' && { limits: { requestsPerMinute: LIMITS.rate } }),
          ...(key === 'slots' && { limits: { concurrent: LIMITS.slots } }),
        },
      ]),
    ),
    budgets: {
      hard: {
        amount: ((LIMITS.answers * BILLED.cost) / 1e9).toFixed(9),
        period: 'total',
        per: 'key',
        appliesTo: { keys: KEYS.filter((key) => key.startsWith('hard')) },
      },
      strict: { amount: '1000', period: 'total', enforcement: 'strict', appliesTo: { keys: ['strict'] } },
    },
    // A gateway that ends late ends by itself, and its log says why: a process is killed after 60 s.
    drain: { delay: 1_000, timeout: 40_000 },
    ...(storeTimeout !== undefined && { responses: { timeout: storeTimeout } }),
  })

/** One Redis, or a cluster of three. */
export type Counters = {
  /** The server, or one of the cluster, no longer answers, until `resume`. */
  pause(): void
  resume(): void
  empty(): Promise<void>
  /** Ends the server of a single one, and starts it again, empty. */
  kill(): Promise<void>
  start(): Promise<void>
}

/** `plain`, with two workers, or with proxies of its own before the stores, which can hang. */
export type Place = 'plain' | 'workers' | 'partition'

/** `next`: has one more migration of each schema than the one before. */
export type Version = 'before' | 'next'

export type FleetOptions = {
  readonly places: readonly Place[]
  readonly redis: 'one' | 'cluster'
  /** Program of the version that is replaced by a rolling upgrade; absent: the sources. */
  readonly before?: string | undefined
  /** `responses.timeout`; absent: its default. */
  readonly storeTimeout?: number | undefined
}

export const startFleet = async (options: FleetOptions): Promise<Fleet> => {
  const closers: (() => unknown)[] = []
  const stop = async () => {
    for (const close of closers.splice(0).reverse()) await close()
  }
  try {
    return await build(options, closers, stop)
  } catch (error) {
    await stop()
    throw error
  }
}

/** Nodes, as one store of counters. */
const countersOf = (nodes: TestRedis[]): Counters => ({
  pause: () => nodes.at(-1)?.signal('SIGSTOP'),
  resume: () => nodes.at(-1)?.signal('SIGCONT'),
  empty: async () => void (await Promise.all(nodes.map((node) => node.command('FLUSHALL')))),
  kill: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
  async start() {
    for (const [at, { port }] of nodes.entries()) nodes[at] = await startRedis(port)
  },
})

const build = async (
  { places, redis: kind, before, storeTimeout }: FleetOptions,
  closers: (() => unknown)[],
  stop: Fleet['stop'],
): Promise<Fleet> => {
  const keep = <T>(it: T, close: (it: T) => unknown): T => {
    closers.push(() => close(it))
    return it
  }
  const provider = keep(await startProvider(), (it) => it.stop())
  const primary = keep(await startPostgres(), (it) => it.remove())
  const standby = keep(await startPostgres(primary), (it) => it.remove())
  const cluster = kind === 'cluster' ? await startRedisCluster() : undefined
  const nodes = [...(cluster?.nodes ?? [await startRedis()])]
  closers.push(() => Promise.all(nodes.map((node) => node.stop())))
  const [{ port: redisPort, url: redisUrl } = assert.fail('no Redis')] = nodes
  let leader = primary
  const address = keep(await toxicProxy(() => leader.port), (it) => it.close())
  const partition = [
    keep(await toxicProxy(address.port), (it) => it.close()),
    keep(await toxicProxy(redisPort), (it) => it.close()),
  ] as const
  const file = configuration(provider.url, storeTimeout)
  const newFolder = () =>
    keep(mkdtempSync(join(tmpdir(), 'headgate-scenario-')), (it) => rmSync(it, { recursive: true, force: true }))
  const programs: { [version in Version]: string | undefined } = { before, next: undefined }
  const programOf = (version: Version) => {
    if (version === 'next') programs.next ??= nextVersion(newFolder())
    return programs[version]
  }

  const launch = async (port: number, folder: string, place: Place, version: Version = 'before'): Promise<Started> => {
    const program = programOf(version)
    const isCutOff = place === 'partition'
    const env = {
      PORT: String(port),
      HOST: '127.0.0.1',
      DATA_DIR: folder,
      DATABASE_URL: primary.url.replace(`:${primary.port}`, `:${isCutOff ? partition[0].port : address.port}`),
      REDIS_URL: cluster?.url ?? (isCutOff ? redisUrl.replace(`:${redisPort}`, `:${partition[1].port}`) : redisUrl),
      ...(place === 'workers' && { WORKERS: '2' }),
    }
    return start({ env, files: { 'headgate.yaml': file }, ...(program !== undefined && { program }) })
  }
  const ports = await freePorts(places.length)
  const seats = await Promise.all(
    places.map(async (place, at) => {
      const seat = { place, port: ports[at] ?? 0, folder: newFolder(), index: at }
      const gateway: Gateway = {
        name: `${place}${at}`,
        url: `http://127.0.0.1:${seat.port}`,
        started: await launch(seat.port, seat.folder, place),
      }
      closers.push(() => gateway.started.stop())
      return { ...seat, gateway }
    }),
  )
  const gateways = seats.map(({ gateway }) => gateway)
  const balancer: Balancer = keep(await startBalancer(ports, shippedRoundRobin), (it) => it.stop())
  for (const index of ports.keys()) await balancer.isUp(index)
  const seatOf = (gateway: Gateway) => seats.find((seat) => seat.gateway === gateway) ?? assert.fail(gateway.name)
  const revive = async (gateway: Gateway, version?: Version) => {
    const { port, folder, place, index } = seatOf(gateway)
    gateway.started = await launch(port, folder, place, version)
    await balancer.isUp(index)
  }
  return {
    url: balancer.url,
    gateways,
    provider,
    redis: countersOf(nodes),
    primary,
    standby,
    partition,
    moveToStandby() {
      leader = standby
    },
    async addPod() {
      const [port = 0] = await freePorts(1)
      const started = keep(await launch(port, newFolder(), 'plain'), (it) => it.stop())
      const gateway = { name: 'pod', url: started.url, started }
      await until(`${gateway.name} is ready`, async () => (await fetch(`${gateway.url}/health/ready`)).status === 200)
      return gateway
    },
    async restart(gateway, version) {
      const { started } = gateway
      const code = await started.stop()
      if (code !== 0) process.stderr.write(`${gateway.name} was ended. ${JSON.stringify(started.lines().slice(-20))}\n`)
      await revive(gateway, version)
      return code
    },
    async kill({ started }) {
      const exited = once(started.child, 'exit')
      started.child.kill('SIGKILL')
      await exited
    },
    revive,
    takenOut: () => balancer.output(),
    async schemas() {
      const client = new pg.Client({ connectionString: leader.url })
      await client.connect()
      const versions = MIGRATED.map(
        ({ schema }) => `(SELECT CAST(version AS INTEGER) FROM ${schema}.schema_version) AS ${schema}`,
      )
      const { rows } = await client.query(`SELECT ${versions.join(', ')}`)
      await client.end()
      return rows[0]
    },
    settled: () =>
      until('no gateway has a problem', async () => {
        const problems = await Promise.all(gateways.map(problemsOf))
        return problems.every(({ length }) => length === 0)
      }),
    stop,
  }
}

/** The components that a gateway reports as degraded. */
export const problemsOf = async ({ url }: Pick<Gateway, 'url'>): Promise<readonly string[]> => {
  const response = await fetch(`${url}/health`, { headers: { connection: 'close' } })
  return list(parseObject(await response.text())?.problems).map((problem) => String(object(problem)?.component))
}

/** Waits for a condition, at most two minutes. */
export const until = async (what: string, condition: () => Promise<boolean> | boolean): Promise<void> => {
  for (const end = performance.now() + PATIENCE; !(await condition()); await sleep(50))
    assert.ok(performance.now() < end, `never true: ${what}`)
}
