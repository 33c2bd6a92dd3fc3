import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { type PgBouncer, skipPgBouncer, startPgBouncer } from '../../../../test/support/pgbouncer.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../../../../test/support/postgres.ts'
import { PostgresPool, type PostgresPoolOptions } from './pool.ts'
import { PostgresError } from './postgres-error.ts'

const problem = async (run: Promise<unknown>): Promise<PostgresError> => {
  const error = await run.then(
    () => assert.fail('no error'),
    (reason: unknown) => reason,
  )
  assert.ok(error instanceof PostgresError, String(error))
  return error
}

describe('a pool of Postgres connections', { skip: skipPostgres, concurrency: false }, () => {
  let server: PostgresServer
  let pool: PostgresPool
  let pools = 0
  /** Each has connections of its own. */
  const open = ({ url = server.url, ...options }: Partial<PostgresPoolOptions> = {}) => {
    const own = `${url}${url.includes('?') ? '&' : '?'}test=${++pools}`
    return new PostgresPool({ url: own, schema: 'things', max: 2, applicationName: 'headgate test', ...options })
  }
  before(async () => {
    server = await startPostgres()
    pool = open()
    await pool.query('CREATE SCHEMA things; CREATE TABLE things.thing (id BIGINT PRIMARY KEY, name TEXT)')
  })
  after(async () => {
    await pool?.close()
    await server?.remove()
  })

  test('types: numbers are numbers, bytes are bytes, and a list is an array', async () => {
    const { rows } = await pool.query(
      'SELECT 9007199254740991::bigint a, 1.5::numeric b, NULL c, true d, $1::bytea e',
      [Buffer.from([0, 255])],
    )
    assert.deepEqual(rows, [{ a: 9007199254740991, b: 1.5, c: null, d: true, e: Buffer.from([0, 255]) }])
    const inserted = await pool.query('INSERT INTO thing SELECT * FROM unnest($1::bigint[], $2::text[])', [
      [1, 2],
      ['a"\\,{}\0', null],
    ])
    assert.equal(inserted.changes, 2)
    assert.deepEqual((await pool.query('SELECT name FROM thing ORDER BY id')).rows, [
      { name: 'a"\\,{}\ufffd' },
      { name: null },
    ])
  })

  test('a transaction that fails leaves nothing, also if its function drops the error', async () => {
    const twice = problem(
      pool.transaction((tx) =>
        Promise.all([
          tx.query("INSERT INTO thing VALUES (3, 'c')"),
          tx.query("INSERT INTO thing VALUES (1, 'd')"),
          tx.query("INSERT INTO thing VALUES (4, 'e')"),
        ]),
      ),
    )
    assert.match((await twice).message, /^Postgres: duplicate key/)
    const batch = pool.batch([
      { text: "INSERT INTO thing VALUES (3, 'c')" },
      { text: 'INSERT INTO thing VALUES ($1, $2)', values: [1, 'd'] },
      { text: "INSERT INTO thing VALUES (4, 'e')" },
    ])
    assert.match((await problem(batch)).message, /^Postgres: duplicate key/)
    const dropped = pool.transaction(async (tx) => {
      await tx.query("INSERT INTO thing VALUES (3, 'c')")
      await tx.query('nonsense').catch(() => {})
    })
    assert.equal((await problem(dropped)).code, '42601')
    const unawaited = pool.transaction(async (tx) => {
      await tx.query("INSERT INTO thing VALUES (3, 'c')")
      void tx.query('nonsense')
    })
    assert.equal((await problem(unawaited)).code, '42601')
    await assert.rejects(
      pool.transaction(async (tx) => {
        await tx.query("INSERT INTO thing VALUES (3, 'c')")
        throw new Error('mine')
      }),
      /^Error: mine$/,
    )
    assert.deepEqual((await pool.query('SELECT count(*) n FROM thing')).rows, [{ n: 2 }])
  })

  test('a query that comes after its transaction has ended does not run', async () => {
    let late: Promise<unknown> | undefined
    const failing = pool.transaction(async (tx) => {
      const failed = tx.query('nonsense')
      late = failed
        .catch(() => {})
        .then(() => new Promise(setImmediate))
        .then(() => tx.query("INSERT INTO thing VALUES (9, '')"))
      late.catch(() => {})
      await failed
    })
    await problem(failing)
    await late?.catch(() => {})
    assert.deepEqual((await pool.query('SELECT count(*) n FROM thing WHERE id = 9')).rows, [{ n: 0 }])
  })

  test('settings are those of the transaction: nothing is left in the session', async () => {
    const one = open({ max: 1, statementTimeout: 300 })
    assert.equal((await problem(one.query('SELECT pg_sleep(5)'))).message, 'Postgres did not answer in time')
    const left = await one
      .transaction(async (tx) => {
        await tx.query('COMMIT')
        return tx.query("SELECT current_setting('statement_timeout') t, current_setting('search_path') p")
      })
      .catch((error: unknown) => error)
    // Its own COMMIT finds no transaction any more, which the server only warns of.
    assert.deepEqual(left, { command: 'SELECT', rows: [{ t: '0', p: '"$user", public' }], changes: 1 })
    await one.close()
  })

  test('deadlocks and serialization failures are tried again', async () => {
    await pool.query("INSERT INTO thing VALUES (10, 'x'), (11, 'y')")
    const add = (first: number, second: number) =>
      pool.transaction(async (tx) => {
        await tx.query("UPDATE thing SET name = name || '1' WHERE id = $1", [first])
        await tx.query('SELECT pg_sleep(0.05)')
        await tx.query("UPDATE thing SET name = name || '2' WHERE id = $1", [second])
      })
    await Promise.all([add(10, 11), add(11, 10)])
    assert.deepEqual((await pool.query('SELECT sum(length(name)) n FROM thing WHERE id IN (10, 11)')).rows, [{ n: 6 }])
    const count = () =>
      pool.transaction(
        async (tx) => {
          const { rows } = await tx.query('SELECT length(name) n FROM thing WHERE id = 10')
          await tx.query('UPDATE thing SET name = repeat($1, $2) WHERE id = 10', ['x', Number(rows[0]?.n) + 1])
        },
        { isolation: 'serializable' },
      )
    await Promise.all([count(), count()])
    assert.deepEqual((await pool.query('SELECT length(name) n FROM thing WHERE id = 10')).rows, [{ n: 5 }])
  })

  test('transactions wait for a connection, and at most `max` are made', async () => {
    const small = open({ max: 2, applicationName: 'headgate small' })
    await Promise.all(Array.from({ length: 20 }, () => small.query('SELECT pg_sleep(0.005)')))
    const { rows } = await pool.query(
      "SELECT count(*) n FROM pg_stat_activity WHERE application_name = 'headgate small'",
    )
    assert.deepEqual(rows, [{ n: 2 }])
    await small.close()
  })

  test('a server that accepts no writes any more is left: a failover has another primary', async () => {
    const one = open({ max: 1 })
    const pid = async () => (await one.query('SELECT pg_backend_pid() p')).rows[0]?.p
    const before = await pid()
    const { message, isLost } = await problem(one.query('DELETE FROM thing', [], { readOnly: true }))
    assert.equal(message, 'Postgres accepts no writes here; DATABASE_URL must name the primary')
    assert.equal(isLost, true)
    assert.notEqual(await pid(), before)
    await one.close()
  })

  test('problems name neither the address nor the password', async () => {
    const at = async (url: string) => {
      const tried = open({ url })
      const { message } = await problem(tried.query('SELECT 1'))
      await tried.close()
      return message
    }
    assert.equal(await at('postgres://me:secret@127.0.0.1:1/headgate'), 'Postgres refuses connections')
    assert.equal(await at(`${server.url}2`), 'the database of DATABASE_URL does not exist')
    assert.equal(
      await at(server.url.replace('headgate@', 'other:secret@')),
      'Postgres refused the user of DATABASE_URL',
    )
    assert.equal(await at('postgres://me:secret@nowhere.invalid/headgate'), 'the host of DATABASE_URL was not found')
    const unreadable = /^DATABASE_URL, or a file that it names, cannot be read$/
    assert.throws(() => open({ url: `${server.url}?sslmode=verify-full&sslrootcert=/nowhere` }), {
      message: unreadable,
    })
  })

  test('variables of libpq change nothing', async () => {
    const variables = { PGUSER: 'other', PGOPTIONS: '-c search_path=nowhere', PGSSLMODE: 'require', PGAPPNAME: 'x' }
    Object.assign(process.env, variables)
    try {
      const own = open()
      const { rows } = await own.query("SELECT current_user u, current_setting('application_name') a")
      assert.deepEqual(rows, [{ u: 'headgate', a: 'headgate test' }])
      await own.close()
      assert.equal(process.env.PGUSER, 'other')
    } finally {
      for (const name of Object.keys(variables)) delete process.env[name]
    }
  })

  test('a connection that the server has ended is replaced, in a transaction too', async () => {
    const one = open({ max: 1 })
    await one.query('SELECT 1')
    await pool.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'headgate test'",
    )
    const error = await problem(
      one.transaction(async (tx) => {
        await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
      }),
    )
    assert.equal(error.isLost, true)
    assert.deepEqual((await one.query('SELECT 1 a')).rows, [{ a: 1 }])
    await one.close()
  })

  test('a connection that is lost while it commits: the outcome is uncertain', async () => {
    const sockets = new Set<Socket>()
    const proxy = createServer((client) => {
      const upstream = new (client.constructor as typeof Socket)()
      upstream.connect(server.port, '127.0.0.1')
      for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}))
      upstream.pipe(client)
      client.on('data', (data) => {
        // The server commits, and its answer is lost.
        if (data.includes('COMMIT')) upstream.unpipe(client).end(data, () => client.destroy())
        else upstream.write(data)
      })
    }).listen(0, '127.0.0.1')
    await once(proxy, 'listening')
    const { port } = proxy.address() as { readonly port: number }
    const one = open({ max: 1, url: server.url.replace(`:${server.port}`, `:${port}`) })
    const error = await problem(one.query("INSERT INTO thing VALUES (20, '')"))
    assert.equal(error.isLost, true)
    assert.equal(error.isUncertain, true)
    await one.close()
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })

  test('pools of one database share connections, each with its own settings', async () => {
    const options = { url: `${server.url}?shared`, max: 1, applicationName: 'headgate shared' }
    const [one, other] = ['things', 'public'].map((schema) => new PostgresPool({ ...options, schema }))
    assert.ok(one && other)
    const path = "SELECT current_setting('search_path') p, pg_backend_pid() pid"
    const [first, second] = await Promise.all([one.query(path), other.query(path)])
    assert.deepEqual([first.rows[0]?.p, second.rows[0]?.p], ['things', 'public'])
    assert.equal(first.rows[0]?.pid, second.rows[0]?.pid)
    await one.close()
    assert.equal((await problem(one.query('SELECT 1'))).code, 'CLOSED')
    assert.equal((await other.query(path)).rows[0]?.pid, first.rows[0]?.pid)
    await other.close()
  })

  test('connections receive notices, also those that replace a lost one', async () => {
    const received: string[] = []
    let wake = () => {}
    const until = async (count: number) => {
      while (received.length < count)
        await new Promise<void>((resolve) => {
          wake = resolve
        })
    }
    const noticesOf = (channel: string) => ({
      channels: [channel],
      onNotice: (from: string, payload: string) => {
        received.push(`${from}:${payload}`)
        wake()
      },
    })
    const options = { url: `${server.url}?notices`, schema: 'things', max: 1, applicationName: 'headgate notices' }
    const keys = new PostgresPool({ ...options, notices: noticesOf('headgate_keys') })
    const pid = async () => (await keys.query('SELECT pg_backend_pid() pid')).rows[0]?.pid
    const before = await pid()
    await pool.query("SELECT pg_notify('headgate_keys', '7')")
    await until(1)
    // A second pool adds its channel to the connection.
    const cuts = new PostgresPool({ ...options, notices: noticesOf('headgate_cuts') })
    assert.equal(await pid(), before)
    await pool.query('SELECT pg_terminate_backend($1::int)', [Number(before)])
    while ((await pid().catch(() => before)) === before);
    await pool.query('NOTIFY headgate_cuts')
    await until(2)
    assert.deepEqual(received, ['headgate_keys:7', 'headgate_cuts:'])
    await Promise.all([keys.close(), cuts.close()])
  })

  describe('behind PgBouncer in transaction mode', { skip: skipPgBouncer }, () => {
    let pooler: PgBouncer
    before(async () => {
      pooler = await startPgBouncer(server, 2)
    })
    after(() => pooler?.stop())

    test('many pools of two schemas share two connections and keep their own settings', async () => {
      await pool.query('CREATE SCHEMA others; CREATE TABLE others.thing (id BIGINT)')
      const pools = ['things', 'others', 'things', 'others'].map((schema) => open({ url: pooler.url, schema }))
      const paths = await Promise.all(
        Array.from({ length: 40 }, (_, index) =>
          pools[index % 4]?.query("SELECT current_setting('search_path') p, $1::bigint i FROM thing LIMIT 1", [index]),
        ),
      )
      for (const [index, result] of paths.entries())
        assert.deepEqual(result?.rows ?? [], index % 2 === 0 ? [{ p: 'things', i: index }] : [])
      await Promise.all(pools.map((one) => one.close()))
    })
  })

  test('a server that ends is reported, and serves again', async () => {
    await pool.query('SELECT 1')
    await server.stop()
    assert.match((await problem(pool.query('SELECT 1'))).message, /^(Postgres|the connection to Postgres)/)
    await server.start()
    assert.deepEqual((await pool.query('SELECT 1 a')).rows, [{ a: 1 }])
  })

  test('a server that stops answering is given up', async () => {
    const one = open({ max: 1, statementTimeout: 200 })
    await one.query('SELECT 1')
    server.pause()
    try {
      assert.equal((await problem(one.query('SELECT 1'))).message, 'Postgres cannot be reached')
    } finally {
      server.resume()
      await one.close()
    }
  })
})
