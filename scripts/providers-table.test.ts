import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { providersTable, TABLE_FILE } from './providers-table.ts'

test('docs: the table of providers is current; `node scripts/providers-table.ts` makes it so', async () => {
  assert.equal(readFileSync(TABLE_FILE, 'utf8'), await providersTable())
})
