import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readReports } from './reports.ts'

const root = join(import.meta.dirname, '../..')

for (const [topic, reports] of readReports())
  test(`reported: each test of the topic ${topic} exists`, () => {
    for (const { test: file, name, kind } of reports)
      assert.ok(readFileSync(join(root, file), 'utf8').includes(name), `${file} has no test "${name}" (${kind})`)
  })
