/** Reports and lists are read from a streaming replica of Postgres (`DATABASE_READ_URL`), which lags, stops and comes back. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { list, object, parseObject } from '../../src/core/json.ts'
import { answerWith } from '../support/answers.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'

const ADMIN = 'admin-0123456789abcdef'
/** ms for what takes seconds on an idle machine. */
const LIMIT = 60_000
const CALLS = 12
const closers: (() => unknown)[] = []
after(async () => {
  for (const close of closers.reverse()) await close()
})

const read = async ({ url }: Started, path: string) => {
  const headers = { authorization: `Bearer ${ADMIN}`, connection: 'close' }
  const answer = await fetch(`${url}/admin/api/v1${path}`, { headers, signal: AbortSignal.timeout(LIMIT) })
  return { status: answer.status, text: await answer.text() }
}
const rowsOf = async (gateway: Started): Promise<number> => {
  const { status, text } = await read(gateway, '/requests?limit=100')
  return status === 200 ? (list(parseObject(text)?.data)?.length ?? -1) : -status
}
const until = async (what: string, found: () => Promise<unknown>, expected: unknown) => {
  let last: unknown
  for (const end = performance.now() + LIMIT; ; await sleep(100)) {
    last = await found()
    if (last === expected) return
    if (performance.now() > end) assert.fail(`${what}: ${String(last)} and not ${String(expected)}`)
  }
}
/** Connections of the gateway to a server, by their names. */
const connectionsTo = async ({ url }: PostgresServer): Promise<readonly string[]> => {
  const client = new Client(url)
  await client.connect()
  const { rows } = await client.query(
    "SELECT DISTINCT application_name AS name FROM pg_stat_activity WHERE application_name LIKE 'headgate%'",
  )
  await client.end()
  return rows.map((row: unknown) => String(object(row as never)?.name))
}

describe('reports from a read replica', { skip: skipPostgres, timeout: 300_000 }, () => {
  test('reports come from the replica alone, and its faults cost no request', async () => {
    const upstream = await startUpstream((request) => answerWith(request, { text: 'x', input: 100, output: 100 }))
    closers.push(() => upstream.close())
    const primary = await startPostgres()
    closers.push(() => primary.remove())
    const replica = await startPostgres(primary)
    closers.push(() => replica.remove())
    const gateway = await start({
      env: {
        DATABASE_URL: primary.url,
        DATABASE_READ_URL: replica.url,
        OPENAI_API_KEY: 'sk-0123456789',
        OPENAI_BASE_URL: `${upstream.url}/v1`,
        OPENAI_MODELS: 'm',
      },
      files: {
        'headgate.yaml': JSON.stringify({
          auth: { admin: ADMIN, required: false },
          prices: [{ provider: '*', model: '*', perMillion: { input: 10, output: 40 } }],
          budgets: { all: { amount: '1000', period: 'month' } },
        }),
      },
    })
    closers.push(() => gateway.stop())
    const body = { model: 'm', messages: [{ role: 'user', content: 'hello' }] }
    const call = async () =>
      (await post(`${gateway.base}/chat/completions`, body, { 'x-headgate-session': 's1' })).status
    for (let at = 0; at < CALLS; at++) assert.equal(await call(), 200)

    await until('rows in the list', () => rowsOf(gateway), CALLS)
    const names = await connectionsTo(replica)
    assert.deepEqual(names, ['headgate reports'])
    assert.ok(!(await connectionsTo(primary)).includes('headgate reports'))

    for (const path of [
      '/usage',
      '/usage?by=model&bucket=day',
      '/usage/end-users',
      '/usage/export?format=csv',
      '/requests/facets',
      '/requests/running',
      '/summary',
      '/providers/activity',
      '/incidents',
      '/sessions',
      '/budgets',
      '/keys',
    ]) {
      const { status, text } = await read(gateway, path)
      assert.equal(status, 200, `${path}: ${text}`)
    }
    const day = parseObject((await read(gateway, '/usage')).text)
    assert.match(JSON.stringify(day), new RegExp(`"requests":${CALLS}\\b`))

    await replica.stop()
    assert.equal(await call(), 200)
    const { status, text } = await read(gateway, '/requests')
    assert.equal(status, 503, text)
    assert.doesNotMatch(text, new RegExp(`postgres://|:${replica.port}`))
    await replica.start()
    await until('rows after the replica is back', () => rowsOf(gateway), CALLS + 1)
  })
})
