/** `headgate db move`: keys, budgets and usage of a data folder act in Postgres as they did in the files. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { answerWith } from '../support/answers.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'the-admin-token-of-this-test'
const CALLS = 5

describe('headgate db move', { skip: skipPostgres, concurrency: false }, () => {
  const folder = mkdtempSync(join(tmpdir(), 'headgate-move-'))
  let server: PostgresServer
  let upstream: Upstream
  let url = ''
  before(async () => {
    server = await startPostgres()
    url = server.newDatabase()
    upstream = await startUpstream((request) =>
      request.method === 'GET'
        ? { do: 'answer', status: 200, body: { object: 'list', data: [{ id: 'm', object: 'model' }] } }
        : answerWith(request, { text: 'hello', input: 100, output: 100 }),
    )
  })
  after(async () => {
    await server?.remove()
    upstream?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const env = () => ({
    AUTH_ADMIN: ADMIN,
    DATA_DIR: join(folder, 'data'),
    OPENAI_API_KEY: 'sk-0123456789',
    OPENAI_BASE_URL: `${upstream.url}/v1`,
    OPENAI_MODELS: 'm',
  })
  const authorization = `Bearer ${ADMIN}`
  const create = async (at: Started, kind: string, body: unknown) => {
    const made = await post(`${at.url}/admin/api/v1/${kind}`, body, { authorization })
    assert.equal(made.status, 201, made.text)
    return made.json()
  }
  // biome-ignore lint/suspicious/noExplicitAny: the tests read answers of every shape
  const read = async (at: Started, path: string): Promise<any> =>
    (await fetch(`${at.url}/admin/api/v1${path}`, { headers: { authorization } })).json()
  const call = async (at: Started, key: string) =>
    (
      await post(
        `${at.base}/chat/completions`,
        { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
        { authorization: `Bearer ${key}` },
      )
    ).status
  const until = async (condition: () => Promise<boolean>, what: string) => {
    for (const end = performance.now() + 120_000; !(await condition()); await sleep(100))
      assert.ok(performance.now() < end, what)
  }
  const move = (...options: string[]) =>
    verb(['db', 'move', '--json', ...options], { cwd: folder, env: { ...env(), DATABASE_URL: url, PORT: '1' } })
  const rowsOf = (result: Awaited<ReturnType<typeof move>>) =>
    Object.fromEntries(
      result.json().data.map((one: { table: string; source: unknown; target: unknown }) => {
        if (one.target !== null) assert.deepEqual(one.target, one.source, one.table)
        return [one.table, one.source]
      }),
    )
  let secret = ''
  let budget = ''
  let spent = ''

  test('a running gateway is not moved', async () => {
    await using gateway = await start({ env: env() })
    await create(gateway, 'prices', { provider: 'openai', model: 'm', prices: { input: 1, output: 2 } })
    budget = (await create(gateway, 'budgets', { name: 'day', amount: '5', period: 'total' })).id
    secret = (await create(gateway, 'keys', { name: 'one', tags: { app: 'x' } })).secret
    for (let n = 0; n < CALLS; n++) assert.equal(await call(gateway, secret), 200)
    await until(
      async () =>
        (await read(gateway, '/requests')).data.length === CALLS &&
        (await read(gateway, '/usage')).total.requests === CALLS,
      'the usage is stored',
    )
    spent = (await read(gateway, `/budgets/${budget}`)).now.spent
    assert.notEqual(Number(spent), 0)
    const refused = await move()
    assert.deepEqual([refused.code, /Stop it first/.test(refused.stderr)], [6, true], refused.stderr)
    assert.equal(await gateway.stop(), 0)
  })

  test('a dry run copies nothing', async () => {
    const shown = await move('--dry-run')
    assert.equal(shown.code, 0, shown.stderr)
    assert.equal(rowsOf(shown).request.rows, CALLS)
  })

  test('all rows and amounts are copied, once', async () => {
    const moved = await move()
    assert.equal(moved.code, 0, moved.stdout + moved.stderr)
    const rows = rowsOf(moved)
    const cost = Math.round(Number(spent) * 1e9)
    assert.deepEqual(rows.request, { rows: CALLS, sum: cost })
    for (const table of ['usage_day', 'usage_hour', 'budget_sum']) assert.equal(rows[table].sum, cost, table)
    assert.deepEqual([rows.record.rows, rows.audit.rows, rows.secret.rows], [4, 3, 1])
    const again = await move()
    assert.deepEqual([again.code, /--resume/.test(again.stderr)], [6, true], again.stderr)
    const resumed = await move('--resume')
    assert.equal(resumed.code, 0, resumed.stdout + resumed.stderr)
    assert.deepEqual(rowsOf(resumed), rows)
  })

  test('a gateway continues with the database, and its changes are not undone', async () => {
    await using gateway = await start({ env: { ...env(), DATABASE_URL: url } })
    await until(async () => (await call(gateway, secret)) === 200, 'the key is valid')
    await until(
      async () => Number((await read(gateway, `/budgets/${budget}`)).now.spent) > Number(spent),
      'the budget counts on',
    )
    const now = Number((await read(gateway, `/budgets/${budget}`)).now.spent)
    assert.equal(Math.round((now / Number(spent)) * CALLS), CALLS + 1)
    await until(async () => (await read(gateway, '/requests')).data.length === CALLS + 1, 'all requests are listed')
    assert.deepEqual((await read(gateway, '/audit/verify')).ok, true)
    await create(gateway, 'keys', { name: 'two' })
    assert.equal(await gateway.stop(), 0)
    const refused = await move('--resume')
    assert.deepEqual([refused.code, /has changed the schema/.test(refused.stderr)], [6, true], refused.stderr)
  })
})
