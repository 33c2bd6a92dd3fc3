/**
 * docs/deploy/stores.md: the rights that it gives to gateways are enough, its options of TLS check the server, and a gateway
 * waits for a migration as it says.
 */
import assert from 'node:assert/strict'
import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { blocksOf } from '../docs/support.ts'
import { post, type Started, start } from '../e2e/support/process.ts'
import { verb } from '../e2e/support/verb.ts'
import { selfSigned } from '../support/certificate.ts'
import { freePorts } from '../support/ports.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { skipRedis, startRedis } from '../support/redis.ts'

const ADMIN = 'operator-token-0123456789'
const AUTHORIZED = { authorization: `Bearer ${ADMIN}` }
/** ms in which a gateway notices a change of its database, on a busy machine. */
const NOTICED = 30_000

type Row = Readonly<Record<string, unknown>>
const TABLES = "SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname LIKE 'headgate%'"
const ENCRYPTED = `SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
  WHERE application_name LIKE 'headgate %'`

const until = async (holds: () => Promise<boolean>, what: () => string): Promise<void> => {
  for (const end = performance.now() + NOTICED; !(await holds()); await sleep(100))
    assert.ok(performance.now() < end, what())
}

const isReady = async ({ url }: Started): Promise<boolean> => (await fetch(`${url}/health/ready`)).status === 200

const started = (url: string, env: Readonly<Record<string, string>> = {}): Promise<Started> =>
  start({ env: { AUTH_ADMIN: ADMIN, AUTH_REQUIRED: 'auto', DATABASE_URL: url, ...env } })

const migrate = async (url: string): Promise<void> => {
  const { code, stderr } = await verb(['db', 'migrate', '--wait', '10s'], { env: { DATABASE_URL: url } })
  assert.equal(code, 0, stderr)
}

/** Creates a key, uses it, and reads the usage of it. */
const works = async (gateway: Started): Promise<void> => {
  await until(() => isReady(gateway), gateway.output)
  const { status, json, text } = await post(`${gateway.url}/admin/api/v1/keys`, { name: 'alice' }, AUTHORIZED)
  assert.equal(status, 201, text)
  const body = { model: 'demo/echo', messages: [{ role: 'user', content: 'hello' }] }
  const answer = await post(`${gateway.base}/chat/completions`, body, { authorization: `Bearer ${json().secret}` })
  assert.equal(answer.status, 200, answer.text)
  await until(
    async () => {
      const response = await fetch(`${gateway.url}/admin/api/v1/keys/${json().id}/usage`, { headers: AUTHORIZED })
      // biome-ignore lint/suspicious/noExplicitAny: an answer of the admin API
      const { total } = (await response.json()) as any
      return total?.attempts === 1
    },
    () => `the usage is not stored\n${gateway.output()}`,
  )
}

describe('stores', { skip: skipPostgres, concurrency: false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-stores-'))
  let postgres: PostgresServer
  before(async () => {
    postgres = await startPostgres()
  })
  after(async () => {
    await postgres?.remove()
    rmSync(folder, { recursive: true, force: true })
  })

  const urlOf = (user: string, database: string, options = ''): string =>
    `postgres://${user}@127.0.0.1:${postgres.port}/${database}${options}`
  /** Runs statements one by one, as CREATE DATABASE refuses to be part of a transaction. Returns the rows of the last. */
  const execute = async (user: string, database: string, statements: string): Promise<readonly Row[]> => {
    const client = new pg.Client({ connectionString: urlOf(user, database) })
    await client.connect()
    try {
      let rows: readonly Row[] = []
      for (const statement of statements.split(/;\s*/).filter(Boolean)) ({ rows } = await client.query(statement))
      return rows
    } finally {
      await client.end()
    }
  }

  test('a gateway that may not change tables is not ready before the migration, and names the command', async () => {
    await using gateway = await started(postgres.url, { DATABASE_MIGRATE: 'never' })
    assert.equal(await isReady(gateway), false)
    await until(
      async () =>
        (await (await fetch(`${gateway.url}/health`, { headers: AUTHORIZED })).text()).includes('headgate db migrate'),
      gateway.output,
    )
    const { status } = await post(
      `${gateway.base}/chat/completions`,
      {},
      { authorization: 'Bearer an-unknown-key-0123456789' },
    )
    assert.equal(status, 503)
    await migrate(postgres.url)
    await works(gateway)
  })

  test('a user with the rights of the page reads and writes rows, and cannot change tables', async () => {
    const [server = '', database = '', ...more] = blocksOf('sql')
      .filter(({ page }) => page === 'docs/deploy/stores.md')
      .map(({ text }) => text.replaceAll('DATABASE headgate', 'DATABASE page'))
    assert.deepEqual(more, [])
    await execute('headgate', 'postgres', server)
    await execute('headgate', 'page', database)
    await migrate(urlOf('gateway_owner', 'page'))
    await using gateway = await started(urlOf('gateway', 'page'), { DATABASE_MIGRATE: 'never' })
    await works(gateway)
    const asGateway = (statement: string) => execute('gateway', 'page', statement)
    const tables = await asGateway(TABLES)
    assert.ok(tables.length > 5)
    for (const { name } of tables)
      await assert.rejects(asGateway(`ALTER TABLE ${String(name)} ADD COLUMN more text`), /must be owner/)
    await assert.rejects(asGateway('CREATE SCHEMA other'), /permission denied/)
  })

  test('sslmode=verify-full accepts the certificate of sslrootcert, and no other', async () => {
    const { key, cert } = selfSigned()
    const authority = join(folder, 'ca.pem')
    writeFileSync(authority, cert)
    chmodSync(folder, 0o755)
    // Postgres demands that the key belongs to its user and that no other can read it.
    const files = { 'server.key': key, 'server.crt': cert }
    const [row] = await execute('headgate', 'postgres', 'SHOW data_directory')
    const data = String(row?.data_directory)
    const { uid, gid } = statSync(data)
    for (const [name, text] of Object.entries(files)) {
      writeFileSync(join(data, name), text, { mode: 0o600 })
      chownSync(join(data, name), uid, gid)
    }
    await execute('headgate', 'postgres', 'ALTER SYSTEM SET ssl = on; SELECT pg_reload_conf()')
    const options = `?sslmode=verify-full&sslrootcert=${encodeURIComponent(authority)}`
    await using gateway = await started(urlOf('headgate', 'headgate', options))
    await until(() => isReady(gateway), gateway.output)
    assert.deepEqual(await execute('headgate', 'postgres', ENCRYPTED), [{ ssl: true }])
    await using other = await started(urlOf('headgate', 'headgate', '?sslmode=verify-full'))
    assert.equal(await isReady(other), false)
    await until(async () => /CERT/.test(other.output()), other.output)
  })
})

test('rediss:// accepts the certification authority of NODE_EXTRA_CA_CERTS, and no other', {
  skip: skipRedis,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-stores-'))
  const [port = 0] = await freePorts(1)
  const { key, cert } = selfSigned()
  const [certificate, secret] = [join(folder, 'ca.pem'), join(folder, 'key.pem')]
  writeFileSync(certificate, cert)
  writeFileSync(secret, key)
  const files = ['--tls-cert-file', certificate, '--tls-key-file', secret, '--tls-ca-cert-file', certificate]
  await using _redis = await startRedis(port, [
    ...['--port', '0', '--tls-port', String(port), '--tls-auth-clients', 'no'],
    ...files,
  ])
  const env = { AUTH_ADMIN: ADMIN, REDIS_URL: `rediss://127.0.0.1:${port}` }
  const health = async ({ url }: Started): Promise<string> =>
    (await fetch(`${url}/health`, { headers: AUTHORIZED })).text()
  await using trusting = await start({ env: { ...env, NODE_EXTRA_CA_CERTS: certificate } })
  await until(async () => !(await health(trusting)).includes('limits'), trusting.output)
  await using other = await start({ env })
  await until(async () => (await health(other)).includes('limits'), other.output)
  rmSync(folder, { recursive: true, force: true })
})
