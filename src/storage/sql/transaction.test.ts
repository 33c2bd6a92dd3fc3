import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { inTransaction } from './transaction.ts'

const given = () => {
  const database = new DatabaseSync(':memory:')
  database.exec('CREATE TABLE item (id INTEGER PRIMARY KEY)')
  const rows = () => database.prepare('SELECT id FROM item').all().length
  return { database, rows }
}

test('transaction: what it returns is returned, and its rows are stored', () => {
  const { database, rows } = given()
  assert.equal(
    inTransaction(database, () => {
      database.exec('INSERT INTO item VALUES (1)')
      return 'done'
    }),
    'done',
  )
  assert.equal(rows(), 1)
  assert.equal(database.isTransaction, false)
})

test('transaction: an error leaves nothing and no open transaction', () => {
  const { database, rows } = given()
  const failing = () =>
    inTransaction(database, () => {
      database.exec('INSERT INTO item VALUES (1), (2)')
      database.exec('INSERT INTO item VALUES (2)')
    })
  assert.throws(failing, /UNIQUE/)
  assert.equal(rows(), 0)
  assert.equal(database.isTransaction, false)
})

test('transaction: where SQLite has rolled back already, the first error is thrown', () => {
  const { database } = given()
  const failing = () =>
    inTransaction(database, () => {
      database.exec('ROLLBACK')
      throw new Error('the disk is full')
    })
  assert.throws(failing, /the disk is full/)
})
