import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { Kysely, sql } from 'kysely'
import type { Migration } from 'kysely/migration'
import { dialectOf } from './dialect.ts'
import { migrateSchema } from './migrate.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-migrate-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const creates = (table: string): Migration => ({
  up: (db) => db.schema.createTable(table).addColumn('id', 'integer').execute(),
})
const fails: Migration = {
  async up(db) {
    await creates('half').up(db)
    throw new Error('the migration failed')
  },
}
const tablesOf = (database: DatabaseSync) =>
  database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%kysely%' ORDER BY name")
    .all()
    .map(({ name }) => name)
const versions = (migrations: readonly Migration[], oldestReader = 1) => ({ file: 'x.db', migrations, oldestReader })

let files = 0
const given = () => {
  const path = join(folder, `${files++}.db`)
  const database = new DatabaseSync(path)
  after(() => database.isOpen && database.close())
  return { path, database }
}

test('migrate: runs the missing migrations once', async () => {
  const { database } = given()
  await migrateSchema(database, versions([creates('a')]))
  await migrateSchema(database, versions([creates('a')]))
  assert.deepEqual(tablesOf(database), ['a', 'schema_version'])
  await migrateSchema(database, versions([creates('a'), creates('b')]))
  assert.deepEqual(tablesOf(database), ['a', 'b', 'schema_version'])
})

test('migrate: a migration that fails leaves nothing of it', async () => {
  const { database } = given()
  await migrateSchema(database, versions([creates('a')]))
  await assert.rejects(migrateSchema(database, versions([creates('a'), fails])), /the migration failed/)
  assert.deepEqual(tablesOf(database), ['a', 'schema_version'])
  await migrateSchema(database, versions([creates('a'), creates('half')]))
  assert.deepEqual(tablesOf(database), ['a', 'half', 'schema_version'])
})

test('migrate: an older program uses a newer schema that permits it, and refuses another', async () => {
  const { database } = given()
  await migrateSchema(database, versions([creates('a'), creates('b')], 1))
  await migrateSchema(database, versions([creates('a')]))
  await migrateSchema(database, versions([creates('a'), creates('b'), creates('c')], 3))
  await assert.rejects(migrateSchema(database, versions([creates('a'), creates('b')])), {
    message: 'x.db was written by a newer version of Headgate (schema version 3, supported: 2)',
  })
})

test('dialect: a transaction excludes other queries, and an error rolls it back', async () => {
  const { database } = given()
  const db = new Kysely<{ readonly t: { readonly id: number } }>({ dialect: dialectOf(database) })
  await db.schema.createTable('t').addColumn('id', 'integer').execute()
  const failing = db.transaction().execute(async (trx) => {
    await trx.insertInto('t').values({ id: 1 }).execute()
    await sql`SELECT 1`.execute(trx)
    throw new Error('rolled back')
  })
  const other = db.insertInto('t').values({ id: 2 }).executeTakeFirst()
  await assert.rejects(failing, /rolled back/)
  assert.equal((await other).numInsertedOrUpdatedRows, 1n)
  assert.deepEqual({ ...(await db.selectFrom('t').selectAll().executeTakeFirst()) }, { id: 2 })
  await db.destroy()
  assert.ok(database.isOpen)
})
