/** Keys that several gateways share in Postgres: changes, outages, and starts without the database. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type PostgresServer, skipPostgres, startPostgres } from '../support/postgres.ts'
import { openPostgresRows } from '../support/postgres-rows.ts'
import { post, type Started, start } from './support/process.ts'
import { verb } from './support/verb.ts'

const ADMIN = 'the-admin-token-of-this-test'
/** The password of the database: nothing may show it. */
const CANARY = 'canary-5f0e9b'
/** ms within which a state is expected; changes arrive within a second on an idle machine. */
const LIMIT = 30_000

describe('keys in Postgres', { skip: skipPostgres, concurrency: false }, () => {
  let server: PostgresServer
  const folders: string[] = []
  const outputs: (() => string)[] = []
  before(async () => {
    server = await startPostgres()
  })
  after(async () => {
    await server?.remove()
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  })

  const newFolder = () => {
    const folder = mkdtempSync(join(tmpdir(), 'headgate-shared-'))
    folders.push(folder)
    return folder
  }
  const newUrl = () => server.newDatabase().replace('headgate@', `headgate:${CANARY}@`)
  const gateway = async (url: string, folder = newFolder(), env: Readonly<Record<string, string>> = {}) => {
    const started = await start({
      env: {
        DATABASE_URL: url,
        DATA_DIR: folder,
        AUTH_ADMIN: ADMIN,
        AUTH_REQUIRED: 'auto',
        USAGE_LEDGER: 'false',
        ...env,
      },
    })
    outputs.push(started.output)
    return started
  }
  const admin = (at: Started, path: string, body?: unknown, headers: Readonly<Record<string, string>> = {}) =>
    post(`${at.url}/admin/api/v1${path}`, body ?? {}, { authorization: `Bearer ${ADMIN}`, ...headers })
  const createKey = async (at: Started, name: string) => {
    const made = await admin(at, '/keys', { name })
    assert.equal(made.status, 201, made.text)
    return { id: String(made.json().id), secret: String(made.json().secret) }
  }
  const statusOf = async (at: Started, key?: string) => {
    const { status } = await post(
      `${at.base}/chat/completions`,
      { model: 'demo/echo', messages: [{ role: 'user', content: 'hi' }] },
      key === undefined ? {} : { authorization: `Bearer ${key}` },
    )
    return status
  }
  const until = async (condition: () => Promise<boolean>, what: string) => {
    for (const end = performance.now() + LIMIT; !(await condition()); await sleep(50))
      assert.ok(performance.now() < end, what)
  }
  const becomes = (at: Started, key: string | undefined, status: number) =>
    until(async () => (await statusOf(at, key)) === status, `the status is not ${status}`)
  const isReady = async (at: Started) => (await fetch(`${at.url}/health/ready`)).status === 200
  const readPage = async (at: Started, path: string) =>
    (await fetch(at.url + path, { headers: { authorization: `Bearer ${ADMIN}` } })).text()
  const problemOf = async (at: Started) => {
    const health = JSON.parse(await readPage(at, '/health'))
    return health.problems?.find(({ component }: { component: string }) => component === 'control')?.reason ?? null
  }

  test('an empty database requires keys, and a key of one is valid and revoked on the other', async () => {
    const url = newUrl()
    await using a = await gateway(url)
    await using b = await gateway(url)
    await until(async () => (await isReady(a)) && (await isReady(b)), 'both are ready')
    assert.deepEqual([await statusOf(a), await statusOf(b)], [401, 401])
    const { id, secret } = await createKey(a, 'one')
    assert.equal(await statusOf(a, secret), 200)
    assert.equal(await statusOf(a), 401)
    // At once: a key that is not known is looked up.
    assert.equal(await statusOf(b, secret), 200)
    assert.equal(await statusOf(b), 401)
    const other = await createKey(b, 'two')
    assert.equal(await statusOf(a, other.secret), 200)
    const revoked = await fetch(`${a.url}/admin/api/v1/keys/${id}?force=true`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    assert.equal(revoked.status, 200)
    assert.equal(await statusOf(a, secret), 401)
    await becomes(b, secret, 401)
    assert.equal(await statusOf(b, other.secret), 200)
  })

  test('concurrent writes of two gateways keep the audit chain, and a repeated one is replayed by the other', async () => {
    const url = newUrl()
    await using a = await gateway(url)
    await using b = await gateway(url)
    const names = [...'abcdefghijklmnop']
    const made = await Promise.all(names.map((name, n) => createKey(n % 2 === 0 ? a : b, `key-${name}`)))
    const same = await Promise.all([a, b].map((at) => admin(at, '/teams', { name: 'search' })))
    assert.deepEqual(same.map(({ status }) => status).sort(), [201, 409])
    const headers = { 'idempotency-key': 'once' }
    const first = await admin(a, '/keys', { name: 'repeated' }, headers)
    const second = await admin(b, '/keys', { name: 'repeated' }, headers)
    assert.deepEqual([first.status, second.status], [201, 201])
    assert.deepEqual([second.json().id, second.json().secret], [first.json().id, null])
    for (const { secret } of made) for (const at of [a, b]) await becomes(at, secret, 200)
    const env = { DATABASE_URL: url, PORT: '1' }
    const verified = await verb(['audit', 'verify', '--json'], { cwd: newFolder(), env })
    assert.deepEqual([verified.code, verified.json().checked], [0, names.length + 2], verified.stderr)
    const listed = await verb(['keys', 'list', '--json'], { cwd: newFolder(), env })
    assert.equal(listed.json().data.length, names.length + 1)
  })

  for (const [name, end, again] of [
    ['stops', () => server.stop(), () => server.start()],
    ['hangs', async () => server.pause(), async () => server.resume()],
  ] as const)
    test(`while Postgres ${name}, known keys are served and writes are 503, and it comes back by itself`, async () => {
      const url = newUrl()
      await using a = await gateway(url)
      await using b = await gateway(url)
      const { secret } = await createKey(a, 'one')
      await becomes(b, secret, 200)
      await end()
      try {
        const refused = await admin(a, '/keys', { name: 'two' })
        assert.equal(refused.status, 503, refused.text)
        assert.match(refused.text, /Postgres/)
        await until(async () => (await problemOf(b)) !== null, 'b reports the problem')
        for (const at of [a, b]) {
          assert.equal(await statusOf(at, secret), 200)
          // The database was read: a key that was not there then is unknown.
          assert.equal(await statusOf(at, `${secret.slice(0, -1)}!`), 401)
          assert.equal(await isReady(at), true)
          assert.doesNotMatch(String(await problemOf(at)), /127\.0\.0\.1|localhost|:\d{4,5}/)
        }
      } finally {
        await again()
      }
      await until(async () => (await problemOf(a)) === null && (await problemOf(b)) === null, 'both have recovered')
      const later = await createKey(a, 'later')
      await becomes(b, later.secret, 200)
    })

  test('a start without Postgres and without a snapshot is not ready, and refuses no key for good', async () => {
    const url = newUrl()
    let secret = ''
    {
      await using maker = await gateway(url)
      secret = (await createKey(maker, 'one')).secret
    }
    await server.stop()
    let stopped = true
    try {
      await using late = await gateway(url)
      assert.equal(await isReady(late), false)
      assert.equal(await statusOf(late, secret), 503)
      // It does not know whether there are keys: it must not be open.
      assert.equal(await statusOf(late), 503)
      await until(async () => (await problemOf(late)) === 'Postgres refuses connections', 'the reason is shown')
      await server.start()
      stopped = false
      await becomes(late, secret, 200)
      assert.equal(await isReady(late), true)
      assert.equal(await problemOf(late), null)
    } finally {
      if (stopped) await server.start()
    }
  })

  test('a start without Postgres serves the keys of its snapshot, which contains no secret', async () => {
    const url = newUrl()
    const folder = newFolder()
    const path = join(folder, 'control-snapshot.json')
    let known = { id: '', secret: '' }
    let unknown = ''
    {
      await using maker = await gateway(url, folder)
      known = await createKey(maker, 'known')
      assert.equal(await maker.stop(), 0)
      await using other = await gateway(url)
      unknown = (await createKey(other, 'unknown')).secret
    }
    assert.equal(statSync(path).mode & 0o777, 0o600)
    const text = readFileSync(path, 'utf8')
    assert.match(text, new RegExp(known.id))
    for (const secret of [known.secret, known.secret.slice(4, 36), CANARY, ADMIN]) assert.ok(!text.includes(secret))
    await server.stop()
    let stopped = true
    try {
      await using late = await gateway(url, folder)
      assert.equal(await isReady(late), true)
      assert.equal(await statusOf(late, known.secret), 200)
      assert.equal(await statusOf(late, unknown), 503)
      await until(async () => (await problemOf(late)) !== null, 'the problem is shown')
      await server.start()
      stopped = false
      await becomes(late, unknown, 200)
      assert.equal(await statusOf(late, `${'x'.repeat(30)}`), 401)
    } finally {
      if (stopped) await server.start()
    }
  })

  test('another database does not use the snapshot', async () => {
    const [url, other] = [newUrl(), newUrl()]
    const folder = newFolder()
    let known = ''
    {
      await using maker = await gateway(url, folder)
      known = (await createKey(maker, 'known')).secret
    }
    await using late = await gateway(other, folder)
    await becomes(late, undefined, 401)
    assert.equal(await statusOf(late, known), 401)
  })

  test('with database.migrate never a missing schema is reported, and headgate db migrate creates it', async () => {
    const url = newUrl()
    await using late = await gateway(url, newFolder(), { DATABASE_MIGRATE: 'never' })
    await until(async () => /run: headgate db migrate/.test(String(await problemOf(late))), 'the remedy is shown')
    assert.equal(await isReady(late), false)
    assert.equal(await statusOf(late, 'x'.repeat(30)), 503)
    const env = { DATABASE_URL: url, PORT: '1' }
    for (const before of [
      [null, null, null, null, null, null],
      [5, 4, 1, 1, 1, 2],
    ]) {
      const migrated = await verb(['db', 'migrate', '--json'], { cwd: newFolder(), env })
      assert.equal(migrated.code, 0, migrated.stdout + migrated.stderr)
      assert.deepEqual(
        migrated.json().data.map((one: { schema: string; before: number | null }) => [one.schema, one.before]),
        [
          ['headgate_control', before[0]],
          ['headgate_usage', before[1]],
          ['headgate_limits', before[2]],
          ['headgate_news', before[3]],
          ['headgate_responses', before[4]],
          ['headgate_pass', before[5]],
        ],
      )
    }
    await until(() => isReady(late), 'it is ready')
    assert.equal(await statusOf(late), 401)
  })

  test('a gateway has at most four connections, of which two are shared', async () => {
    const url = newUrl()
    await using running = await gateway(url, newFolder(), { USAGE_LEDGER: 'true' })
    const { secret } = await createKey(running, 'one')
    const uses = () => {
      const database = openPostgresRows(url, 'public')
      const found = database.all(
        "SELECT application_name AS name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'headgate%' ORDER BY 1",
      )
      database.close()
      return found.map(({ name }) => name)
    }
    const calls = Array.from({ length: 20 }, async () => {
      const body = { model: 'demo/echo', input: 'hi' }
      assert.equal((await post(`${running.base}/responses`, body, { authorization: `Bearer ${secret}` })).status, 200)
      await readPage(running, '/admin/api/v1/usage')
    })
    await Promise.all(calls)
    const all = uses()
    assert.ok(all.length <= 4, all.join())
    assert.deepEqual([...new Set(all)], ['headgate reports', 'headgate shared', 'headgate usage'])
  })

  test('a schema that is lost is not created again, so that the gateway stays closed', async () => {
    const url = newUrl()
    const folder = newFolder()
    const dropped = () => {
      const database = openPostgresRows(url, 'public')
      database.all('DROP SCHEMA headgate_control CASCADE')
      database.close()
    }
    {
      await using running = await gateway(url, folder)
      const { secret } = await createKey(running, 'one')
      dropped()
      await server.stop()
      await server.start()
      await until(async () => /restore a backup/i.test(String(await problemOf(running))), 'the loss is shown')
      assert.deepEqual([await statusOf(running, secret), await statusOf(running)], [200, 401])
      // Empty tables appear: from a new gateway, the job of the chart, or an operator.
      const migrated = await verb(['db', 'migrate'], { cwd: newFolder(), env: { DATABASE_URL: url, PORT: '1' } })
      assert.equal(migrated.code, 0, migrated.stdout + migrated.stderr)
      await until(async () => /lost its client keys/.test(String(await problemOf(running))), 'empty tables are noticed')
      assert.deepEqual([await statusOf(running, secret), await statusOf(running)], [200, 401])
      assert.equal((await admin(running, '/keys', { name: 'new' })).status, 503)
    }
    await using late = await gateway(url, folder)
    await until(async () => /lost its client keys/.test(String(await problemOf(late))), 'the loss is shown')
    assert.equal(await statusOf(late), 503)
  })

  test('several workers share the keys, too', async () => {
    const url = newUrl()
    await using two = await gateway(url, newFolder(), { WORKERS: '2' })
    const { secret } = await createKey(two, 'one')
    // Each worker has it when the answer arrives.
    for (let n = 0; n < 20; n++) assert.equal(await statusOf(two, secret), 200)
  })

  test('the password of the database is in no log, page or answer', async () => {
    const url = newUrl()
    await using a = await gateway(url, newFolder(), { LOG_LEVEL: 'debug' })
    const pages = ['/health', '/health/ready', '/metrics', '/admin/api/v1/config', '/admin/api/v1/system']
    const texts = () => Promise.all(pages.map((path) => readPage(a, path)))
    const shown = [...(await texts())]
    await server.stop()
    try {
      shown.push((await admin(a, '/keys', { name: 'x' })).text, ...(await texts()))
      const env = { DATABASE_URL: url, PORT: '1' }
      for (const words of [['doctor'], ['db', 'status'], ['keys', 'list'], ['config', 'show']]) {
        const { stdout, stderr } = await verb(words, { cwd: newFolder(), env })
        shown.push(stdout, stderr)
      }
    } finally {
      await server.start()
    }
    for (const text of [...shown, ...outputs.map((output) => output())]) assert.ok(!text.includes(CANARY), text)
  })
})
