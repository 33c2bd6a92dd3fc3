/** Several gateways that share Postgres, or Redis alone, act as one for an operator. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isObject, type JsonObject, list, object, parseObject } from '../../src/core/json.ts'
import { skipPostgres, startPostgres } from '../support/postgres.ts'
import { skipRedis, startRedis } from '../support/redis.ts'
import { type Act, startUpstream, type Upstream, type UpstreamRequest } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

const ADMIN = 'admin-0123456789abcdefghijkl'
const MESSAGES = [{ role: 'user', content: 'x' }]
/** ms for what has to happen; a busy machine needs a multiple of the usual. */
const PATIENCE = 60_000

const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const chunk = (content: string): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`
const answer = { choices: [{ index: 0, message: { role: 'assistant', content: 'y' }, finish_reason: 'stop' }] }

const api = async ({ url }: Started, call: string, body?: object) => {
  const [method = 'GET', path] = call.split(' ')
  const response = await fetch(`${url}/admin/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', 'if-match': '*' },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, body: parseObject(await response.text()) ?? {} }
}

const until = async <T>(what: string, find: () => Promise<T | undefined>): Promise<T> => {
  for (const end = performance.now() + PATIENCE; performance.now() < end; await sleep(50)) {
    const found = await find()
    if (found !== undefined) return found
  }
  throw new Error(`not within ${PATIENCE} ms: ${what}`)
}

const gatewaysOf = async (gateway: Started): Promise<readonly JsonObject[]> =>
  list((await api(gateway, 'GET /system')).body.gateways).filter(isObject)

const listed = (gateway: Started, count: number) =>
  until(`${count} gateways`, async () => {
    const found = await gatewaysOf(gateway)
    return found.length === count ? found : undefined
  })

/** Receives alerts, by their types. */
const receiver = async () => {
  const received: string[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const chunk of request.setEncoding('utf8')) text += chunk
    received.push(String(parseObject(text)?.type))
    response.writeHead(204).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closers.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // A server on a port has an address object.
  return { received, url: `http://127.0.0.1:${port}/hook` }
}

type Stage = {
  readonly alerts: readonly string[]

  readonly gateways: readonly Started[]
  readonly upstream: Upstream
  script: (request: UpstreamRequest) => Act
}

const stageOf = async (
  env: Readonly<Record<string, string>>,
  of: readonly Readonly<Record<string, string>>[],
): Promise<Stage> => {
  const stage: { script: Stage['script'] } = { script: () => ({ do: 'answer', body: answer }) }
  const upstream = await startUpstream((request) => stage.script(request))
  closers.push(() => upstream.close())
  const { received: alerts, url } = await receiver()
  const config = {
    routes: { chain: { targets: ['openai/bad', 'openai/m'] } },
    alerts: { url, rules: { estimatedShare: 0, circuitOpen: 0, failedShare: 0 } },
  }
  const gateways = await Promise.all(
    of.map(async (more) => {
      const gateway = await start({
        env: {
          AUTH_ADMIN: ADMIN,
          AUTH_REQUIRED: 'false',
          OPENAI_API_KEY: 'sk-openai-0123456789',
          OPENAI_BASE_URL: `${upstream.url}/v1`,
          OPENAI_MODELS: 'm,bad',
          CIRCUIT_MIN_REQUESTS: '100',
          CIRCUIT_CONSECUTIVE_FAILURES: '3',
          ...env,
          ...more,
        },
        files: { 'headgate.yaml': JSON.stringify(config) },
      })
      closers.push(() => gateway.stop())
      await until('it is ready', async () =>
        (await fetch(`${gateway.url}/health/ready`)).status === 200 ? true : undefined,
      )
      return gateway
    }),
  )
  for (const one of gateways) await listed(one, gateways.length)
  return Object.assign(stage, { gateways, upstream, alerts })
}

const STORES = [
  {
    name: 'Postgres',
    skip: skipPostgres,
    keys: true,
    gateways: [{ WORKERS: '2' }, {}, {}],
    processes: 4,
    async env() {
      const server = await startPostgres()
      closers.push(() => server.remove())
      return { DATABASE_URL: server.url }
    },
  },
  {
    name: 'Redis alone',
    skip: skipRedis,
    // Each gateway has its own keys.
    keys: false,
    gateways: [{}, {}],
    processes: 2,
    async env() {
      const server = await startRedis()
      closers.push(() => server.stop())
      return { REDIS_URL: server.url }
    },
  },
]

for (const { name, skip, keys, env, gateways, processes } of STORES)
  describe(`gateways that share ${name}`, { skip, timeout: 300_000 }, () => {
    let stage: Stage
    test('each lists all of them, with version and health', async () => {
      stage = await stageOf(await env(), gateways)
      const names = await Promise.all(
        stage.gateways.map(async (gateway) => (await gatewaysOf(gateway)).map(({ node }) => String(node)).toSorted()),
      )
      assert.equal(new Set(names[0]).size, gateways.length)
      for (const one of names) assert.deepEqual(one, names[0])
      const [first] = stage.gateways
      assert.ok(first)
      const found = await gatewaysOf(first)
      for (const { version, status, problems } of found)
        assert.deepEqual([typeof version, status, problems], ['string', 'ok', []])
      const { nodes } = (await api(first, 'GET /system')).body
      assert.equal(list(nodes).length, processes, 'each worker and each gateway answers')
    })

    test('a purge empties the cache of all, and says how many processes it has reached', async () => {
      const [one, ...others] = stage.gateways
      assert.ok(one)
      const body = { model: 'openai/m', messages: MESSAGES, temperature: 0 }
      for (const { base } of stage.gateways)
        await post(`${base}/chat/completions`, body, { 'x-headgate-cache': 'ttl=600' })
      const purged = await api(one, 'POST /cache/purge', {})
      assert.deepEqual(object(purged.body.processes), { answered: processes, of: processes })
      for (const other of others)
        assert.deepEqual((await api(other, 'GET /cache')).body.answers, 0, 'no answer is left anywhere')
    })

    test('a key that is revoked with cut ends its streams at all gateways', { skip: !keys }, async () => {
      stage.script = () => ({
        do: 'stream',
        pieces: [chunk('a')],
        ending: 'stall',
        headers: { 'content-type': 'text/event-stream' },
      })
      const [one] = stage.gateways
      assert.ok(one)
      const made = await api(one, 'POST /keys', { name: 'leaked' })
      assert.equal(made.status, 201, JSON.stringify(made.body))
      const streams = await Promise.all(
        stage.gateways.map(({ base }) =>
          fetch(`${base}/chat/completions`, {
            method: 'POST',
            headers: { authorization: `Bearer ${made.body.secret}`, 'content-type': 'application/json' },
            body: JSON.stringify({ model: 'openai/m', messages: MESSAGES, stream: true }),
          }),
        ),
      )
      // The new key is valid at each gateway once the answer about it has come.
      assert.deepEqual(
        streams.map(({ status }) => status),
        [200, 200, 200],
      )
      assert.equal((await api(one, `DELETE /keys/${made.body.id}?cut=true`)).status, 200)
      for (const stream of streams) assert.match(await stream.text(), /revoked/)
      stage.script = () => ({ do: 'answer', body: answer })
    })

    test('a circuit that opens at one gateway lets one request of each other process try it', async () => {
      stage.script = ({ model }) =>
        model === 'bad'
          ? { do: 'answer', status: 503, body: { error: { message: 'down' } } }
          : { do: 'answer', body: answer }
      const toBad = () => stage.upstream.requests.filter(({ model }) => model === 'bad').length
      const call = async ({ base }: Started) =>
        assert.equal((await post(`${base}/chat/completions`, { model: 'chain', messages: MESSAGES })).status, 200)
      const [, one, ...others] = stage.gateways
      assert.ok(one)
      const before = toBad()
      for (let n = 0; n < 5; n++) await call(one)
      assert.equal(toBad() - before, 3, 'its circuit is open after three failures')
      // Hints are collected for a moment, and messages have an order: who has answered a later one has read them.
      await sleep(200)
      await until('all have read it', async () =>
        list((await api(one, 'GET /system')).body.nodes).length === processes ? true : undefined,
      )
      const opened = toBad()
      for (let n = 0; n < 20; n++) for (const other of [...others, ...stage.gateways.slice(0, 1)]) await call(other)
      const probes = toBad() - opened
      assert.ok(
        probes < processes,
        `${probes} requests of ${processes - 1} processes tried a target that is open elsewhere`,
      )
    })

    test('a threshold of a budget sends one alert, and one gateway lists it for all', { skip: !keys }, async () => {
      const [one] = stage.gateways
      assert.ok(one)
      const budget = { name: 'b', amount: '10.00', period: 'total', alerts: [80] }
      const made = await api(one, 'POST /budgets', budget)
      assert.equal(made.status, 201, JSON.stringify(made.body))
      const adjusted = await api(one, `POST /budgets/${made.body.id}/adjust`, { amount: '9.00', reason: 'test' })
      assert.ok(adjusted.status < 300, JSON.stringify(adjusted.body))
      await until('an alert', async () => (stage.alerts.length > 0 ? true : undefined))
      for (const gateway of stage.gateways)
        await until('the alert is listed', async () =>
          list((await api(gateway, 'GET /alerts')).body.data).length === 1 ? true : undefined,
        )
      assert.deepEqual(stage.alerts, ['budget.threshold'])
    })

    test('a listener of live events at one gateway receives the requests of all', async () => {
      const [one] = stage.gateways
      assert.ok(one)
      const leaving = new AbortController()
      const response = await fetch(`${one.url}/admin/api/v1/live?topics=requests`, {
        headers: { authorization: `Bearer ${ADMIN}` },
        signal: leaving.signal,
      })
      let text = ''
      const read = async () => {
        for await (const part of response.body ?? []) text += Buffer.from(part).toString()
      }
      const ended = read().catch(() => {})
      const nodes = () =>
        new Set([...text.matchAll(/^data: (.*"received_at".*)$/gm)].map(([, data = '']) => parseObject(data)?.node))
      await until('events of all gateways', async () => {
        for (const { base } of stage.gateways)
          await post(`${base}/chat/completions`, { model: 'openai/m', messages: MESSAGES }, { connection: 'close' })
        return nodes().size >= processes ? true : undefined
      })
      assert.equal(nodes().size, processes)
      leaving.abort()
      await ended
    })

    test('one that is killed leaves the list', { skip: !keys }, async () => {
      const [one, , last] = stage.gateways
      assert.ok(one && last)
      const killed = performance.now()
      last.child.kill('SIGKILL')
      await listed(one, 2)
      assert.ok(performance.now() - killed < 15_000 + PATIENCE)
    })
  })
