import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { sql } from 'kysely'
import { type Migration, migrateSchema } from './migrate.ts'
import { SqliteStore } from './sqlite/store.ts'

const folder = mkdtempSync(join(tmpdir(), 'headgate-migrate-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const creates =
  (table: string): Migration =>
  ({ integer }) => [`CREATE TABLE ${table} (id ${integer})`]
const fails: Migration = () => ['CREATE TABLE half (id INTEGER)', 'nonsense']
const tablesOf = (database: DatabaseSync) =>
  database
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
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

test('migrate: runs the missing migrations once', () => {
  const { database } = given()
  migrateSchema(database, versions([creates('a')]))
  migrateSchema(database, versions([creates('a')]))
  assert.deepEqual(tablesOf(database), ['a', 'schema_version'])
  migrateSchema(database, versions([creates('a'), creates('b')]))
  assert.deepEqual(tablesOf(database), ['a', 'b', 'schema_version'])
})

test('migrate: a migration that fails leaves nothing of it', () => {
  const { database } = given()
  migrateSchema(database, versions([creates('a')]))
  assert.throws(() => migrateSchema(database, versions([creates('a'), fails])), /syntax error/)
  assert.deepEqual(tablesOf(database), ['a', 'schema_version'])
  migrateSchema(database, versions([creates('a'), creates('half')]))
  assert.deepEqual(tablesOf(database), ['a', 'half', 'schema_version'])
})

test('migrate: an older program uses a newer schema that permits it, and refuses another', () => {
  const { database } = given()
  migrateSchema(database, versions([creates('a'), creates('b')], 1))
  migrateSchema(database, versions([creates('a')]))
  migrateSchema(database, versions([creates('a'), creates('b'), creates('c')], 3))
  assert.throws(() => migrateSchema(database, versions([creates('a'), creates('b')])), {
    message: 'x.db was written by a newer version of Headgate (schema version 3, supported: 2)',
  })
})

test('store: a transaction excludes others, and an error rolls it back', async () => {
  const { database } = given()
  database.exec('CREATE TABLE t (id INTEGER)')
  const store = new SqliteStore<{ readonly t: { readonly id: number } }>(database)
  const failing = store.write(async (db) => {
    await db.insertInto('t').values({ id: 1 }).execute()
    await sql`SELECT 1`.execute(db)
    throw new Error('rolled back')
  })
  const other = store.write((db) => db.insertInto('t').values({ id: 2 }).executeTakeFirst())
  await assert.rejects(failing, /rolled back/)
  assert.equal((await other).numInsertedOrUpdatedRows, 1n)
  const rows = await store.read((db) => db.selectFrom('t').selectAll().execute())
  assert.deepEqual(
    rows.map(({ id }) => id),
    [2],
  )
  await store.close()
  assert.equal(database.isOpen, false)
})
