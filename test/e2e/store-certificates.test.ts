/** Postgres and Redis with certificates of a company: `network.ca` is trusted by their clients, and nothing without it. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { selfSigned } from '../support/certificate.ts'
import { freePorts } from '../support/ports.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { skipRedis, startRedis, type TestRedis } from '../support/redis.ts'
import { post, run, start } from './support/process.ts'

const certificate = selfSigned()
const KEY = 'key-one-0123456789abcdef0123456789'
const SKIP = skipPostgres || skipRedis

describe('store certificates', { skip: SKIP }, () => {
  let folder = ''
  let postgres: PostgresServer
  let redis: TestRedis
  let rediss = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'headgate-stores-'))
    await writeFile(join(folder, 'cert.pem'), certificate.cert)
    await writeFile(join(folder, 'key.pem'), certificate.key)
    postgres = await startPostgres(undefined, certificate)
    const [port] = await freePorts(1)
    const files = ['--tls-cert-file', join(folder, 'cert.pem'), '--tls-key-file', join(folder, 'key.pem')]
    redis = await startRedis(undefined, ['--tls-port', `${port}`, ...files, '--tls-auth-clients', 'no'])
    rediss = `rediss://localhost:${port}`
  })
  after(async () => {
    await redis?.stop()
    await postgres?.remove()
    await rm(folder, { recursive: true, force: true })
  })

  const options = (more: Readonly<Record<string, string>>) => ({
    env: {
      DATABASE_URL: `${postgres.url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full`,
      REDIS_URL: rediss,
      CACHE_SHARED: 'true',
      ...more,
    },
    files: {
      'ca.pem': certificate.cert,
      'headgate.yaml': JSON.stringify({ keys: { one: { secret: KEY, limits: { requestsPerMinute: 100 } } } }),
    },
  })
  /** By store: whether the gateway can use it. */
  const stores = async (url: string): Promise<Readonly<Record<string, string>>> => {
    const page = await (await fetch(`${url}/metrics`)).text()
    return Object.fromEntries(
      Array.from(page.matchAll(/^headgate_store_up\{store="(\w+)".*\} (\d)$/gm), ([, store = '', up = '']) => [
        store,
        up,
      ]),
    )
  }

  for (const workers of ['1', '2'])
    test(`store certificates: with network.ca both are used, WORKERS=${workers}`, async () => {
      await using gateway = await start(options({ NETWORK_CA: 'ca.pem', WORKERS: workers }))
      const body = { model: 'demo/echo', messages: [{ role: 'user', content: 'hello' }] }
      const answer = await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${KEY}` })
      assert.equal(answer.status, 200, answer.text)
      const up = await stores(gateway.url)
      assert.deepEqual([up.control, up.limits, up.responses, up.usage], ['1', '1', '1', '1'], gateway.output())
      // Clients of Redis that came by TLS.
      assert.match(await redis.command('CLIENT LIST'), new RegExp(`laddr=127.0.0.1:${new URL(rediss).port}`))
      const doctor = await run({ ...options({ NETWORK_CA: 'ca.pem' }), args: ['doctor'] })
      await doctor.exited
      assert.doesNotMatch(doctor.output(), /SELF_SIGNED|self-signed|DEPTH_ZERO/)
    })

  test('store certificates: without it neither is', async () => {
    await using gateway = await start(options({}))
    const up = await stores(gateway.url)
    assert.deepEqual([up.control, up.limits], ['0', '0'], gateway.output())
  })
})
