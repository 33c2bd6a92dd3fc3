import assert from 'node:assert/strict'
import { existsSync, globSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { NAV_PAGES, PAGE_NAMES } from '../../../dashboard/src/page-table.ts'

const dashboard = join(import.meta.dirname, '..', '..', '..', 'dashboard', 'src')

test('pages: each letter opens one page, and the bar of a narrow screen has room for its pages', () => {
  const letters = NAV_PAGES.map(({ letter }) => letter)
  assert.equal(new Set(letters).size, letters.length, letters.join(' '))
  assert.equal(NAV_PAGES.filter(({ narrow }) => narrow === 'bar').length, 4)
})

test('pages: the table has every file of src/pages, and each page of the navigation has its words', () => {
  const files = globSync('pages/*.tsx', { cwd: dashboard }).map((file) => basename(file, '.tsx'))
  assert.deepEqual(files.sort(), [...PAGE_NAMES].sort())
  for (const { name } of NAV_PAGES) assert.ok(existsSync(join(dashboard, 'words', `${name}.ts`)), name)
})
