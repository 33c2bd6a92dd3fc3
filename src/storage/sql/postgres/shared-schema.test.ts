/** Versions of a schema side by side, as during an upgrade of gateways one after the other. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type PgBouncer, skipPgBouncer, startPgBouncer } from '../../../../test/support/pgbouncer.ts'
import { type PostgresServer, skipPostgres, startPostgres } from '../../../../test/support/postgres.ts'
import type { Migration } from '../migrate.ts'
import type { PostgresPool } from './pool.ts'
import { PostgresError } from './postgres-error.ts'
import { migrateShared, openShared, sharedVersion } from './shared-schema.ts'

const first: Migration = ({ integer, text }) => [
  `CREATE TABLE thing (id ${integer} PRIMARY KEY, name ${text} NOT NULL)`,
]
const second: Migration = ({ integer, text }) => [
  `ALTER TABLE thing ADD COLUMN size ${integer} NOT NULL DEFAULT 7`,
  `CREATE TABLE other (id ${text} PRIMARY KEY)`,
]
const third: Migration = () => ['ALTER TABLE thing RENAME COLUMN name TO title']

const versions = (migrations: readonly Migration[], oldestReader = 1) => ({ file: 'things', migrations, oldestReader })
const OLD = versions([first])
const NEW = versions([first, second])
/** It changes what older programs use. */
const BREAKING = versions([first, second, third], 3)

describe('versions of a shared schema', { skip: skipPostgres, concurrency: false }, () => {
  let server: PostgresServer
  const pools: PostgresPool[] = []
  before(async () => {
    server = await startPostgres()
  })
  after(async () => {
    await Promise.all(pools.map((pool) => pool.close()))
    await server?.remove()
  })
  let names = 0
  let pool = 0
  const open = async (
    name: string,
    of: typeof OLD,
    { url = server.url, migrate = 'auto' as 'auto' | 'never' } = {},
  ) => {
    // A gateway has connections of its own.
    const opened = await openShared(
      { url: `${url}?gateway=${++pool}`, migrate },
      { name, versions: of, mayCreate: true },
      { max: 1, applicationName: 'test' },
    )
    pools.push(opened)
    return opened
  }
  const newName = () => `things_${++names}`

  test('the version before writes and reads while and after a new one adds columns and tables', async () => {
    const name = newName()
    const old = await open(name, OLD)
    let isEnding = false
    let written = 0
    const writing = (async () => {
      while (!isEnding) await old.query('INSERT INTO thing (id, name) VALUES ($1, $2)', [++written, 'old'])
    })()
    while (written < 20) await new Promise(setImmediate)
    const young = await open(name, NEW)
    const atUpgrade = written
    while (written < atUpgrade + 20) await new Promise(setImmediate)
    await young.query('INSERT INTO thing (id, name, size) VALUES (-1, $1, 1)', ['young'])
    isEnding = true
    await writing
    assert.deepEqual((await young.query('SELECT count(*) n, min(size) s, max(size) l FROM thing')).rows, [
      { n: written + 1, s: 1, l: 7 },
    ])
    assert.equal((await old.query('SELECT * FROM thing WHERE id = -1')).rows[0]?.name, 'young')
    // One that starts again, and a step back.
    assert.equal(await sharedVersion(await open(name, OLD), OLD), 2)
  })

  test('many gateways that start together migrate once', async () => {
    const name = newName()
    const all = await Promise.all(Array.from({ length: 8 }, () => open(name, NEW)))
    assert.deepEqual(new Set(await Promise.all(all.map((one) => sharedVersion(one, NEW)))), new Set([2]))
  })

  test('a schema that needs a newer program is refused, and one that must be migrated first too', async () => {
    const name = newName()
    await assert.rejects(open(name, NEW, { migrate: 'never' }), {
      message: `the schema ${name} does not exist; run: headgate db migrate`,
    })
    await open(name, OLD)
    await assert.rejects(open(name, NEW, { migrate: 'never' }), {
      message: `the schema ${name} has version 1 (needed: 2); run: headgate db migrate`,
    })
    await open(name, BREAKING)
    await assert.rejects(open(name, NEW), {
      message: `the schema ${name} was written by a newer version of Headgate (schema version 3, supported: 2)`,
    })
  })

  test('a migration waits for a table that is in use for four seconds only, and leaves nothing of it', async () => {
    const name = newName()
    const old = await open(name, OLD)
    const held = Promise.withResolvers<void>()
    const isHeld = Promise.withResolvers<void>()
    const reading = old.transaction(async (tx) => {
      await tx.query('SELECT * FROM thing')
      isHeld.resolve()
      await held.promise
    })
    await isHeld.promise
    await assert.rejects(migrateShared(`${server.url}?migrate`, { name, versions: NEW }), (error) => {
      assert.ok(error instanceof PostgresError)
      return error.code === '55P03'
    })
    held.resolve()
    await reading
    assert.equal(await sharedVersion(old, OLD), 1)
    assert.equal(await migrateShared(`${server.url}?migrate`, { name, versions: NEW }), 1)
  })

  describe('behind PgBouncer in transaction mode', { skip: skipPgBouncer }, () => {
    let pooler: PgBouncer
    before(async () => {
      pooler = await startPgBouncer(server, 2)
    })
    after(() => pooler?.stop())

    test('gateways that start together migrate once, and no lock stays', async () => {
      const name = newName()
      await Promise.all(Array.from({ length: 6 }, () => open(name, NEW, { url: pooler.url })))
      assert.equal(await migrateShared(pooler.url, { name, versions: BREAKING }), 2)
    })
  })
})
