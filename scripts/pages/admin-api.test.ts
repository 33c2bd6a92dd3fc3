import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { PAGE_FILE, page } from './admin-api.ts'

test('docs/admin-api.md matches the table; write it with: node scripts/pages/admin-api.ts', () => {
  assert.equal(readFileSync(PAGE_FILE, 'utf8'), page())
})
